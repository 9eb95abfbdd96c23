"""The form of a stream or consumer: its fields, its draft configuration, and sending it."""
