"""Copies of messages, each stored once, with an account of every message."""
