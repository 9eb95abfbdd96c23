"""Listening to core subjects: counts by subject in bounded memory, for any number of messages."""
