"""Shared parts of all worker programs: orders, schedule, contents, stamps, tally.

It uses no socket.
"""
