"""The data of an entire stream, from a server and to one: chunks, each confirmed.

The chunks are opaque; together they are what the NATS CLI stores in `stream.tar.s2`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from nats.aio.msg import Msg

from natstui.errors import OutcomeUnknown, RequestFailed, RequestTimedOut, ServerGone
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import check_reply
from natstui.jetstream.connection.writer import Config
from natstui.model.assets.fields import number_at
from natstui.model.assets.subjects import is_literal
from natstui.units import bytes_text

T = TypeVar("T")
Progress = Callable[[int], None]
"""Called with the bytes that have been transferred so far."""

_CHUNK_BYTES, _LEAST_CHUNK_BYTES = 128 * 1024, 1024
_WINDOW_BYTES = 8 * 1024 * 1024
_AT_ONCE_BYTES = 1024 * 1024
"""Size that is written and added to the checksum at once."""
_QUIET_S = 15.0
"""Time without a chunk after which a transfer fails; the server itself stops after 5 s."""
_BEGIN_S = 60.0
LAST_REPLY_S = 60.0
"""How long a server may take to create a stream from the sent data, in addition to its size."""
_SLOWEST_BYTES_PER_S = 10 * 1024 * 1024
"""The least rate at which a server creates a large stream."""
_RESTORING = "$JS.SNAPSHOT.RESTORE."
"""Prefix of the subject for a stream's data; on another subject they would be messages."""
_CONFIRMING = "$JS.SNAPSHOT.ACK."
"""Prefix of the subject for confirmations of snapshot chunks."""
_LEAVING_S = 2.0
"""How long a cancellation waits for work that must not be interrupted."""


@dataclass
class Pace:
    """Limit of bytes per second, on average; None means no limit."""

    bytes_per_s: int | None = None
    began_s: float | None = None
    gone_bytes: int = 0

    @property
    def chunk_bytes(self) -> int:
        """Return the maximum size of a chunk, so that one a second is within the limit."""
        max_bytes = self.bytes_per_s or _CHUNK_BYTES
        return max(_LEAST_CHUNK_BYTES, min(_CHUNK_BYTES, max_bytes))

    @property
    def window_bytes(self) -> int:
        """Return how far the server may be ahead of the confirmations."""
        return _WINDOW_BYTES if self.bytes_per_s is None else 2 * self.chunk_bytes

    async def wait(self, size_bytes: int) -> None:
        """Wait after `size_bytes` more until the average is within the limit."""
        if self.bytes_per_s is None:
            return
        now_s = time.monotonic()
        self.began_s = now_s if self.began_s is None else self.began_s
        self.gone_bytes += size_bytes
        await asyncio.sleep(max(0.0, self.began_s + self.gone_bytes / self.bytes_per_s - now_s))


@dataclass(frozen=True, slots=True)
class Taken:
    """The server's reply to a snapshot, and the size and checksum of the data."""

    answer: Config
    """`config` and `state` of the stream in the data."""
    data_bytes: int
    sha256: str


async def take(
    client: Client, stream: str, file: BinaryIO, pace: Pace, progress: Progress, *, consumers: bool
) -> Taken:
    """Write the data of a stream into a file; raises RequestFailed when it is incomplete."""
    inbox = client.nc.new_inbox()
    chunks = _Chunks(client, stream, pace)
    subscription = await client.subscribe(inbox, chunks.arrived)
    try:
        body = {
            "deliver_subject": inbox,
            "no_consumers": not consumers,
            "chunk_size": pace.chunk_bytes,
            "window_size": pace.window_bytes,
        }
        reply: Config = json.loads(
            await client.request(f"STREAM.SNAPSHOT.{stream}", body, timeout_s=_BEGIN_S)
        )
        chunk_writer = _Kept(file)
        async with chunk_writer:
            async for chunk in chunks:
                progress(await chunk_writer.add(chunk))
    finally:
        if client.link.state == "connected":
            await subscription.unsubscribe()
    return Taken(reply, chunk_writer.size_bytes, chunk_writer.digest.hexdigest())


class _Kept:
    """Writes chunks and adds them to the checksum in a thread, while the next ones come."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest, self.size_bytes = hashlib.sha256(), 0
        self._file = file
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._writing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> _Kept:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self._flush()
                await self._written()
        finally:
            if self._writing is not None:
                # The file is closed next. Of two failures the first is told.
                await asyncio.gather(self._writing, return_exceptions=True)

    async def add(self, chunk: bytes) -> int:
        """Add a chunk, and return the total number of bytes."""
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        self.size_bytes += len(chunk)
        if self._waiting_bytes >= _AT_ONCE_BYTES:
            await self._flush()
        return self.size_bytes

    async def _flush(self) -> None:
        await self._written()
        chunks, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, chunks))

    async def _written(self) -> None:
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def _write(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self._file.write(chunk)
            self.digest.update(chunk)


class _Chunks:
    """The chunks of one snapshot in order, until the server ends it."""

    def __init__(self, client: Client, stream: str, pace: Pace) -> None:
        self._client, self._stream, self._pace = client, stream, pace
        self._arrived: asyncio.Queue[Msg] = asyncio.Queue()
        self._arrived_bytes = 0
        self._is_flooded = False
        self._count = 0

    async def arrived(self, msg: Msg) -> None:
        """Keep a chunk until it is read, unless the server is too far ahead."""
        max_bytes = 2 * self._pace.window_bytes + _AT_ONCE_BYTES
        self._is_flooded = self._is_flooded or self._arrived_bytes > max_bytes
        if not self._is_flooded:
            self._arrived_bytes += len(msg.data)
            self._arrived.put_nowait(msg)

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(_QUIET_S):
                msg = await self._arrived.get()
        except TimeoutError as error:
            raise RequestFailed(
                f"the snapshot of {self._stream} was interrupted after {self._count} parts: "
                f"nothing arrived for {_QUIET_S:g} s"
            ) from error
        self._arrived_bytes -= len(msg.data)
        if self._is_flooded:
            raise RequestFailed(
                f"the snapshot of {self._stream} was interrupted: the server sends more than the "
                f"{bytes_text(self._pace.window_bytes)} at a time that were requested"
            )
        headers = msg.headers or {}
        if not msg.data:
            # Nothing at all, or 204, is the end; every other status says that it is not whole.
            if headers.get("Status", "204") == "204":
                raise StopAsyncIteration
            reason = f"{headers.get('Description', '')} ({headers['Status']})".strip()
            raise RequestFailed(f"the snapshot of {self._stream} was interrupted: {reason}")
        self._count += 1
        await self._pace.wait(len(msg.data))
        if msg.reply.startswith(f"{_CONFIRMING}{self._stream}.") and is_literal(msg.reply):
            self._check_place(msg.reply)
            await self._client.publish(msg.reply)
        data: bytes = msg.data
        return data

    def _check_place(self, reply: str) -> None:
        """Raise RequestFailed when a chunk before this one is missing."""
        position = reply.rpartition(".")[2]
        if position.isdecimal() and int(position) != self._count:
            raise RequestFailed(
                f"a part of the snapshot of {self._stream} is missing: {position} arrived as "
                f"number {self._count}"
            )


async def give(
    client: Client, config: Config, state: Config, file: BinaryIO, pace: Pace, progress: Progress
) -> Config:
    """Create a stream from the data in a file, and return the reply: its `config` and `state`.

    Raises the request errors; the server may then have a part of the stream. Raises OutcomeUnknown
    when all was sent and no reply shows whether the stream was created.
    """
    verb = f"STREAM.RESTORE.{config['name']}"
    body = {"config": config, "state": state}
    started = json.loads(await client.request(verb, body, timeout_s=_BEGIN_S))
    subject = str(started["deliver_subject"])
    if not (is_literal(subject) and subject.startswith(_RESTORING)):
        raise RequestFailed(
            f"{verb}: the server requests the data at {subject!r}, which natstui refuses"
        )
    size_bytes = 0
    while chunk := file.read(pace.chunk_bytes):
        await _sent(client, verb, subject, chunk, _BEGIN_S)
        size_bytes += len(chunk)
        progress(size_bytes)
        await pace.wait(len(chunk))
    # It makes the stream in any case now: what is left of it can be removed only afterwards.
    limit_s = LAST_REPLY_S + number_at(state, "bytes") / _SLOWEST_BYTES_PER_S
    doubt = f"all of {config['name']} was sent, and the server has not replied yet"
    try:
        reply: Config = json.loads(
            await to_its_end(_sent(client, verb, subject, b"", limit_s), doubt)
        )
    except (RequestTimedOut, ServerGone) as error:
        if isinstance(error, ServerGone) and not error.sent:
            raise
        raise OutcomeUnknown(str(error)) from error
    return reply


async def to_its_end(work: Coroutine[Any, Any, T], doubt: str, leaving_s: float = _LEAVING_S) -> T:
    """Wait for work that must not be interrupted; a cancellation takes effect when it is over.

    That is after `leaving_s` at the latest: raises OutcomeUnknown with `doubt` when it is not over
    by then. A second cancellation takes effect at once.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([task], timeout=leaving_s)
        finally:
            task.cancel()
        if not task.done():
            raise OutcomeUnknown(doubt) from None
        if not task.cancelled() and (error := task.exception()):
            raise error from None
        raise


async def _sent(client: Client, verb: str, subject: str, chunk: bytes, timeout_s: float) -> bytes:
    reply = await client.ask(subject, chunk, timeout_s=timeout_s)
    if status_of(reply.headers) == "503":
        raise RequestFailed(f"{verb}: the server accepts no more data: it has aborted")
    data: bytes = reply.data
    check_reply(verb, data)
    return data
