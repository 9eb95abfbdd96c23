"""Decodes replies about streams, consumers and the account, and checks their fields.

If a server renames a field, only these modules change: polls, changes, losses, copies and the
command line read the rows of `streams` and `consumers`.
"""
