"""Information of servers about themselves and our account (`$SYS.REQ`), without the system
account.

Start reading with `connections`; `asking` sends requests to all servers at once.
"""
