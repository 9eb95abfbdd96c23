"""Stored messages and live ones: pages, gets, publishing, pulling, tailing.

Each file is one kind of request; `engine.server_commands` and the commands of `cli` import them.
"""
