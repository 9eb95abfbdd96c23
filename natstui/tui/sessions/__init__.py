"""Recordings: their list, and what changed between two moments."""
