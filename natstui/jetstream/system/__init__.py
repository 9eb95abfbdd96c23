"""Reads what servers report about themselves and our account (`$SYS.REQ`).

Start reading with `connections`; `requests` sends requests to all servers at once.
"""
