"""The socket of nats-py's client: it stores the step of connecting, and its closing never hangs.

A lookup of a host name never delays the end of the program.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from bisect import bisect_right
from collections import deque
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import ParseResult

import msgspec
import nats.errors
from msgspec import Struct
from nats.aio.transport import TcpTransport

from natstui.clock import steady_us
from natstui.decoding import decoder_of
from natstui.parsing import describe_parse_error

_GetaddrinfoResult = list[tuple[Any, ...]]


class _ServerInfo(msgspec.Struct):
    """The fields of a server's INFO that nats-py and natstui read, with their types."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    cluster: str = ""
    domain: str = ""
    nonce: str = ""
    client_ip: str = ""
    client_id: int | None = None
    max_payload: int = 0
    headers: bool = False
    jetstream: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_available: bool = False
    ldm: bool = False
    connect_urls: list[str] | None = None


def check_info(info: bytes) -> None:
    """Raise nats.errors.Error for an INFO with which nats-py would fail, at once or later."""
    try:
        decoder_of(_ServerInfo).decode(info)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise nats.errors.Error(
            f"what it says is not understood: {describe_parse_error(error)}"
        ) from error


async def lookup(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host, best first; raises socket.gaierror.

    The lookup runs in a daemon thread: asyncio would wait for its end, which a silent resolver
    delays.
    """
    loop = asyncio.get_running_loop()
    result_future: asyncio.Future[_GetaddrinfoResult] = loop.create_future()

    def set_result_future(result_or_error: _GetaddrinfoResult | OSError) -> None:
        if result_future.done():
            return
        if isinstance(result_or_error, OSError):
            result_future.set_exception(result_or_error)
        else:
            result_future.set_result(result_or_error)

    def resolve_in_thread() -> None:
        result_or_error = _resolve(host, port)
        # The program may have ended meanwhile, and its loop with it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(set_result_future, result_or_error)

    threading.Thread(target=resolve_in_thread, name="lookup", daemon=True).start()
    addresses = [str(entry[4][0]) for entry in await result_future]
    if not addresses:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    return list(dict.fromkeys(addresses))


def _resolve(host: str, port: int) -> _GetaddrinfoResult | OSError:
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except OSError as error:
        return error
    except UnicodeError:
        return socket.gaierror(socket.EAI_NONAME, "not a valid name")


Step = Literal["address", "TCP", "greeting", "TLS", "authentication", "ready"]
"""Step of an attempt to connect: the current, or the failed one."""

_CLOSE_TIMEOUT_S = 0.5
_MAX_KEPT_READS = 4096
_MIN_GAP_US = 1_000_000
_MAX_GAP_AGE_US = 120_000_000


class Arrival(Struct, frozen=True):
    """Arrival times of a message's bytes, on the monotonic clock."""

    silent_since_mono_us: int
    """Time of the last byte before the message."""
    began_mono_us: int
    ended_mono_us: int
    read_bytes: int
    """Size of the read in which the message began, perhaps with the end of another message."""
    first_bytes: int
    """Bytes of the message in that read."""
    message_bytes: int
    silent_since_thread_us: int
    began_thread_us: int
    ended_thread_us: int
    """The three times as processor time of our thread: while it was busy, bytes may have waited.
    """


def thread_time_us() -> int:
    """Return the processor time of this thread, in µs."""
    return time.thread_time_ns() // 1000


class Arrivals:
    """The arrival times of a connection's bytes, by their positions in the byte stream."""

    def __init__(self) -> None:
        self.bytes_count = 0
        self._last_arrival_mono_us = steady_us()
        self._read_end_positions: deque[int] = deque(maxlen=_MAX_KEPT_READS)
        """Position after each read; the next two have the times of the same reads."""
        self._read_times_mono_us: deque[int] = deque(maxlen=_MAX_KEPT_READS)
        self._read_thread_times_us: deque[int] = deque(maxlen=_MAX_KEPT_READS)
        self._gap_ends_and_lengths_us: deque[tuple[int, int]] = deque()

    @property
    def silent_s(self) -> float:
        """Return the time since the last byte, in seconds."""
        return (steady_us() - self._last_arrival_mono_us) / 1e6

    @property
    def longest_gap_s(self) -> float:
        """Return the longest gap between bytes in the last two minutes, in seconds; 0 if none was
        above a second. The current gap does not count.
        """
        oldest_gap_us = self._last_arrival_mono_us - _MAX_GAP_AGE_US
        return (
            max(
                (
                    gap_us
                    for at_us, gap_us in self._gap_ends_and_lengths_us
                    if at_us > oldest_gap_us
                ),
                default=0,
            )
            / 1e6
        )

    def reset_gaps(self) -> None:
        """Discard the gaps between received bytes, when another connection begins."""
        self._last_arrival_mono_us = steady_us()
        self._gap_ends_and_lengths_us.clear()

    def add(self, bytes_count: int) -> None:
        """Store the arrival of `bytes_count` bytes."""
        now_us = steady_us()
        gap_us = now_us - self._last_arrival_mono_us
        if gap_us > _MIN_GAP_US:
            self._gap_ends_and_lengths_us.append((now_us, gap_us))
            while self._gap_ends_and_lengths_us[0][0] < now_us - _MAX_GAP_AGE_US:
                self._gap_ends_and_lengths_us.popleft()
        self._last_arrival_mono_us = now_us
        self.bytes_count += bytes_count
        self._read_end_positions.append(self.bytes_count)
        self._read_times_mono_us.append(now_us)
        self._read_thread_times_us.append(thread_time_us())

    def find_arrival(self, first_position: int, end_position: int) -> Arrival:
        """Return the arrival times of the bytes from `first_position` to before `end_position`."""
        first_read_index, last_read_index = (
            bisect_right(self._read_end_positions, first_position),
            bisect_right(self._read_end_positions, end_position - 1),
        )
        times_us, thread_times_us = self._read_times_mono_us, self._read_thread_times_us
        return Arrival(
            silent_since_mono_us=times_us[first_read_index - 1]
            if first_read_index
            else times_us[0],
            began_mono_us=times_us[first_read_index],
            ended_mono_us=times_us[last_read_index],
            read_bytes=self._read_end_positions[first_read_index]
            - (self._read_end_positions[first_read_index - 1] if first_read_index else 0),
            first_bytes=min(self._read_end_positions[first_read_index], end_position)
            - first_position,
            message_bytes=end_position - first_position,
            silent_since_thread_us=thread_times_us[first_read_index - 1]
            if first_read_index
            else thread_times_us[0],
            began_thread_us=thread_times_us[first_read_index],
            ended_thread_us=thread_times_us[last_read_index],
        )


def _netloc(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def refusal_in(line: bytes) -> str | None:
    """Return the error text of a protocol line, None for another line."""
    if not line.startswith(b"-ERR "):
        return None
    return line[5:].decode(errors="replace").strip().strip("'")


class Transport(TcpTransport):  # type: ignore[misc]
    """A socket that stores the last step of connecting, and whose closing never hangs."""

    _io_reader: Any
    _io_writer: Any
    step: Step = "address"
    refusal: str | None = None
    """The error that the server sent before it closed the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals = Arrivals()
        self._socket_writer: asyncio.StreamWriter | None = None
        """Writer of the socket of a WebSocket, kept because garbage collection would close it."""
        self.encryption: str | None = None
        """TLS version and cipher, read at the start: asyncio raises AttributeError after closing.
        """

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: float) -> None:
        """Resolve the address and open the socket; the timeout is shared by its IP addresses."""
        self.abort()
        self._socket_writer = self.encryption = None
        self.step, self.refusal = "address", None
        host, port = uri.hostname or "", uri.port or 0
        async with asyncio.timeout(connect_timeout):
            ips = await lookup(host, port)
        self.step = "TCP"
        deadline_s = asyncio.get_running_loop().time() + connect_timeout
        for remaining_ips_count in range(len(ips), 0, -1):
            ip_timeout_s = (deadline_s - asyncio.get_running_loop().time()) / remaining_ips_count
            ip_uri = uri._replace(netloc=_netloc(ips[-remaining_ips_count], port))
            try:
                await super().connect(ip_uri, buffer_size, ip_timeout_s)
                break
            except OSError:
                if remaining_ips_count == 1:
                    raise
        self.step = "greeting"
        self.arrivals.reset_gaps()
        if uri.scheme == "ws":
            await self._open_websocket(uri, connect_timeout)

    async def connect_tls(
        self,
        uri: str | ParseResult,
        ssl_context: ssl.SSLContext,
        buffer_size: int,
        connect_timeout: float,
    ) -> None:
        """Encrypt the open socket; for a parsed `uri`, open a socket and a WebSocket over TLS.

        An open WebSocket is not encrypted again.
        """
        if isinstance(uri, str):
            if self.is_websocket:
                return
        else:
            await self.connect(uri, buffer_size, connect_timeout)
        self.step = "TLS"
        await super().connect_tls(uri, ssl_context, buffer_size, connect_timeout)
        ssl_object = self._io_writer.get_extra_info("ssl_object")
        self.encryption = f"{ssl_object.version()}, {ssl_object.cipher()[0]}"
        self.step = "greeting"
        if not isinstance(uri, str):
            await self._open_websocket(uri, connect_timeout)

    @property
    def is_websocket(self) -> bool:
        """Return whether the data is sent in a WebSocket."""
        return self._socket_writer is not None

    async def _open_websocket(self, uri: ParseResult, timeout_s: float) -> None:
        """Do the WebSocket's handshake, and read and write in the WebSocket from now on."""
        # Not at the top: it takes 60 ms, which every other connection would wait for.
        from natstui.jetstream.connection.websocket import WebSocket

        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        websocket = WebSocket(self._io_writer.transport, protocol, uri)
        async with asyncio.timeout(timeout_s):
            await websocket.open()
        loop = asyncio.get_running_loop()
        self._socket_writer, self._io_reader = self._io_writer, reader
        self._io_writer = asyncio.StreamWriter(websocket, protocol, reader, loop)

    async def read(self, buffer_size: int) -> bytes:
        """Return received bytes, and store their arrival."""
        data: bytes = await super().read(buffer_size)
        if data:
            self.arrivals.add(len(data))
        return data

    async def readline(self) -> bytes:
        """Return a line of the handshake; store the error in it, if any."""
        try:
            line: bytes = await super().readline()
        except ConnectionError:
            self._store_unread_error()
            raise
        except ValueError as error:
            raise nats.errors.Error("a line without an end") from error
        self._store_refusal(line)
        if line.startswith(b"INFO "):
            check_info(line[5:])
        return line

    def _store_refusal(self, line: bytes) -> None:
        error_text = refusal_in(line)
        if error_text is not None:
            self.refusal = error_text

    async def drain(self) -> None:
        """Send the written data; store the server's error if it closed the connection."""
        try:
            await super().drain()
        except ConnectionError:
            self._store_unread_error()
            raise

    def _store_unread_error(self) -> None:
        """Store the error in the data before a reset, which the reader does not return."""
        self._store_refusal(bytes(self._io_reader._buffer).partition(b"\n")[0])

    def abort(self) -> None:
        """Close the socket at once; unsent data is lost."""
        for writer in (self._io_writer, self._socket_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()

    def __bool__(self) -> bool:
        """Return True, also before connecting: nats-py replaces a false transport with its own."""
        return True

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, at most 0.5 s for a silent peer."""
        writer = self._io_writer
        if writer is None:
            return
        close_task = asyncio.ensure_future(writer.wait_closed())
        _, pending = await asyncio.wait({close_task}, timeout=_CLOSE_TIMEOUT_S)
        self.abort()
        if pending:
            close_task.cancel()
            await asyncio.wait({close_task})
        elif (error := close_task.exception()) is not None and not isinstance(error, OSError):
            raise error
