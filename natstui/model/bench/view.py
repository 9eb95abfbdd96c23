"""The view of a benchmark on its screen, which each of its records updates."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

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
from natstui.values import replace

MAX_POINTS = 600
MAX_BACKLOG_VALUES = 60
MAX_LOGS = 500
_SECOND_US = 1_000_000
_MAX_UNMERGED_REPORTS = 32
_PHASES_MARKED_IN_CHARTS = ("ramp", "warmup", "steady", "drain")

RoleAndWorkerId = tuple[str, int]


class WorkerPoint(Struct, frozen=True):
    """The counts and rates of a worker in an interval."""

    at_us: int
    interval_s: float
    sent_msgs: int
    acked_msgs: int
    received_msgs: int
    acks_sent_msgs: int
    cpu_ratio: float


class WorkerLatency(Struct, frozen=True):
    """The most important latency of a worker since the start."""

    name: str
    """Name of the latency."""
    parts: tuple[LatencyCounts, ...]
    """Its histogram, and the newest reports, which are merged in groups."""

    @property
    def total(self) -> LatencyCounts:
        """Return the histogram of all reports."""
        return merge(self.parts)

    def after(self, latencies: Latencies) -> WorkerLatency:
        """Return this latency with the histogram of one more report added."""
        histogram: LatencyCounts = getattr(latencies, self.name)
        if not histogram.buckets:
            return self
        parts = (*self.parts, histogram)
        return replace(
            self, parts=parts if len(parts) < _MAX_UNMERGED_REPORTS else (merge(parts),)
        )


class LatencyPoint(Struct, frozen=True):
    """Percentiles of each latency, by its name, over about one second."""

    at_us: int
    p50_ns: Mapping[str, int]
    p99_ns: Mapping[str, int]


class BenchmarkView(Struct, frozen=True):
    """The running or last benchmark."""

    run_id: str = ""
    planned: BenchmarkPlanned | None = None
    phase: PhaseName = "starting"
    progress: BenchmarkProgress | None = None
    series: Mapping[RoleAndWorkerId, tuple[WorkerPoint, ...]] = field(default_factory=dict)
    """Role and number of a worker → its newest intervals, oldest first, bounded."""
    totals: Mapping[RoleAndWorkerId, Counts] = field(default_factory=dict)
    measured: Mapping[RoleAndWorkerId, WorkerLatency] = field(default_factory=dict)
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
                    change="phase" if record.phase in _PHASES_MARKED_IN_CHARTS else None,
                    mark=record.phase,
                )
                return replace(_add_log(self, log), phase=record.phase)
            case BenchmarkReport():
                return _add_report(self, record)
            case BenchmarkProgress():
                behind_msgs = self.behind_msgs
                if record.pending_msgs is not None:
                    backlog_msgs = record.pending_msgs + (record.ack_pending_msgs or 0)
                    behind_msgs = (*behind_msgs[1 - MAX_BACKLOG_VALUES :], backlog_msgs)
                return replace(self, progress=record, behind_msgs=behind_msgs)
            case BenchmarkLog():
                return _add_log(self, record)
            case BenchmarkFinished():
                return replace(self, finished=record, phase="finished")
            case BenchmarkSummed():
                return replace(self, summed=record)


def _add_log(view: BenchmarkView, record: BenchmarkLog) -> BenchmarkView:
    return replace(view, log=(*view.log[1 - MAX_LOGS :], record))


def _add_report(view: BenchmarkView, report: BenchmarkReport) -> BenchmarkView:
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
    view = _add_latencies(view, report)
    points = (*view.series.get(key, ())[1 - MAX_POINTS :], point)
    merged, unmerged = view.merged, (*view.unmerged, report.latencies)
    if len(unmerged) >= _MAX_UNMERGED_REPORTS:
        merged, unmerged = merge_latencies((merged, *unmerged)), ()
    return replace(
        view,
        series={**view.series, key: points},
        totals={**view.totals, key: view.totals.get(key, Counts()).plus(counts)},
        measured=_update_main_latencies(view.measured, key, report.latencies),
        merged=merged,
        unmerged=unmerged,
    )


def _update_main_latencies(
    latency_by_worker: Mapping[RoleAndWorkerId, WorkerLatency],
    worker_key: RoleAndWorkerId,
    latencies: Latencies,
) -> Mapping[RoleAndWorkerId, WorkerLatency]:
    """Return the main latency of each worker, with a report of one worker added."""
    worker_latency, main_name_and_histogram = (
        latency_by_worker.get(worker_key),
        main_latency(latencies),
    )
    if main_name_and_histogram is None:
        return latency_by_worker
    if worker_latency is None or _is_more_important_latency(
        main_name_and_histogram[0], worker_latency.name
    ):
        return {
            **latency_by_worker,
            worker_key: WorkerLatency(main_name_and_histogram[0], (main_name_and_histogram[1],)),
        }
    return {**latency_by_worker, worker_key: worker_latency.after(latencies)}


def _is_more_important_latency(name: str, other_name: str) -> bool:
    return LATENCIES_BY_IMPORTANCE.index(name) < LATENCIES_BY_IMPORTANCE.index(other_name)


def _add_latencies(view: BenchmarkView, report: BenchmarkReport) -> BenchmarkView:
    """Return the view with a report's latencies added; a complete second becomes a point."""
    second = (*view.second, report.latencies)
    if not view.second_at_us:
        return replace(view, second=second, second_at_us=report.at_us)
    if report.at_us - view.second_at_us < _SECOND_US:
        return replace(view, second=second)
    merged_latencies = merge_latencies(second)
    histograms = {name: getattr(merged_latencies, name) for name in LATENCY_FIELDS}
    point = LatencyPoint(
        report.at_us,
        {
            name: latency_ns
            for name, histogram in histograms.items()
            if (latency_ns := histogram.percentile_ns(50)) is not None
        },
        {
            name: latency_ns
            for name, histogram in histograms.items()
            if (latency_ns := histogram.percentile_ns(99)) is not None
        },
    )
    seconds = (*view.seconds[1 - MAX_POINTS :], point)
    return replace(view, seconds=seconds, second=(), second_at_us=report.at_us)


class WorkerSoFar(Struct, frozen=True):
    """A worker: its newest intervals, oldest first, and its totals."""

    role: str
    worker_id: int
    points: tuple[WorkerPoint, ...]
    totals: Counts
    measured: WorkerLatency | None = None
    """Its most important measured latency."""


class BenchmarkSoFar(Struct, frozen=True):
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
            series={(worker.role, worker.worker_id): worker.points for worker in self.workers},
            totals={(worker.role, worker.worker_id): worker.totals for worker in self.workers},
            measured={
                (worker.role, worker.worker_id): worker.measured
                for worker in self.workers
                if worker.measured
            },
            **{name: getattr(self, name) for name in _FIELDS_OF_VIEW_AND_KEYFRAME},
        )


_FIELDS_OF_VIEW_AND_KEYFRAME = (
    "run_id", "planned", "phase", "progress", "merged", "unmerged", "seconds", "second",
    "second_at_us", "log", "finished", "summed", "behind_msgs",
)  # fmt: skip


def make_benchmark_so_far(view: BenchmarkView, at_us: int) -> BenchmarkSoFar:
    """Return all data of a benchmark's view, for a keyframe."""
    workers = tuple(
        WorkerSoFar(*key, points, view.totals[key], view.measured.get(key))
        for key, points in view.series.items()
    )
    return BenchmarkSoFar(
        at_us=at_us,
        workers=workers,
        **{name: getattr(view, name) for name in _FIELDS_OF_VIEW_AND_KEYFRAME},
    )
