"""Objects in a store: put and delete; incomplete uploads are removed again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO, TypeVar

from nats.nuid import NUID

from natstui.errors import (
    Conflict,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ReplyUnreadable,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
    UsageError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.object_info import read_object_info
from natstui.jetstream.connection.storing import check_domain, check_kept, store
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import (
    Asset,
    JournalDraft,
    PartialOutcome,
    Writer,
    with_state_now,
)
from natstui.jetstream.managing.configure import (
    ChangeResult,
    read_asset,
    unread_after,
    with_stream_now,
)
from natstui.model.assets.buckets import (
    CHUNK_BYTES,
    OBJECTS,
    ROLLUP,
    chunk_subject,
    digest_text,
    info_subject,
)
from natstui.model.assets.fields import is_on
from natstui.model.assets.limits_loss import OVERHEAD_BYTES, making_room_text
from natstui.model.assets.loss import Loss
from natstui.model.assets.subjects import is_token
from natstui.model.records.messages import PubAck
from natstui.units import bytes_text, counted

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_CHANGED = {10071, 10164}
T = TypeVar("T")
_Info = dict[str, Any]
NamesWithChunks = Callable[[Client, str, str], Awaitable[list[str]]]
"""Returns the objects of a bucket that have the chunks of an id: those are never purged."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object to put, or to delete."""

    bucket: str
    name: str
    description: str = ""
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectLink:
    """The target of a link."""

    bucket: str
    name: str


@dataclass(frozen=True, slots=True)
class _Present:
    """The info of an object in a store."""

    subject: str
    seq: int = 0
    info: dict[str, Any] | None = None

    @property
    def is_link(self) -> bool:
        return bool(self.info and (self.info.get("options") or {}).get("link"))

    @property
    def is_there(self) -> bool:
        return self.info is not None and not self.info.get("deleted")

    @property
    def has_chunks(self) -> bool:
        return self.is_there and not self.is_link


async def put_object(
    writer: Writer,
    object_change: ObjectChange,
    file: BinaryIO,
    progress: Callable[[int], None],
    names_with_chunks: NamesWithChunks,
) -> ChangeResult:
    """Store a file under a name; the previous object is deleted once the new one is complete.

    Raises Conflict when somebody else stored one meanwhile: then nothing of this one stays.
    """
    store_found, present = await _open(writer, object_change)
    loss = _loss(object_change, present, "is overwritten")
    size_bytes = _size_bytes(file)
    chunks_count = None if size_bytes is None else -(-size_bytes // CHUNK_BYTES) + 1
    room_bytes = (size_bytes or 0) + (chunks_count or 0) * OVERHEAD_BYTES
    info = store_found.info
    if text := making_room_text(info["config"], info["state"], chunks_count, room_bytes):
        loss += Loss((text,))
    nuid = NUID().next().decode()
    stopped, replaced_text = PartialOutcome(), ""

    async def work() -> dict[str, Any]:
        nonlocal stopped, replaced_text
        try:
            info = await _upload(writer.client, object_change, file, nuid, progress)
            if lack := await _lack(writer, store_found, info):
                raise Conflict(f"{lack}: {object_change.name} was not stored")
        except asyncio.CancelledError:
            await _remove_upload(writer.client, object_change.bucket, nuid)
            stopped = PartialOutcome("failed", "it was stopped: what it had stored was removed")
            raise
        except NatstuiError as error:
            await _remove_upload(writer.client, object_change.bucket, nuid, error)
            raise
        try:
            await _to_the_end(_replace(writer, object_change, store_found, present, info))
        except RequestFailed as error:
            if error.err_code is None and not isinstance(error, PermissionDenied):
                # The server may have stored it: then these are the chunks of the file.
                raise
            await _remove_upload(writer.client, object_change.bucket, nuid, error)
            if error.err_code in _CHANGED:
                text = (
                    f"{object_change.name} of {object_change.bucket} was changed meanwhile: "
                    "nothing was stored"
                )
                raise Conflict(text) from error
            raise
        # What is removed after the first look, or by the limits of the store to make room.
        if lack := await _to_the_end(_lack(writer, store_found, info)):
            replaced_text = await _to_the_end(_replaced(writer, object_change, store_found, info))
            if not replaced_text:
                raise Conflict(f"{object_change.name} was stored, but is not whole: {lack}")
        return info

    draft = _draft("put_object", object_change, replace(store_found, loss=loss), present)
    writing = writer.send(
        draft, (object_change.name, object_change.confirmed), work,
        lambda info: {key: info[key] for key in ("size", "chunks", "digest")},
        loss.text or None, lambda: stopped,
    )  # fmt: skip
    info = await with_state_now(
        writing, lambda: _state_now(writer, object_change, draft, nuid, present)
    )
    text = f"{object_change.name} stored in {object_change.bucket}, {bytes_text(info['size'])}"
    result = ChangeResult(text, present.info, info, unfinished=replaced_text)
    return await _to_the_end(
        _without_chunks(writer.client, object_change, result, names_with_chunks)
    )


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that a signal does not stop: it would be done half.

    Each of its requests has a timeout.
    """
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            current_task = asyncio.current_task()
            assert current_task is not None
            current_task.uncancel()
    return task.result()


async def _read(file: BinaryIO) -> bytes:
    """Return the next chunk of a file to put, empty at its end; raises UsageError.

    It is read in a thread that nothing waits for: a pipe may stall forever.
    """
    loop = asyncio.get_running_loop()
    chunk: asyncio.Future[bytes] = loop.create_future()

    def settle(finish: Callable[[], None]) -> None:
        if not chunk.done():
            finish()

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
    object_change: ObjectChange,
    file: BinaryIO,
    nuid: str,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Store the chunks, and return the info of the object, which is not stored yet."""
    digest, size_bytes, count = hashlib.sha256(), 0, 0
    subject = chunk_subject(object_change.bucket, nuid)
    while chunk := await _read(file):
        await _answered(store(client, subject, chunk, stream=f"{OBJECTS}{object_change.bucket}"))
        digest.update(chunk)
        size_bytes, count = size_bytes + len(chunk), count + 1
        progress(size_bytes)
    return {
        "name": object_change.name,
        **({"description": object_change.description} if object_change.description else {}),
        "options": {"max_chunk_size": CHUNK_BYTES},
        "bucket": object_change.bucket,
        "nuid": nuid,
        "size": size_bytes,
        "mtime": _now_text(),
        "chunks": count,
        "digest": digest_text(digest.digest()),
    }


async def _lack(writer: Writer, asset: Asset, info: _Info) -> str:
    """Return why an upload is not whole in its store, as a clause; empty if it is.

    `asset` is the store at the start. Raises the request errors.
    """
    bucket, chunks_count = info["bucket"], info["chunks"]
    try:
        created_at_us, stored_count = await _read_chunks(writer.client, bucket, info["nuid"])
    except NotFound:
        return f"the object store {bucket} was deleted meanwhile"
    if created_at_us != asset.created_at_us:
        return f"the object store {bucket} was deleted and recreated meanwhile"
    if stored_count == chunks_count:
        return ""
    return (
        f"{bucket} has {stored_count} of its {chunks_count} chunks: another client or a limit of "
        "the store removed the others"
    )


def _size_bytes(file: BinaryIO) -> int | None:
    """Return how much is left to read of a file; None for a pipe, and for what has no size."""
    if not file.seekable():
        return None
    try:
        position = file.tell()
        size_bytes = file.seek(0, os.SEEK_END) - position
        file.seek(position)
    except OSError:
        return None
    return size_bytes


async def _remove_upload(
    client: Client, bucket: str, nuid: str, failure: NatstuiError | None = None
) -> None:
    """Delete the chunks of a file that was not stored; raises RequestFailed if that fails.

    `failure` is why it was not stored, None if a signal stopped it.
    """
    try:
        await _purge(client, bucket, nuid)
    except NotFound:
        return  # they were deleted with their store
    except NatstuiError as error:
        reason_text = f"{failure}; " if failure is not None else ""
        is_final = isinstance(failure, RequestFailed) and failure.err_code is not None
        left_text = await _left_text(client, bucket, nuid, error, is_final=is_final)
        raise RequestFailed(f"{reason_text}{left_text}") from (failure or error)


async def _left_text(
    client: Client, bucket: str, nuid: str, error: NatstuiError, *, is_final: bool
) -> str:
    """Return a clause about the chunks of a file that was not stored, and why they stay.

    `is_final`: the server refused them, so that none is on its way.
    """
    try:
        _, count = await _read_chunks(client, bucket, nuid)
    except NatstuiError:
        return f"the file was not stored, and its chunks may stay in {bucket}: {error}"
    if not count and is_final:
        return "nothing was stored"
    if not count:
        return "none of it is stored now, but what was sent last may still be stored"
    chunks_text = f"{counted(count, 'chunk')} of it {'stays' if count == 1 else 'stay'}"
    return f"the file was not stored, and {chunks_text} in {bucket}: {error}"


async def _read_chunks(client: Client, bucket: str, nuid: str) -> tuple[int, int]:
    """Return when a store was created, in µs, and how many chunks of an id it has.

    Raises the request errors.
    """
    subject = chunk_subject(bucket, nuid)
    reply = json.loads(
        await client.request(f"STREAM.INFO.{OBJECTS}{bucket}", {"subjects_filter": subject})
    )
    count: int = (reply["state"].get("subjects") or {}).get(subject, 0)
    return time_us(reply["created"]), count


async def _answered(storing: Coroutine[Any, Any, PubAck]) -> None:
    """Wait for the ack, also when it is stopped meanwhile.

    A chunk that is stored after the others were removed again would stay forever.
    """
    task = asyncio.create_task(storing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        task.exception()
        raise


async def _replace(
    writer: Writer, object_change: ObjectChange, asset: Asset, present: _Present, info: _Info
) -> None:
    """Store the new info of an object; where no reply says whether it is stored, read it.

    Raises the request errors.
    """
    headers = {ROLLUP: "sub", _EXPECTED: str(present.seq)}
    content, stream = json.dumps(info).encode(), f"{OBJECTS}{object_change.bucket}"
    try:
        ack = await store(writer.client, present.subject, content, headers, stream)
        await check_kept(writer.client, asset.config, ack.stored_seq, present.subject)
    except (RequestTimedOut, ServerGone, ReplyUnreadable, OutcomeUnknown):
        if not await _is_stored(writer, object_change, asset, info):
            raise


async def _is_stored(
    writer: Writer, object_change: ObjectChange, asset: Asset, info: _Info
) -> bool:
    """Return whether an object has this info now, in the same store; False if it is unknown."""
    try:
        asset_now, now = await _found(writer, object_change)
    except NatstuiError:
        return False
    return asset_now.created_at_us == asset.created_at_us and now.info == info


async def _replaced(writer: Writer, object_change: ObjectChange, asset: Asset, info: _Info) -> str:
    """Return that another client has replaced or deleted an object with this info; empty if not.

    `asset` is its store at the start. Raises the request errors.
    """
    try:
        asset_now, now = await _found(writer, object_change)
    except NotFound:
        return ""
    if asset_now.created_at_us != asset.created_at_us or now.info is None:
        return ""
    if now.is_there and now.info.get("nuid") == info["nuid"]:
        return ""
    verb = "replaced" if now.is_there else "deleted"
    return f"{object_change.name} was stored, and another client has {verb} it at once"


async def delete_object(
    writer: Writer, object_change: ObjectChange, names_with_chunks: NamesWithChunks
) -> ChangeResult:
    """Delete an object; raises NotFound when there is none."""
    store_found, present = await _open(writer, object_change)
    if not present.is_there or present.info is None:
        raise NotFound(f"{object_change.bucket} has no object {object_change.name}")
    loss = _loss(object_change, present, "is removed for good")
    deleted_info = {**present.info, "deleted": True, "size": 0, "chunks": 0, "digest": ""}

    async def work() -> dict[str, Any]:
        await _to_the_end(_replace(writer, object_change, store_found, present, deleted_info))
        return deleted_info

    draft = _draft("delete_object", object_change, replace(store_found, loss=loss), present)
    writing = writer.send(
        draft,
        (object_change.name, object_change.confirmed),
        work,
        lambda _: {"deleted": True},
        loss.text,
    )
    nuid = deleted_info.get("nuid")
    await with_state_now(writing, lambda: _state_now(writer, object_change, draft, nuid, present))
    result = ChangeResult(
        f"{object_change.name} of {object_change.bucket} deleted", present.info, None
    )
    result = await _to_the_end(
        _without_chunks(writer.client, object_change, result, names_with_chunks)
    )
    return await with_stream_now(writer, "object store", object_change.bucket, store_found, result)


async def link_object(
    writer: Writer, object_change: ObjectChange, target: ObjectLink
) -> ChangeResult:
    """Create a link to an object.

    Raises NotFound when there is no such object, and UsageError where the name is used, or the
    target is a link: other clients do not follow a link of a link.
    """
    store_found, present = await _open(writer, object_change)
    _, aim = await _found(writer, ObjectChange(target.bucket, target.name))
    if not aim.is_there:
        raise NotFound(f"{target.bucket} has no object {target.name}")
    if aim.is_link:
        raise UsageError(f"{target.name} of {target.bucket} is a link itself: link to its file")
    if present.is_there:
        kind_text = "a link" if present.is_link else "a file"
        raise UsageError(
            f"{object_change.name} of {object_change.bucket} is {kind_text} already: "
            "delete it first"
        )
    link = {"bucket": target.bucket, "name": target.name}
    info = {
        "name": object_change.name, "options": {"link": link}, "bucket": object_change.bucket,
        "nuid": NUID().next().decode(), "size": 0, "mtime": _now_text(), "chunks": 0,
    }  # fmt: skip

    async def work() -> dict[str, Any]:
        await _to_the_end(_replace(writer, object_change, store_found, present, info))
        return info

    draft = _draft("link_object", object_change, store_found, present)
    writing = writer.send(
        draft, (object_change.name, object_change.confirmed), work, lambda _: {"link": link}
    )
    await with_state_now(
        writing, lambda: _state_now(writer, object_change, draft, info["nuid"], present)
    )
    text = (
        f"{object_change.name} of {object_change.bucket} now links to {target.name} of "
        f"{target.bucket}"
    )
    try:
        _, aim_now = await _found(writer, ObjectChange(target.bucket, target.name))
    except (RequestFailed, ServerGone) as error:
        raise unread_after(text, error) from error
    missing = (
        f"{target.bucket} has no object {target.name} any more: somebody deleted it meanwhile"
    )
    return ChangeResult(text, None, info, unfinished="" if aim_now.is_there else missing)


async def _state_now(
    writer: Writer,
    object_change: ObjectChange,
    draft: JournalDraft,
    nuid: object,
    present: _Present,
) -> str:
    """Return the current state of an object whose change got no reply, as the end of a sentence.

    `nuid` is the id in its info after the change, `present` is what it was before. Raises the
    request errors.
    """
    store_now, now = await _found(writer, object_change)
    name = f"{object_change.name} of {object_change.bucket}"
    if draft.found is not None and draft.found.created_at_us != store_now.created_at_us:
        store_name = f"object store {object_change.bucket}"
        return f"{store_name} is another one: it was created in the meantime"
    if now.seq == draft.revision:
        return f"{name} is as it was before" if now.is_there else f"{name} does not exist"
    if now.info is None or now.info.get("nuid") != nuid:
        return f"{name} was changed otherwise"
    stay = ", and the chunks of what it was before stay" if present.has_chunks else ""
    return f"{name} {'is stored' if now.is_there else 'is deleted'}{stay}"


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _draft(
    action: Any, object_change: ObjectChange, asset: Asset, present: _Present
) -> JournalDraft:
    journalled = {"description": object_change.description} if object_change.description else {}
    stream = f"{OBJECTS}{object_change.bucket}"
    return JournalDraft(
        action, stream, object_change.name, journalled, found=asset, revision=present.seq
    )


def _loss(object_change: ObjectChange, present: _Present, object_text: str) -> Loss:
    if not present.is_there or present.info is None:
        return Loss()
    size = bytes_text(int(present.info.get("size") or 0))
    return Loss((f"{object_change.name}, {size}, {object_text}",))


async def _open(writer: Writer, object_change: ObjectChange) -> tuple[Asset, _Present]:
    """Return what `_found` returns; raises RequestFailed for a store that takes no change."""
    asset, present = await _found(writer, object_change)
    if is_on(asset.config, "sealed"):
        raise RequestFailed(f"object store {object_change.bucket} is sealed: nothing can change")
    return asset, present


async def _found(writer: Writer, object_change: ObjectChange) -> tuple[Asset, _Present]:
    """Return the store, and the info of the name in it; raises NotFound without a store."""
    stream = f"{OBJECTS}{object_change.bucket}"
    try:
        asset = await read_asset(writer, "stream", stream)
    except NotFound as error:
        raise NotFound(
            f"there is no object store {object_change.bucket}", err_code=10059
        ) from error
    await check_domain(writer.client, info_subject(object_change.bucket, object_change.name))
    try:
        last = await read_object_info(writer.client, object_change.bucket, object_change.name)
    except NotFound:
        return asset, _Present(subject=info_subject(object_change.bucket, object_change.name))
    try:
        info = json.loads(last.content)
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict) or not _is_size(info.get("size")):
        raise RequestFailed(
            f"the metadata of {object_change.name} in {object_change.bucket} cannot be read"
        )
    return asset, _Present(last.subject, last.seq, info)


def _is_size(value: object) -> bool:
    return value is None or (isinstance(value, int) and 0 <= value < 2**63)


async def _without_chunks(
    client: Client,
    object_change: ObjectChange,
    result: ChangeResult,
    names_with_chunks: NamesWithChunks,
) -> ChangeResult:
    """Delete the chunks of the replaced object; if they stay, the change is unfinished."""
    before = result.before
    if before is None or before.get("deleted") or not before.get("nuid"):
        return result
    already = f"{result.unfinished}; " if result.unfinished else ""
    nuid = str(before["nuid"])
    try:
        # A rename that was interrupted leaves two names for the same chunks.
        if names := await names_with_chunks(client, object_change.bucket, nuid):
            raise RequestFailed(f"{names[0]} has them too")
        await _purge(client, object_change.bucket, nuid)
    except NotFound:
        return result  # they were deleted with their store
    except NatstuiError as error:
        stay = (
            f"{already}the chunks of what {object_change.name} was before stay in "
            f"{object_change.bucket}: {error}"
        )
        return replace(result, unfinished=stay)
    return result


async def _purge(client: Client, bucket: str, nuid: str) -> None:
    """Delete the chunks of an unreferenced object; raises RequestFailed.

    Its id may come from another client's info: as a wildcard it would delete every object.
    """
    if not is_token(nuid):
        raise RequestFailed(
            f"the chunks of a file of {bucket} were not removed: its id is {nuid!r}"
        )
    filter_subject = chunk_subject(bucket, nuid)
    await client.request(f"STREAM.PURGE.{OBJECTS}{bucket}", {"filter": filter_subject})
