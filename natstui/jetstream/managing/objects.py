"""Files in an object store: put and delete; what is half-made is taken away again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO

from nats.nuid import NUID

from natstui.errors import (
    Conflict,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestFailed,
    UsageError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.object_info import read_object_info
from natstui.jetstream.connection.storing import check_domain, store
from natstui.jetstream.connection.writer import Asset, JournalDraft, Writer
from natstui.jetstream.managing.configure import ChangeResult, read_asset
from natstui.model.assets.buckets import (
    CHUNK_BYTES,
    OBJECTS,
    ROLLUP,
    chunk_subject,
    digest_text,
    info_subject,
)
from natstui.model.assets.loss import Loss
from natstui.model.assets.subjects import is_token
from natstui.model.records.messages import PubAck
from natstui.units import bytes_text

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_CHANGED = {10071, 10164}


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A file to put, or to delete."""

    bucket: str
    name: str
    description: str = ""
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectLink:
    """What a link stands for."""

    bucket: str
    name: str


@dataclass(frozen=True, slots=True)
class _Present:
    """What a store knows of a file under its name."""

    subject: str
    seq: int = 0
    info: dict[str, Any] | None = None

    @property
    def is_link(self) -> bool:
        return bool(self.info and (self.info.get("options") or {}).get("link"))

    @property
    def is_there(self) -> bool:
        return self.info is not None and not self.info.get("deleted")


async def put_object(
    writer: Writer, asked: ObjectChange, file: BinaryIO, progress: Callable[[int], None]
) -> ChangeResult:
    """Store a file under a name; what was there is removed once the new one is whole.

    Raises Conflict when somebody else stored one meanwhile: then nothing of this one stays.
    """
    store_found, present = await _found(writer, asked)
    loss = _loss(asked, present, "is overwritten")
    nuid = NUID().next().decode()

    async def work() -> dict[str, Any]:
        try:
            made = await _upload(writer.client, asked, file, nuid, progress)
        except (NatstuiError, asyncio.CancelledError):
            await _purge(writer.client, asked.bucket, nuid)
            raise
        try:
            await _tell(writer.client, asked.bucket, made, present)
        except RequestFailed as error:
            if error.err_code is None and not isinstance(error, PermissionDenied):
                # The server may have stored it: then these are the chunks of the file.
                raise
            await _purge(writer.client, asked.bucket, nuid)
            if error.err_code in _CHANGED:
                text = f"{asked.name} of {asked.bucket} was changed meanwhile: nothing was stored"
                raise Conflict(text) from error
            raise
        return made

    draft = _draft("put_object", asked, replace(store_found, loss=loss), present)
    info = await writer.send(
        draft, (asked.name, asked.confirmed), work,
        lambda made: {key: made[key] for key in ("size", "chunks", "digest")},
        loss.text or None,
    )  # fmt: skip
    text = f"{asked.name} stored in {asked.bucket}, {bytes_text(info['size'])}"
    return await _without_chunks(writer.client, asked, ChangeResult(text, present.info, info))


async def _read(file: BinaryIO) -> bytes:
    """Return the next chunk of a file to put, nothing at its end; raises UsageError.

    It is read in a thread that nothing waits for: a pipe may stall for ever.
    """
    loop = asyncio.get_running_loop()
    chunk: asyncio.Future[bytes] = loop.create_future()

    def settle(read: Callable[[], None]) -> None:
        if not chunk.done():
            read()

    def run() -> None:
        content = bytearray()
        try:
            while len(content) < CHUNK_BYTES and (part := file.read(CHUNK_BYTES - len(content))):
                content += part
            result = partial(chunk.set_result, bytes(content))
        except OSError as error:
            result = partial(chunk.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name="file to put", daemon=True).start()
    try:
        return await chunk
    except OSError as error:
        raise UsageError(f"the file cannot be read to its end: {error.strerror}") from error


async def _upload(
    client: Client,
    asked: ObjectChange,
    file: BinaryIO,
    nuid: str,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Store the chunks, and return the info of the file, which is not stored yet."""
    digest, size_bytes, count = hashlib.sha256(), 0, 0
    subject = chunk_subject(asked.bucket, nuid)
    while chunk := await _read(file):
        await _answered(store(client, subject, chunk, stream=f"{OBJECTS}{asked.bucket}"))
        digest.update(chunk)
        size_bytes, count = size_bytes + len(chunk), count + 1
        progress(size_bytes)
    return {
        "name": asked.name,
        **({"description": asked.description} if asked.description else {}),
        "options": {"max_chunk_size": CHUNK_BYTES},
        "bucket": asked.bucket,
        "nuid": nuid,
        "size": size_bytes,
        "mtime": _now_text(),
        "chunks": count,
        "digest": digest_text(digest.digest()),
    }


async def _answered(storing: Coroutine[Any, Any, PubAck]) -> None:
    """Wait for the answer, also when it is stopped meanwhile.

    A part that is stored after the others were removed again would stay for ever.
    """
    task = asyncio.create_task(storing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        task.exception()
        raise


async def _tell(client: Client, bucket: str, info: dict[str, Any], present: _Present) -> None:
    headers = {ROLLUP: "sub", _EXPECTED: str(present.seq)}
    content = json.dumps(info).encode()
    await store(client, present.subject, content, headers, f"{OBJECTS}{bucket}")


async def delete_object(writer: Writer, asked: ObjectChange) -> ChangeResult:
    """Delete a file; raises NotFound when there is none."""
    store_found, present = await _found(writer, asked)
    if not present.is_there or present.info is None:
        raise NotFound(f"{asked.bucket} has no object {asked.name}")
    loss = _loss(asked, present, "is removed for good")
    gone = {**present.info, "deleted": True, "size": 0, "chunks": 0, "digest": ""}

    async def work() -> dict[str, Any]:
        await _tell(writer.client, asked.bucket, gone, present)
        return gone

    draft = _draft("delete_object", asked, replace(store_found, loss=loss), present)
    await writer.send(
        draft, (asked.name, asked.confirmed), work, lambda _: {"deleted": True}, loss.text
    )
    deleted = ChangeResult(f"{asked.name} of {asked.bucket} deleted", present.info, None)
    return await _without_chunks(writer.client, asked, deleted)


async def link_object(writer: Writer, asked: ObjectChange, target: ObjectLink) -> ChangeResult:
    """Let a name stand for a file.

    Raises NotFound when there is no such file, and UsageError where the name is taken, or the
    target is a link: a link of a link is none that others follow.
    """
    store_found, present = await _found(writer, asked)
    _, aim = await _found(writer, ObjectChange(target.bucket, target.name))
    if not aim.is_there:
        raise NotFound(f"{target.bucket} has no object {target.name}")
    if aim.is_link:
        raise UsageError(f"{target.name} of {target.bucket} is a link itself: link to its file")
    if present.is_there:
        what = "a link" if present.is_link else "a file"
        raise UsageError(f"{asked.name} of {asked.bucket} is {what} already: delete it first")
    link = {"bucket": target.bucket, "name": target.name}
    info = {
        "name": asked.name, "options": {"link": link}, "bucket": asked.bucket,
        "nuid": NUID().next().decode(), "size": 0, "mtime": _now_text(), "chunks": 0,
    }  # fmt: skip

    async def work() -> dict[str, Any]:
        await _tell(writer.client, asked.bucket, info, present)
        return info

    draft = _draft("link_object", asked, store_found, present)
    await writer.send(draft, (asked.name, asked.confirmed), work, lambda _: {"link": link})
    text = f"{asked.name} of {asked.bucket} now links to {target.name} of {target.bucket}"
    return ChangeResult(text, None, info)


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _draft(action: Any, asked: ObjectChange, found: Asset, present: _Present) -> JournalDraft:
    kept = {"description": asked.description} if asked.description else {}
    stream = f"{OBJECTS}{asked.bucket}"
    return JournalDraft(action, stream, asked.name, kept, found=found, revision=present.seq)


def _loss(asked: ObjectChange, present: _Present, what: str) -> Loss:
    if not present.is_there or present.info is None:
        return Loss()
    size = bytes_text(int(present.info.get("size") or 0))
    return Loss((f"{asked.name}, {size}, {what}",))


async def _found(writer: Writer, asked: ObjectChange) -> tuple[Asset, _Present]:
    """Return the store, and what it knows of the name; raises NotFound without a store."""
    stream = f"{OBJECTS}{asked.bucket}"
    try:
        found = await read_asset(writer, "stream", stream)
    except NotFound as error:
        raise NotFound(f"there is no object store {asked.bucket}", err_code=10059) from error
    await check_domain(writer.client, info_subject(asked.bucket, asked.name))
    try:
        last = await read_object_info(writer.client, asked.bucket, asked.name)
    except NotFound:
        return found, _Present(subject=info_subject(asked.bucket, asked.name))
    try:
        info = json.loads(last.content)
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict) or not _is_size(info.get("size")):
        raise RequestFailed(f"the metadata of {asked.name} in {asked.bucket} cannot be read")
    return found, _Present(last.subject, last.seq, info)


def _is_size(value: object) -> bool:
    return value is None or (isinstance(value, int) and 0 <= value < 2**63)


async def _without_chunks(
    client: Client, asked: ObjectChange, changed: ChangeResult
) -> ChangeResult:
    """Remove the chunks of the file that was there; where they stay, the change is unfinished."""
    before = changed.before
    if before is None or before.get("deleted") or not before.get("nuid"):
        return changed
    try:
        await _purge(client, asked.bucket, str(before["nuid"]))
    except NatstuiError as error:
        stay = f"the chunks of what {asked.name} was before stay in {asked.bucket}: {error}"
        return replace(changed, unfinished=stay)
    return changed


async def _purge(client: Client, bucket: str, nuid: str) -> None:
    """Remove the chunks of a file that nothing names any more; raises RequestFailed.

    Its id may come from another client's info: as a wildcard it would remove every file.
    """
    if not is_token(nuid):
        raise RequestFailed(
            f"the chunks of a file of {bucket} were not removed: its id is {nuid!r}"
        )
    filter_subject = chunk_subject(bucket, nuid)
    await client.request(f"STREAM.PURGE.{OBJECTS}{bucket}", {"filter": filter_subject})
