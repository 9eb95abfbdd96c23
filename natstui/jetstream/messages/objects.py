"""Object stores as they are: what is in them, and what a file holds, its digest checked."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import NotFound, RequestFailed, UsageError
from natstui.files import complete_file
from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages.decode import from_api
from natstui.jetstream.messages.reading import Reader
from natstui.model.assets.buckets import OBJECTS, chunk_subject, info_subject, same_digest


class _Link(msgspec.Struct):
    bucket: str = ""
    name: str | None = None


class _Options(msgspec.Struct):
    link: _Link | None = None


class _Info(msgspec.Struct):
    name: str
    nuid: str = ""
    size: int = 0
    chunks: int = 0
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


async def stores(client: Client) -> list[dict[str, Any]]:
    """Return the INFO of the streams that are object stores."""
    body = {"subject": "$O.>"}
    pages = [json.loads(page) async for page in client.pages("STREAM.LIST", body)]
    rows = [row for page in pages for row in page.get("streams") or ()]
    return [row for row in rows if row["config"]["name"].startswith(OBJECTS)]


async def read_object(client: Client, bucket: str, name: str) -> StoredObject:
    """Return what is known of a file; raises NotFound when there is none."""
    verb, body = f"STREAM.MSG.GET.{OBJECTS}{bucket}", {"last_by_subj": info_subject(bucket, name)}
    try:
        message = json.loads(await client.request(verb, body))
        at_us = from_api(json.dumps(message).encode(), 0).stored_at_us
    except NotFound as error:
        what = f"{bucket} has no object {name}"
        if error.err_code != 10037:
            what = f"there is no object store {bucket}"
        raise NotFound(what, err_code=error.err_code) from error
    found = _object(bucket, base64.b64decode(message["message"].get("data") or ""), at_us)
    if found.deleted:
        raise NotFound(f"{bucket} has no object {name}: it was deleted")
    return found


def _object(bucket: str, data: bytes, at_us: int) -> StoredObject:
    try:
        info = decoder_of(_Info).decode(data)
    except msgspec.DecodeError as error:
        raise RequestFailed(f"what {bucket} knows of an object cannot be read: {error}") from error
    link = (info.options.link if info.options else None) or _Link()
    return StoredObject(
        bucket, info.name, info.nuid, info.size, info.chunks, info.digest or "", at_us,
        bool(info.deleted), info.description or "", link.bucket, link.name or "",
    )  # fmt: skip


async def list_objects(client: Client, bucket: str) -> list[StoredObject]:
    """Return the files of a store by name, without deleted ones; raises NotFound."""
    found: dict[str, StoredObject] = {}
    reader = Reader(client, f"{OBJECTS}{bucket}", (f"$O.{bucket}.M.>",), "last_per_subject")
    async with reader:
        left = reader.waiting_msgs
        while left:
            one = await anext(reader)
            left = one.left_msgs
            stored = _object(bucket, one.payload, one.stored_at_us)
            found[stored.name] = stored
    return sorted((one for one in found.values() if not one.deleted), key=lambda one: one.name)


async def copy_object(
    client: Client, wanted: StoredObject, file: BinaryIO, progress: Callable[[int], None]
) -> StoredObject:
    """Write a file's content, of a link that of what it points to, and return what was written.

    Raises RequestFailed when it is not complete or its digest is another one: nothing of it may be
    used then.
    """
    if wanted.link_bucket:
        if not wanted.link_name:
            raise RequestFailed(f"{wanted.name} is a link to the store {wanted.link_bucket}")
        wanted = await read_object(client, wanted.link_bucket, wanted.link_name)
    digest, size_bytes = hashlib.sha256(), 0
    subject = chunk_subject(wanted.bucket, wanted.nuid)
    async with Reader(client, f"{OBJECTS}{wanted.bucket}", (subject,)) as reader:
        left = reader.waiting_msgs
        while left:
            one = await anext(reader)
            left = one.left_msgs
            file.write(one.payload)
            digest.update(one.payload)
            size_bytes += len(one.payload)
            progress(size_bytes)
    if size_bytes != wanted.size_bytes:
        raise RequestFailed(
            f"{wanted.name} is not complete: "
            f"{size_bytes:,} of {wanted.size_bytes:,} bytes are there"
        )
    if size_bytes and not same_digest(wanted.digest, digest.digest()):
        raise RequestFailed(f"{wanted.name} is damaged: its digest is not {wanted.digest}")
    return wanted


async def save_object(
    client: Client,
    wanted: StoredObject,
    target: Path,
    progress: Callable[[int], None],
    *,
    overwrites: bool,
) -> StoredObject:
    """Write a file's content to the disk, and return what was written.

    The file appears when it is complete and its digest was checked. Raises UsageError when it
    cannot be written, and what `copy_object` raises.
    """
    try:
        with complete_file(target, replaces=overwrites) as file:
            return await copy_object(client, wanted, file, progress)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from error
