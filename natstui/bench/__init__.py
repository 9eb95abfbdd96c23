"""Load: worker processes, the protocol between them, and honest statistics."""
