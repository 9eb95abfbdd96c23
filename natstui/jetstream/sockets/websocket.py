"""A WebSocket (RFC 6455) as an asyncio transport: above it, it looks like any other socket.

It lies between a socket, encrypted or not, and whoever reads bytes from it, as asyncio's TLS does.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import struct
from collections.abc import Iterator
from typing import Any

_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What a server adds to our key before it digests both (RFC 6455, 1.3)."""
_HEAD_MOST_BYTES = 1 << 16
_CONTINUE, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_FINAL, _MASKED = 0x80, 0x80
_SHORT_MOST_BYTES, _TWO_BYTES, _EIGHT_BYTES = 125, 126, 127
_NORMAL_END = struct.pack(">H", 1000)


class NotAWebSocket(ConnectionError):
    """Who answers does not speak as a WebSocket does."""


def frame(opcode: int, payload: bytes) -> bytes:
    """Return a frame as a client sends it: masked, with a mask of its own."""
    size, mask = len(payload), os.urandom(4)
    if size <= _SHORT_MOST_BYTES:
        head = struct.pack(">BB", _FINAL | opcode, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", _FINAL | opcode, _MASKED | _TWO_BYTES, size)
    else:
        head = struct.pack(">BBQ", _FINAL | opcode, _MASKED | _EIGHT_BYTES, size)
    # As one large number: byte by byte would cost more than all the rest of a benchmark.
    repeated = (mask * (size // 4 + 1))[:size]
    both = int.from_bytes(payload, "little") ^ int.from_bytes(repeated, "little")
    return head + mask + both.to_bytes(size, "little")


class Frames:
    """Cuts what a server sends, in pieces of any size, into the contents of frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the opcode and the content of what is complete. Raises NotAWebSocket.

        Contents of data come as they arrive, parts of a frame too; of control frames whole.
        """
        data = self._rest + data if self._rest else data
        self._rest, position = b"", 0
        while (found := _head(data, position)) is not None:
            opcode, begin, size = found
            part = data[begin : begin + size]
            if opcode >= _CLOSE and len(part) < size:
                break
            yield opcode, part
            position = begin + size
            if position > len(data):
                self._rest = _open_head(position - len(data))
                return
        self._rest = data[position:]


def _open_head(size: int) -> bytes:
    """Return a head for what has not come of a frame: the rest follows as if it were one."""
    return struct.pack(">BBQ", _CONTINUE, _EIGHT_BYTES, size)


def _head(data: bytes, position: int) -> tuple[int, int, int] | None:
    """Return opcode, begin and size of the frame at a position; None before its head is whole."""
    if len(data) - position < 2:
        return None
    first, size = data[position], data[position + 1]
    if first & 0x70 or size & _MASKED or first & 0x0F not in _KNOWN:
        raise NotAWebSocket("the server sent what is no frame of a WebSocket")
    begin = position + 2
    longer = {_TWO_BYTES: 2, _EIGHT_BYTES: 8}.get(size, 0)
    if longer:
        if len(data) < begin + longer:
            return None
        size = int.from_bytes(data[begin : begin + longer], "big")
    return first & 0x0F, begin + longer, size


_KNOWN = frozenset({_CONTINUE, _TEXT, _BINARY, _CLOSE, _PING, _PONG})


class WebSocket(asyncio.Transport):
    """The transport that who uses the WebSocket sees; below it is the real one."""

    def __init__(self, under: asyncio.Transport, above: asyncio.Protocol) -> None:
        super().__init__({"websocket": True})
        self._under, self._above = under, above
        self._frames = Frames()
        self._key = base64.b64encode(os.urandom(16)).decode()
        self._head = b""
        self._agreed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        under.set_protocol(_Below(self))

    async def shake_hands(self, host: str, path: str) -> None:
        """Ask for a WebSocket; raises ConnectionError where the answer is another one."""
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key}",
            "Sec-WebSocket-Version: 13",
            *("", ""),
        )
        self._under.write("\r\n".join(lines).encode())
        await self._agreed
        self._above.connection_made(self)

    def came(self, data: bytes) -> None:
        """Take what came from the socket."""
        if not self._agreed.done():
            data = self._answered(data)
        try:
            for opcode, content in self._frames.feed(data):
                self._take(opcode, content)
        except NotAWebSocket as error:
            self._under.abort()
            self._above.connection_lost(error)

    def _answered(self, data: bytes) -> bytes:
        """Read the answer to the handshake; return what came behind it."""
        head, end, rest = (self._head + data).partition(b"\r\n\r\n")
        self._head = head
        if not head.startswith(b"HTTP/"[: len(head)]):
            self._refuse(
                "the server does not answer as a WebSocket does: is this its nats:// port?"
            )
            return b""
        if not end and len(head) < _HEAD_MOST_BYTES:
            return b""
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): text.strip() for name, _, text in _split(lines)}
        digest = hashlib.sha1((self._key + _ACCEPT).encode(), usedforsecurity=False).digest()
        status = first.partition(" ")[2]
        if not status.startswith("101"):
            self._refuse(f"the answer to the handshake of a WebSocket is {status[:60]!r}")
        elif fields.get("sec-websocket-accept") != base64.b64encode(digest).decode():
            self._refuse("the answer to the handshake of a WebSocket has another key")
        else:
            self._agreed.set_result(None)
            return rest
        return b""

    def _refuse(self, reason: str) -> None:
        self._agreed.set_exception(NotAWebSocket(reason))
        self._under.abort()

    def _take(self, opcode: int, content: bytes) -> None:
        if opcode in (_CONTINUE, _TEXT, _BINARY):
            if content:
                self._above.data_received(content)
        elif opcode == _PING:
            self._under.write(frame(_PONG, content))
        elif opcode == _CLOSE:
            self.close()

    def lost(self, error: Exception | None) -> None:
        """Tell whoever is above that the socket is no more."""
        if self._agreed.done():
            self._above.connection_lost(error)
        else:
            self._agreed.set_exception(error or NotAWebSocket("the server hung up"))

    @property
    def above(self) -> asyncio.Protocol:
        """Who takes the bytes."""
        return self._above

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another one take the bytes."""
        assert isinstance(protocol, asyncio.Protocol)
        self._above = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return who takes the bytes."""
        return self._above

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the socket, and that there is a WebSocket around it."""
        return super().get_extra_info(name) or self._under.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes as one frame."""
        if data:
            self._under.write(frame(_BINARY, bytes(data)))

    def can_write_eof(self) -> bool:
        """No: a WebSocket ends both ways at once."""
        return False

    def close(self) -> None:
        """Say that this is the end, then close the socket."""
        if not self._under.is_closing():
            self._under.write(frame(_CLOSE, _NORMAL_END))
            self._under.close()

    def abort(self) -> None:
        """Close the socket at once."""
        self._under.abort()

    def is_closing(self) -> bool:
        """Return whether it is closed, or soon will be."""
        return self._under.is_closing()

    def pause_reading(self) -> None:
        """Leave what comes in the socket."""
        self._under.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._under.resume_reading()

    def is_reading(self) -> bool:
        """Return whether what comes is read."""
        return self._under.is_reading()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for the socket, heads of frames included."""
        return self._under.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return from and to how many waiting bytes writing is paused."""
        return self._under.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set from and to how many waiting bytes writing is paused."""
        self._under.set_write_buffer_limits(high=high, low=low)


def _split(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    for line in lines:
        yield line.partition(":")


class _Below(asyncio.Protocol):
    """Hears of the socket for the WebSocket."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    def data_received(self, data: bytes) -> None:
        self._websocket.came(data)

    def eof_received(self) -> bool | None:
        return self._websocket.above.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._websocket.lost(exc)

    def pause_writing(self) -> None:
        self._websocket.above.pause_writing()

    def resume_writing(self) -> None:
        self._websocket.above.resume_writing()
