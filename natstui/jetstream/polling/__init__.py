"""The poller and its parts: what one poll reads, within which budget, and its snapshot.

Import `poller.poll` and `control.PollControl`.
"""
