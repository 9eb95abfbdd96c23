"""The form of a stream or consumer: its fields, what they mean now, and how that is sent."""
