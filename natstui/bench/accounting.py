"""Where every message is: pure sums over what workers counted and what the server says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natstui.bench.seen import SeenSeqs, union
from natstui.model.benchmark_counts import Counts, total_counts
from natstui.model.benchmark_result import Accounting
from natstui.model.benchmark_role import (
    JETSTREAM_PUBLISHERS,
    READERS,
    RECEIVERS,
    SENDERS,
    Role,
)

_STORING = JETSTREAM_PUBLISHERS | {"kv-put"}


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
class _Group:
    """Receivers that share one copy of the messages."""

    role: Role
    books: tuple[WorkerBook, ...]

    @property
    def received_msgs(self) -> int:
        return sum(book.reported.received_msgs for book in self.books)

    def distinct_msgs(self) -> int | None:
        """Return how many different messages they got; None when nothing tells them apart."""
        together = self.seen()
        if not together and self.received_msgs:
            return None
        return sum(seen.seen_count for seen in together.values())

    def seen(self) -> dict[int, SeenSeqs]:
        return union(book.seen for book in self.books if book.seen is not None)


def account(
    books: Sequence[WorkerBook], stored_msgs: int | None, waiting_msgs: int | None
) -> Accounting:
    """Close the sums, or say what does not close.

    `stored_msgs` is what the stream stored in this run, `waiting_msgs` what was in it before and
    is still to be delivered; both None without a stream.
    """
    counts = total_counts(book.reported for book in books)
    senders = total_counts(book.reported for book in books if book.role.pattern in SENDERS)
    groups = receiver_groups(books)
    expected = [_expected(group, books, stored_msgs, waiting_msgs) for group in groups]
    distinct = [group.distinct_msgs() for group in groups]
    got = [
        group.received_msgs if one is None else one
        for group, one in zip(groups, distinct, strict=True)
    ]
    lost = [None if e is None else max(e - g, 0) for e, g in zip(expected, got, strict=True)]
    received = sum(group.received_msgs for group in groups) if groups else _answered(books)
    repeated = sum(group.received_msgs - g for group, g in zip(groups, got, strict=True))
    missing = (
        *_unreported(books),
        *_unanswered(books, stored_msgs),
        *_too_many(groups, expected, got),
    )
    return Accounting(
        sent_msgs=senders.sent_msgs,
        acked_msgs=counts.acked_msgs,
        duplicate_acked_msgs=counts.duplicate_acked_msgs,
        refused_msgs=counts.refused_msgs,
        unanswered_msgs=counts.unanswered_msgs,
        missed_msgs=counts.missed_msgs,
        stored_msgs=stored_msgs,
        expected_msgs=_sum(expected),
        received_msgs=received,
        distinct_msgs=_sum(distinct),
        redelivered_msgs=counts.redelivered_msgs,
        duplicate_msgs=repeated,
        lost_msgs=_sum(lost),
        out_of_order_msgs=counts.out_of_order_msgs,
        closes=not missing,
        missing=missing,
    )


def _answered(books: Sequence[WorkerBook]) -> int:
    """Return how many replies and messages came to those who asked."""
    asking = READERS | {"request"}
    return sum(book.reported.received_msgs for book in books if book.role.pattern in asking)


def receiver_groups(books: Sequence[WorkerBook]) -> list[_Group]:
    """Return the receivers by who shares messages: a queue or a consumer, else each alone."""
    shared: dict[str, list[WorkerBook]] = {}
    alone: list[_Group] = []
    for book in books:
        if book.role.pattern not in RECEIVERS:
            continue
        if is_shared(book.role):
            shared.setdefault(book.role.name, []).append(book)
        else:
            alone.append(_Group(book.role, (book,)))
    return [_Group(some[0].role, tuple(some)) for some in shared.values()] + alone


def is_shared(role: Role) -> bool:
    """Return whether the workers of a receiving role share one copy of the messages."""
    if role.pattern == "subscribe":
        return role.queue is not None
    return role.pattern != "js-ordered"


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _expected(
    group: _Group,
    books: Sequence[WorkerBook],
    stored_msgs: int | None,
    waiting_msgs: int | None,
) -> int | None:
    """Return how many messages a group should have got."""
    if group.role.pattern != "subscribe":
        return None if stored_msgs is None else stored_msgs + (waiting_msgs or 0)
    feeding = [
        book
        for book in books
        if book.role.pattern in SENDERS and book.role.subject == group.role.subject
    ]
    return sum(book.reported.sent_msgs for book in feeding) if feeding else None


def _unreported(books: Sequence[WorkerBook]) -> list[str]:
    sentences = []
    for book in books:
        if book.totals is None:
            sentences.append(f"worker {book.name} ended without its last word")
        elif book.totals != book.reported:
            sentences.append(f"the reports of worker {book.name} do not add up to its totals")
    return sentences


def _unanswered(books: Sequence[WorkerBook], stored_msgs: int | None) -> list[str]:
    storing = [book.reported for book in books if book.role.pattern in _STORING]
    if not storing:
        return []
    counts, sentences = total_counts(storing), []
    answered = counts.acked_msgs + counts.duplicate_acked_msgs + counts.refused_msgs
    if answered + counts.unanswered_msgs != counts.sent_msgs:
        sentences.append(
            f"{counts.sent_msgs} sent, but {answered} answered"
            f" and {counts.unanswered_msgs} unanswered"
        )
    most = counts.acked_msgs + counts.unanswered_msgs
    if stored_msgs is not None and not counts.acked_msgs <= stored_msgs <= most:
        sentences.append(f"{counts.acked_msgs} acknowledged, but {stored_msgs} stored")
    return sentences


def _too_many(
    groups: Sequence[_Group], expected: Sequence[int | None], got: Sequence[int]
) -> list[str]:
    return [
        f"role {group.role.name} received {g} different messages, and only {e} were sent to it"
        for group, e, g in zip(groups, expected, got, strict=True)
        if e is not None and g > e
    ]
