"""Where every message is: pure sums over what workers counted and what the server says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from natstui.bench.job.content import repeats
from natstui.bench.job.seen import FOREIGN, SeenSeqs, union
from natstui.model.bench.counts import Counts, total_counts
from natstui.model.bench.plan import Role
from natstui.model.bench.result import Accounting


@dataclass(frozen=True, slots=True)
class ConsumerFigures:
    """A consumer at one moment, from CONSUMER.INFO."""

    delivered_msgs: int
    """Deliveries so far, every repeat counted (`delivered.consumer_seq`)."""
    pending_msgs: int
    """Never delivered yet (`num_pending`)."""
    ack_pending_msgs: int
    """Delivered and not settled (`num_ack_pending`)."""
    is_filtered: bool
    """It takes some subjects only."""


def read_figures(info: Mapping[str, Any]) -> ConsumerFigures:
    """Return the figures of a reply to CONSUMER.INFO."""
    config = info["config"]
    return ConsumerFigures(
        delivered_msgs=info["delivered"]["consumer_seq"],
        pending_msgs=info["num_pending"],
        ack_pending_msgs=info["num_ack_pending"],
        is_filtered=bool(config.get("filter_subject") or config.get("filter_subjects")),
    )


@dataclass(frozen=True, slots=True)
class ConsumerSpan:
    """A consumer before and after a run."""

    begin: ConsumerFigures
    end: ConsumerFigures

    @property
    def delivered_msgs(self) -> int:
        """Deliveries in the run, every repeat counted."""
        return self.end.delivered_msgs - self.begin.delivered_msgs

    def owed_msgs(self, stored_msgs: int | None) -> int | None:
        """Return how many different messages its readers should get; None behind a filter."""
        return owed_msgs(self.begin, stored_msgs)

    def redelivered_msgs(self, stored_msgs: int | None, counted: int, received: int) -> int:
        """Return the deliveries that were not the first of their message.

        That is all deliveries less the messages delivered at least once. `counted` are those the
        readers saw; the truth lies between them and, besides, everything nobody read, also where
        the stream has dropped messages before they were delivered.
        """
        most = counted + max(self.delivered_msgs - received, 0)
        if stored_msgs is None or self.begin.is_filtered:
            return counted
        first = self.begin.pending_msgs + stored_msgs - self.end.pending_msgs
        return min(max(self.delivered_msgs - first, counted), most)


def owed_msgs(begin: ConsumerFigures, stored_msgs: int | None) -> int | None:
    """Return how many different messages a consumer owes, given what the run stored."""
    if stored_msgs is None or begin.is_filtered:
        return None
    return stored_msgs + begin.pending_msgs + begin.ack_pending_msgs


@dataclass(frozen=True, slots=True)
class WorkerBook:
    """One worker's figures at the end."""

    name: str
    role: Role
    worker_id: int
    reported: Counts
    """The sum of its reports."""
    totals: Counts | None
    """Its own totals; None when it sent no final report."""
    seen: dict[str, dict[str, str]] | None
    publisher_id: int = 0
    due_from: Mapping[int, int] = field(default_factory=dict)
    """By publisher: how many messages it had sent, at most, when this receiver could hear."""
    gone_before_msgs: int = 0
    """What the stream had dropped before this ordered receiver came."""
    has_stamps: bool = False
    """Stamps tell this receiver which messages are of its run."""


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
    def foreign_msgs(self) -> int:
        """How many messages of others they received together, every repeat counted."""
        return sum(book.reported.foreign_msgs for book in self.books)

    @property
    def foreign_distinct_msgs(self) -> int:
        """How many different ones; of core messages nobody can tell, and each counts."""
        found = self._seen().get(FOREIGN)
        return self.foreign_msgs if found is None else found.seen_count

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
        """Return what they saw together of this run, by publisher."""
        return {publisher: seqs for publisher, seqs in self._seen().items() if publisher >= 0}

    def _seen(self) -> dict[int, SeenSeqs]:
        return union(book.seen for book in self.books if book.seen is not None)


def receiver_groups(books: Sequence[WorkerBook]) -> list[ReceiverGroup]:
    """Return the receivers by who shares messages: a queue or a consumer, else each alone."""
    shared: dict[str, list[WorkerBook]] = {}
    alone: list[ReceiverGroup] = []
    for book in books:
        if not book.role.traits.receives:
            continue
        if is_shared(book.role):
            shared.setdefault(book.role.name, []).append(book)
        else:
            alone.append(ReceiverGroup(book.role, (book,)))
    return [ReceiverGroup(some[0].role, tuple(some)) for some in shared.values()] + alone


def is_shared(role: Role) -> bool:
    """Return whether the workers of a receiving role share one copy of the messages."""
    return role.traits.has_shared_consumer or (not role.traits.consumes and role.queue is not None)


def expected_msgs(
    group: ReceiverGroup,
    books: Sequence[WorkerBook],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    span: ConsumerSpan | None,
    own_msgs: int | None,
) -> int | None:
    """Return how many messages of this run a group should have got.

    `stored_msgs` are those of everybody, `own_msgs` those of this run; `span` is of the consumer
    that the group shares.
    """
    if span is not None:
        owed = span.owed_msgs(stored_msgs)
        return None if owed is None else owed - group.foreign_distinct_msgs
    if group.role.traits.consumes:
        # What a consumer that cannot be asked still has, nobody knows.
        if stored_msgs is None or group.role.traits.has_shared_consumer:
            return None
        if own_msgs is not None and all(book.has_stamps for book in group.books):
            return _of_stream(group, own_msgs)
        return _of_stream(group, stored_msgs + (waiting_msgs or 0))
    feeding = [
        book
        for book in books
        if book.role.traits.sends and book.role.subject == group.role.subject
    ]
    return _of_subject(group, feeding) if feeding else None


def _of_stream(group: ReceiverGroup, whole_msgs: int) -> int:
    """Return what an ordered receiver should have got: all but what was gone before it came.

    It may have got some of that, between its consumer's first message and our question.
    """
    gone = min(book.gone_before_msgs for book in group.books)
    return min(max(whole_msgs - gone, group.distinct_msgs() or 0), whole_msgs)


def _of_subject(group: ReceiverGroup, feeding: Sequence[WorkerBook]) -> int:
    """Return what subscribers should have got: everything sent since the first of them heard.

    Of what a sender wrote just before, nobody knows what is for them: what they got is.
    """
    sent = sum(book.reported.sent_msgs for book in feeding)
    since = {book.publisher_id: _due_from(group, book) for book in feeding}
    if group.distinct_msgs() is None:
        return min(max(sent - sum(since.values()), group.received_msgs), sent)
    seen, expected = group.seen(), 0
    for book in feeding:
        begin = _different(book.role, since[book.publisher_id])
        early = seen.get(book.publisher_id)
        expected += _different(book.role, book.reported.sent_msgs) - begin
        expected += 0 if early is None else begin - early.missing_below(begin)
    return expected


def _due_from(group: ReceiverGroup, sender: WorkerBook) -> int:
    heard = min(book.due_from.get(sender.publisher_id, 0) for book in group.books)
    return min(heard, sender.reported.sent_msgs)


def _different(role: Role, sent_msgs: int) -> int:
    """Return how many different messages the first so many are: some are sent twice on purpose."""
    if not sent_msgs:
        return 0
    return int(repeats(role.payload.duplicate_ratio)(np.array([sent_msgs - 1]))[0]) + 1


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
    *,
    is_shared: bool = False,
) -> Accounting:
    """Close the sums, or say what does not close.

    `stored_msgs` is what the stream stored meanwhile, `waiting_msgs` what was in it before and
    is still to be delivered; both None without a stream. `consumers` are the shared ones, by role.
    `is_shared`: the stream is not this run's alone, and others may publish to it.
    """
    counts = total_counts(book.reported for book in books)
    groups = receiver_groups(books)
    others_msgs = _stored_by_others(books, groups, stored_msgs, is_shared=is_shared)
    own_msgs = None if stored_msgs is None else stored_msgs - others_msgs
    got = _receipts(groups, consumers, books, stored_msgs, waiting_msgs, own_msgs)
    deliveries = _deliveries(groups, consumers, stored_msgs)
    missing = [*_unreported(books), *_unanswered(books, own_msgs), *deliveries.missing]
    missing += _too_many(groups, got.expected, got.different)
    return Accounting(
        sent_msgs=_sent(books),
        acked_msgs=counts.acked_msgs,
        duplicate_acked_msgs=counts.duplicate_acked_msgs,
        refused_msgs=counts.refused_msgs,
        unanswered_msgs=counts.unanswered_msgs,
        missed_msgs=counts.missed_msgs,
        stored_msgs=own_msgs,
        expected_msgs=_sum(got.expected),
        received_msgs=got.received_msgs if groups else _answered(books),
        distinct_msgs=_sum(got.distinct),
        redelivered_msgs=deliveries.redelivered_msgs,
        duplicate_msgs=got.received_msgs - sum(got.different),
        lost_msgs=_sum(got.lost),
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
    books: Sequence[WorkerBook],
    groups: Sequence[ReceiverGroup],
    stored_msgs: int | None,
    *,
    is_shared: bool,
) -> int:
    """Return how many of the messages stored meanwhile are not of this run.

    Its receivers saw so many; and in a stream that others use, whatever it has no answer for.
    """
    if stored_msgs is None:
        return 0
    reading = [group for group in groups if group.role.traits.consumes]
    seen = max((group.foreign_distinct_msgs for group in reading), default=0)
    if is_shared and any(book.role.traits.is_stored for book in books):
        counts = total_counts(book.reported for book in books if book.role.traits.is_stored)
        seen = max(seen, stored_msgs - counts.acked_msgs - counts.unanswered_msgs)
    return seen


def _sent(books: Sequence[WorkerBook]) -> int:
    return sum(book.reported.sent_msgs for book in books if book.role.traits.sends)


def _deliveries(
    groups: Sequence[ReceiverGroup], consumers: Mapping[str, ConsumerSpan], stored: int | None
) -> _Deliveries:
    """Hold what the workers counted against what the server says it delivered."""
    delivered = unread = unsettled = redelivered = 0
    missing, spans = [], [consumers.get(group.role.name) for group in groups]
    for group, span in zip(groups, spans, strict=True):
        counted = sum(book.reported.redelivered_msgs for book in group.books)
        received = group.received_msgs + group.foreign_msgs
        if span is None:
            redelivered += counted
            continue
        delivered += span.delivered_msgs
        unread += max(span.delivered_msgs - received, 0)
        unsettled += span.end.ack_pending_msgs
        redelivered += span.redelivered_msgs(stored, counted, received)
        if received > span.delivered_msgs:
            missing.append(
                f"role {group.role.name} received {received} deliveries, but the server counts "
                f"{span.delivered_msgs}"
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
    consumers: Mapping[str, ConsumerSpan],
    books: Sequence[WorkerBook],
    stored: int | None,
    waiting: int | None,
    own: int | None,
) -> _Receipts:
    """Hold what the groups got against what was sent to them."""
    spans = [consumers.get(group.role.name) for group in groups]
    expected = [
        expected_msgs(group, books, stored, waiting, span, own)
        for group, span in zip(groups, spans, strict=True)
    ]
    distinct = [group.distinct_msgs() for group in groups]
    different = [
        g.received_msgs if d is None else d for g, d in zip(groups, distinct, strict=True)
    ]
    lost = [
        None if e is None or group.is_unsaid else max(e - g - _kept_msgs(group, span), 0)
        for group, e, g, span in zip(groups, expected, different, spans, strict=True)
    ]
    return _Receipts(
        received_msgs=sum(group.received_msgs for group in groups),
        expected=tuple(expected),
        distinct=tuple(distinct),
        different=tuple(different),
        lost=tuple(lost),
    )


def _kept_msgs(group: ReceiverGroup, span: ConsumerSpan | None) -> int:
    """Return how many messages a group did not receive that are not lost.

    They are pending or unacked; or of another run, and delivered when this one was over.
    """
    if span is None or group.role.acks != "none" or not group.foreign_msgs:
        return still_held(span)
    unread = span.delivered_msgs - group.received_msgs - group.foreign_msgs
    return still_held(span) + max(unread, 0)


def still_held(span: ConsumerSpan | None) -> int:
    """Return what the server is going to deliver, or to deliver again: late is not lost."""
    return 0 if span is None else span.end.pending_msgs + span.end.ack_pending_msgs


def _answered(books: Sequence[WorkerBook]) -> int:
    """Return how many replies and messages came to those who asked."""
    return sum(book.reported.received_msgs for book in books if book.role.traits.has_answers)


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _unreported(books: Sequence[WorkerBook]) -> list[str]:
    sentences = []
    for book in books:
        if book.totals is None:
            sentences.append(f"worker {book.name} sent no final report")
        elif book.totals != book.reported:
            sentences.append(f"the reports of worker {book.name} do not add up to its totals")
    return sentences


def _unanswered(books: Sequence[WorkerBook], stored_msgs: int | None) -> list[str]:
    storing = [book.reported for book in books if book.role.traits.is_stored]
    if not storing:
        return []
    counts, sentences = total_counts(storing), []
    answered = counts.acked_msgs + counts.duplicate_acked_msgs + counts.refused_msgs
    if answered + counts.unanswered_msgs != counts.sent_msgs:
        sentences.append(
            f"{counts.sent_msgs} messages sent, but {answered} replies and "
            f"{counts.unanswered_msgs} without a reply"
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
