"""What servers tell of themselves and of our account (`$SYS.REQ`), without the system account.

Begin with `connections`; `asking` asks all servers at once.
"""
