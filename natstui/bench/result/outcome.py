"""The result of a run from the reports of its workers: rates, fairness, notes, verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from natstui.bench.job.seen import union
from natstui.bench.result.accounting import ConsumerSpan, WorkerBook, account, undelivered_msgs
from natstui.bench.result.server_process import ServerCpu
from natstui.model.bench.counts import Counts, Latencies, main_latency, total_counts
from natstui.model.bench.plan import BenchmarkPlan, Role
from natstui.model.bench.result import Accounting, BenchmarkResult, EndedHow, Verdict, WorkerResult
from natstui.units import are, counted, were


def with_responses(
    accounting: Accounting,
    books: Sequence[WorkerBook],
    consumers: Mapping[str, ConsumerSpan],
) -> Accounting:
    """Return the account with responses, and with requests that had none.

    It is unchanged if no worker sends requests over streams. `consumers` are those of the
    requests, by role.
    """
    requesters = [worker_book for worker_book in books if worker_book.role.traits.awaits_responses]
    if not requesters:
        return accounting
    return replace(
        accounting,
        responses_msgs=sum(worker_book.reported.received_msgs for worker_book in requesters),
        unresponded_msgs=_unresponded(requesters, accounting.stored_msgs, consumers),
    )


def _unresponded(
    requesters: Sequence[WorkerBook],
    stored_msgs: int | None,
    consumers: Mapping[str, ConsumerSpan],
) -> int | None:
    """Return the number of stored requests without a response; None without all final reports.

    Requests that are pending in the stream or in a worker are late, and not counted.
    """
    if stored_msgs is None or any(worker_book.seen is None for worker_book in requesters):
        return None
    responses = union(
        worker_book.seen for worker_book in requesters if worker_book.seen is not None
    )
    deliverable_msgs = max((undelivered_msgs(span) for span in consumers.values()), default=0)
    return max(
        stored_msgs - sum(seqs.seen_count for seqs in responses.values()) - deliverable_msgs, 0
    )


CLIENT_BOUND_RATIO = 0.9
"""Share of a core above which a worker's own speed limits the result."""
_MISSED_RATIO = 0.01
_UNMEASURED = ServerCpu(None, "nobody looked")


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The final state of one worker."""

    book: WorkerBook
    last_sent_ns: int
    last_received_ns: int
    cpu_ratio: float | None
    ended: EndedHow
    latencies: Latencies = field(default_factory=Latencies)
    most_in_flight_msgs: int | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The inputs of the result."""

    plan: BenchmarkPlan
    started_at_us: int
    steady_ns: int
    ended_ns: int
    workers: Sequence[WorkerEnd]
    latencies: Latencies
    stored_msgs: int | None
    waiting_msgs: int | None
    stopped: bool
    failure: str | None
    notes: Sequence[str] = field(default_factory=tuple)
    consumers: Mapping[str, ConsumerSpan] = field(default_factory=dict)
    """Role → the consumer that its workers shared."""
    server_cpu: ServerCpu = _UNMEASURED


def conclude(end: RunOutcome) -> BenchmarkResult:
    """Return the result of a run: account, rates, latencies, limits that were reached."""
    counts = total_counts(worker.book.reported for worker in end.workers)
    worker_books = [worker.book for worker in end.workers]
    summed = account(
        worker_books,
        end.stored_msgs,
        end.waiting_msgs,
        end.consumers,
        is_shared=end.plan.stream is not None and not end.plan.stream.create,
    )
    accounting = with_responses(summed, worker_books, end.consumers)
    publish_per_s = _publish_rate(end)
    receive_per_s = _receive_rate(end)
    verdict = _verdict(end, accounting)
    return BenchmarkResult(
        title=end.plan.title,
        started_at_us=end.started_at_us,
        duration_s=_span_s(end.steady_ns, _last_ns(end.workers, end.ended_ns)),
        verdict=verdict,
        partial=verdict in ("failed", "stopped") or any(w.ended == "died" for w in end.workers),
        notes=(*end.notes, *_notes(end, accounting)),
        publish_per_s=publish_per_s,
        receive_per_s=receive_per_s,
        fan_out_ratio=_fan_out(end.plan, accounting),
        fairness_ratio=_fairness(end.workers),
        latencies=end.latencies,
        counts=counts,
        accounting=accounting,
        workers=tuple(_worker_result(end, worker) for worker in end.workers),
        server_cpu_ratio=end.server_cpu.ratio,
        server_cpu_unknown=end.server_cpu.unknown,
    )


def _last_ns(workers: Iterable[WorkerEnd], otherwise_ns: int) -> int:
    last = max(
        (max(worker.last_sent_ns, worker.last_received_ns) for worker in workers), default=0
    )
    return last or otherwise_ns


def _span_s(start_ns: int, end_ns: int) -> float:
    return max(end_ns - start_ns, 1) / 1e9


def steady_published_msgs(role: Role, counts: Counts) -> int:
    """Return the messages in the publish rate, of the steady phase.

    These are acked ones, if there are acks.
    """
    if not role.traits.sends:
        return 0
    return counts.steady_acked_msgs if role.traits.is_stored else counts.steady_sent_msgs


def steady_received_msgs(role: Role, counts: Counts) -> int:
    """Return the messages in the receive rate: those received in the steady phase.

    Of requests over streams these are the responses, not the requests.
    """
    does = role.traits
    is_counted = does.has_answers or (does.receives and not does.responds)
    return counts.steady_received_msgs if is_counted else 0


def _publish_rate(end: RunOutcome) -> float | None:
    senders = [worker for worker in end.workers if worker.book.role.traits.sends]
    total = sum(
        steady_published_msgs(sender.book.role, sender.book.reported) for sender in senders
    )
    last_ns = max((worker.last_sent_ns for worker in senders), default=0)
    return total / _span_s(end.steady_ns, last_ns) if last_ns else None


def _receive_rate(end: RunOutcome) -> float | None:
    receivers = [
        worker
        for worker in end.workers
        if (does := worker.book.role.traits).has_answers or (does.receives and not does.responds)
    ]
    total = sum(
        steady_received_msgs(receiver.book.role, receiver.book.reported) for receiver in receivers
    )
    last_ns = max((worker.last_received_ns for worker in receivers), default=0)
    return total / _span_s(end.steady_ns, last_ns) if last_ns else None


def _fan_out(plan: BenchmarkPlan, accounting: Accounting) -> float | None:
    base = accounting.stored_msgs or accounting.sent_msgs
    has_receivers = any(role.traits.receives for role in plan.roles)
    return accounting.received_msgs / base if base and has_receivers else None


def _fairness(workers: Sequence[WorkerEnd]) -> float | None:
    """Return Jain's fairness index of the receivers' messages, or of the senders'."""
    amounts = [
        worker.book.reported.received_msgs
        for worker in workers
        if worker.book.role.traits.receives
    ] or [worker.book.reported.sent_msgs for worker in workers]
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else None


def _verdict(end: RunOutcome, accounting: Accounting) -> Verdict:
    if end.failure is not None:
        return "failed"
    if end.stopped:
        return "stopped"
    return "incomplete" if accounting.complaints else "ok"


def _were(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {were(count)}"


def _notes(end: RunOutcome, accounting: Accounting) -> Iterable[str]:
    if end.failure is not None:
        yield end.failure
    bound = [
        worker.book.name
        for worker in end.workers
        if worker.cpu_ratio is not None and worker.cpu_ratio > CLIENT_BOUND_RATIO
    ]
    if bound:
        yield f"client-bound: {', '.join(bound)} used over 90 % of a core; the server can do more"
    if accounting.missed_msgs > _MISSED_RATIO * max(accounting.sent_msgs, 1):
        yield f"missed its rate: {_were(accounting.missed_msgs, 'message')} due but never sent"
    if accounting.unread_msgs:
        yield f"{_were(accounting.unread_msgs, 'delivery')} not read: their worker had ended"
    if accounting.unsettled_msgs:
        yield (
            f"{_were(accounting.unsettled_msgs, 'delivery')} not acknowledged at the end: "
            f"{_redelivery_text(end)}"
        )
    if accounting.foreign_msgs:
        foreign_msgs = accounting.foreign_msgs
        came_text = f"{counted(foreign_msgs, 'message')} came from other senders"
        yield f"{came_text} and {are(foreign_msgs)} not counted"
    if accounting.retried_msgs:
        yield f"{_were(accounting.retried_msgs, 'message')} sent again: the first try was refused"
    yield from accounting.complaints


def _redelivery_text(end: RunOutcome) -> str:
    """Return what the server does with deliveries that were not acked at the end."""
    spans = {role: span for role, span in end.consumers.items() if span.end.ack_pending_msgs}
    limits = {span.end.max_deliver_count for span in spans.values()}
    if limits == {1}:
        return "the server does not redeliver them, as max deliver is 1"
    redelivered_text = "the server redelivers them after ack wait"
    if limits - {0}:
        redelivered_text += ", unless they have reached max deliver"
    if all(role.acks == "none" for role in end.plan.roles if role.name in spans):
        return redelivered_text
    return f"{redelivered_text}; a longer drain waits for them"


def _worker_result(end: RunOutcome, worker: WorkerEnd) -> WorkerResult:
    worker_book = worker.book
    last_ns = max(worker.last_sent_ns, worker.last_received_ns)
    does = worker_book.role.traits
    receives = does.receives or does.reads_stored or does.answers
    published_msgs = steady_published_msgs(worker_book.role, worker_book.reported)
    msgs = worker_book.reported.steady_received_msgs if receives else published_msgs
    main = main_latency(worker.latencies)
    return WorkerResult(
        role=worker_book.role.name,
        worker_id=worker_book.worker_id,
        pattern=worker_book.role.pattern,
        counts=worker_book.reported,
        cpu_ratio=worker.cpu_ratio,
        rate_per_s=msgs / _span_s(end.steady_ns, last_ns) if last_ns else None,
        ended=worker.ended,
        latency=None if main is None else main[0],
        p50_ns=None if main is None else main[1].percentile_ns(50),
        p99_ns=None if main is None else main[1].percentile_ns(99),
        most_in_flight_msgs=worker.most_in_flight_msgs,
    )
