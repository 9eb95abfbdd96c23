"""Reads the objects of object stores, and writes one to a file after a check of its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Struct

from natstui.decoding import decoder_of
from natstui.errors import Conflict, NotFound, PermissionDenied, RequestFailed
from natstui.files import open_atomic_file, translate_write_errors
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.object_info import read_object_info
from natstui.jetstream.messages.reading import Reader
from natstui.jetstream.messages.unfinished_objects import (
    UnfinishedObject,
    count_chunks,
    find_unfinished_objects,
)
from natstui.model.assets.buckets import (
    OBJECTS,
    chunk_subject,
    is_bucket_name,
    is_marker,
    is_same_digest,
    object_info_subject,
    object_name,
)
from natstui.model.assets.subjects import is_token
from natstui.parsing import describe_parse_error
from natstui.values import replace


class _ObjectLink(msgspec.Struct):
    bucket: str = ""
    name: str | None = None


class _ObjectOptions(msgspec.Struct):
    link: _ObjectLink | None = None


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _StoredObjectInfo(msgspec.Struct):
    name: str
    nuid: str = ""
    size: _Count = 0
    chunks: _Count = 0
    digest: str | None = ""
    deleted: bool | None = False
    description: str | None = None
    headers: dict[str, Any] | None = None
    options: _ObjectOptions | None = None


class StoredObject(Struct, frozen=True):
    """The info of an object in a store."""

    bucket: str
    name: str
    nuid: str
    size_bytes: int
    chunks_count: int
    digest: str
    stored_at_us: int
    deleted: bool = False
    description: str = ""
    link_bucket: str = ""
    """The store of its target, if it is a link."""
    link_name: str = ""


class StoreContent(Struct, frozen=True):
    """The objects and unfinished uploads of an object store."""

    objects: list[StoredObject]
    """Sorted by name, without deleted ones."""
    error_by_name: dict[str, str]
    """Name → why its info cannot be read."""
    unfinished: list[UnfinishedObject]
    """Uploads whose chunks belong to no object; empty if an info is damaged, because they may
    belong to that object."""
    server_at_us: int = 0
    """The server's time of the reading, for the age of unfinished uploads; 0 if the user may not
    read it."""


class WrittenObject(Struct, frozen=True):
    """An object whose content was written to a file, and the result of the check."""

    stored_object: StoredObject
    size_bytes: int
    problem: str = ""
    """What is wrong with it, as the end of a sentence about the object; "" if size and digest are
    right."""

    @property
    def check_text(self) -> str:
        """Return the result of the check: `digest checked`, or the problem."""
        if self.problem:
            return f"NOT VERIFIED: it {self.problem}"
        return "digest checked" if self.size_bytes else "empty"


async def read_object(client: Client, bucket: str, name: str) -> StoredObject:
    """Return the info of an object; raises NotFound if there is none, or it is deleted."""
    info = await read_object_info(client, bucket, name)
    stored_object = _decode_object(bucket, name, info.content, info.stored_at_us)
    if stored_object.deleted:
        raise NotFound(f"{bucket} has no object {name}: it was deleted")
    return stored_object


def _decode_object(bucket: str, name: str, data: bytes, at_us: int) -> StoredObject:
    try:
        info = decoder_of(_StoredObjectInfo).decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestFailed(
            f"the metadata of {name} in {bucket} cannot be read: {describe_parse_error(error)}"
        ) from error
    link = (info.options.link if info.options else None) or _ObjectLink()
    return StoredObject(
        bucket, info.name, info.nuid, info.size, info.chunks, info.digest or "", at_us,
        bool(info.deleted), info.description or "", link.bucket, link.name or "",
    )  # fmt: skip


async def read_store(client: Client, bucket: str) -> StoreContent:
    """Return the objects of a store and its unfinished uploads.

    Raises NotFound, and Conflict if the store is recreated meanwhile.
    """
    created_at_us = None
    with suppress(PermissionDenied):  # the chunks cannot be counted then
        created_at_us = (await client.stream_info(f"{OBJECTS}{bucket}")).created_at_us
    # Chunks first: an upload that ends between the two reads has its object in the second one.
    chunks = await count_chunks(client, bucket)
    objects_by_subject, error_by_name = await _read_all_objects(client, bucket)
    nuids = {stored_object.nuid for stored_object in objects_by_subject.values()}
    unfinished = (
        [] if error_by_name else await find_unfinished_objects(client, bucket, chunks, nuids)
    )
    server_at_us = 0
    if created_at_us is not None:
        info = await client.stream_info(f"{OBJECTS}{bucket}")
        if info.created_at_us != created_at_us:
            raise Conflict(f"{bucket} was deleted and recreated while it was read")
        # A local clock that is ahead would let a running upload look like a killed one.
        server_at_us = info.server_at_us
    return StoreContent(
        _existing_objects(objects_by_subject), error_by_name, unfinished, server_at_us
    )


async def read_objects(client: Client, bucket: str) -> StoreContent:
    """Return the objects of a store, without a search for unfinished uploads; raises NotFound."""
    objects_by_subject, error_by_name = await _read_all_objects(client, bucket)
    return StoreContent(_existing_objects(objects_by_subject), error_by_name, [])


async def find_names_with_chunks(client: Client, bucket: str, nuid: str) -> list[str]:
    """Return the names of the existing objects whose chunks have the id `nuid`."""
    store_content = await read_objects(client, bucket)
    return [
        stored_object.name for stored_object in store_content.objects if stored_object.nuid == nuid
    ]


def _existing_objects(objects_by_subject: dict[str, StoredObject]) -> list[StoredObject]:
    return sorted(
        (
            stored_object
            for stored_object in objects_by_subject.values()
            if not stored_object.deleted
        ),
        key=lambda stored_object: stored_object.name,
    )


async def _read_all_objects(
    client: Client, bucket: str
) -> tuple[dict[str, StoredObject], dict[str, str]]:
    """Return subject → object, including deleted ones, and name → why its info cannot be read.

    An info may have a wrong name, written by another client: if another object has that name, the
    name in the subject is used instead.
    """
    subjects = (object_info_subject(bucket, "") + ">",)
    async with Reader(
        client, f"{OBJECTS}{bucket}", subjects, "last_per_subject", reads_stored_only=True
    ) as reader:
        # After a lost connection, older infos of an object may precede its last one.
        last_message_by_subject = {message.subject: message async for message in reader}
    object_by_subject: dict[str, StoredObject] = {}
    error_by_name: dict[str, str] = {}
    for message in last_message_by_subject.values():
        if is_marker(dict(message.headers)):
            continue  # The server left this marker when the info had expired.
        name = object_name(message.subject)
        try:
            stored_object = _decode_object(bucket, name, message.payload, message.stored_at_us)
        except RequestFailed as error:
            error_by_name[name] = str(error)
            continue
        object_by_subject[message.subject] = stored_object
    for subject, stored_object in object_by_subject.items():
        own_subject = object_info_subject(bucket, stored_object.name)
        if own_subject != subject and own_subject in object_by_subject:
            object_by_subject[subject] = replace(stored_object, name=object_name(subject))
    return object_by_subject, error_by_name


async def copy_object(
    client: Client,
    stored_object: StoredObject,
    file: BinaryIO,
    progress: Callable[[int], None],
    *,
    verify: bool = True,
) -> WrittenObject:
    """Write the content of an object, or of the target of a link, to a file; return the result.

    `progress` is called with the number of bytes written so far.
    Raises Conflict if the object was replaced or deleted meanwhile. If it is incomplete, or has no
    digest or a wrong one, raises RequestFailed; without `verify`, returns that as `problem`.
    """
    stored_object = await _follow_links(client, stored_object)
    if stored_object.chunks_count and not is_token(stored_object.nuid):
        raise RequestFailed(
            f"{stored_object.name} of {stored_object.bucket} is damaged: "
            f"{stored_object.nuid!r} names no chunks"
        )
    digest, size_bytes = hashlib.sha256(), 0
    if stored_object.chunks_count or stored_object.size_bytes:
        subject = chunk_subject(stored_object.bucket, stored_object.nuid)
        stream = f"{OBJECTS}{stored_object.bucket}"
        async with Reader(client, stream, (subject,), reads_stored_only=True) as reader:
            async for message in reader:
                if size_bytes > stored_object.size_bytes and verify:
                    break  # It is damaged, and there may be any number of chunks.
                file.write(message.payload)
                digest.update(message.payload)
                size_bytes += len(message.payload)
                progress(size_bytes)
    problem = ""
    if size_bytes != stored_object.size_bytes:
        problem = (
            f"is not complete: {size_bytes:,} of {stored_object.size_bytes:,} bytes are there"
        )
    elif size_bytes and not stored_object.digest:
        problem = "has no digest: its bytes cannot be checked"
    elif stored_object.digest and not is_same_digest(stored_object.digest, digest.digest()):
        problem = f"is damaged: its digest is not {stored_object.digest}"
    if problem:
        await _check_unchanged(client, stored_object)
    if problem and verify:
        raise RequestFailed(
            f"{stored_object.name} {problem}; natstui object get --no-verify writes what is there"
        )
    return WrittenObject(stored_object, size_bytes, problem)


async def _check_unchanged(client: Client, stored_object: StoredObject) -> None:
    """Raise Conflict if an object was replaced or deleted while it was read."""
    change_word = "replaced"
    try:
        current_object = await read_object(client, stored_object.bucket, stored_object.name)
    except NotFound:
        current_object, change_word = None, "deleted"
    if current_object is None or current_object.nuid != stored_object.nuid:
        raise Conflict(f"{stored_object.name} was {change_word} while it was read: get it again")


async def _follow_links(client: Client, stored_object: StoredObject) -> StoredObject:
    """Return the target of a link; raises RequestFailed for a loop of links."""
    first_object, visited_objects = stored_object, set[tuple[str, str]]()
    while stored_object.link_bucket:
        if not stored_object.link_name:
            raise RequestFailed(
                f"{stored_object.name} is a link to the store {stored_object.link_bucket}"
            )
        if (stored_object.bucket, stored_object.name) in visited_objects:
            raise RequestFailed(
                f"{first_object.name} of {first_object.bucket} is a link that leads to itself"
            )
        visited_objects.add((stored_object.bucket, stored_object.name))
        if not is_bucket_name(stored_object.link_bucket):
            raise RequestFailed(
                f"{stored_object.name} is a link to {stored_object.link_bucket!r}: no store"
            )
        stored_object = await read_object(
            client, stored_object.link_bucket, stored_object.link_name
        )
    return stored_object


async def save_object(
    client: Client,
    stored_object: StoredObject,
    target: Path,
    progress: Callable[[int], None],
    *,
    overwrites: bool,
    verify: bool = True,
) -> WrittenObject:
    """Write an object's content to a file, and return the result.

    With `overwrites`, an existing file is replaced. The file appears only when it is complete and
    its digest was checked; `progress` and `verify` are as in `copy_object`. Raises UsageError or
    WriteFailed if it cannot be written, and what `copy_object` raises.
    """
    with translate_write_errors(target), open_atomic_file(target, replaces=overwrites) as file:
        return await copy_object(client, stored_object, file, progress, verify=verify)
