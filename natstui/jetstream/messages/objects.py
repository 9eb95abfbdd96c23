"""Object stores as they are: what is in them, and what a file holds, its digest checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import NotFound, RequestFailed
from natstui.files import complete_file, writing
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.object_info import read_object_info
from natstui.jetstream.messages.reading import Reader
from natstui.jetstream.messages.unfinished_objects import (
    UnfinishedObject,
    count_chunks,
    unfinished_objects,
)
from natstui.model.assets.buckets import (
    MARKER,
    OBJECTS,
    chunk_subject,
    info_subject,
    is_bucket,
    object_name,
    same_digest,
)
from natstui.model.assets.subjects import is_token
from natstui.parsing import reason


class _Link(msgspec.Struct):
    bucket: str = ""
    name: str | None = None


class _Options(msgspec.Struct):
    link: _Link | None = None


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Info(msgspec.Struct):
    name: str
    nuid: str = ""
    size: _Count = 0
    chunks: _Count = 0
    digest: str | None = ""
    deleted: bool | None = False
    description: str | None = None
    headers: dict[str, Any] | None = None
    options: _Options | None = None


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a store knows of a file."""

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
    """The store it points to, when it is a link."""
    link_name: str = ""


@dataclass(frozen=True, slots=True)
class StoreContent:
    """What a store has."""

    objects: list[StoredObject]
    """By name, without deleted ones."""
    damaged: dict[str, str]
    """Name → why its info cannot be read."""
    unfinished: list[UnfinishedObject]
    """Chunks of no object; none where an info is damaged, which may name them."""


@dataclass(frozen=True, slots=True)
class CopiedObject:
    """The content of an object as it was written somewhere."""

    stored: StoredObject
    size_bytes: int
    wrong: str = ""
    """What is wrong with it, after the name; empty when size and digest were checked."""

    @property
    def check_text(self) -> str:
        """Return what was checked: `digest checked`, or what is wrong."""
        if self.wrong:
            return f"NOT VERIFIED: it {self.wrong}"
        return "digest checked" if self.size_bytes else "empty"


async def read_object(client: Client, bucket: str, name: str) -> StoredObject:
    """Return what is known of a file; raises NotFound when there is none."""
    info = await read_object_info(client, bucket, name)
    found = _object(bucket, name, info.content, info.stored_at_us)
    if found.deleted:
        raise NotFound(f"{bucket} has no object {name}: it was deleted")
    return found


def _object(bucket: str, name: str, data: bytes, at_us: int) -> StoredObject:
    try:
        info = decoder_of(_Info).decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestFailed(
            f"the metadata of {name} in {bucket} cannot be read: {reason(error)}"
        ) from error
    link = (info.options.link if info.options else None) or _Link()
    return StoredObject(
        bucket, info.name, info.nuid, info.size, info.chunks, info.digest or "", at_us,
        bool(info.deleted), info.description or "", link.bucket, link.name or "",
    )  # fmt: skip


async def read_store(client: Client, bucket: str) -> StoreContent:
    """Return the files of a store and unfinished uploads; raises NotFound."""
    # In this order: an upload that ends meanwhile has its object then.
    chunks = await count_chunks(client, bucket)
    every, damaged = await _all_objects(client, bucket)
    nuids = {stored.nuid for stored in every.values()}
    unfinished = [] if damaged else await unfinished_objects(client, bucket, chunks, nuids)
    return StoreContent(_present(every), damaged, unfinished)


async def read_objects(client: Client, bucket: str) -> StoreContent:
    """Return the files of a store, without looking for unfinished uploads; raises NotFound."""
    every, damaged = await _all_objects(client, bucket)
    return StoreContent(_present(every), damaged, [])


def _present(every: dict[str, StoredObject]) -> list[StoredObject]:
    return sorted(
        (stored for stored in every.values() if not stored.deleted),
        key=lambda stored: stored.name,
    )


async def _all_objects(
    client: Client, bucket: str
) -> tuple[dict[str, StoredObject], dict[str, str]]:
    """Return the objects by name, deleted ones as well, and why some cannot be read."""
    found: dict[str, StoredObject] = {}
    damaged: dict[str, str] = {}
    subjects = (info_subject(bucket, "") + ">",)
    async with Reader(
        client, f"{OBJECTS}{bucket}", subjects, "last_per_subject", is_bounded=True
    ) as reader:
        async for message in reader:
            if MARKER in dict(message.headers):
                continue  # It was too old: this is what the server left of it.
            name = object_name(message.subject)
            try:
                stored = _object(bucket, name, message.payload, message.stored_at_us)
            except RequestFailed as error:
                damaged[name] = str(error)
                continue
            found[stored.name] = stored
    return found, damaged


async def copy_object(
    client: Client,
    wanted: StoredObject,
    file: BinaryIO,
    progress: Callable[[int], None],
    *,
    verify: bool = True,
) -> CopiedObject:
    """Write a file's content, of a link that of what it points to, and return what was written.

    Raises RequestFailed when it is not complete, has no digest or another one: nothing of it may
    be used then. Without `verify` these are returned as what is wrong.
    """
    wanted = await _follow_links(client, wanted)
    if wanted.chunks_count and not is_token(wanted.nuid):
        raise RequestFailed(
            f"{wanted.name} of {wanted.bucket} is damaged: {wanted.nuid!r} names no chunks"
        )
    digest, size_bytes = hashlib.sha256(), 0
    if wanted.chunks_count or wanted.size_bytes:
        subject = chunk_subject(wanted.bucket, wanted.nuid)
        stream = f"{OBJECTS}{wanted.bucket}"
        async with Reader(client, stream, (subject,), is_bounded=True) as reader:
            async for message in reader:
                if size_bytes > wanted.size_bytes and verify:
                    break  # It is damaged, and may have no end.
                file.write(message.payload)
                digest.update(message.payload)
                size_bytes += len(message.payload)
                progress(size_bytes)
    wrong = ""
    if size_bytes != wanted.size_bytes:
        wrong = f"is not complete: {size_bytes:,} of {wanted.size_bytes:,} bytes are there"
    elif size_bytes and not wanted.digest:
        wrong = "has no digest: its bytes cannot be checked"
    elif size_bytes and not same_digest(wanted.digest, digest.digest()):
        wrong = f"is damaged: its digest is not {wanted.digest}"
    if wrong and verify:
        raise RequestFailed(
            f"{wanted.name} {wrong}; natstui object get --no-verify writes what is there"
        )
    return CopiedObject(wanted, size_bytes, wrong)


async def _follow_links(client: Client, wanted: StoredObject) -> StoredObject:
    """Return the file a link leads to; raises RequestFailed for a loop of links."""
    first, seen = wanted, set[tuple[str, str]]()
    while wanted.link_bucket:
        if not wanted.link_name:
            raise RequestFailed(f"{wanted.name} is a link to the store {wanted.link_bucket}")
        if (wanted.bucket, wanted.name) in seen:
            raise RequestFailed(f"{first.name} of {first.bucket} is a link that leads to itself")
        seen.add((wanted.bucket, wanted.name))
        if not is_bucket(wanted.link_bucket):
            raise RequestFailed(f"{wanted.name} is a link to {wanted.link_bucket!r}: no store")
        wanted = await read_object(client, wanted.link_bucket, wanted.link_name)
    return wanted


async def save_object(
    client: Client,
    wanted: StoredObject,
    target: Path,
    progress: Callable[[int], None],
    *,
    overwrites: bool,
    verify: bool = True,
) -> CopiedObject:
    """Write a file's content to the disk, and return what was written.

    The file appears when it is complete and its digest was checked. Raises UsageError or
    WriteFailed when it cannot be written, and what `copy_object` raises.
    """
    with writing(target), complete_file(target, replaces=overwrites) as file:
        return await copy_object(client, wanted, file, progress, verify=verify)
