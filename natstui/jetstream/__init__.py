"""The server, seen from outside: connecting, asking, decoding, changing.

Every folder may import `connection`, that `sockets`, none another one; `testbed` serves demo and
tests. `bench`, `engine` and `cli` import this room, never `tui`; only this room and `bench` import
nats-py.
"""
