"""The socket under a link: blocking for a while, not read for a while, closed in good order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nats.aio.transport import TcpTransport

from natstui.bench.link import WireLink

_HANG_UP_S = 1.0
_MANY_PINGS = 1 << 30
_RECEIVE_TIMEOUT = struct.pack("ll", 0, 40_000)
"""Seconds and microseconds a blocking read may take."""


@contextmanager
def blocking_socket(link: WireLink) -> Iterator[socket.socket | None]:
    """Lend a blocking twin of the socket while the event loop does not read; None with TLS."""
    transport = link.nc._transport._io_writer.transport
    plain = transport.get_extra_info("socket")
    if plain is None or transport.get_extra_info("ssl_object") is not None:
        yield None
        return
    transport.pause_reading()
    twin = socket.socket(fileno=socket.dup(plain.fileno()))
    twin.settimeout(None)
    twin.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _RECEIVE_TIMEOUT)
    try:
        yield twin
    finally:
        # The twin shares its mode with the original, which asyncio needs non-blocking.
        twin.setblocking(False)
        twin.close()
        if not transport.is_closing():
            transport.resume_reading()


async def hang_up(link: WireLink) -> None:
    """Break the connection; returns once the server has read everything written before.

    What comes meanwhile is read by nobody. With a reset instead, the server might drop what it
    has not read yet, and our last acknowledgements with it.
    """
    nc, give_up = link.nc, time.monotonic() + _HANG_UP_S
    if not (nc.is_connected and isinstance(nc._transport, TcpTransport)):
        return
    transport = nc._transport._io_writer.transport
    while True:
        waiting, nc._pending, nc._pending_data_size = nc._pending, [], 0
        transport.write(b"".join(waiting))
        if not transport.get_write_buffer_size() or time.monotonic() > give_up:
            break
        await asyncio.sleep(0.001)
    with socket.socket(fileno=socket.dup(transport.get_extra_info("socket").fileno())) as twin:
        twin.settimeout(_HANG_UP_S)
        with contextlib.suppress(OSError):
            twin.shutdown(socket.SHUT_WR)
            while time.monotonic() < give_up and twin.recv(1 << 18):
                continue


def pause_reading(link: WireLink, duration_s: float) -> None:
    """Leave everything that comes in the socket for a while."""
    if _hold(link):
        asyncio.get_running_loop().call_later(duration_s, _resume, link)


def hold_reading(link: WireLink) -> None:
    """Leave everything that comes in the socket until `read_on`."""
    if not link.is_held:
        link.is_held = True
        # The answers to our pings stay there as well: that they are missing means nothing now.
        link.nc.options["max_outstanding_pings"] += _MANY_PINGS
        _hold(link)


def read_on(link: WireLink) -> None:
    """Read again."""
    if link.is_held:
        link.is_held = False
        link.nc.options["max_outstanding_pings"] -= _MANY_PINGS
        link.nc._pings_outstanding = 0
    _resume(link)


def _resume(link: WireLink) -> None:
    """Read again, unless reading is held until somebody says otherwise."""
    transport = None if link.is_held else _transport(link)
    if transport is not None and not transport.is_closing() and not transport.is_reading():
        transport.resume_reading()


def _hold(link: WireLink) -> bool:
    """Stop reading; return whether it was read until now."""
    transport = _transport(link)
    if transport is None or transport.is_closing() or not transport.is_reading():
        return False
    transport.pause_reading()
    return True


def _transport(link: WireLink) -> Any:
    """Return the transport of a TCP connection; a WebSocket has none we know."""
    under = link.nc._transport
    return under._io_writer.transport if isinstance(under, TcpTransport) else None
