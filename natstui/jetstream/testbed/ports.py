"""Loopback ports for embedded servers, which nobody else is given between choice and start."""

from __future__ import annotations

import errno
import random
import socket
import sys
from typing import Self

from natstui.errors import BrokerFailed

# Systems hand out ports above these (32768 on Linux, 49152 elsewhere) to whoever connects.
_PORTS = range(20_000, 32_000)
_TRIES_COUNT = 200


class HeldPorts:
    """Different loopback ports on which nobody listens, usable with `with`.

    On Linux they are kept until closed: only a server that sets SO_REUSEADDR, as nats-server and
    asyncio do, can listen there. Elsewhere somebody may take one meanwhile.
    """

    numbers: tuple[int, ...]

    def __init__(self, count: int) -> None:
        """Raises BrokerFailed when too few are found."""
        self._sockets: dict[int, socket.socket] = {}
        try:
            self._find(count)
        except BaseException:
            self.close()
            raise
        self.numbers = tuple(self._sockets)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others have them."""
        while self._sockets:
            self._sockets.popitem()[1].close()

    def _find(self, count: int) -> None:
        candidates = random.sample(_PORTS, _TRIES_COUNT)
        while len(self._sockets) < count:
            if not candidates:
                raise BrokerFailed(f"no free port was found between {_PORTS[0]} and {_PORTS[-1]}")
            port = candidates.pop()
            if one := _bound(port):
                self._sockets[port] = one
        if sys.platform != "linux":
            for one in self._sockets.values():
                one.close()


def _bound(port: int) -> socket.socket | None:
    """Return a socket that has the port alone; None when it is not free."""
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
        # Only now: before, the socket would have shared a port that somebody else holds.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError as error:
        one.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return one
