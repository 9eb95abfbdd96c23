"""Makes the result of a run from its workers' reports: rates, fairness, notes, verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from natstui.bench.job.sequences import merge_dumps
from natstui.bench.job.tally import WorkerTimes
from natstui.bench.result.accounting import (
    ConsumerSpan,
    WorkerCounts,
    compute_accounting,
    undelivered_msgs,
)
from natstui.bench.result.server_process import ServerCpu
from natstui.model.bench.counts import Counts, Latencies, main_latency, total_counts
from natstui.model.bench.plan import BenchmarkPlan, Role
from natstui.model.bench.result import (
    BUSY_WORKER_CPU_RATIO,
    Accounting,
    BenchmarkResult,
    EndKind,
    Verdict,
    WorkerResult,
)
from natstui.units import counted, is_or_are, was_or_were
from natstui.values import replace


def add_responses(
    accounting: Accounting,
    workers: Sequence[WorkerCounts],
    consumers: Mapping[str, ConsumerSpan],
) -> Accounting:
    """Return the accounting with the numbers of responses and of requests without a response.

    It is unchanged if no worker sends requests over streams. `consumers` are those of the
    requests, by role.
    """
    requesters = [worker for worker in workers if worker.role.traits.awaits_responses]
    if not requesters:
        return accounting
    return replace(
        accounting,
        responses_msgs=sum(worker.reported_counts.received_msgs for worker in requesters),
        unresponded_msgs=_count_unresponded(requesters, accounting.stored_msgs, consumers),
    )


def _count_unresponded(
    requesters: Sequence[WorkerCounts],
    stored_msgs: int | None,
    consumers: Mapping[str, ConsumerSpan],
) -> int | None:
    """Return the number of stored requests without a response; None without all final reports.

    Requests that are still pending or ack pending are not counted.
    """
    if stored_msgs is None or any(worker.received_sequences is None for worker in requesters):
        return None
    responses = merge_dumps(
        worker.received_sequences for worker in requesters if worker.received_sequences is not None
    )
    undelivered_or_unacked_msgs = max(
        (undelivered_msgs(span) for span in consumers.values()), default=0
    )
    return max(
        stored_msgs - sum(seqs.count for seqs in responses.values()) - undelivered_or_unacked_msgs,
        0,
    )


_MAX_MISSED_SHARE_OF_SENT = 0.01
_CPU_NOT_MEASURED = ServerCpu(None, "CPU use was not measured")


class WorkerEnd(Struct, frozen=True):
    """The final state of one worker."""

    counts: WorkerCounts
    times: WorkerTimes
    cpu_ratio: float | None
    end_kind: EndKind
    latencies: Latencies = field(default_factory=Latencies)
    most_in_flight_msgs: int | None = None
    start_ns: int = 0
    """Time of its start: later than that of the run for an added worker."""


class RunOutcome(Struct, frozen=True):
    """The inputs of a result: the plan, the ended workers, and the counts of the server."""

    plan: BenchmarkPlan
    started_at_us: int
    steady_ns: int
    ended_ns: int
    workers: Sequence[WorkerEnd]
    latencies: Latencies
    stored_msgs: int | None
    waiting_msgs: int | None
    was_stopped: bool
    failure: str | None
    notes: Sequence[str] = field(default_factory=tuple)
    consumers: Mapping[str, ConsumerSpan] = field(default_factory=dict)
    """Role → the consumer that its workers shared, before and after the run."""
    server_cpu: ServerCpu = _CPU_NOT_MEASURED

    @property
    def waits_for_others(self) -> bool:
        """Return whether no worker sends or gets messages: the run begins when others publish."""
        return not any(role.traits.has_own_end for role in self.plan.roles)

    @property
    def measured_start_ns(self) -> int:
        """Return the start of the measured part, in ns of the steady clock.

        This is the start of the steady phase; in a run that waits for others, the first message
        of the phase.
        """
        first_received_times_ns = [worker.times.first_received_ns for worker in self.workers]
        if not self.waits_for_others or not any(first_received_times_ns):
            return self.steady_ns
        return min(filter(None, first_received_times_ns))

    def measured_received_msgs(self, worker: WorkerEnd) -> int:
        """Return how many messages a worker received after the start of the measured part."""
        received_msgs = worker.counts.reported_counts.steady_received_msgs
        if self.waits_for_others and worker.times.first_received_ns == self.measured_start_ns:
            # They were read at the start: some of them came before it.
            return received_msgs - worker.times.first_received_msgs
        return received_msgs


def make_result(outcome: RunOutcome) -> BenchmarkResult:
    """Return the result of a run: accounting, rates, latencies, verdict and notes."""
    counts = total_counts(worker.counts.reported_counts for worker in outcome.workers)
    workers_counts = [worker.counts for worker in outcome.workers]
    accounting_without_responses = compute_accounting(
        workers_counts,
        outcome.stored_msgs,
        outcome.waiting_msgs,
        outcome.consumers,
        is_stream_shared=outcome.plan.stream is not None and not outcome.plan.stream.create,
    )
    accounting = add_responses(accounting_without_responses, workers_counts, outcome.consumers)
    publish_per_s = _publish_rate(outcome)
    receive_per_s = _receive_rate(outcome)
    verdict = _verdict(outcome, accounting)
    return BenchmarkResult(
        title=outcome.plan.title,
        started_at_us=outcome.started_at_us,
        duration_s=_duration_s(
            outcome.measured_start_ns, _last_time_ns(outcome.workers, outcome.ended_ns)
        ),
        verdict=verdict,
        partial=verdict in ("failed", "stopped")
        or any(worker.end_kind == "died" for worker in outcome.workers),
        notes=(*outcome.notes, *_note_texts(outcome, accounting)),
        publish_per_s=publish_per_s,
        receive_per_s=receive_per_s,
        fan_out_ratio=_fan_out_ratio(outcome.plan, accounting),
        fairness_ratio=_fairness(outcome.workers),
        latencies=outcome.latencies,
        counts=counts,
        accounting=accounting,
        workers=tuple(_worker_result(outcome, worker) for worker in outcome.workers),
        server_cpu_ratio=outcome.server_cpu.ratio,
        server_cpu_unknown=outcome.server_cpu.unknown_reason,
    )


def _last_time_ns(workers: Iterable[WorkerEnd], default_ns: int) -> int:
    return max((worker.times.last_ns for worker in workers), default=0) or default_ns


def _duration_s(start_ns: int, end_ns: int) -> float:
    return max(end_ns - start_ns, 1) / 1e9


def steady_published_msgs(role: Role, counts: Counts) -> int:
    """Return the number of messages in the publish rate: those of the steady phase.

    Only acked messages count for a role that stores them.
    """
    if not role.traits.sends:
        return 0
    return counts.steady_acked_msgs if role.traits.is_stored else counts.steady_sent_msgs


def steady_received_msgs(role: Role, counts: Counts) -> int:
    """Return the number of messages in the receive rate: those received in the steady phase.

    Of requests over streams the responses count, not the requests.
    """
    traits = role.traits
    counts_messages = traits.receives_replies or (traits.receives and not traits.stores_responses)
    return counts.steady_received_msgs if counts_messages else 0


def _publish_rate(outcome: RunOutcome) -> float | None:
    senders = [worker for worker in outcome.workers if worker.counts.role.traits.sends]
    total = sum(
        steady_published_msgs(sender.counts.role, sender.counts.reported_counts)
        for sender in senders
    )
    last_ns = max((worker.times.last_sent_ns for worker in senders), default=0)
    return _rate_per_s(total, outcome.steady_ns, last_ns)


def _receive_rate(outcome: RunOutcome) -> float | None:
    receivers = [
        worker
        for worker in outcome.workers
        if (traits := worker.counts.role.traits).receives_replies
        or (traits.receives and not traits.stores_responses)
    ]
    total = sum(map(outcome.measured_received_msgs, receivers))
    last_ns = max((worker.times.last_received_ns for worker in receivers), default=0)
    return _rate_per_s(total, outcome.measured_start_ns, last_ns)


def _rate_per_s(msgs: int, start_ns: int, last_ns: int) -> float | None:
    """Return messages per second from a start to a last time; None if that is not later."""
    return msgs / _duration_s(start_ns, last_ns) if last_ns > start_ns else None


def _fan_out_ratio(plan: BenchmarkPlan, accounting: Accounting) -> float | None:
    stored_or_sent_msgs = accounting.stored_msgs or accounting.sent_msgs
    has_receivers = any(role.traits.receives for role in plan.roles)
    return (
        accounting.received_msgs / stored_or_sent_msgs
        if stored_or_sent_msgs and has_receivers
        else None
    )


def _fairness(workers: Sequence[WorkerEnd]) -> float | None:
    """Return Jain's fairness index (0 … 1) of the receivers' messages, or of the senders'."""
    msgs_by_worker = [
        worker.counts.reported_counts.received_msgs
        for worker in workers
        if worker.counts.role.traits.receives
    ] or [worker.counts.reported_counts.sent_msgs for worker in workers]
    sum_of_squares = sum(msgs * msgs for msgs in msgs_by_worker)
    return (
        sum(msgs_by_worker) ** 2 / (len(msgs_by_worker) * sum_of_squares)
        if sum_of_squares
        else None
    )


def _verdict(outcome: RunOutcome, accounting: Accounting) -> Verdict:
    if outcome.failure is not None:
        return "failed"
    if outcome.was_stopped:
        return "stopped"
    return "incomplete" if accounting.incomplete_reasons else "ok"


def _sentence_start(count: int, noun: str) -> str:
    """Return the subject and the verb of a sentence, as `3 messages were`."""
    return f"{counted(count, noun)} {was_or_were(count)}"


def _note_texts(outcome: RunOutcome, accounting: Accounting) -> Iterable[str]:
    if outcome.failure is not None:
        yield outcome.failure
    client_bound_names = [
        worker.counts.name
        for worker in outcome.workers
        if worker.cpu_ratio is not None and worker.cpu_ratio > BUSY_WORKER_CPU_RATIO
    ]
    if client_bound_names:
        names_text = ", ".join(client_bound_names)
        yield f"client-bound: {names_text} used over 90 % of a core; the server can do more"
    if accounting.missed_msgs > _MAX_MISSED_SHARE_OF_SENT * max(accounting.sent_msgs, 1):
        missed_text = _sentence_start(accounting.missed_msgs, "message")
        yield f"missed its rate: {missed_text} due but never sent"
    if accounting.unread_msgs:
        yield (
            f"{_sentence_start(accounting.unread_msgs, 'delivery')} not read: "
            "their worker had ended"
        )
    if accounting.unsettled_msgs:
        yield (
            f"{_sentence_start(accounting.unsettled_msgs, 'delivery')} not acknowledged "
            f"at the end: {_redelivery_text(outcome)}"
        )
    if accounting.foreign_msgs:
        foreign_msgs = accounting.foreign_msgs
        foreign_text = f"{counted(foreign_msgs, 'message')} came from other senders"
        yield f"{foreign_text} and {is_or_are(foreign_msgs)} not counted"
    if accounting.retried_msgs:
        retried_text = _sentence_start(accounting.retried_msgs, "message")
        yield f"{retried_text} sent again: the first try was refused"
    yield from accounting.incomplete_reasons


def _redelivery_text(outcome: RunOutcome) -> str:
    """Return a clause about the redelivery of the deliveries not acked at the end."""
    spans = {role: span for role, span in outcome.consumers.items() if span.end.ack_pending_msgs}
    max_deliver_limits = {span.end.max_deliver_count for span in spans.values()}
    if max_deliver_limits == {1}:
        return "the server does not redeliver them, as max deliver is 1"
    redelivered_text = "the server redelivers them after ack wait"
    if max_deliver_limits - {0}:
        redelivered_text += ", unless they have reached max deliver"
    if all(role.acks == "none" for role in outcome.plan.roles if role.name in spans):
        return redelivered_text
    return f"{redelivered_text}; a longer drain waits for them"


def _worker_result(outcome: RunOutcome, worker: WorkerEnd) -> WorkerResult:
    counts = worker.counts
    traits = counts.role.traits
    is_receiver = traits.receives or traits.reads_stored or traits.replies
    published_msgs = steady_published_msgs(counts.role, counts.reported_counts)
    msgs = outcome.measured_received_msgs(worker) if is_receiver else published_msgs
    latency_name, latency_counts = main_latency(worker.latencies) or (None, None)
    return WorkerResult(
        role=counts.role.name,
        worker_id=counts.worker_id,
        pattern=counts.role.pattern,
        counts=counts.reported_counts,
        cpu_ratio=worker.cpu_ratio,
        rate_per_s=_rate_per_s(
            msgs, max(outcome.measured_start_ns, worker.start_ns), worker.times.last_ns
        ),
        ended=worker.end_kind,
        latency=latency_name,
        p50_ns=None if latency_counts is None else latency_counts.percentile_ns(50),
        p99_ns=None if latency_counts is None else latency_counts.percentile_ns(99),
        most_in_flight_msgs=worker.most_in_flight_msgs,
    )
