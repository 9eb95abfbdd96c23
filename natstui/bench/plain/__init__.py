"""The same patterns with plain nats-py, as a Python service works."""
