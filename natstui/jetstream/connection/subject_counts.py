"""Reads the number of a stream's messages by subject, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct

from natstui.errors import Conflict, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import EndlessListCheck
from natstui.units import counted


class SubjectCounts(Struct, frozen=True):
    """A page of message counts of the subjects that match a filter."""

    msgs_by_subject: dict[str, int]
    """Subject → number of stored messages."""
    later_subjects_count: int
    """Number of subjects in later pages, as counted by the server."""
    created_at_us: int | None = None
    """Creation time of the stream, which shows whether it was recreated between pages."""

    @property
    def is_last(self) -> bool:
        """Return whether this is the last page."""
        return self.later_subjects_count == 0


async def read_subject_counts(
    client: Client, stream: str, subject: str, offset_count: int = 0
) -> SubjectCounts:
    """Return the message counts of up to 100,000 subjects that match the filter `subject`.

    The first `offset_count` subjects are skipped. Raises the request errors.
    """
    body: dict[str, Any] = {"subjects_filter": subject, "offset": offset_count}
    # The server needs as long as for a list.
    limit_s = max(client.connection.request_timeout_s, client.connection.list_timeout_s)
    page = await client.stream_info(stream, body, limit_s)
    msgs_by_subject = page.state.subjects or {}
    later_subjects_count = max(0, page.total - offset_count - len(msgs_by_subject))
    return SubjectCounts(msgs_by_subject, later_subjects_count, page.created_at_us)


async def read_all_subject_counts(
    client: Client, stream: str, subject: str
) -> AsyncIterator[dict[str, int]]:
    """Yield page after page of message counts by subject, until the server's `total` is reached.

    Raises the request errors, RequestFailed for a list without end, or with fewer subjects than
    the server counts, and Conflict for a stream that is recreated meanwhile.
    """
    offset_count, verb, created_at_us = 0, f"STREAM.INFO.{stream}", None
    list_check = EndlessListCheck(verb)
    while True:
        page = await read_subject_counts(client, stream, subject, offset_count)
        created_at_us = created_at_us or page.created_at_us
        if page.created_at_us != created_at_us:
            raise Conflict(f"{stream} was deleted and recreated while its subjects were counted")
        yield page.msgs_by_subject
        offset_count += len(page.msgs_by_subject)
        if page.is_last:
            return
        if not page.msgs_by_subject:
            missing_text = counted(page.later_subjects_count, "more subject")
            raise RequestFailed(f"{verb}: the server counts {missing_text} than it lists")
        list_check.check(page.msgs_by_subject)
