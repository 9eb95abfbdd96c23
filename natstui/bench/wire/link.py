"""Reads and writes blocks of NATS protocol directly on the socket of a nats-py connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import nats.errors
from nats.aio.transport import TcpTransport

from natstui.bench.job.job import Job
from natstui.bench.wire.frames import FrameParser, FrameRun
from natstui.errors import ConnectionLost, NatstuiError, PermissionDenied
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.permissions import read_violation

OnRun = Callable[[FrameRun, int], None]
"""A callback that gets a run of frames and the time at which it was read (monotonic ns)."""

_HIGH_WATER_BYTES = 1 << 20
_CHECK_INTERVAL_S = 0.02
_SUBSCRIBE_TIMEOUT_S = 10.0


class UnsupportedNatsPy(NatstuiError):
    """An error for a version of nats-py that does not work with `WireLink`."""


class WireLink:
    """Reads and writes raw protocol on one connection; nats-py gets all other lines."""

    def __init__(self, nc: GuardedClient) -> None:
        self.nc = nc
        self.failure: asyncio.Future[NatstuiError] = asyncio.get_running_loop().create_future()
        """The error that ends the link: a broken connection, or a denied permission."""
        self.is_reading_paused = False
        """Whether `pause_reading` was called, and `resume_reading` was not yet."""
        self.resume_at_s = 0.0
        """Time of the event loop at which the pauses of `pause_reading_for` end."""
        self.disconnects_count = 0
        """Number of times that the connection was lost."""
        self.polling_cpu_ns = 0
        """CPU time spent polling for replies that had not arrived yet."""
        self._parser = FrameParser()
        self._on_run_by_sid: dict[int, OnRun] = {}
        self._nats_py_data: asyncio.Queue[bytes] = asyncio.Queue()
        self._nats_py_parser: Any = None
        self._forward_task: asyncio.Task[None] | None = None

    def replace_parser(self) -> None:
        """Replace nats-py's parser by this link; raises UnsupportedNatsPy if that is not safe."""
        parser: Any = getattr(self.nc, "_ps", None)
        is_supported = callable(getattr(parser, "parse", None)) and hasattr(parser, "buf")
        is_supported = is_supported and isinstance(
            getattr(self.nc, "_transport", None), TcpTransport
        )
        if not is_supported or parser.state != 1 or parser.buf:
            raise UnsupportedNatsPy(
                "the load does not fit this version of nats-py:"
                " reinstall natstui, which requires one that does"
            )
        self._nats_py_parser = parser
        self.nc.replace_parser(self)
        self._forward_task = self.start_task(self._forward_to_nats_py())
        self._replace_protocol()

    async def subscribe(self, subject: str, on_run: OnRun, queue: str = "") -> int:
        """Subscribe, also after every reconnect; return the number of the subscription.

        `on_run` gets the runs of frames. Returns when the server has confirmed the subscription.
        """
        subscription = await self.nc.subscribe(subject, queue=queue)
        number: int = subscription._id
        self._on_run_by_sid[number] = on_run
        # Our blocks pass by nats-py's own queue, and would overtake the subscription.
        await self.flush(_SUBSCRIBE_TIMEOUT_S)
        return number

    def end_subscriptions(self) -> None:
        """Drop the callbacks of all subscriptions: later messages are not counted or acked."""
        self._on_run_by_sid.clear()

    def write(self, data: bytes) -> None:
        """Write protocol to the socket; without a connection it is dropped."""
        if self.nc.is_connected:
            self.nc._transport.write(data)

    async def drain(self) -> None:
        """Wait until the socket accepts more data; raises the error of the link, if any."""
        if self.failure.done():
            raise self.failure.result()
        if self.nc.is_connected:
            try:
                await self.nc._transport.drain()
            except OSError as error:
                # nats-py notices by itself and reconnects; until then there is nowhere to write.
                await self.wait_connected(cause=error)
        else:
            await self.wait_connected()

    async def flush(self, timeout_s: float) -> None:
        """Wait until the server has read everything written so far, by nats-py as well.

        Raises ConnectionLost after `timeout_s`, or if the connection is lost.
        """
        await self.drain()
        try:
            async with asyncio.timeout(timeout_s):
                await (await self.nc.ping())
        except (nats.errors.Error, OSError) as error:
            raise ConnectionLost(
                f"the server did not accept all data within {timeout_s:g} s"
            ) from error

    async def wait_connected(self, within_s: float = 10.0, cause: Exception | None = None) -> None:
        """Wait until the connection is restored; raises ConnectionLost after `within_s`.

        `cause` is the exception from which that error is raised.
        """
        deadline_s = time.monotonic() + within_s
        await asyncio.sleep(0)
        while not self.nc.is_connected:
            if self.failure.done():
                raise self.failure.result()
            if time.monotonic() > deadline_s or self.nc.is_closed:
                raise ConnectionLost(
                    f"the server became unavailable and was not back within {within_s:g} s"
                ) from cause
            await asyncio.sleep(_CHECK_INTERVAL_S)

    def parse_received_data(self, data: bytes) -> None:
        """Parse bytes of the socket, and count them as a sign that the server is alive."""
        self.nc._transport.arrivals.add(len(data))
        self._parse_socket_data(data)

    def _parse_socket_data(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        try:
            for run_or_line in self._parser.feed(data):
                if isinstance(run_or_line, FrameRun):
                    on_run = self._on_run_by_sid.get(run_or_line.layout.sid)
                    if on_run is not None:
                        on_run(run_or_line, now_ns)
                    else:
                        self._nats_py_data.put_nowait(run_or_line.rows.tobytes())
                elif run_or_line.startswith(b"PING"):
                    self.write(b"PONG\r\n")
                else:
                    self._forward_control_line(run_or_line)
        except NatstuiError as error:
            self.fail(error)
        except BaseException as error:
            self.fail(NatstuiError(f"the client of the benchmark failed: {error!r}"))
            raise

    @property
    def has_unsent_data(self) -> bool:
        """Return whether written data is still in the buffer of the socket."""
        return bool(self.nc._transport._io_writer.transport.get_write_buffer_size())

    @property
    def is_between_frames(self) -> bool:
        """Return whether the next byte starts a new frame."""
        return self._parser.is_empty

    def fail(self, error: NatstuiError) -> None:
        """Set the error that ends every sender and receiver of this link, if none is set."""
        if not self.failure.done():
            self.failure.set_result(error)

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task and return it; an exception in it fails the link."""
        task = asyncio.create_task(coroutine)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NatstuiError):
            self.fail(error)
        elif error is not None:
            self.fail(NatstuiError(f"the client of the benchmark failed: {error!r}"))

    async def close(self) -> None:
        """Stop forwarding lines to nats-py."""
        if self._forward_task is not None:
            self._forward_task.cancel()
            await asyncio.wait({self._forward_task})

    async def parse(self, data: bytes = b"") -> None:
        """Parse the first bytes after a reconnect, which nats-py has read.

        The link reads all later bytes from the socket itself.
        """
        if data:
            self._parse_socket_data(data)
            self._replace_protocol()

    def reset(self) -> None:
        """Reset the parser after a lost connection, as nats-py requires."""
        self.disconnects_count += 1
        self._parser.reset()
        self._nats_py_parser.reset()

    def _forward_control_line(self, line: bytes) -> None:
        if line.startswith(b"-ERR"):
            violation = read_violation(line.decode("utf-8", "replace").lower())
            if violation is not None:
                self.fail(PermissionDenied(violation.subject, violation.kind))
        self._nats_py_data.put_nowait(line)

    async def _forward_to_nats_py(self) -> None:
        while True:
            await self._nats_py_parser.parse(await self._nats_py_data.get())

    def _replace_protocol(self) -> None:
        """Replace the protocol of the socket, so that it passes data to the link directly."""
        writer, reader = self.nc._transport._io_writer, self.nc._transport._io_reader
        transport = writer.transport
        if isinstance(transport.get_protocol(), _Protocol):
            return
        unread_data = bytes(reader._buffer)
        reader._buffer.clear()
        transport.set_protocol(_Protocol(self, transport.get_protocol()))
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        reader._maybe_resume_transport()
        if self.is_reading_paused:
            transport.pause_reading()
        if unread_data:
            self.parse_received_data(unread_data)


class _Protocol(asyncio.Protocol):
    """Passes received data to the link, and every other event of the socket to nats-py."""

    def __init__(self, link: WireLink, nats_py_protocol: Any) -> None:
        self._link = link
        self._nats_py_protocol = nats_py_protocol

    def data_received(self, data: bytes) -> None:
        self._link.parse_received_data(data)

    def eof_received(self) -> bool | None:
        keep_open: bool | None = self._nats_py_protocol.eof_received()
        return keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self._nats_py_protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._nats_py_protocol.pause_writing()

    def resume_writing(self) -> None:
        self._nats_py_protocol.resume_writing()


_CLOSE_TIMEOUT_S = 1.0
_READ_UNTIL_PONG_TIMEOUT_S = 2.0
_RECEIVE_TIMEOUT_TIMEVAL = struct.pack("ll", 0, 40_000)
"""Timeout of a blocking read: seconds and microseconds."""


@contextmanager
def blocking_socket(link: WireLink) -> Iterator[socket.socket | None]:
    """Yield a blocking duplicate of the socket while the event loop does not read.

    None if the socket does not transfer the protocol itself: with TLS, in a WebSocket.
    """
    transport = link.nc._transport._io_writer.transport
    plain_socket = transport.get_extra_info("socket")
    is_tls_or_websocket = any(map(transport.get_extra_info, ("ssl_object", "websocket")))
    if plain_socket is None or is_tls_or_websocket:
        yield None
        return
    transport.pause_reading()
    duplicate_socket = socket.socket(fileno=socket.dup(plain_socket.fileno()))
    duplicate_socket.settimeout(None)
    duplicate_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _RECEIVE_TIMEOUT_TIMEVAL)
    try:
        yield duplicate_socket
    finally:
        # The duplicate_socket shares its mode with the original, which asyncio needs non-blocking.
        duplicate_socket.setblocking(False)
        duplicate_socket.close()
        if not transport.is_closing():
            transport.resume_reading()


_POLL_NS = 100_000
"""Time for which the socket is polled before the thread sleeps: most replies arrive earlier."""


def receive_data(link: WireLink, duplicate_socket: socket.socket, max_bytes: int) -> bytes:
    """Return the next data of a blocking duplicate of the socket, at most `max_bytes`.

    Raises OSError after 40 ms without data. The socket is first polled for 0.1 ms, because
    sleeping and waking takes longer than a reply of the server.
    """
    poll_until_ns, cpu_start_ns = time.monotonic_ns() + _POLL_NS, time.thread_time_ns()
    try:
        while time.monotonic_ns() < poll_until_ns:
            try:
                return duplicate_socket.recv(max_bytes, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
    finally:
        link.polling_cpu_ns += time.thread_time_ns() - cpu_start_ns
    return duplicate_socket.recv(max_bytes)


async def close_after_writes(link: WireLink) -> None:
    """Close the connection after the server has read everything written before, within 1 s.

    Received data is discarded. A reset would let the server drop acks that it has not read yet.
    """
    nc, deadline_s = link.nc, time.monotonic() + _CLOSE_TIMEOUT_S
    if not (nc.is_connected and isinstance(nc._transport, TcpTransport)):
        return
    transport = nc._transport._io_writer.transport
    while True:
        transport.write(nc.pop_unsent())
        if not transport.get_write_buffer_size() or time.monotonic() > deadline_s:
            break
        await asyncio.sleep(0.001)
    with socket.socket(
        fileno=socket.dup(transport.get_extra_info("socket").fileno())
    ) as duplicate_socket:
        duplicate_socket.settimeout(_CLOSE_TIMEOUT_S)
        with contextlib.suppress(OSError):
            duplicate_socket.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline_s and duplicate_socket.recv(1 << 18):
                continue


def pause_reading_for(link: WireLink, duration_s: float) -> None:
    """Leave received data in the socket for `duration_s`, after the pauses that are not over."""
    loop = asyncio.get_running_loop()
    link.resume_at_s = max(link.resume_at_s, loop.time()) + duration_s
    if _stop_reading(link):
        # nats-py must not see the silence as a lost connection.
        link.nc.is_reading_paused = True
        loop.call_at(link.resume_at_s, _resume_unless_paused, link)


def pause_reading(link: WireLink) -> None:
    """Leave received data in the socket until `resume_reading`."""
    if not link.is_reading_paused:
        link.is_reading_paused = True
        # nats-py must not see the silence as a lost connection.
        link.nc.is_reading_paused = True
        _stop_reading(link)


def resume_reading(link: WireLink) -> None:
    """Read from the socket again after `pause_reading`."""
    link.is_reading_paused = False
    _resume_unless_paused(link)


def _resume_unless_paused(link: WireLink) -> None:
    """Read from the socket again, unless `pause_reading` was called, or a pause is not over."""
    loop = asyncio.get_running_loop()
    if link.is_reading_paused:
        return
    if loop.time() < link.resume_at_s:
        loop.call_at(link.resume_at_s, _resume_unless_paused, link)
        return
    link.nc.is_reading_paused = False
    transport = _transport(link)
    if transport is not None and not transport.is_closing() and not transport.is_reading():
        transport.resume_reading()


def _stop_reading(link: WireLink) -> bool:
    """Stop reading from the socket; return whether it was being read."""
    transport = _transport(link)
    if transport is None or transport.is_closing() or not transport.is_reading():
        return False
    transport.pause_reading()
    return True


def _transport(link: WireLink) -> Any:
    """Return the asyncio transport of the TCP connection; None for another kind."""
    lower_transport = link.nc._transport
    return (
        lower_transport._io_writer.transport if isinstance(lower_transport, TcpTransport) else None
    )


async def wait_until_stopped(job: Job, link: WireLink) -> None:
    """Wait until the job stops; raises the error of the link if it fails earlier."""
    stop_task = asyncio.ensure_future(job.stopping.wait())
    futures: set[asyncio.Future[Any]] = {stop_task, link.failure}
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    stop_task.cancel()
    if link.failure.done():
        raise link.failure.result()


async def read_until_pong(link: WireLink) -> None:
    """Wait until all data that the server has sent so far is read, for at most 2 s.

    The PONG for a PING arrives after that data. After 2 s messages may be unread.
    """
    if link.is_reading_paused or not link.nc.is_connected:
        return
    try:
        async with asyncio.timeout(_READ_UNTIL_PONG_TIMEOUT_S):
            await link.flush(_READ_UNTIL_PONG_TIMEOUT_S)
    except (ConnectionLost, TimeoutError):
        return
