"""Stored messages and live ones: pages, gets, publishing, pulling, tailing.

Each file is one kind of request to the engine; `engine.server_commands` imports them.
"""
