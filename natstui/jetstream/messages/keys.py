"""Key-value buckets as they are: keys, values, revisions, and changes as they come."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from natstui.errors import NotFound
from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages.decode import from_api
from natstui.jetstream.messages.reading import Policy, Read, Reader
from natstui.model.assets.buckets import KV, key_of, key_subject, operation_of

_SMALL_BYTES = 512


@dataclass(frozen=True, slots=True)
class Entry:
    """One revision of a key."""

    bucket: str
    key: str
    revision: int
    created_at_us: int
    operation: str
    """PUT, DEL or PURGE."""
    value: bytes
    left_count: int = 0
    """How many more there are to read now."""


async def buckets(client: Client) -> list[dict[str, Any]]:
    """Return the INFO of the streams that are buckets."""
    body = {"subject": "$KV.>"}
    pages = [json.loads(page) async for page in client.pages("STREAM.LIST", body)]
    rows = [row for page in pages for row in page.get("streams") or ()]
    return [row for row in rows if row["config"]["name"].startswith(KV)]


async def _bucket(client: Client, bucket: str) -> tuple[str, bool]:
    """Return what stands before a key in the subjects, and whether its values are small.

    Of a mirror it is what stands there in its origin. Raises NotFound.
    """
    try:
        info = json.loads(await client.request(f"STREAM.INFO.{KV}{bucket}"))
    except NotFound as error:
        raise NotFound(f"there is no bucket {bucket}", err_code=error.err_code) from error
    mirror = (info["config"].get("mirror") or {}).get("name", "")
    small = info["state"]["bytes"] <= _SMALL_BYTES * info["state"]["messages"]
    return key_subject(mirror.removeprefix(KV) or bucket, ""), small


async def read_key(client: Client, bucket: str, key: str, revision: int | None = None) -> Entry:
    """Return the value of a key, or one of its revisions; raises NotFound when there is none."""
    prefix, _ = await _bucket(client, bucket)
    subject = prefix + key
    body: dict[str, Any] = {"last_by_subj": subject} if revision is None else {"seq": revision}
    try:
        message = from_api(await client.request(f"STREAM.MSG.GET.{KV}{bucket}", body), None)
    except NotFound as error:
        which = "" if revision is None else f" with revision {revision}"
        raise NotFound(f"{bucket} has no key {key}{which}", err_code=error.err_code) from error
    if message.subject != subject:
        raise NotFound(f"revision {revision} of {bucket} is of {key_of(message.subject)}")
    return Entry(
        bucket, key, message.stream_seq or 0, message.stored_at_us,
        operation_of(dict(message.headers)), base64.b64decode(message.payload_base64),
    )  # fmt: skip


async def read_entries(
    client: Client, bucket: str, wanted: str, policy: Policy, *, values: bool = True
) -> list[Entry]:
    """Return the entries that there are now of the keys that match, in order of revision."""
    async with aclosing(watch(client, bucket, wanted, policy, values=values, ends=True)) as found:
        return [entry async for entry in found]


async def watch(
    client: Client,
    bucket: str,
    wanted: str,
    policy: Policy,
    *,
    values: bool = True,
    ends: bool = False,
) -> AsyncGenerator[Entry, None]:
    """Yield entries as they are, and then as they come, unless it ends with those there are."""
    prefix, small = await _bucket(client, bucket)
    # Without its value a message has a header that says how long it was, which takes longer to
    # read than a small value.
    headers_only = not values and not small
    stream = f"{KV}{bucket}"
    reader = Reader(client, stream, (prefix + wanted,), policy, headers_only=headers_only)
    async with reader:
        if ends and not reader.waiting_msgs:
            return
        async for one in reader:
            yield _entry(bucket, one)
            if ends and not one.left_msgs:
                return


def _entry(bucket: str, one: Read) -> Entry:
    operation = operation_of(dict(one.headers)) if one.headers else "PUT"
    key = key_of(one.subject)
    return Entry(
        bucket, key, one.stream_seq, one.stored_at_us, operation, one.payload, one.left_msgs
    )
