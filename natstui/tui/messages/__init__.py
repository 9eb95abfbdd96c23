"""Stored messages: browse, read, publish, pull, tail."""
