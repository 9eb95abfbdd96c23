"""The socket of a nats-py connection, used directly for entire blocks of protocol."""

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
from natstui.bench.wire.frames import Framer, Run
from natstui.errors import NatstuiError, PermissionDenied, ServerGone
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.permissions import read_violation

OnRun = Callable[[Run, int], None]
"""Receives a run of messages and the time they were read (monotonic ns)."""

_HIGH_WATER_BYTES = 1 << 20
_LOOK_S = 0.02
_SUBSCRIBE_S = 10.0


class LibraryChanged(NatstuiError):
    """This version of nats-py has other internals."""


class WireLink:
    """Reads and writes raw protocol on one connection; other subscriptions are passed to
    nats-py.
    """

    def __init__(self, nc: GuardedClient) -> None:
        self.nc = nc
        self.failure: asyncio.Future[NatstuiError] = asyncio.get_running_loop().create_future()
        """Set when the connection is broken, or something is not allowed."""
        self.is_held = False
        """Whether received data is left in the socket until `resume_reading`."""
        self.lost_count = 0
        """How often the connection was lost."""
        self.polled_ns = 0
        """CPU time spent polling for replies that had not arrived yet."""
        self._framer = Framer()
        self._handlers: dict[int, OnRun] = {}
        self._others: asyncio.Queue[bytes] = asyncio.Queue()
        self._original: Any = None
        self._pump: asyncio.Task[None] | None = None

    def replace_parser(self) -> None:
        """Replace nats-py's parser; raises LibraryChanged when that is not safe."""
        parser: Any = getattr(self.nc, "_ps", None)
        is_supported = callable(getattr(parser, "parse", None)) and hasattr(parser, "buf")
        is_supported = is_supported and isinstance(
            getattr(self.nc, "_transport", None), TcpTransport
        )
        if not is_supported or parser.state != 1 or parser.buf:
            raise LibraryChanged(
                "the load does not fit this version of nats-py:"
                " reinstall natstui, which requires one that does"
            )
        self._original = parser
        self.nc._ps = self
        self._pump = self.run(self._pass_on())
        self._swap()

    async def subscribe(self, subject: str, on_run: OnRun, queue: str = "") -> int:
        """Subscribe, also after every reconnect; return the number of the subscription.

        `on_run` gets each run of frames and the time. Returns once the server confirmed it.
        """
        subscription = await self.nc.subscribe(subject, queue=queue)
        number: int = subscription._id
        self._handlers[number] = on_run
        # Our blocks pass by nats-py's own queue, and would overtake the subscription.
        await self.flush(_SUBSCRIBE_S)
        return number

    def end_subscriptions(self) -> None:
        """Stop receiving: later messages stay unread, and are not acked."""
        self._handlers.clear()

    def write(self, data: bytes) -> None:
        """Send protocol; it is lost when there is no connection."""
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
        """Wait until the server has read everything written so far.

        Raises ServerGone after `timeout_s`, or if the connection is lost.
        """
        await self.drain()
        try:
            await self.nc.flush(timeout=timeout_s)
        except (nats.errors.Error, OSError) as error:
            raise ServerGone(
                f"the server did not accept all data within {timeout_s:g} s"
            ) from error

    async def wait_connected(self, within_s: float = 10.0, cause: Exception | None = None) -> None:
        """Wait until the connection is restored; raises ServerGone after a timeout."""
        deadline_s = time.monotonic() + within_s
        await asyncio.sleep(0)
        while not self.nc.is_connected:
            if self.failure.done():
                raise self.failure.result()
            if time.monotonic() > deadline_s or self.nc.is_closed:
                raise ServerGone(
                    f"the server became unavailable and was not back within {within_s:g} s"
                ) from cause
            await asyncio.sleep(_LOOK_S)

    def received(self, data: bytes) -> None:
        """Parse bytes that nats-py has not read, and count them as a sign of life."""
        self.nc._transport.arrivals.add(len(data))
        self._take(data)

    def _take(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        try:
            for run_or_line in self._framer.feed(data):
                if isinstance(run_or_line, Run):
                    handler = self._handlers.get(run_or_line.layout.sid)
                    if handler is not None:
                        handler(run_or_line, now_ns)
                    else:
                        self._others.put_nowait(run_or_line.rows.tobytes())
                elif run_or_line.startswith(b"PING"):
                    self.write(b"PONG\r\n")
                else:
                    self._control(run_or_line)
        except NatstuiError as error:
            self.fail(error)
        except BaseException as error:
            self.fail(NatstuiError(f"the client of the benchmark failed: {error!r}"))
            raise

    @property
    def is_behind(self) -> bool:
        """Return whether written data waits for the socket."""
        return bool(self.nc._transport._io_writer.transport.get_write_buffer_size())

    @property
    def is_between_frames(self) -> bool:
        """Return whether the next byte starts a new frame."""
        return self._framer.is_empty

    def fail(self, error: NatstuiError) -> None:
        """End every sender and receiver on this link with this error."""
        if not self.failure.done():
            self.failure.set_result(error)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task and return it; its failure fails the link."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NatstuiError):
            self.fail(error)
        elif error is not None:
            self.fail(NatstuiError(f"the client of the benchmark failed: {error!r}"))

    async def close(self) -> None:
        """Return the socket to nats-py."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait({self._pump})

    async def parse(self, data: bytes = b"") -> None:
        """Parse data of nats-py's read loop: the first bytes after a reconnect."""
        if data:
            self._take(data)
            self._swap()

    def reset(self) -> None:
        """Reset the parser after a lost connection, as nats-py requires."""
        self.lost_count += 1
        self._framer.reset()
        self._original.reset()

    def _control(self, line: bytes) -> None:
        if line.startswith(b"-ERR"):
            violation = read_violation(line.decode("utf-8", "replace").lower())
            if violation is not None:
                self.fail(PermissionDenied(violation.subject, violation.kind))
        self._others.put_nowait(line)

    async def _pass_on(self) -> None:
        while True:
            await self._original.parse(await self._others.get())

    def _swap(self) -> None:
        """Let the socket call the link without nats-py's stream reader in between."""
        writer, reader = self.nc._transport._io_writer, self.nc._transport._io_reader
        transport = writer.transport
        if isinstance(transport.get_protocol(), _Protocol):
            return
        waiting = bytes(reader._buffer)
        reader._buffer.clear()
        transport.set_protocol(_Protocol(self, transport.get_protocol()))
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        reader._maybe_resume_transport()
        if self.is_held:
            transport.pause_reading()
        if waiting:
            self.received(waiting)


class _Protocol(asyncio.Protocol):
    """Reads for the link; everything else about the socket is left to nats-py."""

    def __init__(self, link: WireLink, original: Any) -> None:
        self._link = link
        self._original = original

    def data_received(self, data: bytes) -> None:
        self._link.received(data)

    def eof_received(self) -> bool | None:
        keep: bool | None = self._original.eof_received()
        return keep

    def connection_lost(self, exc: Exception | None) -> None:
        self._original.connection_lost(exc)

    def pause_writing(self) -> None:
        self._original.pause_writing()

    def resume_writing(self) -> None:
        self._original.resume_writing()


_HANG_UP_S = 1.0
_READ_OUT_TIMEOUT_S = 2.0
_RECEIVE_TIMEOUT = struct.pack("ll", 0, 40_000)
"""Timeout of a blocking read: seconds and microseconds."""


@contextmanager
def blocking_socket(link: WireLink) -> Iterator[socket.socket | None]:
    """Yield a blocking duplicate of the socket while the event loop does not read.

    None if the socket does not transfer the protocol itself: with TLS, in a WebSocket.
    """
    transport = link.nc._transport._io_writer.transport
    plain_socket = transport.get_extra_info("socket")
    is_wrapped = any(map(transport.get_extra_info, ("ssl_object", "websocket")))
    if plain_socket is None or is_wrapped:
        yield None
        return
    transport.pause_reading()
    twin = socket.socket(fileno=socket.dup(plain_socket.fileno()))
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


_POLL_NS = 100_000
"""How long to poll for a reply before sleeping: most come sooner."""


def receive(link: WireLink, duplicate_socket: socket.socket, most_bytes: int) -> bytes:
    """Return the next data on a blocking duplicate of the socket, `most_bytes` at most.

    Raises OSError after a long time without any. Sleeping and waking takes longer than the
    server's entire reply: so the socket is first polled for a moment, and the core is yielded to
    other processes in between.
    """
    until_ns, cpu_ns = time.monotonic_ns() + _POLL_NS, time.thread_time_ns()
    try:
        while time.monotonic_ns() < until_ns:
            try:
                return duplicate_socket.recv(most_bytes, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
    finally:
        link.polled_ns += time.thread_time_ns() - cpu_ns
    return duplicate_socket.recv(most_bytes)


async def hang_up(link: WireLink) -> None:
    """Close the connection after the server has read everything written before.

    Received data is discarded. With a reset instead, the server might drop what it has not read
    yet, and our last acks with it.
    """
    nc, deadline_s = link.nc, time.monotonic() + _HANG_UP_S
    if not (nc.is_connected and isinstance(nc._transport, TcpTransport)):
        return
    transport = nc._transport._io_writer.transport
    while True:
        waiting, nc._pending, nc._pending_data_size = nc._pending, [], 0
        transport.write(b"".join(waiting))
        if not transport.get_write_buffer_size() or time.monotonic() > deadline_s:
            break
        await asyncio.sleep(0.001)
    with socket.socket(fileno=socket.dup(transport.get_extra_info("socket").fileno())) as twin:
        twin.settimeout(_HANG_UP_S)
        with contextlib.suppress(OSError):
            twin.shutdown(socket.SHUT_WR)
            while time.monotonic() < deadline_s and twin.recv(1 << 18):
                continue


def pause_reading(link: WireLink, duration_s: float) -> None:
    """Leave received data in the socket for `duration_s`, then read again."""
    if _hold(link):
        asyncio.get_running_loop().call_later(duration_s, _resume, link)


def hold_reading(link: WireLink) -> None:
    """Leave received data in the socket until `resume_reading`."""
    if not link.is_held:
        link.is_held = True
        # Nothing comes now, and it must not be taken for a lost connection.
        link.nc.is_held = True
        _hold(link)


def resume_reading(link: WireLink) -> None:
    """Resume reading."""
    if link.is_held:
        link.is_held = link.nc.is_held = False
    _resume(link)


def _resume(link: WireLink) -> None:
    """Resume reading, unless `hold_reading` is active."""
    transport = None if link.is_held else _transport(link)
    if transport is not None and not transport.is_closing() and not transport.is_reading():
        transport.resume_reading()


def _hold(link: WireLink) -> bool:
    """Stop reading; return whether it was active."""
    transport = _transport(link)
    if transport is None or transport.is_closing() or not transport.is_reading():
        return False
    transport.pause_reading()
    return True


def _transport(link: WireLink) -> Any:
    """Return the transport of a connection's bytes."""
    lower_transport = link.nc._transport
    return (
        lower_transport._io_writer.transport if isinstance(lower_transport, TcpTransport) else None
    )


async def until_stopped(job: Job, link: WireLink) -> None:
    """Wait until the job stops; raises the error of the link."""
    stopping = asyncio.ensure_future(job.stopping.wait())
    both: set[asyncio.Future[Any]] = {stopping, link.failure}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if link.failure.done():
        raise link.failure.result()


async def read_pending(link: WireLink) -> None:
    """Wait until all data that the server has sent so far is read, even on a busy machine.

    The PONG for a PING comes after all of it. After 2 s it returns: messages may be missing then.
    """
    if link.is_held or not link.nc.is_connected:
        return
    try:
        async with asyncio.timeout(_READ_OUT_TIMEOUT_S):
            await link.flush(_READ_OUT_TIMEOUT_S)
    except (ServerGone, TimeoutError):
        return
