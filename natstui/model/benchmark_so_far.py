"""A benchmark in the middle of its run, for the keyframe of a recording."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.benchmark import (
    BenchmarkFinished,
    BenchmarkLog,
    BenchmarkPlanned,
    BenchmarkProgress,
    BenchmarkSummed,
    PhaseName,
)
from natstui.model.benchmark_counts import Counts, Latencies
from natstui.model.benchmark_view import BenchmarkView, LatencyPoint, WorkerPoint


@dataclass(frozen=True, slots=True)
class WorkerSoFar:
    """One worker: its newest intervals, oldest first, and what it did since the start."""

    role: str
    worker_id: int
    points: tuple[WorkerPoint, ...]
    totals: Counts


@dataclass(frozen=True, slots=True)
class BenchmarkSoFar:
    """All that a screen shows of the running or last benchmark; stands in keyframes only."""

    at_us: int
    run_id: str
    planned: BenchmarkPlanned | None
    phase: PhaseName
    progress: BenchmarkProgress | None
    workers: tuple[WorkerSoFar, ...]
    merged: Latencies
    """Of all workers since the start, but for the newest reports:"""
    unmerged: tuple[Latencies, ...]
    seconds: tuple[LatencyPoint, ...]
    """Percentiles over time, oldest first."""
    second: tuple[Latencies, ...]
    """Reports of the second that is not over yet."""
    second_at_us: int
    log: tuple[BenchmarkLog, ...]
    finished: BenchmarkFinished | None
    summed: BenchmarkSummed | None

    def view(self) -> BenchmarkView:
        """Return it as screens know it."""
        return BenchmarkView(
            series={(w.role, w.worker_id): w.points for w in self.workers},
            totals={(w.role, w.worker_id): w.totals for w in self.workers},
            **{name: getattr(self, name) for name in _SAME},
        )


_SAME = (
    "run_id", "planned", "phase", "progress", "merged", "unmerged", "seconds", "second",
    "second_at_us", "log", "finished", "summed",
)  # fmt: skip


def so_far(view: BenchmarkView, at_us: int) -> BenchmarkSoFar:
    """Return a benchmark as a keyframe keeps it."""
    workers = tuple(
        WorkerSoFar(role, worker_id, points, view.totals[role, worker_id])
        for (role, worker_id), points in view.series.items()
    )
    return BenchmarkSoFar(
        at_us=at_us, workers=workers, **{name: getattr(view, name) for name in _SAME}
    )
