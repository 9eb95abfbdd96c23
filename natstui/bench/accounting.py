"""Where every message is: pure sums over what workers counted and what the server says."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.bench.groups import ReceiverGroup, WorkerBook, expected_msgs, receiver_groups
from natstui.model.benchmark_counts import total_counts
from natstui.model.benchmark_result import Accounting
from natstui.model.benchmark_role import (
    JETSTREAM_PUBLISHERS,
    READERS,
    SENDERS,
)

_STORING = JETSTREAM_PUBLISHERS | {"kv-put"}


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
    expected = [expected_msgs(group, books, stored_msgs, waiting_msgs) for group in groups]
    distinct = [group.distinct_msgs() for group in groups]
    got = [g.received_msgs if d is None else d for g, d in zip(groups, distinct, strict=True)]
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


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


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
    groups: Sequence[ReceiverGroup], expected: Sequence[int | None], got: Sequence[int]
) -> list[str]:
    return [
        f"role {group.role.name} received {g} different messages, and only {e} were sent to it"
        for group, e, g in zip(groups, expected, got, strict=True)
        if e is not None and g > e
    ]
