"""Running plans against a real server; every run must add up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from natstui.bench.result.library import find_impossible_values
from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.model.bench.counts import main_latency, merge_latencies, total_counts
from natstui.model.bench.latency import EMPTY_HISTOGRAM
from natstui.model.bench.patterns import traits
from natstui.model.bench.plan import BenchmarkPlan, Role, StreamPlan
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.record import Record


@dataclass
class Records:
    """A sink that keeps everything."""

    all: list[Record] = field(default_factory=list)
    on_add: Callable[[Record], None] | None = None

    def add(self, record: Record) -> None:
        self.all.append(record)
        if self.on_add is not None:
            self.on_add(record)


def plan(
    *roles: Role,
    stream: StreamPlan | None = None,
    duration_s: float | None = None,
    drain_s: float = 20.0,
    warmup_s: float = 0.0,
) -> BenchmarkPlan:
    return BenchmarkPlan("test", "", roles, stream, duration_s, warmup_s, drain_s=drain_s)


async def run_plan(connection: Connection, what: BenchmarkPlan) -> tuple[BenchmarkResult, Records]:
    records = Records()
    result = await asyncio.wait_for(Benchmark(what, connection, records).run(), 120)
    check_sums(result, records)
    return result, records


def check_sums(result: BenchmarkResult, records: Records) -> None:
    """The intervals of each worker add up to its totals and latencies, and those to the run's."""
    reports = [record for record in records.all if isinstance(record, BenchmarkReport)]
    by_worker: dict[tuple[str, int], list[BenchmarkReport]] = {}
    for report in reports:
        by_worker.setdefault((report.role, report.worker_id), []).append(report)
    for worker in result.workers:
        own = by_worker.get((worker.role, worker.worker_id), [])
        assert total_counts(one.counts for one in own) == worker.counts
        name, told = main_latency(merge_latencies(one.latencies for one in own)) or (
            None,
            EMPTY_HISTOGRAM,
        )
        assert (worker.latency, worker.p50_ns) == (name, told.percentile_ns(50))
        assert worker.p99_ns == told.percentile_ns(99)
        answered = traits(worker.pattern).is_stored or traits(worker.pattern).awaits_reply
        assert answered <= (worker.most_in_flight_msgs is not None or not own), worker.pattern
    check_accounts(result)


def check_accounts(result: BenchmarkResult) -> None:
    """What the workers counted adds up, and every message of a whole run is accounted for."""
    assert total_counts(worker.counts for worker in result.workers) == result.counts
    # What a run saves can be read again.
    assert list(find_impossible_values(result, "result")) == []
    if not result.partial:
        assert result.accounting.closes, result.accounting.missing


Run = Callable[..., Awaitable[BenchmarkResult]]
