"""What every program of a worker works with: orders, schedule, contents, stamps, tally.

Knows no socket; both clients use it.
"""
