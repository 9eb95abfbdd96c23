"""The NATS CLI: the meaning of its flags, and configurations and changes as its commands."""
