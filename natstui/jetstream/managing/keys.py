"""Changes keys of a bucket: put, create, delete, purge, and undo."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from natstui.errors import Conflict, NatstuiError, NotFound, RequestFailed, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import HeaderPairs
from natstui.jetstream.connection.storing import (
    check_kept,
    has_lost_newest,
    lost_newest_text,
    newest_message,
    store,
)
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Asset, JournalDraft, Writer, add_state_if_unknown
from natstui.jetstream.managing.configure import (
    ChangeResult,
    check_stream_not_recreated,
    read_asset,
)
from natstui.model.assets.buckets import (
    KV,
    MARKER_REASON_HEADER,
    OPERATION_HEADER,
    ROLLUP_HEADER,
    TTL_HEADER,
    is_bucket_name,
    is_stored_key,
    is_valid_new_key,
    key_subject,
    operation_of,
)
from natstui.model.assets.fields import is_on
from natstui.model.assets.limits_loss import (
    MAX_MESSAGE_OVERHEAD_BYTES,
    SINGLE_PUBLISH_HEADER_PREFIXES,
    removed_by_limits_text,
)
from natstui.model.assets.loss import Loss
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.journal import restored_revisions
from natstui.model.records.managing import (
    JournalEntry,
)
from natstui.model.records.messages import PubAck
from natstui.model.records.stores import KeyAction
from natstui.units import bytes_text, counted, duration_text, parse_duration_ns
from natstui.values import replace

_EXPECTED_SEQ_HEADER = "Nats-Expected-Last-Subject-Sequence"
_NOT_RESTORED_PREFIXES = (
    *SINGLE_PUBLISH_HEADER_PREFIXES,
    "nats-msg-id",
    TTL_HEADER.lower(),
    OPERATION_HEADER.lower(),
    MARKER_REASON_HEADER.lower(),
)
"""Starts of the names of a value's headers that are not restored with it."""
_WRONG_REVISION_CODES = {10071, 10164}
_MAX_WRITE_TRIES = 10


class KeyChange(Struct, frozen=True):
    """A change of one key of a bucket."""

    action: KeyAction
    bucket: str
    key: str
    value: bytes = b""
    required_revision: int | None = None
    """Required newest revision; 0 requires that the key has no value."""
    required_stored_at_us: int | None = None
    """Required time of that revision: a bucket that lost its messages reuses revisions."""
    ttl: str | None = None
    confirmed: str | None = None
    created_at_us: int | None = None
    """Required creation time of the bucket: a recreated one begins at revision 1 again."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of a restored value that another client wrote."""


class _LastMessage(Struct, frozen=True):
    """The last stored message of a key."""

    revision: int
    operation: str
    value: bytes
    stored_at_us: int = 0

    @property
    def has_value(self) -> bool:
        return self.operation == "PUT"


async def change_key(
    writer: Writer, key_change: KeyChange, undoes: str | None = None
) -> ChangeResult:
    """Change a key, and return the result.

    `undoes` is the journal's entry that the change undoes, if any.
    Raises Conflict for another revision or bucket than the required one, and NotFound for a
    missing bucket, or a missing key that should be deleted.
    """
    check_names(key_change.bucket, key_change.key)
    for _ in range(_MAX_WRITE_TRIES):
        bucket = await _read_bucket(writer, key_change.bucket)
        if is_on(bucket.config, "sealed"):
            raise RequestFailed(f"bucket {key_change.bucket} is sealed: nothing can change")
        if key_change.created_at_us not in (None, bucket.created_at_us):
            raise Conflict(
                f"{key_change.bucket} was recreated in the meantime: nothing was changed"
            )
        if bucket.config.get("subject_transform"):
            raise RequestFailed(
                f"{key_change.bucket} stores keys under other names (subject transform): nothing "
                "was changed"
            )
        key_change = replace(key_change, created_at_us=bucket.created_at_us)
        last_message = await _read_last(writer.client, key_change.bucket, key_change.key)
        _check_revision(key_change, last_message)
        if not last_message.revision and not is_valid_new_key(key_change.key):
            raise UsageError(
                f"{key_change.key!r} cannot name a new key: letters, digits, - _ = / and dots "
                "between them"
            )
        try:
            return await _write_key(writer, key_change, bucket, last_message, undoes)
        except RequestFailed as error:
            if (
                error.err_code not in _WRONG_REVISION_CODES
                or key_change.required_revision is not None
            ):
                raise
            # Another client was faster. The overwritten value must be known for an undo.
    raise Conflict(
        f"key {key_change.key} of {key_change.bucket} changes too fast: nothing was written"
    )


def check_names(bucket: str, key: str) -> None:
    """Raise UsageError for an invalid bucket or key name."""
    if not is_bucket_name(bucket):
        raise UsageError(f"{bucket!r} is not a valid bucket name: use letters, digits, - and _")
    if not is_stored_key(key):
        raise UsageError(
            f"{key!r} is not a valid key: it has a space, a wildcard or an empty token"
        )


async def _read_bucket(writer: Writer, bucket: str) -> Asset:
    try:
        bucket_stream = await read_asset(writer, "stream", f"{KV}{bucket}")
    except NotFound as error:
        raise NotFound(f"there is no bucket {bucket}", err_code=error.err_code) from error
    if bucket_stream.config.get("mirror"):
        raise UsageError(
            f"{bucket} is a mirror of {bucket_stream.config['mirror']['name']}: write there"
        )
    return bucket_stream


async def _read_last(client: Client, bucket: str, key: str) -> _LastMessage:
    """Return the last stored message of a key; its revision is 0 if there is none."""
    body = {"last_by_subj": key_subject(bucket, key)}
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{KV}{bucket}", body))
    except NotFound:
        return _LastMessage(0, "", b"")
    message = reply["message"]
    value = base64.b64decode(message.get("data") or "")
    stored_at_us = time_us(message["time"])
    return _LastMessage(message["seq"], operation_of(_read_headers(message)), value, stored_at_us)


def _read_headers(message: Mapping[str, Any]) -> dict[str, str]:
    return dict(_read_header_pairs(message))


def _read_header_pairs(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    block = base64.b64decode(message.get("hdrs") or "").decode(errors="surrogateescape")
    pairs = (line.partition(":") for line in block.split("\r\n")[1:] if line)
    return [(name, text.strip()) for name, _, text in pairs]


def _check_revision(key_change: KeyChange, last_message: _LastMessage) -> None:
    key_text = f"key {key_change.key} of {key_change.bucket}"
    if key_change.required_revision == 0 and last_message.has_value:
        raise Conflict(f"{key_text} exists already, at revision {last_message.revision}")
    if key_change.required_revision and key_change.required_revision != last_message.revision:
        raise Conflict(
            f"{key_text} is at revision {last_message.revision}, not "
            f"{key_change.required_revision}: "
            "nothing was written"
        )
    if last_message.revision and key_change.required_stored_at_us not in (
        None,
        last_message.stored_at_us,
    ):
        raise Conflict(
            f"{key_text} has another value at revision {last_message.revision} than before: "
            "nothing was written"
        )
    if key_change.action == "delete_key" and not last_message.has_value:
        raise NotFound(f"{key_change.bucket} has no key {key_change.key}")
    if key_change.action == "purge_key" and not last_message.revision:
        raise NotFound(f"{key_change.bucket} has no key {key_change.key}")


async def _write_key(
    writer: Writer,
    key_change: KeyChange,
    bucket: Asset,
    last_message: _LastMessage,
    undoes: str | None,
) -> ChangeResult:
    subject = key_subject(key_change.bucket, key_change.key)
    if writer.client.prefix != "$JS.API":
        subject = f"{writer.client.prefix}.{subject}"
    request_headers = {_EXPECTED_SEQ_HEADER: str(last_message.revision)}
    if key_change.action != "put_key":
        request_headers[OPERATION_HEADER] = "DEL" if key_change.action == "delete_key" else "PURGE"
    if key_change.action == "purge_key":
        request_headers[ROLLUP_HEADER] = "sub"
    if key_change.ttl:
        request_headers[TTL_HEADER] = key_change.ttl
    headers = HeaderPairs([*key_change.headers, *request_headers.items()])
    journal_arguments = {"subject": subject, "payload_bytes": len(key_change.value)}
    before = {"revision": last_message.revision, "operation": last_message.operation}
    loss_text = await _describe_loss(writer.client, key_change, bucket, last_message)
    draft = JournalDraft(
        key_change.action, f"{KV}{key_change.bucket}", key_change.key, journal_arguments,
        before if last_message.revision else None, undoes,
        replace(bucket, loss=Loss((loss_text,) if loss_text else ())),
        revision=last_message.revision,
    )  # fmt: skip

    async def store_message() -> tuple[PubAck, tuple[int, int]]:
        stream = f"{KV}{key_change.bucket}"
        ack = await store(writer.client, subject, key_change.value, headers, stream)
        stored_subject = key_subject(key_change.bucket, key_change.key)
        await check_kept(writer.client, bucket.config, ack.stored_seq, stored_subject)
        newest_seq_and_us = 0, 0
        with suppress(NatstuiError):  # an undo works without it
            current_bucket = await _read_bucket(writer, key_change.bucket)
            newest_seq_and_us = newest_message(current_bucket.stream_info.state)
        return ack, newest_seq_and_us

    work = writer.send(
        draft,
        (key_change.key, key_change.confirmed),
        store_message,
        lambda result: {"revision": result[0].stored_seq, "newest": result[1]},
        loss_text,
    )
    ack, _ = await add_state_if_unknown(
        work, lambda: _describe_state(writer, key_change, bucket, last_message)
    )
    verb_text = {"put_key": "put", "delete_key": "deleted", "purge_key": "purged"}[
        key_change.action
    ]
    text = f"key {key_change.key} of {key_change.bucket} {verb_text}, revision {ack.stored_seq}"
    text += await _describe_longer_ttl(writer.client, key_change, bucket.config, ack.stored_seq)
    result = ChangeResult(
        text, before if last_message.revision else None, {"revision": ack.stored_seq}
    )
    return await check_stream_not_recreated(writer, "bucket", key_change.bucket, bucket, result)


async def _describe_state(
    writer: Writer, key_change: KeyChange, bucket: Asset, before: _LastMessage
) -> str:
    """Return a clause with the current state of a key after a change without a reply.

    Raises the request errors.
    """
    if (await _read_bucket(writer, key_change.bucket)).created_at_us != bucket.created_at_us:
        return f"bucket {key_change.bucket} is another one: it was created in the meantime"
    current = await _read_last(writer.client, key_change.bucket, key_change.key)
    name = f"key {key_change.key} of {key_change.bucket}"
    operation, state_text = {
        "put_key": ("PUT", "has this value"),
        "delete_key": ("DEL", "is deleted"),
        "purge_key": ("PURGE", "is purged"),
    }[key_change.action]
    if current.revision == before.revision:
        state_text = (
            f"is still at revision {current.revision}" if current.revision else "does not exist"
        )
        return f"{name} {state_text}"
    if (current.operation, current.value) == (operation, key_change.value):
        return f"{name} {state_text}, at revision {current.revision}"
    return f"{name} was changed otherwise, at revision {current.revision}"


async def _describe_longer_ttl(
    client: Client, key_change: KeyChange, config: Mapping[str, Any], seq: int
) -> str:
    """Return a clause if the server keeps a value longer than requested; else empty.

    Some servers raise a TTL to that of the bucket's markers; the stored message has the new TTL.
    """
    marker_ttl_s = (config.get("subject_delete_marker_ttl") or 0) / 1e9
    if (
        key_change.ttl is None
        or key_change.ttl == "never"
        or parse_ttl_s(key_change.ttl) >= marker_ttl_s
    ):
        return ""
    try:
        verb = f"STREAM.MSG.GET.{KV}{key_change.bucket}"
        message = json.loads(await client.request(verb, {"seq": seq}))["message"]
        stored_ttl_s = parse_ttl_s(_read_headers(message).get(TTL_HEADER, key_change.ttl))
    except (NatstuiError, ValueError):
        return "; whether the server keeps it longer cannot be read"
    if stored_ttl_s <= parse_ttl_s(key_change.ttl):
        return ""
    return (
        f"; kept {duration_text(stored_ttl_s)}, not {key_change.ttl}: the bucket's marker TTL is "
        "longer"
    )


async def _describe_loss(
    client: Client, key_change: KeyChange, bucket: Asset, last_message: _LastMessage
) -> str | None:
    """Return a text of what a change of a key deletes for good; None if nothing."""
    loss_texts = (
        await _removed_value_text(client, key_change, bucket.config, last_message),
        # Buckets of other tools may discard old values of any key for new ones.
        removed_by_limits_text(
            bucket.config, bucket.stream_info.state, 1,
            MAX_MESSAGE_OVERHEAD_BYTES + len(key_change.key) + len(key_change.value),
        ),
    )  # fmt: skip
    return " and ".join(filter(None, loss_texts)) or None


async def _removed_value_text(
    client: Client, key_change: KeyChange, config: Mapping[str, Any], last_message: _LastMessage
) -> str | None:
    if key_change.action == "purge_key":
        body = {"subjects_filter": key_subject(key_change.bucket, key_change.key)}
        info = await client.stream_info(f"{KV}{key_change.bucket}", body)
        count = sum((info.state.subjects or {}).values())
        if count == 1:
            return f"the only revision of {key_change.key} is removed for good"
        return f"all {counted(count, 'revision')} of {key_change.key} are removed for good"
    if not last_message.has_value or config.get("max_msgs_per_subject") != 1:
        return None
    size_text = bytes_text(len(last_message.value))
    value_text = f"revision {last_message.revision} of {key_change.key}, {size_text}"
    return f"{value_text}, is removed for good: {key_change.bucket} keeps 1 value of a key"


async def preview_key_undo(writer: Writer, entry: JournalEntry) -> Confirmation:
    """Return the confirmation of undoing a change of a key; raises what `undo_key_change` does."""
    key_change = await _make_undo_change(writer, entry)
    last_message = await _read_last(writer.client, key_change.bucket, key_change.key)
    bucket = await _read_bucket(writer, key_change.bucket)
    loss_text = await _describe_loss(writer.client, key_change, bucket, last_message)
    key_text = f"key {key_change.key} of {key_change.bucket}"
    text = f"this will delete {key_text}, which had no value before"
    if key_change.action == "put_key":
        text = (
            f"this will restore the previous value of {key_text}, "
            f"{bytes_text(len(key_change.value))}"
        )
    prompt = f"{text}: {loss_text}" if loss_text else text
    lines = (loss_text,) if loss_text else ()
    needs_confirmation = loss_text is not None or writer.client.connection.production
    return Confirmation(prompt, key_change.key, needs_confirmation, lines)


async def undo_key_change(
    writer: Writer, entry: JournalEntry, confirmed_name: str | None
) -> ChangeResult:
    """Undo a change of a key: put the previous value, or delete the key.

    Raises Conflict if the key was changed since, or the previous value is not stored any more.
    """
    key_change = await _make_undo_change(writer, entry)
    confirmed_change = replace(key_change, confirmed=confirmed_name)
    result = await change_key(writer, confirmed_change, entry.entry)
    if key_change.ttl in (None, "never"):
        return result
    text = f"{result.text}; it expires in {key_change.ttl}, as it had a TTL"
    return replace(result, text=text)


async def _make_undo_change(writer: Writer, entry: JournalEntry) -> KeyChange:
    client = writer.client
    bucket, key = entry.stream.removeprefix(KV), entry.consumer or ""
    check_names(bucket, key)
    before = json.loads(entry.before_json or "{}")
    stream = await _read_bucket(writer, bucket)
    if stream.created_at_us != entry.created_at_us:
        raise Conflict(f"{bucket} was recreated in the meantime: nothing was changed")
    newest_seq_and_us = json.loads(entry.after_json or "{}").get("newest") or (0, 0)
    if await has_lost_newest(
        writer.client, entry.stream, stream.stream_info.state, *newest_seq_and_us
    ):
        raise Conflict(f"{lost_newest_text(bucket)}: nothing was changed")
    last_message = await _read_last(client, bucket, key)
    if last_message.revision not in restored_revisions(writer.journal.entries(), entry):
        raise Conflict(
            f"key {key} of {bucket} was changed again in the meantime: nothing was changed"
        )
    if before.get("operation") != "PUT":
        return KeyChange("delete_key", bucket, key, required_revision=last_message.revision)
    try:
        body = {"seq": before["revision"]}
        message = json.loads(await client.request(f"STREAM.MSG.GET.{KV}{bucket}", body))["message"]
    except NotFound as error:
        raise Conflict(
            f"the value of {key} at revision {before['revision']} is deleted: {bucket} does not "
            "keep enough history"
        ) from error
    value = base64.b64decode(message.get("data") or "")
    ttl = remaining_ttl(
        _read_headers(message).get(TTL_HEADER), time_us(message["time"]), time.time_ns() // 1000
    )
    return KeyChange(
        "put_key", bucket, key, value, required_revision=last_message.revision, ttl=ttl,
        headers=restored_headers(_read_header_pairs(message)),
    )  # fmt: skip


def restored_headers(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the headers of a value that are restored with it."""
    return tuple(
        pair for pair in headers if not pair[0].lower().startswith(_NOT_RESTORED_PREFIXES)
    )


def parse_ttl_s(ttl: str) -> float:
    """Return the seconds of a Nats-TTL; raises ValueError for an invalid text."""
    return parse_duration_ns(f"{ttl}s" if ttl.isdigit() else ttl) / 1e9


def remaining_ttl(ttl: str | None, stored_at_us: int, now_us: int) -> str | None:
    """Return the `Nats-TTL` of a restored value: the remaining time, at least 1 s.

    Raises Conflict if the value would have expired by now: restoring it would extend its life.
    """
    if ttl is None or ttl == "never":
        return ttl
    try:
        ttl_s = parse_ttl_s(ttl)
    except ValueError as error:
        raise Conflict(
            f"the previous value has a Nats-TTL that is not a duration: {ttl!r}"
        ) from error
    remaining_s = ttl_s - max(0, now_us - stored_at_us) / 1e6
    if remaining_s <= 0:
        raise Conflict(f"the previous value had a Nats-TTL of {ttl} and would have expired by now")
    return f"{max(1, math.ceil(remaining_s))}s"
