"""Polls all rows at once from the servers' monitoring (JSZ): one reply instead of lists."""
