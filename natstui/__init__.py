"""The terminal cockpit for NATS JetStream."""

__version__ = "0.1.0"
