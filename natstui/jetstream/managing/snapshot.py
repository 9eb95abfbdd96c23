"""The data of a whole stream, out of a server and into one: chunks, each confirmed.

What the chunks hold is the server's affair; put together they are what the NATS CLI keeps in
`stream.tar.s2`.
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

from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import check_reply
from natstui.jetstream.connection.writer import Config
from natstui.model.assets.subjects import is_literal

T = TypeVar("T")
Progress = Callable[[int], None]
"""Called with the bytes that have gone over so far."""

_CHUNK_BYTES, _LEAST_CHUNK_BYTES = 128 * 1024, 1024
_WINDOW_BYTES = 8 * 1024 * 1024
_AT_ONCE_BYTES = 1024 * 1024
"""Written and added to the checksum in one go."""
_QUIET_S = 15.0
"""The server itself gives up after 5 s."""
_BEGIN_S = 60.0
_BUILDING_S = 3600.0
"""How long a server may take to make a stream of what it was sent."""
_RESTORING = "$JS.SNAPSHOT.RESTORE."
"""Where a server wants the data of a stream; anywhere else they would be messages."""
_CONFIRMING = "$JS.SNAPSHOT.ACK."
"""Where chunks of a snapshot are confirmed."""
_LEAVING_S = 60.0
"""How long somebody who wants to leave waits for what must not be broken off."""


@dataclass
class Pace:
    """So many bytes a second at most, on average; None is as fast as it goes."""

    bytes_per_s: int | None = None
    began_s: float | None = None
    gone_bytes: int = 0

    @property
    def chunk_bytes(self) -> int:
        """Return how large a chunk may be, so that one a second is not too fast."""
        most = self.bytes_per_s or _CHUNK_BYTES
        return max(_LEAST_CHUNK_BYTES, min(_CHUNK_BYTES, most))

    @property
    def window_bytes(self) -> int:
        """Return how far the server may be ahead of what was confirmed."""
        return _WINDOW_BYTES if self.bytes_per_s is None else 2 * self.chunk_bytes

    async def wait(self, size_bytes: int) -> None:
        """Wait after so many bytes more until they were not too fast."""
        if self.bytes_per_s is None:
            return
        now_s = time.monotonic()
        self.began_s = now_s if self.began_s is None else self.began_s
        self.gone_bytes += size_bytes
        await asyncio.sleep(max(0.0, self.began_s + self.gone_bytes / self.bytes_per_s - now_s))


@dataclass(frozen=True, slots=True)
class Taken:
    """What a server said of a snapshot, and what was written of it."""

    answer: Config
    """`config` and `state` of the stream as they are in the data."""
    data_bytes: int
    sha256: str


async def take(
    client: Client, stream: str, file: BinaryIO, pace: Pace, progress: Progress, *, consumers: bool
) -> Taken:
    """Write the data of a stream into a file; raises RequestFailed when it did not come whole."""
    inbox = client.nc.new_inbox()
    arrived: asyncio.Queue[Msg] = asyncio.Queue()
    subscription = await client.subscribe(inbox, arrived.put)
    try:
        body = {
            "deliver_subject": inbox,
            "no_consumers": not consumers,
            "chunk_size": pace.chunk_bytes,
            "window_size": pace.window_bytes,
        }
        answer: Config = json.loads(
            await client.request(f"STREAM.SNAPSHOT.{stream}", body, timeout_s=_BEGIN_S)
        )
        kept = _Kept(file)
        async with kept:
            async for chunk in _Chunks(client, stream, arrived, pace):
                progress(await kept.add(chunk))
    finally:
        if client.link.state == "connected":
            await subscription.unsubscribe()
    return Taken(answer, kept.size_bytes, kept.digest.hexdigest())


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
        """Take a chunk, and return how many bytes that makes."""
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        self.size_bytes += len(chunk)
        if self._waiting_bytes >= _AT_ONCE_BYTES:
            await self._flush()
        return self.size_bytes

    async def _flush(self) -> None:
        await self._written()
        some, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, some))

    async def _written(self) -> None:
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def _write(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self._file.write(chunk)
            self.digest.update(chunk)


class _Chunks:
    """The chunks of one snapshot in their order, until the server says that there are no more."""

    def __init__(
        self, client: Client, stream: str, arrived: asyncio.Queue[Msg], pace: Pace
    ) -> None:
        self._client, self._stream, self._arrived, self._pace = client, stream, arrived, pace
        self._count = 0

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
        headers = msg.headers or {}
        if not msg.data:
            # Nothing at all, or 204, is the end; every other status says that it is not whole.
            if headers.get("Status", "204") == "204":
                raise StopAsyncIteration
            why = f"{headers.get('Description', '')} ({headers['Status']})".strip()
            raise RequestFailed(f"the snapshot of {self._stream} was interrupted: {why}")
        self._count += 1
        await self._pace.wait(len(msg.data))
        if msg.reply.startswith(f"{_CONFIRMING}{self._stream}.") and is_literal(msg.reply):
            self._check_place(msg.reply)
            await self._client.publish(msg.reply)
        data: bytes = msg.data
        return data

    def _check_place(self, reply: str) -> None:
        """Raise RequestFailed when a chunk before this one is missing."""
        place = reply.rpartition(".")[2]
        if place.isdecimal() and int(place) != self._count:
            raise RequestFailed(
                f"a part of the snapshot of {self._stream} is missing: {place} arrived as "
                f"number {self._count}"
            )


async def give(
    client: Client, config: Config, state: Config, file: BinaryIO, pace: Pace, progress: Progress
) -> Config:
    """Make a stream of the data in a file, and return the answer: its `config` and `state`.

    Raises the request errors; the server may then hold a part of the stream.
    """
    verb = f"STREAM.RESTORE.{config['name']}"
    body = {"config": config, "state": state}
    begun = json.loads(await client.request(verb, body, timeout_s=_BEGIN_S))
    subject = str(begun["deliver_subject"])
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
    answer: Config = json.loads(await to_its_end(_sent(client, verb, subject, b"", _BUILDING_S)))
    return answer


async def to_its_end(work: Coroutine[Any, Any, T], leaving_s: float = _LEAVING_S) -> T:
    """Wait for what must not be broken off; who cancels this is obeyed when it is over.

    That is after `leaving_s` at the latest; who cancels it again is obeyed at once.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([task], timeout=leaving_s)
        finally:
            task.cancel()
        if task.done() and not task.cancelled() and (error := task.exception()):
            raise error from None
        raise


async def _sent(client: Client, verb: str, subject: str, chunk: bytes, timeout_s: float) -> bytes:
    reply = await client.ask(subject, chunk, timeout_s=timeout_s)
    if status_of(reply.headers) == "503":
        raise RequestFailed(f"{verb}: the server accepts no more data: it has aborted")
    data: bytes = reply.data
    check_reply(verb, data)
    return data
