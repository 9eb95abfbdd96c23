"""Answers the screens of buckets and object stores: reads them and changes keys and objects."""

from __future__ import annotations

import base64
import time
from typing import assert_never

from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.keys import (
    KeyChange,
    change_key,
    remaining_ttl,
    restored_headers,
)
from natstui.jetstream.managing.objects import ObjectChange, delete_object
from natstui.jetstream.messages.keys import (
    read_key,
    read_names,
    read_page,
    read_revisions,
    read_these,
)
from natstui.jetstream.messages.objects import (
    StoredObject,
    names_with_chunks,
    read_objects,
    read_store,
)
from natstui.jetstream.messages.unfinished_objects import unfinished_text
from natstui.model.records.stores import (
    ChangeKey,
    ObjectRow,
    ObjectsPage,
    ReadKeyNames,
    ReadKeys,
    ReadObjects,
    ReadRevisions,
    ReadTheseKeys,
    StoreReading,
)
from natstui.units import counted


async def answer_store(writer: Writer, command: StoreReading | ChangeKey) -> tuple[str, object]:
    """Return a sentence and the reply data; raises Refused and the request errors."""
    client = writer.client
    match command:
        case ReadKeys():
            page = await read_page(client, command)
            return f"{counted(len(page.rows), 'key')} of {command.bucket}", page
        case ReadKeyNames():
            names = await read_names(client, command)
            return f"{counted(len(names.names), 'key')} of {command.bucket}", names
        case ReadTheseKeys():
            page = await read_these(client, command)
            return f"{counted(len(page.rows), 'key')} of {command.bucket}", page
        case ReadRevisions():
            page = await read_revisions(client, command)
            return f"{counted(len(page.rows), 'revision')} of {command.key}", page
        case ReadObjects():
            objects = await _read_objects(client, command)
            return f"{counted(len(objects.rows), 'file')} of {command.bucket}", objects
        case ChangeKey():
            return await _change(writer, command)
        case _:
            assert_never(command)


async def _read_objects(client: Client, command: ReadObjects) -> ObjectsPage:
    if not command.with_unfinished:
        content = await read_objects(client, command.bucket)
        return ObjectsPage(tuple(map(_object_row, content.objects)), None, tuple(content.damaged))
    content = await read_store(client, command.bucket)
    now_us = content.server_at_us
    # What a running upload stores is no matter for anybody who looks.
    stale_uploads = [upload for upload in content.unfinished if upload.may_run(now_us) is False]
    return ObjectsPage(
        tuple(map(_object_row, content.objects)),
        unfinished_text(stale_uploads, now_us),
        tuple(content.damaged),
    )


async def _change(writer: Writer, command: ChangeKey) -> tuple[str, object]:
    if command.action == "delete_object":
        deletion = ObjectChange(command.bucket, command.key, confirmed=command.confirmed)
        deleted = await delete_object(writer, deletion, names_with_chunks)
        return deleted.sentence, deleted
    value, action, ttl = base64.b64decode(command.value_base64), command.action, None
    headers: tuple[tuple[str, str], ...] = ()
    if command.of_revision_seq is not None:
        before = await read_key(
            writer.client, command.bucket, command.key, command.of_revision_seq
        )
        value, action = before.value, "put_key" if before.operation == "PUT" else "delete_key"
        if action == "put_key":
            ttl = remaining_ttl(before.ttl, before.created_at_us, time.time_ns() // 1000)
            headers = restored_headers(before.headers)
    change = KeyChange(
        action,
        command.bucket,
        command.key,
        value,
        command.if_revision_seq,
        command.if_stored_at_us,
        ttl,
        command.confirmed,
        command.created_at_us,
        headers,
    )
    changed = await change_key(writer, change)
    return changed.sentence, changed


def _object_row(stored_object: StoredObject) -> ObjectRow:
    link = (
        f"{stored_object.link_bucket}/{stored_object.link_name}".rstrip("/")
        if stored_object.link_bucket
        else ""
    )
    return ObjectRow(
        stored_object.name,
        stored_object.size_bytes,
        stored_object.chunks_count,
        stored_object.digest,
        stored_object.stored_at_us,
        stored_object.description,
        link,
    )
