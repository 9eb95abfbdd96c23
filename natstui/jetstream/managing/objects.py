"""Puts, links and deletes objects in object stores; incomplete uploads are removed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO, Protocol, TypeVar

from msgspec import Struct
from nats.nuid import NUID

from natstui.errors import (
    Conflict,
    ConnectionLost,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ReplyUnreadable,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.object_info import read_object_info
from natstui.jetstream.connection.storing import check_domain, check_kept, store
from natstui.jetstream.connection.writer import (
    Asset,
    JournalDraft,
    PartialOutcome,
    Writer,
    add_state_if_unknown,
)
from natstui.jetstream.managing.configure import (
    ChangeResult,
    check_stream_not_recreated,
    make_reread_error,
    read_asset,
)
from natstui.model.assets.buckets import (
    CHUNK_BYTES,
    OBJECTS,
    ROLLUP_HEADER,
    chunk_subject,
    digest_text,
    object_info_subject,
)
from natstui.model.assets.fields import is_on
from natstui.model.assets.limits_loss import MAX_MESSAGE_OVERHEAD_BYTES, removed_by_limits_text
from natstui.model.assets.loss import Loss
from natstui.model.assets.subjects import is_token
from natstui.model.records.messages import PubAck
from natstui.units import bytes_text, counted
from natstui.values import replace

_EXPECTED_SEQ_HEADER = "Nats-Expected-Last-Subject-Sequence"
_WRONG_REVISION_CODES = {10071, 10164}
T = TypeVar("T")
_ObjectInfoFields = dict[str, Any]


class FindNamesWithChunks(Protocol):
    """Callback that finds the objects whose chunks must be kept."""

    def __call__(self, client: Client, bucket: str, nuid: str, /) -> Awaitable[list[str]]:
        """Return the names of the objects in a bucket that have the chunks with the id `nuid`."""


class ObjectChange(Struct, frozen=True):
    """An object to put, link or delete."""

    bucket: str
    name: str
    description: str = ""
    confirmed: str | None = None


class ObjectLink(Struct, frozen=True):
    """The target of a link: the object `name` in a bucket."""

    bucket: str
    name: str


class _StoredInfo(Struct, frozen=True):
    """The stored info of an object, or its absence."""

    subject: str
    seq: int = 0
    info: dict[str, Any] | None = None

    @property
    def is_link(self) -> bool:
        return bool(self.info and (self.info.get("options") or {}).get("link"))

    @property
    def exists(self) -> bool:
        return self.info is not None and not self.info.get("deleted")

    @property
    def has_chunks(self) -> bool:
        return self.exists and not self.is_link


async def put_object(
    writer: Writer,
    object_change: ObjectChange,
    file: BinaryIO,
    progress: Callable[[int], None],
    find_names_with_chunks: FindNamesWithChunks,
) -> ChangeResult:
    """Store a file as an object; the previous object is deleted once the new one is complete.

    `progress` is called with the number of bytes stored so far.
    Raises Conflict if another client changed the object meanwhile: then the upload is removed.
    """
    object_store, stored_info = await _read_writable(writer, object_change)
    loss = _make_loss(object_change, stored_info, "is overwritten")
    size_bytes = _size_bytes(file)
    chunks_count = None if size_bytes is None else -(-size_bytes // CHUNK_BYTES) + 1
    needed_bytes = (size_bytes or 0) + (chunks_count or 0) * MAX_MESSAGE_OVERHEAD_BYTES
    config, state = object_store.config, object_store.stream_info.state
    if text := removed_by_limits_text(config, state, chunks_count, needed_bytes):
        loss += Loss((text,))
    nuid = NUID().next().decode()
    partial_outcome, replaced_text = PartialOutcome(), ""

    async def work() -> dict[str, Any]:
        nonlocal partial_outcome, replaced_text
        try:
            info = await _upload(writer.client, object_change, file, nuid, progress)
            if missing_text := await _describe_missing_chunks(writer, object_store, info):
                raise Conflict(f"{missing_text}: {object_change.name} was not stored")
        except asyncio.CancelledError:
            await _remove_upload(writer.client, object_change.bucket, nuid)
            partial_outcome = PartialOutcome(
                "failed", "it was stopped: what it had stored was removed"
            )
            raise
        except NatstuiError as error:
            await _remove_upload(writer.client, object_change.bucket, nuid, error)
            raise
        try:
            await _run_uninterrupted(
                _store_info(writer, object_change, object_store, stored_info, info)
            )
        except RequestFailed as error:
            if error.err_code is None and not isinstance(error, PermissionDenied):
                # The server may have stored the info, which then needs the chunks.
                raise
            await _remove_upload(writer.client, object_change.bucket, nuid, error)
            if error.err_code in _WRONG_REVISION_CODES:
                text = (
                    f"{object_change.name} of {object_change.bucket} was changed meanwhile: "
                    "nothing was stored"
                )
                raise Conflict(text) from error
            raise
        # Chunks may have been removed since the first check, or by limits of the store.
        if missing_text := await _run_uninterrupted(
            _describe_missing_chunks(writer, object_store, info)
        ):
            replaced_text = await _run_uninterrupted(
                _describe_replacement(writer, object_change, object_store, info)
            )
            if not replaced_text:
                raise Conflict(
                    f"{object_change.name} was stored, but is not complete: {missing_text}"
                )
        return info

    draft = _make_draft("put_object", object_change, replace(object_store, loss=loss), stored_info)
    send_work = writer.send(
        draft, (object_change.name, object_change.confirmed), work,
        lambda info: {key: info[key] for key in ("size", "chunks", "digest")},
        loss.text or None, lambda: partial_outcome,
    )  # fmt: skip
    info = await add_state_if_unknown(
        send_work, lambda: _describe_state(writer, object_change, draft, nuid, stored_info)
    )
    text = f"{object_change.name} stored in {object_change.bucket}, {bytes_text(info['size'])}"
    result = ChangeResult(text, stored_info.info, info, unfinished=replaced_text)
    return await _run_uninterrupted(
        _delete_old_chunks(writer.client, object_change, result, find_names_with_chunks)
    )


async def _run_uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that a signal must not stop halfway.

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


async def _read_chunk(file: BinaryIO) -> bytes:
    """Return the next chunk of a file, empty at its end; raises UsageError if it cannot be read.

    It is read in a daemon thread: a pipe may stall forever.
    """
    loop = asyncio.get_running_loop()
    chunk_future: asyncio.Future[bytes] = loop.create_future()

    def complete_chunk(set_future: Callable[[], None]) -> None:
        if not chunk_future.done():
            set_future()

    def read_in_thread() -> None:
        content = bytearray()
        try:
            while len(content) < CHUNK_BYTES and (part := file.read(CHUNK_BYTES - len(content))):
                content += part
            set_future = partial(chunk_future.set_result, bytes(content))
        except OSError as error:
            set_future = partial(chunk_future.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(complete_chunk, set_future)

    threading.Thread(target=read_in_thread, name="file to put", daemon=True).start()
    try:
        return await chunk_future
    except OSError as error:
        raise UsageError(f"the file cannot be read to its end: {error.strerror}") from error


async def _upload(
    client: Client,
    object_change: ObjectChange,
    file: BinaryIO,
    nuid: str,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """Store the chunks of a file with the id `nuid`; return the info of the object.

    The info is not stored yet. `progress` is called with the number of bytes stored so far.
    """
    digest, size_bytes, count = hashlib.sha256(), 0, 0
    subject = chunk_subject(object_change.bucket, nuid)
    while chunk := await _read_chunk(file):
        await _wait_for_ack(
            store(client, subject, chunk, stream=f"{OBJECTS}{object_change.bucket}")
        )
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


async def _describe_missing_chunks(writer: Writer, asset: Asset, info: _ObjectInfoFields) -> str:
    """Return a clause with the reason why an upload is incomplete in its store; empty if complete.

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
    """Return the remaining bytes of a file; None for a pipe or a file without a size."""
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
    """Delete the chunks with the id `nuid`, of an upload that was not completed.

    Raises RequestFailed with the number of remaining chunks if that fails.
    `failure` is the error of the upload, None if a signal stopped it.
    """
    try:
        await _purge_chunks(client, bucket, nuid)
    except NotFound:
        return  # they were deleted with their store
    except NatstuiError as error:
        reason_text = f"{failure}; " if failure is not None else ""
        is_chunk_refused = isinstance(failure, RequestFailed) and failure.err_code is not None
        remaining_text = await _describe_remaining_chunks(
            client, bucket, nuid, error, is_chunk_refused=is_chunk_refused
        )
        raise RequestFailed(f"{reason_text}{remaining_text}") from (failure or error)


async def _describe_remaining_chunks(
    client: Client, bucket: str, nuid: str, error: NatstuiError, *, is_chunk_refused: bool
) -> str:
    """Return a clause with the number of chunks of the failed upload `nuid` that are still stored.

    `error` is the error of their deletion. If none is stored, a chunk that was sent last may still
    be stored later, except with `is_chunk_refused`: the server refused that chunk.
    """
    try:
        _, count = await _read_chunks(client, bucket, nuid)
    except NatstuiError:
        return f"the file was not stored, and its chunks may stay in {bucket}: {error}"
    if not count and is_chunk_refused:
        return "nothing was stored"
    if not count:
        return "none of it is stored now, but what was sent last may still be stored"
    chunks_text = f"{counted(count, 'chunk')} of it {'stays' if count == 1 else 'stay'}"
    return f"the file was not stored, and {chunks_text} in {bucket}: {error}"


async def _read_chunks(client: Client, bucket: str, nuid: str) -> tuple[int, int]:
    """Return the creation time (UTC µs) of a store, and its number of chunks with the id `nuid`.

    Raises the request errors.
    """
    subject = chunk_subject(bucket, nuid)
    info = await client.stream_info(f"{OBJECTS}{bucket}", {"subjects_filter": subject})
    return info.created_at_us, (info.state.subjects or {}).get(subject, 0)


async def _wait_for_ack(store_work: Coroutine[Any, Any, PubAck]) -> None:
    """Wait for the ack of a chunk, even if cancelled meanwhile.

    Otherwise a chunk that is stored after the others were deleted would stay forever.
    """
    task = asyncio.create_task(store_work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        task.exception()
        raise


async def _store_info(
    writer: Writer,
    object_change: ObjectChange,
    asset: Asset,
    stored_info: _StoredInfo,
    info: _ObjectInfoFields,
) -> None:
    """Store the new info of an object; without a reply, read whether it is stored.

    Raises the request errors.
    """
    headers = {ROLLUP_HEADER: "sub", _EXPECTED_SEQ_HEADER: str(stored_info.seq)}
    content, stream = json.dumps(info).encode(), f"{OBJECTS}{object_change.bucket}"
    try:
        ack = await store(writer.client, stored_info.subject, content, headers, stream)
        await check_kept(writer.client, asset.config, ack.stored_seq, stored_info.subject)
    except (RequestTimedOut, ConnectionLost, ReplyUnreadable, OutcomeUnknown):
        if not await _is_stored(writer, object_change, asset, info):
            raise


async def _is_stored(
    writer: Writer, object_change: ObjectChange, asset: Asset, info: _ObjectInfoFields
) -> bool:
    """Return whether an object has this info now, in the same store; False if unknown."""
    try:
        current_store, current_info = await _read_object(writer, object_change)
    except NatstuiError:
        return False
    return current_store.created_at_us == asset.created_at_us and current_info.info == info


async def _describe_replacement(
    writer: Writer, object_change: ObjectChange, asset: Asset, info: _ObjectInfoFields
) -> str:
    """Return a text if another client has replaced or deleted an object with this info; else "".

    `asset` is the store at the start. Raises the request errors.
    """
    try:
        current_store, current_info = await _read_object(writer, object_change)
    except NotFound:
        return ""
    if current_store.created_at_us != asset.created_at_us or current_info.info is None:
        return ""
    if current_info.exists and current_info.info.get("nuid") == info["nuid"]:
        return ""
    verb = "replaced" if current_info.exists else "deleted"
    return f"{object_change.name} was stored, and another client has {verb} it at once"


async def delete_object(
    writer: Writer, object_change: ObjectChange, find_names_with_chunks: FindNamesWithChunks
) -> ChangeResult:
    """Delete an object; raises NotFound if it does not exist."""
    object_store, stored_info = await _read_writable(writer, object_change)
    if not stored_info.exists or stored_info.info is None:
        raise NotFound(f"{object_change.bucket} has no object {object_change.name}")
    loss = _make_loss(object_change, stored_info, "is removed for good")
    deleted_info = {**stored_info.info, "deleted": True, "size": 0, "chunks": 0, "digest": ""}

    async def work() -> dict[str, Any]:
        await _run_uninterrupted(
            _store_info(writer, object_change, object_store, stored_info, deleted_info)
        )
        return deleted_info

    draft = _make_draft(
        "delete_object", object_change, replace(object_store, loss=loss), stored_info
    )
    send_work = writer.send(
        draft,
        (object_change.name, object_change.confirmed),
        work,
        lambda _: {"deleted": True},
        loss.text,
    )
    nuid = deleted_info.get("nuid")
    await add_state_if_unknown(
        send_work, lambda: _describe_state(writer, object_change, draft, nuid, stored_info)
    )
    result = ChangeResult(
        f"{object_change.name} of {object_change.bucket} deleted", stored_info.info, None
    )
    result = await _run_uninterrupted(
        _delete_old_chunks(writer.client, object_change, result, find_names_with_chunks)
    )
    return await check_stream_not_recreated(
        writer, "object store", object_change.bucket, object_store, result
    )


async def link_object(
    writer: Writer, object_change: ObjectChange, target: ObjectLink
) -> ChangeResult:
    """Create a link to an object.

    Raises NotFound if there is no such object, and UsageError if the name is in use, or the target
    is a link: other clients do not follow a link to a link.
    """
    object_store, stored_info = await _read_writable(writer, object_change)
    _, target_object = await _read_object(writer, ObjectChange(target.bucket, target.name))
    if not target_object.exists:
        raise NotFound(f"{target.bucket} has no object {target.name}")
    if target_object.is_link:
        raise UsageError(f"{target.name} of {target.bucket} is a link itself: link to its file")
    if stored_info.exists:
        kind_text = "a link" if stored_info.is_link else "a file"
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
        await _run_uninterrupted(
            _store_info(writer, object_change, object_store, stored_info, info)
        )
        return info

    draft = _make_draft("link_object", object_change, object_store, stored_info)
    send_work = writer.send(
        draft, (object_change.name, object_change.confirmed), work, lambda _: {"link": link}
    )
    await add_state_if_unknown(
        send_work, lambda: _describe_state(writer, object_change, draft, info["nuid"], stored_info)
    )
    text = (
        f"{object_change.name} of {object_change.bucket} now links to {target.name} of "
        f"{target.bucket}"
    )
    try:
        _, target_after = await _read_object(writer, ObjectChange(target.bucket, target.name))
    except (RequestFailed, ConnectionLost) as error:
        raise make_reread_error(text, error) from error
    missing_text = (
        f"{target.bucket} has no object {target.name} any more: somebody deleted it meanwhile"
    )
    return ChangeResult(text, None, info, unfinished="" if target_after.exists else missing_text)


async def _describe_state(
    writer: Writer,
    object_change: ObjectChange,
    draft: JournalDraft,
    nuid: object,
    stored_info: _StoredInfo,
) -> str:
    """Return a clause with the current state of an object after a change without a reply.

    `nuid` is the id in its info after the change, `stored_info` the one before. Raises the request
    errors.
    """
    current_store, current_info = await _read_object(writer, object_change)
    name = f"{object_change.name} of {object_change.bucket}"
    if draft.target is not None and draft.target.created_at_us != current_store.created_at_us:
        store_name = f"object store {object_change.bucket}"
        return f"{store_name} is another one: it was created in the meantime"
    if current_info.seq == draft.revision:
        return f"{name} is as it was before" if current_info.exists else f"{name} does not exist"
    if current_info.info is None or current_info.info.get("nuid") != nuid:
        return f"{name} was changed otherwise"
    unfinished_text = (
        ", and the chunks of what it was before stay" if stored_info.has_chunks else ""
    )
    return f"{name} {'is stored' if current_info.exists else 'is deleted'}{unfinished_text}"


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _make_draft(
    action: Any, object_change: ObjectChange, asset: Asset, stored_info: _StoredInfo
) -> JournalDraft:
    journal_arguments = (
        {"description": object_change.description} if object_change.description else {}
    )
    stream = f"{OBJECTS}{object_change.bucket}"
    return JournalDraft(
        action,
        stream,
        object_change.name,
        journal_arguments,
        target=asset,
        revision=stored_info.seq,
    )


def _make_loss(object_change: ObjectChange, stored_info: _StoredInfo, object_text: str) -> Loss:
    if not stored_info.exists or stored_info.info is None:
        return Loss()
    size_text = bytes_text(int(stored_info.info.get("size") or 0))
    return Loss((f"{object_change.name}, {size_text}, {object_text}",))


async def _read_writable(writer: Writer, object_change: ObjectChange) -> tuple[Asset, _StoredInfo]:
    """Return what `_read_object` returns; raises RequestFailed for a sealed store."""
    asset, stored_info = await _read_object(writer, object_change)
    if is_on(asset.config, "sealed"):
        raise RequestFailed(f"object store {object_change.bucket} is sealed: nothing can change")
    return asset, stored_info


async def _read_object(writer: Writer, object_change: ObjectChange) -> tuple[Asset, _StoredInfo]:
    """Return an object store and the info of an object in it; raises NotFound without a store."""
    stream = f"{OBJECTS}{object_change.bucket}"
    try:
        asset = await read_asset(writer, "stream", stream)
    except NotFound as error:
        raise NotFound(
            f"there is no object store {object_change.bucket}", err_code=10059
        ) from error
    await check_domain(
        writer.client, object_info_subject(object_change.bucket, object_change.name)
    )
    try:
        last_info = await read_object_info(writer.client, object_change.bucket, object_change.name)
    except NotFound:
        return asset, _StoredInfo(
            subject=object_info_subject(object_change.bucket, object_change.name)
        )
    try:
        info = json.loads(last_info.content)
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict) or not _is_size_or_none(info.get("size")):
        raise RequestFailed(
            f"the metadata of {object_change.name} in {object_change.bucket} cannot be read"
        )
    return asset, _StoredInfo(last_info.subject, last_info.seq, info)


def _is_size_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int) and 0 <= value < 2**63)


async def _delete_old_chunks(
    client: Client,
    object_change: ObjectChange,
    result: ChangeResult,
    find_names_with_chunks: FindNamesWithChunks,
) -> ChangeResult:
    """Delete the chunks of the replaced object; if that fails, the result is unfinished."""
    before = result.before
    if before is None or before.get("deleted") or not before.get("nuid"):
        return result
    prefix = f"{result.unfinished}; " if result.unfinished else ""
    nuid = str(before["nuid"])
    try:
        # An interrupted rename leaves two names with the same chunks.
        if names := await find_names_with_chunks(client, object_change.bucket, nuid):
            raise RequestFailed(f"{names[0]} has them too")
        await _purge_chunks(client, object_change.bucket, nuid)
    except NotFound:
        return result  # they were deleted with their store
    except NatstuiError as error:
        unfinished_text = (
            f"{prefix}the chunks of what {object_change.name} was before stay in "
            f"{object_change.bucket}: {error}"
        )
        return replace(result, unfinished=unfinished_text)
    return result


async def _purge_chunks(client: Client, bucket: str, nuid: str) -> None:
    """Delete the chunks with the id `nuid`, which no object has; raises the request errors.

    The id may come from another client's info: a wildcard would delete every object.
    """
    if not is_token(nuid):
        raise RequestFailed(
            f"the chunks of a file of {bucket} were not removed: its id is {nuid!r}"
        )
    filter_subject = chunk_subject(bucket, nuid)
    await client.request(f"STREAM.PURGE.{OBJECTS}{bucket}", {"filter": filter_subject})
