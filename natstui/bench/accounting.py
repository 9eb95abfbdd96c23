"""Where every message is: pure sums over what workers counted and what the server says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from natstui.bench.consumer_span import ConsumerSpan
from natstui.bench.groups import ReceiverGroup, WorkerBook, expected_msgs, receiver_groups
from natstui.model.benchmark_counts import total_counts
from natstui.model.benchmark_result import Accounting
from natstui.model.benchmark_role import (
    JETSTREAM_PUBLISHERS,
    READERS,
    SENDERS,
)

_STORING = JETSTREAM_PUBLISHERS | {"kv-put"}
_NO_CONSUMERS: Mapping[str, ConsumerSpan] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Deliveries:
    """What the server says it delivered, summed over groups that share a consumer."""

    delivered_msgs: int | None
    unread_msgs: int | None
    unsettled_msgs: int | None
    redelivered_msgs: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Receipts:
    """What the groups of receivers should have got, and got: one entry per group."""

    received_msgs: int
    expected: tuple[int | None, ...]
    distinct: tuple[int | None, ...]
    different: tuple[int, ...]
    """The same, or everything received where nothing tells messages apart."""
    lost: tuple[int | None, ...]


def account(
    books: Sequence[WorkerBook],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    consumers: Mapping[str, ConsumerSpan] = _NO_CONSUMERS,
) -> Accounting:
    """Close the sums, or say what does not close.

    `stored_msgs` is what the stream stored in this run, `waiting_msgs` what was in it before and
    is still to be delivered; both None without a stream. `consumers` are the shared ones, by role.
    """
    counts = total_counts(book.reported for book in books)
    senders = (book.reported.sent_msgs for book in books if book.role.pattern in SENDERS)
    groups = receiver_groups(books)
    spans = [consumers.get(group.role.name) for group in groups]
    got = _receipts(groups, spans, books, stored_msgs, waiting_msgs)
    deliveries = _deliveries(groups, spans, stored_msgs)
    missing = (*_unreported(books), *deliveries.missing, *_unanswered(books, stored_msgs))
    missing += tuple(_too_many(groups, got.expected, got.different))
    return Accounting(
        sent_msgs=sum(senders),
        acked_msgs=counts.acked_msgs,
        duplicate_acked_msgs=counts.duplicate_acked_msgs,
        refused_msgs=counts.refused_msgs,
        unanswered_msgs=counts.unanswered_msgs,
        missed_msgs=counts.missed_msgs,
        stored_msgs=stored_msgs,
        expected_msgs=_sum(got.expected),
        received_msgs=got.received_msgs if groups else _answered(books),
        distinct_msgs=_sum(got.distinct),
        redelivered_msgs=deliveries.redelivered_msgs,
        duplicate_msgs=got.received_msgs - sum(got.different),
        lost_msgs=_sum(got.lost),
        out_of_order_msgs=counts.out_of_order_msgs,
        closes=not missing,
        missing=missing,
        delivered_msgs=deliveries.delivered_msgs,
        unread_msgs=deliveries.unread_msgs,
        unsettled_msgs=deliveries.unsettled_msgs,
    )


def _deliveries(
    groups: Sequence[ReceiverGroup], spans: Sequence[ConsumerSpan | None], stored: int | None
) -> _Deliveries:
    """Hold what the workers counted against what the server says it delivered."""
    delivered = unread = unsettled = redelivered = 0
    missing = []
    for group, span in zip(groups, spans, strict=True):
        counted = sum(book.reported.redelivered_msgs for book in group.books)
        received = group.received_msgs
        if span is None:
            redelivered += counted
            continue
        delivered += span.delivered_msgs
        unread += max(span.delivered_msgs - received, 0)
        unsettled += span.end.ack_pending_msgs
        redelivered += span.redelivered_msgs(stored, counted, received)
        if received > span.delivered_msgs:
            missing.append(
                f"role {group.role.name} received {received} deliveries,"
                f" and the server made {span.delivered_msgs}"
            )
    known = any(span is not None for span in spans)
    return _Deliveries(
        delivered_msgs=delivered if known else None,
        unread_msgs=unread if known else None,
        unsettled_msgs=unsettled if known else None,
        redelivered_msgs=redelivered,
        missing=tuple(missing),
    )


def _receipts(
    groups: Sequence[ReceiverGroup],
    spans: Sequence[ConsumerSpan | None],
    books: Sequence[WorkerBook],
    stored: int | None,
    waiting: int | None,
) -> _Receipts:
    """Hold what the groups got against what was sent to them."""
    expected = [
        expected_msgs(group, books, stored, waiting, span)
        for group, span in zip(groups, spans, strict=True)
    ]
    distinct = [group.distinct_msgs() for group in groups]
    different = [
        g.received_msgs if d is None else d for g, d in zip(groups, distinct, strict=True)
    ]
    lost = [
        None if e is None or group.is_unsaid else max(e - g - _still_held(span), 0)
        for group, e, g, span in zip(groups, expected, different, spans, strict=True)
    ]
    return _Receipts(
        received_msgs=sum(group.received_msgs for group in groups),
        expected=tuple(expected),
        distinct=tuple(distinct),
        different=tuple(different),
        lost=tuple(lost),
    )


def _still_held(span: ConsumerSpan | None) -> int:
    """Return what the server is going to deliver, or to deliver again: late is not lost."""
    return 0 if span is None else span.end.pending_msgs + span.end.ack_pending_msgs


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
