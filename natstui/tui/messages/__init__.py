"""Screens of messages: browse, read, publish, pull, tail; and messages on core subjects."""
