"""Shared parts of all worker programs: orders, schedule, messages, stamps, counts.

It uses no socket.
"""
