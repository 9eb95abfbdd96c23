"""Computes the accounting of a run from the counts of its workers and of the server. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from msgspec import Struct, field

from natstui.bench.job.content import message_numbering
from natstui.bench.job.sequences import FOREIGN_PUBLISHER, SequenceSet, merge_dumps
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.model.bench.counts import Counts, total_counts
from natstui.model.bench.plan import Role
from natstui.model.bench.result import Accounting
from natstui.units import counted


class ConsumerFigures(Struct, frozen=True):
    """The counts of a consumer at one time, from CONSUMER.INFO."""

    delivered_msgs: int
    """Number of deliveries so far, with every redelivery (`delivered.consumer_seq`)."""
    pending_msgs: int
    """Number of messages that were never delivered yet (`num_pending`)."""
    ack_pending_msgs: int
    """Number of messages that were delivered and not acked (`num_ack_pending`)."""
    is_filtered: bool
    """Whether the consumer has a filter subject."""
    max_deliver_count: int = 0
    """Maximum of deliveries of a message (`max_deliver`); 0: no limit."""


def make_figures(consumer: ConsumerRow) -> ConsumerFigures:
    """Return the current figures of a consumer."""
    config = consumer.read_config()
    return ConsumerFigures(
        delivered_msgs=consumer.delivered.consumer_seq,
        pending_msgs=consumer.num_pending,
        ack_pending_msgs=consumer.num_ack_pending,
        is_filtered=bool(config.get("filter_subject") or config.get("filter_subjects")),
        max_deliver_count=max(config.get("max_deliver") or 0, 0),
    )


class ConsumerSpan(Struct, frozen=True):
    """The counts of a consumer before and after a run."""

    begin: ConsumerFigures
    end: ConsumerFigures

    @property
    def delivered_msgs(self) -> int:
        """Return the number of deliveries during the run, with every redelivery.

        It is 0 for a consumer that was recreated and delivered less than before."""
        return max(self.end.delivered_msgs - self.begin.delivered_msgs, 0)

    def deliverable_msgs(self, stored_msgs: int | None) -> int | None:
        """Return how many different messages its readers should receive; None with a filter.

        `stored_msgs` are the messages stored during the run.
        """
        return deliverable_msgs(self.begin, stored_msgs)

    def redelivered_msgs(
        self, stored_msgs: int | None, counted_msgs: int, received_msgs: int
    ) -> int:
        """Return how many deliveries were redeliveries.

        These are all deliveries less the messages that were delivered at least once. The readers
        received `received_msgs` deliveries, of which `counted_msgs` were redeliveries: the result
        is at least that, and at most that plus the unread deliveries.
        """
        max_msgs = counted_msgs + max(self.delivered_msgs - received_msgs, 0)
        if stored_msgs is None or self.begin.is_filtered:
            return counted_msgs
        first_deliveries = self.begin.pending_msgs + stored_msgs - self.end.pending_msgs
        return min(max(self.delivered_msgs - first_deliveries, counted_msgs), max_msgs)


def deliverable_msgs(start: ConsumerFigures, stored_msgs: int | None) -> int | None:
    """Return how many different messages a consumer should deliver; None with a filter.

    `start` are its figures before the run, `stored_msgs` the messages stored during the run.
    """
    if stored_msgs is None or start.is_filtered:
        return None
    return stored_msgs + start.pending_msgs + start.ack_pending_msgs


class WorkerCounts(Struct, frozen=True):
    """The final counts of one worker, and the sequences that it received."""

    name: str
    role: Role
    worker_id: int
    reported_counts: Counts
    """The sum of the counts in its reports."""
    totals: Counts | None
    """The totals in its final report; None without one."""
    received_sequences: dict[str, dict[str, str]] | None
    publisher_id: int = 0
    sent_before_subscribing_by_publisher: Mapping[int, int] = field(default_factory=dict)
    """Publisher id → messages that it had sent, at most, when this receiver subscribed."""
    removed_before_start_msgs: int = 0
    """Messages that the stream had removed before this ordered receiver started."""
    has_stamps: bool = False
    """Whether stamps identify the messages of its run."""


class ReceiverGroup(Struct, frozen=True):
    """The receivers that share one copy of the messages, such as a queue group."""

    role: Role
    workers: tuple[WorkerCounts, ...]

    @property
    def received_msgs(self) -> int:
        """Return how many messages of this run the group received, with every redelivery."""
        return sum(worker.reported_counts.received_msgs for worker in self.workers)

    @property
    def foreign_msgs(self) -> int:
        """Return how many messages of other senders the group received, with every redelivery."""
        return sum(worker.reported_counts.foreign_msgs for worker in self.workers)

    @property
    def foreign_distinct_msgs(self) -> int:
        """Return how many different messages of other senders the group received.

        Messages of core NATS have no sequence: repeats are counted too.
        """
        foreign_seqs = self._all_sequences().get(FOREIGN_PUBLISHER)
        return self.foreign_msgs if foreign_seqs is None else foreign_seqs.count

    @property
    def has_missing_report(self) -> bool:
        """Return whether a receiver ended without a final report."""
        return any(worker.received_sequences is None for worker in self.workers)

    def distinct_msgs(self) -> int | None:
        """Return how many different messages the group received; None if that is unknown.

        It is unknown without final reports, and for messages without stamps and sequences.
        """
        if self.has_missing_report:
            return None
        sequences = self.sequences_by_publisher()
        if not sequences and self.received_msgs:
            return None
        return sum(seqs.count for seqs in sequences.values())

    def sequences_by_publisher(self) -> dict[int, SequenceSet]:
        """Return the received sequences of this run, by publisher."""
        return {
            publisher: seqs for publisher, seqs in self._all_sequences().items() if publisher >= 0
        }

    def _all_sequences(self) -> dict[int, SequenceSet]:
        return merge_dumps(
            worker.received_sequences
            for worker in self.workers
            if worker.received_sequences is not None
        )


def receiver_groups(workers: Sequence[WorkerCounts]) -> list[ReceiverGroup]:
    """Return the receivers in groups that share one copy of the messages.

    The members of a queue group or the readers of a consumer are a group; every other receiver is
    a group of one.
    """
    workers_by_group: dict[str, list[WorkerCounts]] = {}
    single_receiver_groups: list[ReceiverGroup] = []
    for worker in workers:
        if not worker.role.traits.receives:
            continue
        if has_shared_messages(worker.role):
            workers_by_group.setdefault(worker.role.name, []).append(worker)
        else:
            single_receiver_groups.append(ReceiverGroup(worker.role, (worker,)))
    return [
        ReceiverGroup(group_workers[0].role, tuple(group_workers))
        for group_workers in workers_by_group.values()
    ] + single_receiver_groups


def has_shared_messages(role: Role) -> bool:
    """Return whether the workers of a receiving role share one copy of the messages."""
    return role.traits.has_shared_consumer or (not role.traits.consumes and role.queue is not None)


def expected_msgs(
    group: ReceiverGroup,
    workers: Sequence[WorkerCounts],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    span: ConsumerSpan | None,
    own_msgs: int | None,
) -> int | None:
    """Return how many messages of this run a group should have received; None if unknown.

    `stored_msgs` are all messages stored during the run, `own_msgs` those that the run sent,
    `waiting_msgs` those that the stream had before. `span` are the counts of the consumer that
    the group shares.
    """
    if span is not None:
        deliverable_msgs = span.deliverable_msgs(stored_msgs)
        return (
            None
            if deliverable_msgs is None
            else max(deliverable_msgs - group.foreign_distinct_msgs, 0)
        )
    if group.role.traits.consumes:
        # Without its counts it is unknown what a shared consumer still has.
        if stored_msgs is None or group.role.traits.has_shared_consumer:
            return None
        if own_msgs is not None and all(worker.has_stamps for worker in group.workers):
            return _expected_stream_msgs(group, own_msgs)
        return _expected_stream_msgs(group, stored_msgs + (waiting_msgs or 0))
    senders = [
        worker
        for worker in workers
        if worker.role.traits.sends and worker.role.subject == group.role.subject
    ]
    return _expected_subject_msgs(group, senders) if senders else None


def _expected_stream_msgs(group: ReceiverGroup, all_msgs: int) -> int:
    """Return how many of `all_msgs` an ordered receiver should have received.

    Messages that the stream removed before the receiver started are left out, except those that
    the receiver received.
    """
    dropped_msgs = min(worker.removed_before_start_msgs for worker in group.workers)
    return min(max(all_msgs - dropped_msgs, group.distinct_msgs() or 0), all_msgs)


def _expected_subject_msgs(group: ReceiverGroup, senders: Sequence[WorkerCounts]) -> int:
    """Return how many messages subscribers should have received: those sent after the first one
    subscribed.

    Messages sent just before that count if they were received.
    """
    sent_msgs = sum(worker.reported_counts.sent_msgs for worker in senders)
    sent_before_subscribing_by_publisher = {
        worker.publisher_id: _count_sent_before(group, worker) for worker in senders
    }
    if group.distinct_msgs() is None:
        return min(
            max(
                sent_msgs - sum(sent_before_subscribing_by_publisher.values()), group.received_msgs
            ),
            sent_msgs,
        )
    seqs_by_publisher, expected_count = group.sequences_by_publisher(), 0
    for worker in senders:
        start = _count_distinct_msgs(
            worker.role, sent_before_subscribing_by_publisher[worker.publisher_id]
        )
        received_seqs = seqs_by_publisher.get(worker.publisher_id)
        expected_count += (
            _count_distinct_msgs(worker.role, worker.reported_counts.sent_msgs) - start
        )
        expected_count += (
            0 if received_seqs is None else start - received_seqs.missing_below(start)
        )
    return expected_count


def _count_sent_before(group: ReceiverGroup, sender: WorkerCounts) -> int:
    min_sent_before_msgs = min(
        worker.sent_before_subscribing_by_publisher.get(sender.publisher_id, 0)
        for worker in group.workers
    )
    return min(min_sent_before_msgs, sender.reported_counts.sent_msgs)


def _count_distinct_msgs(role: Role, sent_msgs: int) -> int:
    """Return how many different messages the first `sent_msgs` sends of a role have.

    Some messages are sent twice on purpose.
    """
    if not sent_msgs:
        return 0
    return int(message_numbering(role.payload.duplicate_ratio)(np.array([sent_msgs - 1]))[0]) + 1


_NO_CONSUMERS: Mapping[str, ConsumerSpan] = MappingProxyType({})


class _Deliveries(Struct, frozen=True):
    """The server's counts of deliveries, summed over all groups; None without a consumer."""

    delivered_msgs: int | None
    unread_msgs: int | None
    unacked_msgs: int | None
    redelivered_msgs: int
    errors: tuple[str, ...]


class _GroupCounts(Struct, frozen=True):
    """The numbers of expected and received messages: one entry per group; None if unknown."""

    received_msgs: int
    expected_msgs: tuple[int | None, ...]
    distinct_msgs: tuple[int | None, ...]
    distinct_or_received_msgs: tuple[int, ...]
    """Numbers of different received messages; of all received ones if that is unknown."""
    lost_msgs_by_group: tuple[int | None, ...]


def compute_accounting(
    workers: Sequence[WorkerCounts],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    consumers: Mapping[str, ConsumerSpan] = _NO_CONSUMERS,
    *,
    is_stream_shared: bool = False,
) -> Accounting:
    """Return the accounting of a run, with a sentence for each sum that does not add up.

    `stored_msgs` are the messages stored during the run, `waiting_msgs` those that the stream had
    before; both None without a stream. `consumers` are the shared ones, by role.
    `is_stream_shared`: the stream existed before the run, so others may publish to it.
    """
    counts = total_counts(worker.reported_counts for worker in workers)
    groups = receiver_groups(workers)
    msgs_of_others = _count_stored_by_others(
        workers, groups, stored_msgs, is_stream_shared=is_stream_shared
    )
    own_msgs = None if stored_msgs is None else max(stored_msgs - msgs_of_others, 0)
    group_counts = _count_groups(groups, consumers, workers, stored_msgs, waiting_msgs, own_msgs)
    deliveries = _sum_deliveries(groups, consumers, stored_msgs)
    errors = [
        *_final_report_errors(workers),
        *_ack_errors(workers, own_msgs),
        *deliveries.errors,
    ]
    errors += _excess_errors(
        groups, group_counts.expected_msgs, group_counts.distinct_or_received_msgs
    )
    return Accounting(
        sent_msgs=_sum_sent_msgs(workers),
        acked_msgs=counts.acked_msgs,
        duplicate_acked_msgs=counts.duplicate_acked_msgs,
        refused_msgs=counts.refused_msgs,
        unanswered_msgs=counts.unanswered_msgs,
        missed_msgs=counts.missed_msgs,
        stored_msgs=own_msgs,
        expected_msgs=_sum_or_none(group_counts.expected_msgs),
        received_msgs=group_counts.received_msgs if groups else _sum_replies(workers),
        distinct_msgs=_sum_or_none(group_counts.distinct_msgs),
        redelivered_msgs=deliveries.redelivered_msgs,
        duplicate_msgs=max(
            group_counts.received_msgs - sum(group_counts.distinct_or_received_msgs), 0
        ),
        lost_msgs=_sum_or_none(group_counts.lost_msgs_by_group),
        out_of_order_msgs=counts.out_of_order_msgs,
        closes=not errors,
        missing=tuple(errors),
        delivered_msgs=deliveries.delivered_msgs,
        unread_msgs=deliveries.unread_msgs,
        unsettled_msgs=deliveries.unacked_msgs,
        retried_msgs=counts.retried_msgs,
        foreign_msgs=counts.foreign_msgs,
        measures=bool(counts.steady_sent_msgs or counts.steady_received_msgs),
    )


def _count_stored_by_others(
    workers: Sequence[WorkerCounts],
    groups: Sequence[ReceiverGroup],
    stored_msgs: int | None,
    *,
    is_stream_shared: bool,
) -> int:
    """Return how many of the messages stored during the run are of other senders.

    These are the foreign messages of its receivers; in a shared stream also those beyond the acked
    and unanswered messages of its senders.
    """
    if stored_msgs is None:
        return 0
    stream_groups = [group for group in groups if group.role.traits.consumes]
    foreign_msgs = max((group.foreign_distinct_msgs for group in stream_groups), default=0)
    if is_stream_shared and any(worker.role.traits.is_stored for worker in workers):
        counts = total_counts(
            worker.reported_counts for worker in workers if worker.role.traits.is_stored
        )
        foreign_msgs = max(foreign_msgs, stored_msgs - counts.acked_msgs - counts.unanswered_msgs)
    return foreign_msgs


def _sum_sent_msgs(workers: Sequence[WorkerCounts]) -> int:
    return sum(worker.reported_counts.sent_msgs for worker in workers if worker.role.traits.sends)


def _sum_deliveries(
    groups: Sequence[ReceiverGroup], consumers: Mapping[str, ConsumerSpan], stored_msgs: int | None
) -> _Deliveries:
    """Return the server's counts of deliveries, with a sentence if the workers received more."""
    delivered_msgs = unread_msgs = ack_pending_msgs = redelivered_msgs = 0
    errors, spans = [], [consumers.get(group.role.name) for group in groups]
    for group, span in zip(groups, spans, strict=True):
        counted_msgs = sum(worker.reported_counts.redelivered_msgs for worker in group.workers)
        received_msgs = group.received_msgs + group.foreign_msgs
        if span is None:
            redelivered_msgs += counted_msgs
            continue
        delivered_msgs += span.delivered_msgs
        unread_msgs += max(span.delivered_msgs - received_msgs, 0)
        ack_pending_msgs += span.end.ack_pending_msgs
        redelivered_msgs += span.redelivered_msgs(stored_msgs, counted_msgs, received_msgs)
        if received_msgs > span.delivered_msgs:
            errors.append(
                f"role {group.role.name} received {counted(received_msgs, 'delivery')}, "
                f"but the server counts {span.delivered_msgs}"
            )
    has_span = any(span is not None for span in spans)
    return _Deliveries(
        delivered_msgs=delivered_msgs if has_span else None,
        unread_msgs=unread_msgs if has_span else None,
        unacked_msgs=ack_pending_msgs if has_span else None,
        redelivered_msgs=redelivered_msgs,
        errors=tuple(errors),
    )


def _count_groups(
    groups: Sequence[ReceiverGroup],
    consumers: Mapping[str, ConsumerSpan],
    workers: Sequence[WorkerCounts],
    stored_msgs: int | None,
    waiting_msgs: int | None,
    own_msgs: int | None,
) -> _GroupCounts:
    """Return the numbers of messages that the groups received, should have received, and lost."""
    spans = [consumers.get(group.role.name) for group in groups]
    expected_counts = [
        expected_msgs(group, workers, stored_msgs, waiting_msgs, span, own_msgs)
        for group, span in zip(groups, spans, strict=True)
    ]
    distinct_msgs = [group.distinct_msgs() for group in groups]
    distinct_or_received_msgs = [
        group.received_msgs if msgs is None else msgs
        for group, msgs in zip(groups, distinct_msgs, strict=True)
    ]
    lost_counts = [
        None
        if expected_count is None or group.has_missing_report
        else max(expected_count - received_count - _count_undelivered_msgs(group, span), 0)
        for group, expected_count, received_count, span in zip(
            groups, expected_counts, distinct_or_received_msgs, spans, strict=True
        )
    ]
    return _GroupCounts(
        received_msgs=sum(group.received_msgs for group in groups),
        expected_msgs=tuple(expected_counts),
        distinct_msgs=tuple(distinct_msgs),
        distinct_or_received_msgs=tuple(distinct_or_received_msgs),
        lost_msgs_by_group=tuple(lost_counts),
    )


def _count_undelivered_msgs(group: ReceiverGroup, span: ConsumerSpan | None) -> int:
    """Return how many messages a group did not receive that are not lost.

    They are pending or ack pending; without acks also those that were delivered after the run.
    """
    if span is None or group.role.acks != "none" or not group.foreign_msgs:
        return undelivered_msgs(span)
    unread_msgs = span.delivered_msgs - group.received_msgs - group.foreign_msgs
    return undelivered_msgs(span) + max(unread_msgs, 0)


def undelivered_msgs(span: ConsumerSpan | None) -> int:
    """Return how many messages of a consumer are pending or ack pending after the run.

    They are not lost. 0 without a consumer.
    """
    return 0 if span is None else span.end.pending_msgs + span.end.ack_pending_msgs


def _sum_replies(workers: Sequence[WorkerCounts]) -> int:
    """Return how many replies, and messages of direct gets, the workers received."""
    return sum(
        worker.reported_counts.received_msgs
        for worker in workers
        if worker.role.traits.receives_replies
    )


def _sum_or_none(numbers: Sequence[int | None]) -> int | None:
    present_numbers = [number for number in numbers if number is not None]
    return (
        sum(present_numbers) if present_numbers and len(present_numbers) == len(numbers) else None
    )


def _final_report_errors(workers: Sequence[WorkerCounts]) -> list[str]:
    sentences = []
    for worker in workers:
        if worker.totals is None:
            sentences.append(f"worker {worker.name} sent no final report")
        elif worker.totals != worker.reported_counts:
            sentences.append(f"the reports of worker {worker.name} do not add up to its totals")
    return sentences


def _ack_errors(workers: Sequence[WorkerCounts], stored_msgs: int | None) -> list[str]:
    storing_counts = [worker.reported_counts for worker in workers if worker.role.traits.is_stored]
    if not storing_counts:
        return []
    counts, sentences = total_counts(storing_counts), []
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


def _excess_errors(
    groups: Sequence[ReceiverGroup],
    expected_counts: Sequence[int | None],
    received_counts: Sequence[int],
) -> list[str]:
    return [
        f"role {group.role.name} received {received} different messages, "
        f"and only {expected} were sent to it"
        for group, expected, received in zip(groups, expected_counts, received_counts, strict=True)
        if expected is not None and received > expected
    ]
