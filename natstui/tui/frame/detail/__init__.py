"""One thing in words and charts: on a screen of its own, or in brief beside its table."""
