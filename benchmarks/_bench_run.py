"""Records of a benchmark that never ran: known rates, latencies and account, from a seed."""

from __future__ import annotations

import numpy as np

from natstui.model.bench.counts import Counts, Latencies, total_counts
from natstui.model.bench.latency import LatencyCounts, from_latencies
from natstui.model.bench.result import Accounting, BenchmarkResult, WorkerResult
from natstui.model.records.benchmark import BenchmarkFinished, BenchmarkPhase, BenchmarkReport
from natstui.model.records.record import Record

WARM_S, STEADY_S, COOL_S = 5, 40, 3
_ROLE = "pub"


def bench_records(
    start_at_us: int, run_id: str, seed: int, *, slower: float = 1.0, workers_count: int = 3
) -> tuple[Record, ...]:
    """Return the records of one run: slow start, a steady part, a slow end.

    `slower` multiplies every latency and divides every rate of the steady part.
    """
    rng = np.random.default_rng(seed)
    records: list[Record] = [BenchmarkPhase(start_at_us, run_id, "warmup")]
    reports: list[BenchmarkReport] = []
    for second in range(WARM_S + STEADY_S + COOL_S):
        at_us = start_at_us + second * 1_000_000
        if second == WARM_S:
            records.append(BenchmarkPhase(at_us, run_id, "steady"))
        if second == WARM_S + STEADY_S:
            records.append(BenchmarkPhase(at_us, run_id, "drain"))
        steady = WARM_S <= second < WARM_S + STEADY_S
        for worker in range(workers_count):
            rate = 1000 * (1 + worker) / slower * (1 if steady else 0.3)
            sent = int(rng.normal(rate, rate * 0.02))
            reports.append(_report(at_us, run_id, worker, sent, _latencies(rng, slower)))
            records.append(reports[-1])
    end_at_us = start_at_us + (WARM_S + STEADY_S + COOL_S) * 1_000_000
    workers = tuple(
        WorkerResult(_ROLE, worker, "js-request", _sum(reports, worker), 0.5, None, "done")
        for worker in range(workers_count)
    )
    result = _result(start_at_us, workers)
    return (*records, BenchmarkFinished(end_at_us, run_id, result, None))


def _sum(reports: list[BenchmarkReport], worker: int) -> Counts:
    return total_counts(report.counts for report in reports if report.worker_id == worker)


def _latencies(rng: np.random.Generator, slower: float) -> LatencyCounts:
    return from_latencies((rng.lognormal(13, 0.4, 50) * slower).astype(int).tolist())


def _report(
    at_us: int, run_id: str, worker: int, sent: int, ack: LatencyCounts
) -> BenchmarkReport:
    lost = 1 if sent % 7 == 0 else 0
    counts = Counts(sent_msgs=sent, sent_bytes=sent * 128, acked_msgs=sent - lost,
                    unanswered_msgs=lost, received_msgs=sent - lost)  # fmt: skip
    latencies = Latencies(ack=ack, ack_uncorrected=ack)
    return BenchmarkReport(at_us + 500_000, run_id, _ROLE, worker, 1.0, counts, latencies, 0.5)


def _result(start_at_us: int, workers: tuple[WorkerResult, ...]) -> BenchmarkResult:
    counts = total_counts(worker.counts for worker in workers)
    account = Accounting(
        sent_msgs=counts.sent_msgs, acked_msgs=counts.acked_msgs, duplicate_acked_msgs=0,
        refused_msgs=0, unanswered_msgs=counts.unanswered_msgs, missed_msgs=0,
        stored_msgs=counts.acked_msgs, expected_msgs=counts.acked_msgs,
        received_msgs=counts.received_msgs, distinct_msgs=counts.received_msgs,
        redelivered_msgs=0, duplicate_msgs=0, lost_msgs=0, out_of_order_msgs=0, closes=True,
    )  # fmt: skip
    return BenchmarkResult(
        title="synthetic", started_at_us=start_at_us, duration_s=float(STEADY_S), verdict="ok",
        partial=False, notes=(), publish_per_s=None, receive_per_s=None, fan_out_ratio=1.0,
        fairness_ratio=None, latencies=Latencies(), counts=counts, accounting=account,
        workers=workers,
    )  # fmt: skip
