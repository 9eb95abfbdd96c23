"""The NATS CLI: its words for our options, and our changes as its commands."""
