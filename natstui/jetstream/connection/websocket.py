"""A WebSocket as an asyncio transport, used like a socket.

It is between a socket, encrypted or not, and the reader of its bytes, as asyncio's TLS is. The
protocol (RFC 6455) is that of the library `websockets`, without its input and output.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import ParseResult

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidMessage, InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.uri import WebSocketURI

_DATA_OPCODES = (Opcode.CONT, Opcode.TEXT, Opcode.BINARY)


class WebSocketProtocolError(ConnectionError):
    """The server does not follow the WebSocket protocol."""


class WebSocket(asyncio.Transport):
    """The transport for users of the WebSocket, on top of the transport of the socket."""

    def __init__(
        self,
        socket_transport: asyncio.Transport,
        user_protocol: asyncio.Protocol,
        uri: ParseResult,
    ) -> None:
        super().__init__({"websocket": True})
        self._socket_transport, self._user_protocol = socket_transport, user_protocol
        address = WebSocketURI(
            uri.scheme == "wss", uri.hostname or "", uri.port or 0, uri.path, uri.query
        )
        self._protocol = ClientProtocol(address, max_size=None)
        self._open_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        socket_transport.set_protocol(_SocketProtocol(self))

    async def open(self) -> None:
        """Do the opening handshake; raises ConnectionError if the server refuses it."""
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        await self._open_future

    def _flush(self) -> None:
        """Write pending protocol data to the socket; close the socket after the last byte."""
        for data in self._protocol.data_to_send():
            if data:
                self._socket_transport.write(data)
            else:
                self._socket_transport.close()

    def receive(self, data: bytes) -> None:
        """Decode bytes of the socket, and pass the contents of frames to the user's protocol."""
        if self._protocol.state is State.CLOSED:
            return
        self._protocol.receive_data(data)
        events = self._protocol.events_received()
        if not self._open_future.done() and not self._finish_handshake():
            return
        for event in events:
            if isinstance(event, Frame) and event.opcode in _DATA_OPCODES and event.data:
                self._user_protocol.data_received(bytes(event.data))
        self._flush()
        if self._protocol.parser_exc is not None:
            self._socket_transport.abort()
        elif self._protocol.state is State.CLOSING:
            self._socket_transport.close()

    def _finish_handshake(self) -> bool:
        """Return whether the handshake is complete; let `open` fail if it is refused."""
        error = self._protocol.handshake_exc
        if error is None:
            if self._protocol.state is not State.CONNECTING:
                self._user_protocol.connection_made(self)
                self._open_future.set_result(None)
            return self._open_future.done()
        if isinstance(error, InvalidStatus):
            status_text = f"{error.response.status_code} {error.response.reason_phrase}"
            reason = f"the reply to the handshake of a WebSocket is {status_text[:60]!r}"
        elif isinstance(error, InvalidMessage):
            reason = "the server does not reply as a WebSocket does: is this its nats:// port?"
        else:
            reason = f"the reply to the handshake of a WebSocket is not valid: {error}"
        self._open_future.set_exception(WebSocketProtocolError(reason))
        self._socket_transport.abort()
        return False

    def on_socket_lost(self, error: Exception | None) -> None:
        """Report the end of the socket to the user's protocol, or let `open` fail."""
        if self._open_future.done():
            protocol_error = self._protocol.parser_exc
            if protocol_error is not None:
                error = WebSocketProtocolError(
                    f"the server broke the WebSocket protocol: {protocol_error}"
                )
            self._user_protocol.connection_lost(error)
        else:
            self._open_future.set_exception(error or WebSocketProtocolError("the server hung up"))

    @property
    def user_protocol(self) -> asyncio.Protocol:
        """Return the protocol that receives the bytes."""
        return self._user_protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Replace the protocol that receives the bytes."""
        assert isinstance(protocol, asyncio.Protocol)
        self._user_protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives the bytes."""
        return self._user_protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the WebSocket, else about its socket."""
        return super().get_extra_info(name) or self._socket_transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes as one frame."""
        if data and self._protocol.state is State.OPEN:
            self._protocol.send_binary(bytes(data))
            self._flush()

    def can_write_eof(self) -> bool:
        """Return False: a WebSocket closes both directions at once."""
        return False

    def close(self) -> None:
        """Send a close frame, then close the socket."""
        if not self._socket_transport.is_closing():
            if self._protocol.state is State.OPEN:
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
                self._flush()
            self._socket_transport.close()

    def abort(self) -> None:
        """Close the socket at once."""
        self._socket_transport.abort()

    def is_closing(self) -> bool:
        """Return whether the socket is closed or closing."""
        return self._socket_transport.is_closing()

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        self._socket_transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading from the socket."""
        self._socket_transport.resume_reading()

    def is_reading(self) -> bool:
        """Return whether the socket is being read."""
        return self._socket_transport.is_reading()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that wait for the socket, with frame headers."""
        return self._socket_transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits (low, high) of waiting bytes: writing is resumed and paused there."""
        return self._socket_transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits of waiting bytes at which writing is paused (high) and resumed (low)."""
        self._socket_transport.set_write_buffer_limits(high=high, low=low)


class _SocketProtocol(asyncio.Protocol):
    """Passes events of the socket to the WebSocket."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    def data_received(self, data: bytes) -> None:
        self._websocket.receive(data)

    def eof_received(self) -> bool | None:
        return self._websocket.user_protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._websocket.on_socket_lost(exc)

    def pause_writing(self) -> None:
        self._websocket.user_protocol.pause_writing()

    def resume_writing(self) -> None:
        self._websocket.user_protocol.resume_writing()
