"""Benchmarks: the running one, saved ones, ready scenarios."""
