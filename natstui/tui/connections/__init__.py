"""Screens of connections: the open and closed ones of the account, and clients of a consumer."""
