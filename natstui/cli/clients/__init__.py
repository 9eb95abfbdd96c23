"""Connections, clients of a consumer, publishers of a stream, on the command line.

`root` names `connections`; `cli.manage` adds the others to `consumer` and `stream`.
"""
