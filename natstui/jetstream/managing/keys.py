"""Keys of a bucket: put, create, delete, purge, and the value before put back."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from natstui.errors import Conflict, NatstuiError, NotFound, RequestFailed, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.storing import store
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Asset, JournalDraft, Writer
from natstui.jetstream.managing.configure import ChangeResult, read_asset
from natstui.model.assets.buckets import (
    KV,
    OPERATION,
    ROLLUP,
    TTL,
    is_bucket,
    is_key,
    is_stored_key,
    key_subject,
    operation_of,
)
from natstui.model.assets.loss import Loss
from natstui.model.records.managing import Confirmation, JournalEntry
from natstui.model.records.stores import KeyAction
from natstui.units import bytes_text, counted, duration_text, parse_duration_ns

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_CHANGED = {10071, 10164}
_TRIES_COUNT = 10


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What shall be done to one key."""

    action: KeyAction
    bucket: str
    key: str
    value: bytes = b""
    if_revision: int | None = None
    """Only while this is the newest revision; 0: only while there is no value."""
    ttl: str | None = None
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class _Present:
    """What is stored under a key."""

    revision: int
    operation: str
    value_bytes: int

    @property
    def has_value(self) -> bool:
        return self.operation == "PUT"


async def change_key(writer: Writer, asked: KeyChange, undoes: str | None = None) -> ChangeResult:
    """Change a key; raises Conflict when it is not at the revision that was asked for.

    NotFound is raised for a bucket, or for a key that shall be deleted, that does not exist.
    """
    check_names(asked.bucket, asked.key)
    for _ in range(_TRIES_COUNT):
        bucket = await _bucket(writer, asked.bucket)
        present = await _present(writer.client, asked.bucket, asked.key)
        _check_revision(asked, present)
        if not present.revision and not is_key(asked.key):
            raise UsageError(
                f"{asked.key!r} cannot name a new key: letters, digits, - _ = / and dots "
                "between them"
            )
        try:
            return await _write(writer, asked, bucket, present, undoes)
        except RequestFailed as error:
            if error.err_code not in _CHANGED or asked.if_revision is not None:
                raise
            # Somebody was faster. What is overwritten has to be known, or it cannot be put back.
    raise Conflict(f"key {asked.key} of {asked.bucket} changes too fast: nothing was written")


def check_names(bucket: str, key: str) -> None:
    """Raise UsageError for what cannot be a bucket or a key."""
    if not is_bucket(bucket):
        raise UsageError(f"{bucket!r} is not a valid bucket name: use letters, digits, - and _")
    if not is_stored_key(key):
        raise UsageError(
            f"{key!r} is not a valid key: it has a space, a wildcard or an empty token"
        )


async def _bucket(writer: Writer, bucket: str) -> Asset:
    try:
        found = await read_asset(writer, "stream", f"{KV}{bucket}")
    except NotFound as error:
        raise NotFound(f"there is no bucket {bucket}", err_code=error.err_code) from error
    if found.config.get("mirror"):
        raise UsageError(f"{bucket} is a mirror of {found.config['mirror']['name']}: write there")
    return found


async def _present(client: Client, bucket: str, key: str) -> _Present:
    """Return what is stored last under a key; revision 0 when nothing is."""
    body = {"last_by_subj": key_subject(bucket, key)}
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{KV}{bucket}", body))
    except NotFound:
        return _Present(0, "", 0)
    message = reply["message"]
    size_bytes = len(base64.b64decode(message.get("data") or ""))
    return _Present(message["seq"], operation_of(_headers(message)), size_bytes)


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    lines = base64.b64decode(message.get("hdrs") or "").decode(errors="replace").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return {name: text.strip() for name, _, text in pairs}


def _check_revision(asked: KeyChange, present: _Present) -> None:
    what = f"key {asked.key} of {asked.bucket}"
    if asked.if_revision == 0 and present.has_value:
        raise Conflict(f"{what} exists already, at revision {present.revision}")
    if asked.if_revision and asked.if_revision != present.revision:
        raise Conflict(
            f"{what} is at revision {present.revision}, not {asked.if_revision}: "
            "nothing was written"
        )
    if asked.action == "delete_key" and not present.has_value:
        raise NotFound(f"{asked.bucket} has no key {asked.key}")
    if asked.action == "purge_key" and not present.revision:
        raise NotFound(f"{asked.bucket} has no key {asked.key}")


async def _write(
    writer: Writer,
    asked: KeyChange,
    bucket: Asset,
    present: _Present,
    undoes: str | None,
) -> ChangeResult:
    subject = key_subject(asked.bucket, asked.key)
    if writer.client.prefix != "$JS.API":
        subject = f"{writer.client.prefix}.{subject}"
    headers = {_EXPECTED: str(present.revision)}
    if asked.action != "put_key":
        headers[OPERATION] = "DEL" if asked.action == "delete_key" else "PURGE"
    if asked.action == "purge_key":
        headers[ROLLUP] = "sub"
    if asked.ttl:
        headers[TTL] = asked.ttl
    kept = {"subject": subject, "payload_bytes": len(asked.value)}
    before = {"revision": present.revision, "operation": present.operation}
    loses = await _loses(writer.client, asked, bucket.config, present)
    draft = JournalDraft(
        asked.action, f"{KV}{asked.bucket}", asked.key, kept,
        before if present.revision else None, undoes,
        replace(bucket, loss=Loss((loses,) if loses else ())), revision=present.revision,
    )  # fmt: skip
    ack = await writer.send(
        draft,
        (asked.key, asked.confirmed),
        lambda: store(writer.client, subject, asked.value, headers, f"{KV}{asked.bucket}"),
        lambda found: {"revision": found.stored_seq},
        loses,
    )
    done = {"put_key": "put", "delete_key": "deleted", "purge_key": "purged"}[asked.action]
    text = f"key {asked.key} of {asked.bucket} {done}, revision {ack.stored_seq}"
    text += await _kept_longer(writer.client, asked, bucket.config, ack.stored_seq)
    return ChangeResult(text, before if present.revision else None, {"revision": ack.stored_seq})


async def _kept_longer(
    client: Client, asked: KeyChange, config: Mapping[str, Any], seq: int
) -> str:
    """Return that the server keeps a value longer than asked for; nothing where it does not.

    Some servers lift a TTL to that of the bucket's markers, which the stored message shows.
    """
    marker_s = (config.get("subject_delete_marker_ttl") or 0) / 1e9
    if asked.ttl is None or asked.ttl == "never" or ttl_s_of(asked.ttl) >= marker_s:
        return ""
    try:
        verb = f"STREAM.MSG.GET.{KV}{asked.bucket}"
        message = json.loads(await client.request(verb, {"seq": seq}))["message"]
        kept_s = ttl_s_of(_headers(message).get(TTL, asked.ttl))
    except (NatstuiError, ValueError):
        return "; whether the server keeps it longer cannot be read"
    if kept_s <= ttl_s_of(asked.ttl):
        return ""
    return f"; kept {duration_text(kept_s)}, not {asked.ttl}: the bucket's marker TTL is longer"


async def _loses(
    client: Client, asked: KeyChange, config: Mapping[str, Any], present: _Present
) -> str | None:
    """Return what is gone for good, None when nothing is that could be wanted back."""
    if asked.action == "purge_key":
        body = {"subjects_filter": key_subject(asked.bucket, asked.key)}
        info = json.loads(await client.request(f"STREAM.INFO.{KV}{asked.bucket}", body))
        count = sum((info["state"].get("subjects") or {}).values())
        return f"all {counted(count, 'revision')} of {asked.key} are removed for good"
    if not present.has_value or config.get("max_msgs_per_subject") != 1:
        return None
    value = f"revision {present.revision} of {asked.key}, {bytes_text(present.value_bytes)}"
    return f"{value}, is removed for good: {asked.bucket} keeps 1 value of a key"


async def preview_put_back(writer: Writer, entry: JournalEntry) -> Confirmation:
    """Return what taking a change of a key back would do; raises what `put_back` raises."""
    asked = await _taking_back(writer, entry)
    present = await _present(writer.client, asked.bucket, asked.key)
    bucket = await _bucket(writer, asked.bucket)
    loses = await _loses(writer.client, asked, bucket.config, present)
    what = f"key {asked.key} of {asked.bucket}"
    text = f"this will delete {what}, which had no value before"
    if asked.action == "put_key":
        text = f"this will restore the previous value of {what}, {bytes_text(len(asked.value))}"
    question = f"{text}: {loses}" if loses else text
    lines = (loses,) if loses else ()
    needed = loses is not None or writer.client.connection.production
    return Confirmation(question, asked.key, needed, lines)


async def put_back(writer: Writer, entry: JournalEntry, confirmed: str | None) -> ChangeResult:
    """Take a change of a key back: the value before is put again, or the key deleted.

    Raises Conflict when the key was changed since, or when the value before is gone.
    """
    asked = await _taking_back(writer, entry)
    return await change_key(writer, replace(asked, confirmed=confirmed), entry.entry)


async def _taking_back(writer: Writer, entry: JournalEntry) -> KeyChange:
    client = writer.client
    bucket, key = entry.stream.removeprefix(KV), entry.consumer or ""
    check_names(bucket, key)
    after = json.loads(entry.after_json or "{}").get("revision")
    before = json.loads(entry.before_json or "{}")
    if (await _bucket(writer, bucket)).created_at_us != entry.created_at_us:
        raise Conflict(f"{bucket} was recreated in the meantime: nothing was changed")
    present = await _present(client, bucket, key)
    if present.revision != after:
        raise Conflict(
            f"key {key} of {bucket} was changed again in the meantime: nothing was changed"
        )
    if before.get("operation") != "PUT":
        return KeyChange("delete_key", bucket, key, if_revision=after)
    try:
        body = {"seq": before["revision"]}
        message = json.loads(await client.request(f"STREAM.MSG.GET.{KV}{bucket}", body))["message"]
    except NotFound as error:
        raise Conflict(
            f"the value of {key} at revision {before['revision']} is gone: {bucket} does not keep "
            "enough of its history"
        ) from error
    value = base64.b64decode(message.get("data") or "")
    ttl = remaining_ttl(
        _headers(message).get(TTL), time_us(message["time"]), time.time_ns() // 1000
    )
    return KeyChange("put_key", bucket, key, value, if_revision=after, ttl=ttl)


def ttl_s_of(ttl: str) -> float:
    """Return the seconds of a Nats-TTL; raises ValueError for a text that says nothing."""
    return parse_duration_ns(f"{ttl}s" if ttl.isdigit() else ttl) / 1e9


def remaining_ttl(ttl: str | None, stored_at_us: int, now_us: int) -> str | None:
    """Return the `Nats-TTL` of a value that is put back: what was left of it, at least 1 s.

    Raises Conflict when the value would have expired by now: putting it back would extend it.
    """
    if ttl is None or ttl == "never":
        return ttl
    try:
        ttl_s = ttl_s_of(ttl)
    except ValueError as error:
        raise Conflict(
            f"the previous value has a Nats-TTL that is not a duration: {ttl!r}"
        ) from error
    left_s = ttl_s - max(0, now_us - stored_at_us) / 1e6
    if left_s <= 0:
        raise Conflict(f"the previous value had a Nats-TTL of {ttl} and would have expired by now")
    return f"{max(1, math.ceil(left_s))}s"
