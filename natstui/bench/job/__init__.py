"""Shared parts of all worker programs: orders, schedule, messages, stamps, counts.

The package uses no socket.
"""
