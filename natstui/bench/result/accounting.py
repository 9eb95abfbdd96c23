"""Accounts for every message: pure sums over the counts of workers and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from natstui.bench.job.content import repeated_numbers
from natstui.bench.job.seen import FOREIGN, SeenSeqs, union
from natstui.model.bench.counts import Counts, total_counts
from natstui.model.bench.plan import Role
from natstui.model.bench.result import Accounting
from natstui.units import counted


@dataclass(frozen=True, slots=True)
class ConsumerFigures:
    """A consumer at one moment, from CONSUMER.INFO."""

    delivered_msgs: int
    """Deliveries so far, with every redelivery (`delivered.consumer_seq`)."""
    pending_msgs: int
    """Never delivered yet (`num_pending`)."""
    ack_pending_msgs: int
    """Delivered and not acked (`num_ack_pending`)."""
    is_filtered: bool
    """Whether it has a filter subject."""
    max_deliver_count: int = 0
    """Deliveries of a message at most; 0: no limit."""


def read_figures(info: Mapping[str, Any]) -> ConsumerFigures:
    """Return the figures of a decoded reply to CONSUMER.INFO."""
    config = info["config"]
    return ConsumerFigures(
        delivered_msgs=info["delivered"]["consumer_seq"],
        pending_msgs=info["num_pending"],
        ack_pending_msgs=info["num_ack_pending"],
        is_filtered=bool(config.get("filter_subject") or config.get("filter_subjects")),
        max_deliver_count=max(config.get("max_deliver") or 0, 0),
    )


@dataclass(frozen=True, slots=True)
class ConsumerSpan:
    """A consumer before and after a run."""

    begin: ConsumerFigures
    end: ConsumerFigures

    @property
    def delivered_msgs(self) -> int:
        """Return the deliveries in the run, with every redelivery.

        A consumer that was recreated meanwhile counts from 0.
        """
        return max(self.end.delivered_msgs - self.begin.delivered_msgs, 0)

    def owed_msgs(self, stored_msgs: int | None) -> int | None:
        """Return how many different messages its readers should get; None with a filter."""
        return owed_msgs(self.begin, stored_msgs)

    def redelivered_msgs(self, stored_msgs: int | None, counted: int, received: int) -> int:
        """Return how many deliveries were not the first of their message.

        That is all deliveries less the messages delivered at least once. `counted` are the
        redeliveries that the readers saw, `received` all deliveries that they read, and
        `stored_msgs` the messages of the stream. The true number is at least `counted`, and at
        most `counted` plus the unread deliveries, also if messages were dropped before their
        delivery.
        """
        max_msgs = counted + max(self.delivered_msgs - received, 0)
        if stored_msgs is None or self.begin.is_filtered:
            return counted
        first = self.begin.pending_msgs + stored_msgs - self.end.pending_msgs
        return min(max(self.delivered_msgs - first, counted), max_msgs)


def owed_msgs(start: ConsumerFigures, stored_msgs: int | None) -> int | None:
    """Return how many different messages a consumer must deliver, given the stored ones."""
    if stored_msgs is None or start.is_filtered:
        return None
    return stored_msgs + start.pending_msgs + start.ack_pending_msgs


@dataclass(frozen=True, slots=True)
class WorkerBook:
    """The final figures of one worker."""

    name: str
    role: Role
    worker_id: int
    reported: Counts
    """The sum of its reports."""
    totals: Counts | None
    """Its own totals; None without a final report."""
    seen: dict[str, dict[str, str]] | None
    publisher_id: int = 0
    due_from: Mapping[int, int] = field(default_factory=dict)
    """By publisher: messages sent before this receiver subscribed, at most."""
    gone_before_msgs: int = 0
    """Messages that the stream had dropped before this ordered receiver started."""
    has_stamps: bool = False
    """Whether stamps identify the messages of its run."""


@dataclass(frozen=True, slots=True)
class ReceiverGroup:
    """Receivers that share one copy of the messages."""

    role: Role
    books: tuple[WorkerBook, ...]

    @property
    def received_msgs(self) -> int:
        """Return how many messages they received together."""
        return sum(worker_book.reported.received_msgs for worker_book in self.books)

    @property
    def foreign_msgs(self) -> int:
        """Return how many messages of others they received together, with every redelivery."""
        return sum(worker_book.reported.foreign_msgs for worker_book in self.books)

    @property
    def foreign_distinct_msgs(self) -> int:
        """Return the number of different foreign messages; for core messages, of all of them."""
        foreign_seqs = self._seen().get(FOREIGN)
        return self.foreign_msgs if foreign_seqs is None else foreign_seqs.seen_count

    @property
    def is_unreported(self) -> bool:
        """Return whether a receiver ended without reporting its sequences."""
        return any(worker_book.seen is None for worker_book in self.books)

    def distinct_msgs(self) -> int | None:
        """Return how many different messages they got; None if messages cannot be told apart."""
        if self.is_unreported:
            return None
        together = self.seen()
        if not together and self.received_msgs:
            return None
        return sum(seqs.seen_count for seqs in together.values())

    def seen(self) -> dict[int, SeenSeqs]:
        """Return the received sequences of this run, by publisher."""
        return {publisher: seqs for publisher, seqs in self._seen().items() if publisher >= 0}

    def _seen(self) -> dict[int, SeenSeqs]:
        return union(
            worker_book.seen for worker_book in self.books if worker_book.seen is not None
        )


def receiver_groups(worker_books: Sequence[WorkerBook]) -> list[ReceiverGroup]:
    """Return the receivers, grouped by the copy of the messages that they share.

    A queue group or a consumer is one group; every other receiver is one alone.
    """
    by_group: dict[str, list[WorkerBook]] = {}
    single_groups: list[ReceiverGroup] = []
    for worker_book in worker_books:
        if not worker_book.role.traits.receives:
            continue
        if is_shared(worker_book.role):
            by_group.setdefault(worker_book.role.name, []).append(worker_book)
        else:
            single_groups.append(ReceiverGroup(worker_book.role, (worker_book,)))
    return [
        ReceiverGroup(group_books[0].role, tuple(group_books)) for group_books in by_group.values()
    ] + single_groups


def is_shared(role: Role) -> bool:
    """Return whether the workers of a receiving role share one copy of the messages."""
    return role.traits.has_shared_consumer or (not role.traits.consumes and role.queue is not None)


def expected_msgs(
    group: ReceiverGroup,
    worker_books: Sequence[WorkerBook],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    span: ConsumerSpan | None,
    own_msgs: int | None,
) -> int | None:
    """Return how many messages of this run a group should have received; None if unknown.

    `stored_msgs` are all messages stored in the run, `own_msgs` those of this run, `waiting_msgs`
    those stored before that are still to be delivered. `span` is of the consumer that the group
    shares.
    """
    if span is not None:
        owed = span.owed_msgs(stored_msgs)
        return None if owed is None else max(owed - group.foreign_distinct_msgs, 0)
    if group.role.traits.consumes:
        # What a consumer that cannot be asked still has, nobody knows.
        if stored_msgs is None or group.role.traits.has_shared_consumer:
            return None
        if own_msgs is not None and all(worker_book.has_stamps for worker_book in group.books):
            return _of_stream(group, own_msgs)
        return _of_stream(group, stored_msgs + (waiting_msgs or 0))
    feeding = [
        worker_book
        for worker_book in worker_books
        if worker_book.role.traits.sends and worker_book.role.subject == group.role.subject
    ]
    return _of_subject(group, feeding) if feeding else None


def _of_stream(group: ReceiverGroup, whole_msgs: int) -> int:
    """Return what an ordered receiver should have got: all but messages dropped before its start.

    It may have got some of them, between its consumer's first message and our request.
    """
    dropped_msgs = min(worker_book.gone_before_msgs for worker_book in group.books)
    return min(max(whole_msgs - dropped_msgs, group.distinct_msgs() or 0), whole_msgs)


def _of_subject(group: ReceiverGroup, feeding: Sequence[WorkerBook]) -> int:
    """Return what subscribers should have got: everything sent since the first subscription.

    Of messages sent just before, it is unknown which are for them: the received ones count.
    """
    sent_msgs = sum(worker_book.reported.sent_msgs for worker_book in feeding)
    since = {worker_book.publisher_id: _due_from(group, worker_book) for worker_book in feeding}
    if group.distinct_msgs() is None:
        return min(max(sent_msgs - sum(since.values()), group.received_msgs), sent_msgs)
    seqs_by_publisher, expected_count = group.seen(), 0
    for worker_book in feeding:
        start = _different(worker_book.role, since[worker_book.publisher_id])
        early = seqs_by_publisher.get(worker_book.publisher_id)
        expected_count += _different(worker_book.role, worker_book.reported.sent_msgs) - start
        expected_count += 0 if early is None else start - early.missing_below(start)
    return expected_count


def _due_from(group: ReceiverGroup, sender: WorkerBook) -> int:
    subscribed_at_msgs = min(
        worker_book.due_from.get(sender.publisher_id, 0) for worker_book in group.books
    )
    return min(subscribed_at_msgs, sender.reported.sent_msgs)


def _different(role: Role, sent_msgs: int) -> int:
    """Return how many of the first messages are different: some are sent twice on purpose."""
    if not sent_msgs:
        return 0
    return int(repeated_numbers(role.payload.duplicate_ratio)(np.array([sent_msgs - 1]))[0]) + 1


_NO_CONSUMERS: Mapping[str, ConsumerSpan] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Deliveries:
    """The server's deliveries, summed over groups that share a consumer."""

    delivered_msgs: int | None
    unread_msgs: int | None
    unsettled_msgs: int | None
    redelivered_msgs: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Receipts:
    """The expected and received messages of the groups: one entry per group."""

    received_msgs: int
    expected: tuple[int | None, ...]
    distinct: tuple[int | None, ...]
    different: tuple[int, ...]
    """Different received messages, or all where they cannot be told apart."""
    lost: tuple[int | None, ...]


def account(
    worker_books: Sequence[WorkerBook],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    consumers: Mapping[str, ConsumerSpan] = _NO_CONSUMERS,
    *,
    is_shared: bool = False,
) -> Accounting:
    """Return the account of a run, with the sums that do not close.

    `stored_msgs` are the messages stored in the run, `waiting_msgs` those stored before that are
    still to be delivered; both None without a stream. `consumers` are the shared ones, by role.
    `is_shared`: the stream is not this run's alone, and others may publish to it.
    """
    counts = total_counts(worker_book.reported for worker_book in worker_books)
    groups = receiver_groups(worker_books)
    others_msgs = _stored_by_others(worker_books, groups, stored_msgs, is_shared=is_shared)
    own_msgs = None if stored_msgs is None else max(stored_msgs - others_msgs, 0)
    receipts = _receipts(groups, consumers, worker_books, stored_msgs, waiting_msgs, own_msgs)
    deliveries = _deliveries(groups, consumers, stored_msgs)
    missing = [
        *_unreported(worker_books),
        *_unanswered(worker_books, own_msgs),
        *deliveries.missing,
    ]
    missing += _too_many(groups, receipts.expected, receipts.different)
    return Accounting(
        sent_msgs=_sent(worker_books),
        acked_msgs=counts.acked_msgs,
        duplicate_acked_msgs=counts.duplicate_acked_msgs,
        refused_msgs=counts.refused_msgs,
        unanswered_msgs=counts.unanswered_msgs,
        missed_msgs=counts.missed_msgs,
        stored_msgs=own_msgs,
        expected_msgs=_sum(receipts.expected),
        received_msgs=receipts.received_msgs if groups else _answered(worker_books),
        distinct_msgs=_sum(receipts.distinct),
        redelivered_msgs=deliveries.redelivered_msgs,
        duplicate_msgs=max(receipts.received_msgs - sum(receipts.different), 0),
        lost_msgs=_sum(receipts.lost),
        out_of_order_msgs=counts.out_of_order_msgs,
        closes=not missing,
        missing=tuple(missing),
        delivered_msgs=deliveries.delivered_msgs,
        unread_msgs=deliveries.unread_msgs,
        unsettled_msgs=deliveries.unsettled_msgs,
        retried_msgs=counts.retried_msgs,
        foreign_msgs=counts.foreign_msgs,
        measures=bool(counts.steady_sent_msgs or counts.steady_received_msgs),
    )


def _stored_by_others(
    worker_books: Sequence[WorkerBook],
    groups: Sequence[ReceiverGroup],
    stored_msgs: int | None,
    *,
    is_shared: bool,
) -> int:
    """Return how many of the messages stored meanwhile are not of this run.

    These are the foreign messages seen by its receivers; in a shared stream also those that no
    sender of this run has an ack for.
    """
    if stored_msgs is None:
        return 0
    reading = [group for group in groups if group.role.traits.consumes]
    foreign_msgs = max((group.foreign_distinct_msgs for group in reading), default=0)
    if is_shared and any(worker_book.role.traits.is_stored for worker_book in worker_books):
        counts = total_counts(
            worker_book.reported
            for worker_book in worker_books
            if worker_book.role.traits.is_stored
        )
        foreign_msgs = max(foreign_msgs, stored_msgs - counts.acked_msgs - counts.unanswered_msgs)
    return foreign_msgs


def _sent(worker_books: Sequence[WorkerBook]) -> int:
    return sum(
        worker_book.reported.sent_msgs
        for worker_book in worker_books
        if worker_book.role.traits.sends
    )


def _deliveries(
    groups: Sequence[ReceiverGroup], consumers: Mapping[str, ConsumerSpan], stored_msgs: int | None
) -> _Deliveries:
    """Return the server's deliveries, compared with the counts of the workers."""
    delivered_msgs = unread = ack_pending_msgs = redelivered_msgs = 0
    missing, spans = [], [consumers.get(group.role.name) for group in groups]
    for group, span in zip(groups, spans, strict=True):
        counted_msgs = sum(worker_book.reported.redelivered_msgs for worker_book in group.books)
        received_msgs = group.received_msgs + group.foreign_msgs
        if span is None:
            redelivered_msgs += counted_msgs
            continue
        delivered_msgs += span.delivered_msgs
        unread += max(span.delivered_msgs - received_msgs, 0)
        ack_pending_msgs += span.end.ack_pending_msgs
        redelivered_msgs += span.redelivered_msgs(stored_msgs, counted_msgs, received_msgs)
        if received_msgs > span.delivered_msgs:
            missing.append(
                f"role {group.role.name} received {counted(received_msgs, 'delivery')}, "
                f"but the server counts {span.delivered_msgs}"
            )
    has_span = any(span is not None for span in spans)
    return _Deliveries(
        delivered_msgs=delivered_msgs if has_span else None,
        unread_msgs=unread if has_span else None,
        unsettled_msgs=ack_pending_msgs if has_span else None,
        redelivered_msgs=redelivered_msgs,
        missing=tuple(missing),
    )


def _receipts(
    groups: Sequence[ReceiverGroup],
    consumers: Mapping[str, ConsumerSpan],
    worker_books: Sequence[WorkerBook],
    stored: int | None,
    waiting: int | None,
    own: int | None,
) -> _Receipts:
    """Return what the groups received, compared with what was sent to them."""
    spans = [consumers.get(group.role.name) for group in groups]
    expected_counts = [
        expected_msgs(group, worker_books, stored, waiting, span, own)
        for group, span in zip(groups, spans, strict=True)
    ]
    distinct = [group.distinct_msgs() for group in groups]
    different = [
        g.received_msgs if d is None else d for g, d in zip(groups, distinct, strict=True)
    ]
    lost_counts = [
        None if e is None or group.is_unreported else max(e - g - _kept_msgs(group, span), 0)
        for group, e, g, span in zip(groups, expected_counts, different, spans, strict=True)
    ]
    return _Receipts(
        received_msgs=sum(group.received_msgs for group in groups),
        expected=tuple(expected_counts),
        distinct=tuple(distinct),
        different=tuple(different),
        lost=tuple(lost_counts),
    )


def _kept_msgs(group: ReceiverGroup, span: ConsumerSpan | None) -> int:
    """Return how many messages a group did not receive that are not lost.

    They are pending or unacked; or of another run, and delivered after this one.
    """
    if span is None or group.role.acks != "none" or not group.foreign_msgs:
        return undelivered_msgs(span)
    unread = span.delivered_msgs - group.received_msgs - group.foreign_msgs
    return undelivered_msgs(span) + max(unread, 0)


def undelivered_msgs(span: ConsumerSpan | None) -> int:
    """Return how many messages a consumer has still to deliver, or to get acks for, at the end.

    They are late, not lost. 0 without a consumer.
    """
    return 0 if span is None else span.end.pending_msgs + span.end.ack_pending_msgs


def _answered(worker_books: Sequence[WorkerBook]) -> int:
    """Return how many replies and messages the requesters received."""
    return sum(
        worker_book.reported.received_msgs
        for worker_book in worker_books
        if worker_book.role.traits.has_answers
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    known_numbers = [number for number in numbers if number is not None]
    return sum(known_numbers) if known_numbers and len(known_numbers) == len(numbers) else None


def _unreported(worker_books: Sequence[WorkerBook]) -> list[str]:
    sentences = []
    for worker_book in worker_books:
        if worker_book.totals is None:
            sentences.append(f"worker {worker_book.name} sent no final report")
        elif worker_book.totals != worker_book.reported:
            sentences.append(
                f"the reports of worker {worker_book.name} do not add up to its totals"
            )
    return sentences


def _unanswered(worker_books: Sequence[WorkerBook], stored_msgs: int | None) -> list[str]:
    storing = [
        worker_book.reported for worker_book in worker_books if worker_book.role.traits.is_stored
    ]
    if not storing:
        return []
    counts, sentences = total_counts(storing), []
    replied_msgs = counts.acked_msgs + counts.duplicate_acked_msgs + counts.refused_msgs
    if replied_msgs + counts.unanswered_msgs != counts.sent_msgs:
        sentences.append(
            f"{counted(counts.sent_msgs, 'message')} sent, but "
            f"{counted(replied_msgs, 'reply')} and {counts.unanswered_msgs} without a reply"
        )
    max_msgs = counts.acked_msgs + counts.unanswered_msgs
    if stored_msgs is not None and not counts.acked_msgs <= stored_msgs <= max_msgs:
        sentences.append(f"{counts.acked_msgs} acknowledged, but {stored_msgs} stored")
    return sentences


def _too_many(
    groups: Sequence[ReceiverGroup],
    expected_counts: Sequence[int | None],
    got_counts: Sequence[int],
) -> list[str]:
    return [
        f"role {group.role.name} received {g} different messages, and only {e} were sent to it"
        for group, e, g in zip(groups, expected_counts, got_counts, strict=True)
        if e is not None and g > e
    ]
