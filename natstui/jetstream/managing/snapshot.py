"""Receives and sends the complete data of a stream, in chunks that are each confirmed.

The chunks are opaque; together they are the file `stream.tar.s2` of the NATS CLI.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from msgspec import Struct
from nats.aio.msg import Msg

from natstui.errors import ConnectionLost, OutcomeUnknown, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import read_state
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import check_reply
from natstui.jetstream.connection.writer import Config
from natstui.model.assets.subjects import is_literal
from natstui.units import bytes_text

T = TypeVar("T")
OnTransferredBytes = Callable[[int], None]
"""Callback with the bytes transferred so far."""

_CHUNK_BYTES, _MIN_CHUNK_BYTES = 128 * 1024, 1024
_WINDOW_BYTES = 8 * 1024 * 1024
_WRITE_BUFFER_BYTES = 1024 * 1024
"""Size of data that is written and added to the checksum at once."""
_CHUNK_TIMEOUT_S = 15.0
"""Time without a chunk after which a transfer fails; the server itself stops after 5 s."""
_BEGIN_TIMEOUT_S = 60.0
LAST_REPLY_TIMEOUT_S = 60.0
"""Time that a server may need to create a stream from the sent data, beyond that by its size."""
_MIN_RESTORE_BYTES_PER_S = 10 * 1024 * 1024
"""Minimum rate at which a server creates a large stream."""
_RESTORE_PREFIX = "$JS.SNAPSHOT.RESTORE."
"""Prefix of the subject for a stream's data; on another subject the chunks would be messages."""
_ACK_PREFIX = "$JS.SNAPSHOT.ACK."
"""Prefix of the subjects for confirmations of snapshot chunks."""
_CANCEL_TIMEOUT_S = 2.0
"""Time that a cancellation waits for work that must not be interrupted."""
_SUBSCRIBE_TIMEOUT_S = 5.0
"""How long the first part of the data may be received by nobody: in a cluster the reply of the
server that restores can arrive before its subscription.
"""
_RETRY_PAUSE_S = 0.1


@dataclass
class RateLimit:
    """Limits the average rate of a transfer; `bytes_per_s` None means no limit."""

    bytes_per_s: int | None = None
    began_s: float | None = None
    transferred_bytes: int = 0

    @property
    def chunk_bytes(self) -> int:
        """Return the maximum size of a chunk: one per second must be within the limit."""
        max_bytes = self.bytes_per_s or _CHUNK_BYTES
        return max(_MIN_CHUNK_BYTES, min(_CHUNK_BYTES, max_bytes))

    @property
    def window_bytes(self) -> int:
        """Return how many unconfirmed bytes the server may send."""
        return _WINDOW_BYTES if self.bytes_per_s is None else 2 * self.chunk_bytes

    async def wait(self, size_bytes: int) -> None:
        """Add `size_bytes`, and wait until the average rate is within the limit."""
        if self.bytes_per_s is None:
            return
        now_s = time.monotonic()
        self.began_s = now_s if self.began_s is None else self.began_s
        self.transferred_bytes += size_bytes
        await asyncio.sleep(
            max(0.0, self.began_s + self.transferred_bytes / self.bytes_per_s - now_s)
        )


class ReceivedSnapshot(Struct, frozen=True):
    """The server's reply to a snapshot, and the size and checksum of the data."""

    reply: Config
    """`config` and `state` of the stream in the data."""
    data_bytes: int
    sha256: str


async def read_snapshot(
    client: Client,
    stream: str,
    file: BinaryIO,
    rate_limit: RateLimit,
    progress: OnTransferredBytes,
    *,
    consumers: bool,
) -> ReceivedSnapshot:
    """Write the data of a stream into a file; raises RequestFailed if it is incomplete."""
    inbox = client.nc.new_inbox()
    chunks = _ReceivedChunks(client, stream, rate_limit)
    subscription = await client.subscribe(inbox, chunks.on_chunk)
    try:
        body = {
            "deliver_subject": inbox,
            "no_consumers": not consumers,
            "chunk_size": rate_limit.chunk_bytes,
            "window_size": rate_limit.window_bytes,
        }
        reply: Config = json.loads(
            await client.request(f"STREAM.SNAPSHOT.{stream}", body, timeout_s=_BEGIN_TIMEOUT_S)
        )
        chunk_writer = _ChunkWriter(file)
        async with chunk_writer:
            async for chunk in chunks:
                progress(await chunk_writer.add(chunk))
    finally:
        if client.link.state == "connected":
            await subscription.unsubscribe()
    return ReceivedSnapshot(reply, chunk_writer.size_bytes, chunk_writer.digest.hexdigest())


class _ChunkWriter:
    """Writes chunks and adds them to the checksum in a thread, while more chunks arrive."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest, self.size_bytes = hashlib.sha256(), 0
        self._file = file
        self._buffered_chunks: list[bytes] = []
        self._buffered_bytes = 0
        self._write_task: asyncio.Future[None] | None = None

    async def __aenter__(self) -> _ChunkWriter:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self._flush()
                await self._wait_until_written()
        finally:
            if self._write_task is not None:
                # The file is closed next. Of two errors, the first is raised.
                await asyncio.gather(self._write_task, return_exceptions=True)

    async def add(self, chunk: bytes) -> int:
        """Add a chunk, and return the total number of bytes so far."""
        self._buffered_chunks.append(chunk)
        self._buffered_bytes += len(chunk)
        self.size_bytes += len(chunk)
        if self._buffered_bytes >= _WRITE_BUFFER_BYTES:
            await self._flush()
        return self.size_bytes

    async def _flush(self) -> None:
        await self._wait_until_written()
        chunks, self._buffered_chunks, self._buffered_bytes = self._buffered_chunks, [], 0
        self._write_task = asyncio.ensure_future(asyncio.to_thread(self._write, chunks))

    async def _wait_until_written(self) -> None:
        if self._write_task is not None:
            await asyncio.shield(self._write_task)

    def _write(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self._file.write(chunk)
            self.digest.update(chunk)


class _ReceivedChunks:
    """Yields the chunks of one snapshot in order, until the server ends it."""

    def __init__(self, client: Client, stream: str, rate_limit: RateLimit) -> None:
        self._client, self._stream, self._rate_limit = client, stream, rate_limit
        self._chunk_queue: asyncio.Queue[Msg] = asyncio.Queue()
        self._queued_bytes = 0
        self._is_queue_full = False
        self._chunks_count = 0

    async def on_chunk(self, msg: Msg) -> None:
        """Queue a received chunk, unless too many bytes are queued."""
        max_bytes = 2 * self._rate_limit.window_bytes + _WRITE_BUFFER_BYTES
        self._is_queue_full = self._is_queue_full or self._queued_bytes > max_bytes
        if not self._is_queue_full:
            self._queued_bytes += len(msg.data)
            self._chunk_queue.put_nowait(msg)

    def __aiter__(self) -> _ReceivedChunks:
        return self

    async def __anext__(self) -> bytes:
        try:
            async with asyncio.timeout(_CHUNK_TIMEOUT_S):
                msg = await self._chunk_queue.get()
        except TimeoutError as error:
            raise RequestFailed(
                f"the snapshot of {self._stream} was interrupted after {self._chunks_count} parts:"
                f" nothing arrived for {_CHUNK_TIMEOUT_S:g} s"
            ) from error
        self._queued_bytes -= len(msg.data)
        if self._is_queue_full:
            raise RequestFailed(
                f"the snapshot of {self._stream} was interrupted: the server sends more than the "
                f"{bytes_text(self._rate_limit.window_bytes)} at a time that were requested"
            )
        headers = msg.headers or {}
        if not msg.data:
            # No status, or 204, is the end; every other status means that it is not complete.
            if headers.get("Status", "204") == "204":
                raise StopAsyncIteration
            reason = f"{headers.get('Description', '')} ({headers['Status']})".strip()
            raise RequestFailed(f"the snapshot of {self._stream} was interrupted: {reason}")
        self._chunks_count += 1
        await self._rate_limit.wait(len(msg.data))
        if msg.reply.startswith(f"{_ACK_PREFIX}{self._stream}.") and is_literal(msg.reply):
            self._check_position(msg.reply)
            await self._client.publish(msg.reply)
        data: bytes = msg.data
        return data

    def _check_position(self, reply: str) -> None:
        """Raise RequestFailed if a chunk before this one is missing."""
        position = reply.rpartition(".")[2]
        if position.isdecimal() and int(position) != self._chunks_count:
            raise RequestFailed(
                f"a part of the snapshot of {self._stream} is missing: {position} arrived as "
                f"number {self._chunks_count}"
            )


async def send_snapshot(
    client: Client,
    config: Config,
    state: Config,
    file: BinaryIO,
    rate_limit: RateLimit,
    progress: OnTransferredBytes,
) -> Config:
    """Create a stream from the data in a file, and return the reply: its `config` and `state`.

    Raises the request errors; the server may then have a part of the stream. Raises OutcomeUnknown
    if all data was sent and no reply shows whether the stream was created.
    """
    verb = f"STREAM.RESTORE.{config['name']}"
    body = {"config": config, "state": state}
    begin_reply = json.loads(await client.request(verb, body, timeout_s=_BEGIN_TIMEOUT_S))
    subject = str(begin_reply["deliver_subject"])
    if not (is_literal(subject) and subject.startswith(_RESTORE_PREFIX)):
        raise RequestFailed(
            f"{verb}: the server requests the data at {subject!r}, which natstui refuses"
        )
    size_bytes = 0
    while chunk := file.read(rate_limit.chunk_bytes):
        subscribe_timeout_s = 0.0 if size_bytes else _SUBSCRIBE_TIMEOUT_S
        await _send_chunk(client, verb, subject, chunk, _BEGIN_TIMEOUT_S, subscribe_timeout_s)
        size_bytes += len(chunk)
        progress(size_bytes)
        await rate_limit.wait(len(chunk))
    # The server creates the stream in any case now: it can only be removed afterwards.
    limit_s = LAST_REPLY_TIMEOUT_S + read_state(state).bytes / _MIN_RESTORE_BYTES_PER_S
    doubt = f"all of {config['name']} was sent, and the server has not replied yet"
    try:
        reply: Config = json.loads(
            await finish_uninterrupted(_send_chunk(client, verb, subject, b"", limit_s), doubt)
        )
    except (RequestTimedOut, ConnectionLost) as error:
        if isinstance(error, ConnectionLost) and not error.sent:
            raise
        raise OutcomeUnknown(str(error)) from error
    return reply


async def finish_uninterrupted(
    work: Coroutine[Any, Any, T], doubt: str, cancel_timeout_s: float = _CANCEL_TIMEOUT_S
) -> T:
    """Return the result of work that must not be interrupted; a cancellation waits for its end.

    Raises OutcomeUnknown with `doubt` if a cancelled work does not end within `cancel_timeout_s`.
    A second cancellation takes effect at once.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([task], timeout=cancel_timeout_s)
        finally:
            task.cancel()
        if not task.done():
            raise OutcomeUnknown(doubt) from None
        if not task.cancelled() and (error := task.exception()):
            raise error from None
        raise


async def _send_chunk(
    client: Client,
    verb: str,
    subject: str,
    chunk: bytes,
    timeout_s: float,
    subscribe_timeout_s: float = 0.0,
) -> bytes:
    """Return the reply to a part of the data; raises RequestFailed if nobody subscribes to it.

    A part that nobody receives is sent again for `subscribe_timeout_s`.
    """
    until_s = time.monotonic() + subscribe_timeout_s
    reply = await client.request_subject(subject, chunk, timeout_s=timeout_s)
    while status_of(reply.headers) == "503":
        if time.monotonic() >= until_s:
            raise RequestFailed(f"{verb}: the server accepts no more data: it has aborted")
        await asyncio.sleep(_RETRY_PAUSE_S)
        reply = await client.request_subject(subject, chunk, timeout_s=timeout_s)
    data: bytes = reply.data
    check_reply(verb, data)
    return data
