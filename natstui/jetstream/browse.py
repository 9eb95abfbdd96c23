"""Pages of stored messages: newest first, by sequence, by time, by subject, from a consumer on."""

from __future__ import annotations

import json
from typing import Any

from natstui.errors import RequestFailed
from natstui.jetstream.browse_bounds import Bounds, bounds_of
from natstui.jetstream.browse_seek import seek
from natstui.jetstream.browse_walk import newest_before
from natstui.jetstream.client import Client
from natstui.jetstream.getters import MOST_MSGS, Getter, getter_of
from natstui.jetstream.stored_decode import from_api
from natstui.model.stored import BrowseMessages, MessagePage, ReadMessage, StoredMessage
from natstui.units import count_text

MOST_SUBJECTS = 50_000
_MOST_LAST = 1024
_PAGE_BYTES = 16 * 1024 * 1024


async def browse(client: Client, asked: BrowseMessages) -> MessagePage:
    """Return a page. Raises NotFound, UsageError for a bad question, RequestFailed."""
    bounds = await bounds_of(client, asked.stream)
    getter = getter_of(
        client, asked.stream, direct=bounds.direct, preview_bytes=asked.preview_bytes
    )
    if asked.last_per_subject:
        return await _last_per_subject(client, getter, bounds, asked)
    sought = await seek(client, getter, bounds, asked)
    fitting = _PAGE_BYTES // max(1, bounds.message_bytes)
    count = max(1, min(asked.page_msgs, MOST_MSGS, fitting))
    forwards = asked.newer or sought is not None
    start = sought or asked.from_seq or (bounds.first_seq if forwards else bounds.last_seq + 1)
    if forwards:
        messages = await getter.run(max(start, bounds.first_seq), count, asked.filter_subject)
    else:
        messages = await newest_before(getter, bounds, start, count, asked.filter_subject)
    return _page(asked.stream, messages, bounds, sought)


def _page(
    stream: str, messages: list[StoredMessage], bounds: Bounds, sought: int | None
) -> MessagePage:
    first = messages[0].stream_seq if messages else None
    last = messages[-1].stream_seq if messages else None
    return MessagePage(
        stream,
        tuple(messages),
        bounds.first_seq,
        bounds.last_seq,
        first if first is not None and first > bounds.first_seq else None,
        last + 1 if last is not None and last < bounds.last_seq else None,
        sought,
    )


async def _last_per_subject(
    client: Client, getter: Getter, bounds: Bounds, asked: BrowseMessages
) -> MessagePage:
    wanted = asked.filter_subject or ">"
    counted = await count_subjects(client, asked.stream, wanted)
    if len(counted) > _MOST_LAST:
        text = f"{count_text(len(counted))} subjects match: give a filter for at most 1024"
        raise RequestFailed(text)
    messages = await getter.last_of_each(counted, wanted)
    return MessagePage(
        asked.stream, tuple(messages), bounds.first_seq, bounds.last_seq, None, None
    )


async def count_subjects(client: Client, stream: str, filter_subject: str) -> dict[str, int]:
    """Return stored messages per subject; raises RequestFailed beyond 50,000 subjects."""
    bounds = await bounds_of(client, stream)
    if bounds.subjects_count > MOST_SUBJECTS:
        text = f"{stream} has {count_text(bounds.subjects_count)} subjects, too many to list"
        raise RequestFailed(text)
    body = {"subjects_filter": filter_subject}
    info: dict[str, Any] = json.loads(await client.request(f"STREAM.INFO.{stream}", body))
    counted: dict[str, int] = info["state"].get("subjects") or {}
    return dict(sorted(counted.items()))


async def read_message(client: Client, asked: ReadMessage) -> StoredMessage:
    """Return one message with its whole payload; raises NotFound."""
    verb = f"STREAM.MSG.GET.{asked.stream}"
    return from_api(await client.request(verb, {"seq": asked.stream_seq}), None)
