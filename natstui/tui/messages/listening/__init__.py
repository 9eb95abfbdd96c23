"""The listening screen: messages on core subjects, its tables, and a single message."""
