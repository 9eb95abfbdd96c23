"""Recordings: their list, and the differences between two moments."""
