"""Ports for servers that keep theirs over a restart."""

from __future__ import annotations

import errno
import random
import socket

from natstui.errors import BrokerFailed

# Systems hand out ports above these (32768 on Linux, 49152 elsewhere) to whoever connects, which
# may be between the choice and the start, or while a server restarts.
_PORTS = range(20_000, 32_000)
_TRIES_COUNT = 200


def free_ports(count: int) -> list[int]:
    """Return that many different loopback ports on which nobody listens now.

    Raises BrokerFailed when none is found.
    """
    candidates = random.sample(_PORTS, _TRIES_COUNT)
    found: list[int] = []
    while len(found) < count:
        if not candidates:
            raise BrokerFailed(f"no free port was found between {_PORTS[0]} and {_PORTS[-1]}")
        port = candidates.pop()
        if _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
