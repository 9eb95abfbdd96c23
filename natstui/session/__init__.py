"""Recordings: a folder of lines, written without ever blocking, read at any moment of it."""
