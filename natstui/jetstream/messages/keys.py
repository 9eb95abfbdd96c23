"""Key-value buckets: keys, values, revisions, and watching changes."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from natstui.errors import Conflict, NotFound, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.messages.decode import decode_api_reply
from natstui.jetstream.messages.gets import ApiGetter
from natstui.jetstream.messages.reading import (
    DeliverPolicy,
    Reader,
    StreamMessage,
    check_limits_retention,
)
from natstui.model.assets.buckets import KV, TTL_HEADER, key_of, key_subject, operation_of
from natstui.model.records.messages import StoredMessage
from natstui.model.records.stores import (
    KeyNames,
    KeyRow,
    KeysPage,
    ReadKeyNames,
    ReadKeys,
    ReadRevisions,
    ReadTheseKeys,
)
from natstui.units import counted

_MAX_SMALL_MESSAGE_BYTES = 512


class KeyEntry(msgspec.Struct, frozen=True):
    """One revision of a key."""

    bucket: str
    key: str
    revision: int
    created_at_us: int
    operation: str
    """PUT, DEL or PURGE."""
    value: bytes
    later_entries_count: int = 0
    """Number of further entries that could be read now."""
    ttl: str | None = None
    """Its `Nats-TTL` header; None unless it was read by `read_key`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Its unchanged headers, with which it can be put again; empty unless it was read by
    `read_key`.
    """


async def _read_info(client: Client, bucket: str) -> StreamRow:
    """Return the INFO of a bucket; raises NotFound."""
    try:
        return await client.stream_info(f"{KV}{bucket}")
    except NotFound as error:
        raise NotFound(f"there is no bucket {bucket}", err_code=error.err_code) from error


def _subject_prefix(info: StreamRow, bucket: str) -> str:
    """Return the prefix of the subjects of a bucket's keys, from the bucket's INFO.

    The keys of a mirror have the prefix of the mirrored bucket.
    """
    mirror = (info.read_config().get("mirror") or {}).get("name", "")
    return key_subject(mirror.removeprefix(KV) or bucket, "")


def _has_small_values(info: StreamRow) -> bool:
    """Return whether the messages of a bucket have at most 512 bytes on average."""
    return info.state.bytes <= _MAX_SMALL_MESSAGE_BYTES * info.state.messages


async def read_key(client: Client, bucket: str, key: str, revision: int | None = None) -> KeyEntry:
    """Return the value of a key, or one of its revisions; raises NotFound when there is none."""
    subject = _subject_prefix(await _read_info(client, bucket), bucket) + key
    body: dict[str, Any] = {"last_by_subj": subject} if revision is None else {"seq": revision}
    try:
        reply = await client.request(f"STREAM.MSG.GET.{KV}{bucket}", body)
    except NotFound as error:
        revision_text = "" if revision is None else f" with revision {revision}"
        raise NotFound(
            f"{bucket} has no key {key}{revision_text}", err_code=error.err_code
        ) from error
    message = decode_api_reply(reply, None)
    if message.subject != subject:
        raise NotFound(f"revision {revision} of {bucket} belongs to key {key_of(message.subject)}")
    return KeyEntry(
        bucket, key, message.stream_seq or 0, message.stored_at_us,
        operation_of(dict(message.headers)), base64.b64decode(message.payload_base64),
        ttl=dict(message.headers).get(TTL_HEADER),
        headers=decode_api_reply(reply, 0, exact_headers=True).headers,
    )  # fmt: skip


async def read_entries(
    client: Client,
    bucket: str,
    key_filter: str,
    policy: DeliverPolicy,
    *,
    with_values: bool = True,
) -> list[KeyEntry]:
    """Return the entries of the matching keys that `policy` selects, in order of revision.

    `last_per_subject` selects the newest entry of each key. Without `with_values`, entries may
    have no value.
    """
    entries = list[KeyEntry]()
    info = await _read_info(client, bucket)
    reader = _make_reader(client, info, bucket, key_filter, policy, with_values=with_values)
    reader.reads_stored_only = True
    async with reader:
        while batch := await reader.read_batch():
            entries += [_make_entry(bucket, message) for message in batch]
    if policy != "last_per_subject":
        return entries
    # After a lost connection, older entries of a key may precede its last one.
    last_entry_by_key = {entry.key: entry for entry in entries}
    return sorted(last_entry_by_key.values(), key=lambda entry: entry.revision)


@asynccontextmanager
async def watch(
    client: Client,
    bucket: str,
    key_filter: str,
    policy: DeliverPolicy,
    quiet_s: float | None = None,
) -> AsyncGenerator[AsyncIterator[KeyEntry], None]:
    """Yield an iterator over the current entries, then over new ones until none comes for
    `quiet_s`.

    Raises NotFound at the start, and Conflict at the end if the bucket was recreated meanwhile.
    """
    info = await _read_info(client, bucket)
    reader = _make_reader(client, info, bucket, key_filter, policy, with_values=True)
    reader.quiet_s = quiet_s
    messages: AsyncIterator[StreamMessage] = reader
    if policy == "last_per_subject":
        messages = leave_out_superseded(
            reader, info.state.last_seq, lambda: reader.restarts_count > 0
        )
    async with reader:
        yield (_make_entry(bucket, message) async for message in messages)
        if client.link.state == "connected":
            # Otherwise nobody would notice that entries of a recreated bucket are missing.
            await reader.check_stream()


async def leave_out_superseded(
    messages: AsyncIterator[StreamMessage], last_seq: int, has_restarted: Callable[[], bool]
) -> AsyncGenerator[StreamMessage, None]:
    """Yield messages, of those up to `last_seq` only the newest of each subject.

    `has_restarted` returns whether the reader continues after a lost connection: only then older
    messages of a subject precede its newest one.
    """
    newest_by_subject: dict[str, StreamMessage] = {}
    async for message in messages:
        if not has_restarted():
            yield message
            continue
        newest_by_subject.pop(message.subject, None)
        newest_by_subject[message.subject] = message
        if message.later_msgs and message.stream_seq < last_seq:
            continue
        for newest_message in newest_by_subject.values():
            yield newest_message
        newest_by_subject.clear()
    for newest_message in newest_by_subject.values():
        yield newest_message


def _make_reader(
    client: Client, info: StreamRow, bucket: str, key_filter: str, policy: DeliverPolicy, *,
    with_values: bool,
) -> Reader:  # fmt: skip
    check_limits_retention(info)
    prefix = _subject_prefix(info, bucket)
    # A message without its value has a header with the length instead, which takes longer to read
    # than a small value.
    headers_only = not with_values and not _has_small_values(info)
    subjects = (prefix + key_filter,)
    return Reader(
        client, f"{KV}{bucket}", subjects, policy, headers_only=headers_only,
        created_at_us=info.created_at_us,
    )  # fmt: skip


def _make_entry(bucket: str, message: StreamMessage) -> KeyEntry:
    operation = operation_of(dict(message.headers)) if message.headers else "PUT"
    key = key_of(message.subject)
    return KeyEntry(
        bucket,
        key,
        message.stream_seq,
        message.stored_at_us,
        operation,
        message.payload,
        message.later_msgs,
    )


async def read_page(client: Client, command: ReadKeys) -> KeysPage:
    """Return the newest revision of each matching key.

    With `after_revision_seq`, only of the keys that have changed after that revision.
    """
    info = await _read_info(client, command.bucket)
    check_limits_retention(info)
    state, prefix = info.state, _subject_prefix(info, command.bucket)
    stream, after_seq = f"{KV}{command.bucket}", command.after_revision_seq
    rows: dict[str, KeyRow] = {}
    keys_count: int | None = None
    if not after_seq or state.last_seq > after_seq:
        subjects = (prefix + command.wanted,)
        reader = Reader(
            client, stream, subjects, "last_per_subject", reads_stored_only=True,
            created_at_us=info.created_at_us,
        )  # fmt: skip
        if after_seq:
            reader = Reader(
                client, stream, subjects, from_seq=after_seq + 1, reads_stored_only=True,
                created_at_us=info.created_at_us,
            )  # fmt: skip
        async with reader:
            keys_count = None if after_seq else reader.waiting_msgs
            while len(rows) < command.most_keys_count:
                message = await anext(reader, None)
                if message is None:
                    break
                row = _make_row(_make_entry(command.bucket, message), command.preview_bytes)
                rows[row.key] = row
    last_seq = max([state.last_seq, *(row.revision_seq for row in rows.values())])
    if after_seq and len(rows) >= command.most_keys_count:
        last_seq = max(
            row.revision_seq for row in rows.values()
        )  # the next request continues there
    return KeysPage(
        tuple(rows.values()), keys_count, last_seq, state.num_subjects,
        info.created_at_us,
    )  # fmt: skip


async def read_names(client: Client, command: ReadKeyNames) -> KeyNames:
    """Return the names of keys from the server's subject counts, which takes a tenth of the time
    of reading the keys.
    """
    info = await _read_info(client, command.bucket)
    prefix = _subject_prefix(info, command.bucket)
    body: dict[str, Any] = {"subjects_filter": prefix + command.wanted}
    names: list[str] = []
    while len(names) < command.most_keys_count:
        body["offset"] = len(names)
        # A page may have 100,000 names, and takes the server as much time as a list.
        limit_s = max(client.connection.request_timeout_s, client.connection.list_timeout_s)
        page = await client.stream_info(f"{KV}{command.bucket}", body, limit_s)
        if page.created != info.created:
            raise Conflict(f"{command.bucket} was deleted and recreated while its keys were read")
        names += [subject[len(prefix) :] for subject in page.state.subjects or ()]
        if len(names) >= page.total:
            break
        if not page.state.subjects:
            missing_text = counted(page.total - len(names), "more key")
            raise RequestFailed(
                f"{command.bucket}: the server counts {missing_text} than it lists"
            )
    return KeyNames(tuple(names[: command.most_keys_count]), info.created_at_us)


async def read_named_keys(client: Client, command: ReadTheseKeys) -> KeysPage:
    """Return the newest revision of some keys, without the keys that have none."""
    info = await _read_info(client, command.bucket)
    prefix = _subject_prefix(info, command.bucket)
    getter = ApiGetter(client, f"{KV}{command.bucket}", None)
    messages = await getter.read_last_of_each([prefix + key for key in command.keys], "")
    rows = [_make_stored_row(message, command.preview_bytes) for message in messages]
    return KeysPage(
        tuple(rows), None, info.state.last_seq, info.state.num_subjects,
        info.created_at_us,
    )  # fmt: skip


def _make_stored_row(message: StoredMessage, preview_bytes: int) -> KeyRow:
    value = base64.b64encode(base64.b64decode(message.payload_base64)[:preview_bytes]).decode()
    return KeyRow(
        key_of(message.subject), message.stream_seq or 0, message.stored_at_us,
        operation_of(dict(message.headers)), value, message.payload_bytes,
    )  # fmt: skip


async def read_revisions(client: Client, command: ReadRevisions) -> KeysPage:
    """Return the stored revisions of a key, the oldest first."""
    info = await _read_info(client, command.bucket)
    entries = await read_entries(client, command.bucket, command.key, "all")
    return KeysPage(
        tuple(_make_row(entry, command.preview_bytes) for entry in entries), None,
        info.state.last_seq, info.state.num_subjects, info.created_at_us,
    )  # fmt: skip


def _make_row(entry: KeyEntry, preview_bytes: int) -> KeyRow:
    value = base64.b64encode(entry.value[:preview_bytes]).decode()
    size = len(entry.value)
    return KeyRow(entry.key, entry.revision, entry.created_at_us, entry.operation, value, size)
