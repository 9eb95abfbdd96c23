"""The fold of a benchmark's records into the view of its screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from natstui.model.bench.counts import (
    LATENCIES_BY_IMPORTANCE,
    LATENCY_FIELDS,
    Counts,
    Latencies,
    main_latency,
    merge_latencies,
)
from natstui.model.bench.latency import LatencyCounts, merge
from natstui.model.records.benchmark import (
    BenchmarkFinished,
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkProgress,
    BenchmarkRecord,
    BenchmarkReport,
    BenchmarkSummed,
    PhaseName,
)

POINTS_KEPT = 600
BEHIND_KEPT = 60
LOGS_KEPT = 500
_SECOND_US = 1_000_000
_MAX_UNMERGED = 32
_MARKED_PHASES = ("ramp", "warmup", "steady", "drain")

WorkerKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class WorkerPoint:
    """The counts and rates of a worker in an interval."""

    at_us: int
    interval_s: float
    sent_msgs: int
    acked_msgs: int
    received_msgs: int
    acks_sent_msgs: int
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class WorkerLatency:
    """A latency of a worker since the start."""

    name: str
    """Name of the latency."""
    parts: tuple[LatencyCounts, ...]
    """Its histogram, and the newest reports, which are merged in groups."""

    @property
    def total(self) -> LatencyCounts:
        """Return the histogram of all reports."""
        return merge(self.parts)

    def after(self, latencies: Latencies) -> WorkerLatency:
        """Return the latency after one more report."""
        histogram: LatencyCounts = getattr(latencies, self.name)
        if not histogram.buckets:
            return self
        parts = (*self.parts, histogram)
        return replace(self, parts=parts if len(parts) < _MAX_UNMERGED else (merge(parts),))


@dataclass(frozen=True, slots=True)
class LatencyPoint:
    """Latency → percentiles of about one second."""

    at_us: int
    p50_ns: Mapping[str, int]
    p99_ns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BenchmarkView:
    """The running or last benchmark."""

    run_id: str = ""
    planned: BenchmarkPlanned | None = None
    phase: PhaseName = "starting"
    progress: BenchmarkProgress | None = None
    series: Mapping[WorkerKey, tuple[WorkerPoint, ...]] = field(default_factory=dict)
    """Role and number of a worker → its newest intervals, oldest first, bounded."""
    totals: Mapping[WorkerKey, Counts] = field(default_factory=dict)
    measured: Mapping[WorkerKey, WorkerLatency] = field(default_factory=dict)
    """Role and number of a worker → its most important measured latency."""
    merged: Latencies = field(default_factory=Latencies)
    """Latencies of all workers since the start, except the newest reports."""
    unmerged: tuple[Latencies, ...] = ()
    """The newest reports, which are merged in groups, as a merge costs the same for many."""
    seconds: tuple[LatencyPoint, ...] = ()
    """Percentiles over time, oldest first, bounded."""
    second: tuple[Latencies, ...] = ()
    """Reports of the current second."""
    second_at_us: int = 0
    behind_msgs: tuple[int, ...] = ()
    """Pending and unacked messages at each of the last polls, oldest first."""
    log: tuple[BenchmarkLog, ...] = ()
    finished: BenchmarkFinished | None = None
    summed: BenchmarkSummed | None = None
    """Its summary, or the reason why it could not run."""

    @property
    def is_running(self) -> bool:
        """Return whether a benchmark was planned, and has neither finished nor failed."""
        return self.planned is not None and self.finished is None and self.summed is None

    @property
    def latencies(self) -> Latencies:
        """Return the latencies of all workers since the start."""
        return merge_latencies((self.merged, *self.unmerged))

    def after(self, record: BenchmarkRecord) -> BenchmarkView:
        """Return the view after one more record; a new plan starts a new view."""
        match record:
            case BenchmarkPlanned():
                return BenchmarkView(run_id=record.run_id, planned=record)
            case BenchmarkPhase():
                log = BenchmarkLog(
                    record.at_us,
                    record.run_id,
                    f"phase {record.phase}",
                    change="phase" if record.phase in _MARKED_PHASES else None,
                    mark=record.phase,
                )
                return replace(_add_log(self, log), phase=record.phase)
            case BenchmarkReport():
                return _after_report(self, record)
            case BenchmarkProgress():
                behind_msgs = self.behind_msgs
                if record.pending_msgs is not None:
                    now_msgs = record.pending_msgs + (record.ack_pending_msgs or 0)
                    behind_msgs = (*behind_msgs[1 - BEHIND_KEPT :], now_msgs)
                return replace(self, progress=record, behind_msgs=behind_msgs)
            case BenchmarkLog():
                return _add_log(self, record)
            case BenchmarkFinished():
                return replace(self, finished=record, phase="finished")
            case BenchmarkSummed():
                return replace(self, summed=record)


def _add_log(view: BenchmarkView, record: BenchmarkLog) -> BenchmarkView:
    return replace(view, log=(*view.log[1 - LOGS_KEPT :], record))


def _after_report(view: BenchmarkView, report: BenchmarkReport) -> BenchmarkView:
    key, counts = (report.role, report.worker_id), report.counts
    point = WorkerPoint(
        at_us=report.at_us,
        interval_s=report.interval_s,
        sent_msgs=counts.sent_msgs,
        acked_msgs=counts.acked_msgs,
        received_msgs=counts.received_msgs,
        acks_sent_msgs=counts.acks_sent_msgs,
        cpu_ratio=report.cpu_ratio,
    )
    view = _after_latencies(view, report)
    points = (*view.series.get(key, ())[1 - POINTS_KEPT :], point)
    merged, unmerged = view.merged, (*view.unmerged, report.latencies)
    if len(unmerged) >= _MAX_UNMERGED:
        merged, unmerged = merge_latencies((merged, *unmerged)), ()
    return replace(
        view,
        series={**view.series, key: points},
        totals={**view.totals, key: view.totals.get(key, Counts()).plus(counts)},
        measured=_update_measured(view.measured, key, report.latencies),
        merged=merged,
        unmerged=unmerged,
    )


def _update_measured(
    before: Mapping[WorkerKey, WorkerLatency], key: WorkerKey, latencies: Latencies
) -> Mapping[WorkerKey, WorkerLatency]:
    """Return the main latency of each worker, with a report of one worker added."""
    worker_latency, main = before.get(key), main_latency(latencies)
    if main is None:
        return before
    if worker_latency is None or _is_more_important(main[0], worker_latency.name):
        return {**before, key: WorkerLatency(main[0], (main[1],))}
    return {**before, key: worker_latency.after(latencies)}


def _is_more_important(name: str, other: str) -> bool:
    return LATENCIES_BY_IMPORTANCE.index(name) < LATENCIES_BY_IMPORTANCE.index(other)


def _after_latencies(view: BenchmarkView, report: BenchmarkReport) -> BenchmarkView:
    """Return the view with a report's latencies added; each complete second becomes a point."""
    second = (*view.second, report.latencies)
    if not view.second_at_us:
        return replace(view, second=second, second_at_us=report.at_us)
    if report.at_us - view.second_at_us < _SECOND_US:
        return replace(view, second=second)
    merged = merge_latencies(second)
    histograms = {name: getattr(merged, name) for name in LATENCY_FIELDS}
    point = LatencyPoint(
        report.at_us,
        {
            name: ns
            for name, histogram in histograms.items()
            if (ns := histogram.percentile_ns(50)) is not None
        },
        {
            name: ns
            for name, histogram in histograms.items()
            if (ns := histogram.percentile_ns(99)) is not None
        },
    )
    seconds = (*view.seconds[1 - POINTS_KEPT :], point)
    return replace(view, seconds=seconds, second=(), second_at_us=report.at_us)


@dataclass(frozen=True, slots=True)
class WorkerSoFar:
    """A worker: its newest intervals, oldest first, and its totals."""

    role: str
    worker_id: int
    points: tuple[WorkerPoint, ...]
    totals: Counts
    measured: WorkerLatency | None = None
    """Its most important measured latency."""


@dataclass(frozen=True, slots=True)
class BenchmarkSoFar:
    """All data of the screen of the running or last benchmark; only in keyframes."""

    at_us: int
    run_id: str
    planned: BenchmarkPlanned | None
    phase: PhaseName
    progress: BenchmarkProgress | None
    workers: tuple[WorkerSoFar, ...]
    merged: Latencies
    """Latencies of all workers since the start, except the newest reports."""
    unmerged: tuple[Latencies, ...]
    seconds: tuple[LatencyPoint, ...]
    """Percentiles over time, oldest first."""
    second: tuple[Latencies, ...]
    """Reports of the current second."""
    second_at_us: int
    log: tuple[BenchmarkLog, ...]
    finished: BenchmarkFinished | None
    summed: BenchmarkSummed | None
    behind_msgs: tuple[int, ...] = ()
    """Pending and unacked messages at each of the last polls, oldest first."""

    def view(self) -> BenchmarkView:
        """Return the view of these data."""
        return BenchmarkView(
            series={(w.role, w.worker_id): w.points for w in self.workers},
            totals={(w.role, w.worker_id): w.totals for w in self.workers},
            measured={(w.role, w.worker_id): w.measured for w in self.workers if w.measured},
            **{name: getattr(self, name) for name in _COMMON_FIELDS},
        )


_COMMON_FIELDS = (
    "run_id", "planned", "phase", "progress", "merged", "unmerged", "seconds", "second",
    "second_at_us", "log", "finished", "summed", "behind_msgs",
)  # fmt: skip


def so_far(view: BenchmarkView, at_us: int) -> BenchmarkSoFar:
    """Return the data of a benchmark for a keyframe."""
    workers = tuple(
        WorkerSoFar(*key, points, view.totals[key], view.measured.get(key))
        for key, points in view.series.items()
    )
    return BenchmarkSoFar(
        at_us=at_us, workers=workers, **{name: getattr(view, name) for name in _COMMON_FIELDS}
    )
