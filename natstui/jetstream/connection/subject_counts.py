"""The messages that a stream has by subject, which the server lists page by page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from natstui.jetstream.connection.client import Client


@dataclass(frozen=True, slots=True)
class SubjectCounts:
    """One page of the subjects that match a filter."""

    msgs: dict[str, int]
    """Subject → stored messages."""
    is_last: bool
    """Whether no page follows; of the first page: whether it has every subject."""


async def read_subject_counts(
    client: Client, stream: str, subject: str, offset_count: int = 0
) -> SubjectCounts:
    """Return one page of 100,000 subjects; raises the request errors."""
    body: dict[str, Any] = {"subjects_filter": subject, "offset": offset_count}
    # It takes the server as long as a list.
    limit_s = max(client.connection.request_timeout_s, client.connection.list_timeout_s)
    page = json.loads(await client.request(f"STREAM.INFO.{stream}", body, limit_s))
    msgs: dict[str, int] = page["state"].get("subjects") or {}
    return SubjectCounts(msgs, offset_count + len(msgs) >= page.get("total", 0))


async def every_subject_count(
    client: Client, stream: str, subject: str
) -> AsyncIterator[dict[str, int]]:
    """Yield page after page of messages by subject; raises the request errors."""
    seen = set[str]()
    while True:
        page = await read_subject_counts(client, stream, subject, len(seen))
        # A list that only repeats itself has no end.
        is_known = seen.issuperset(page.msgs)
        seen.update(page.msgs)
        yield page.msgs
        if is_known or page.is_last:
            return
