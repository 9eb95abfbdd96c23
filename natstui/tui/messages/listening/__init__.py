"""Listening to core subjects: the screen, its tables, and one message of them."""
