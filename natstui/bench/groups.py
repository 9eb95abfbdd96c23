"""Receivers by who shares a copy of the messages, and what each group should have got."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natstui.bench.consumer_span import ConsumerSpan
from natstui.bench.seen import union
from natstui.bench.seen_seqs import SeenSeqs
from natstui.model.benchmark_counts import Counts
from natstui.model.benchmark_role import (
    RECEIVERS,
    SENDERS,
    Role,
)


@dataclass(frozen=True, slots=True)
class WorkerBook:
    """One worker's figures at the end."""

    name: str
    role: Role
    worker_id: int
    reported: Counts
    """The sum of its reports."""
    totals: Counts | None
    """Its own totals; None when it ended without its last word."""
    seen: dict[str, dict[str, str]] | None


@dataclass(frozen=True, slots=True)
class ReceiverGroup:
    """Receivers that share one copy of the messages."""

    role: Role
    books: tuple[WorkerBook, ...]

    @property
    def received_msgs(self) -> int:
        """How many messages they received together."""
        return sum(book.reported.received_msgs for book in self.books)

    @property
    def is_unsaid(self) -> bool:
        """Whether somebody ended without saying which messages it had seen."""
        return any(book.seen is None for book in self.books)

    def distinct_msgs(self) -> int | None:
        """Return how many different messages they got; None when nothing tells them apart."""
        if self.is_unsaid:
            return None
        together = self.seen()
        if not together and self.received_msgs:
            return None
        return sum(seen.seen_count for seen in together.values())

    def seen(self) -> dict[int, SeenSeqs]:
        """Return what they saw together, by publisher."""
        return union(book.seen for book in self.books if book.seen is not None)


def receiver_groups(books: Sequence[WorkerBook]) -> list[ReceiverGroup]:
    """Return the receivers by who shares messages: a queue or a consumer, else each alone."""
    shared: dict[str, list[WorkerBook]] = {}
    alone: list[ReceiverGroup] = []
    for book in books:
        if book.role.pattern not in RECEIVERS:
            continue
        if is_shared(book.role):
            shared.setdefault(book.role.name, []).append(book)
        else:
            alone.append(ReceiverGroup(book.role, (book,)))
    return [ReceiverGroup(some[0].role, tuple(some)) for some in shared.values()] + alone


def is_shared(role: Role) -> bool:
    """Return whether the workers of a receiving role share one copy of the messages."""
    if role.pattern == "subscribe":
        return role.queue is not None
    return role.pattern != "js-ordered"


def expected_msgs(
    group: ReceiverGroup,
    books: Sequence[WorkerBook],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    span: ConsumerSpan | None,
) -> int | None:
    """Return how many messages a group should have got; `span` is of the consumer it shares."""
    if span is not None:
        return span.owed_msgs(stored_msgs)
    if group.role.pattern != "subscribe":
        return None if stored_msgs is None else stored_msgs + (waiting_msgs or 0)
    feeding = [
        book
        for book in books
        if book.role.pattern in SENDERS and book.role.subject == group.role.subject
    ]
    return sum(book.reported.sent_msgs for book in feeding) if feeding else None
