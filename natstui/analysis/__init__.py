"""Recorded sessions through Spark: runs without the other rooms."""
