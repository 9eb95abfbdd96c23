"""What a benchmark tells while it runs: deltas are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.benchmark_counts import Counts, Latencies
from natstui.model.benchmark_result import BenchmarkResult
from natstui.model.benchmark_role import BenchmarkPlan

PhaseName = Literal["starting", "warmup", "ramp", "steady", "drain", "finished"]


@dataclass(frozen=True, slots=True)
class BenchmarkPlanned:
    """A benchmark begins; everything it is going to do."""

    at_us: int
    run_id: str
    plan: BenchmarkPlan


@dataclass(frozen=True, slots=True)
class BenchmarkPhase:
    """The benchmark entered a phase."""

    at_us: int
    run_id: str
    phase: PhaseName


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """What one worker did since its last report: a delta."""

    at_us: int
    run_id: str
    role: str
    worker_id: int
    """Its number in the role, from 0."""
    interval_s: float
    """Since its last report."""
    counts: Counts
    latencies: Latencies
    cpu_ratio: float
    """Of one core, in this interval."""


@dataclass(frozen=True, slots=True)
class BenchmarkProgress:
    """How far the benchmark is: a total."""

    at_us: int
    run_id: str
    phase: PhaseName
    elapsed_s: float
    left_s: float | None
    """Estimated; None while nobody can know."""
    done_ratio: float | None
    """0 … 1."""
    counts: Counts
    pending_msgs: int | None = None
    """Of the consumers made for it: not delivered yet."""
    ack_pending_msgs: int | None = None
    """Of the consumers made for it: delivered and not acknowledged."""
    stored_msgs: int | None = None
    """In the stream."""


@dataclass(frozen=True, slots=True)
class BenchmarkLog:
    """Something happened: a fault, a worker up or down, a reconnect."""

    at_us: int
    run_id: str
    text: str
    worker: str | None = None
    """`role/number` of the worker it is about."""


@dataclass(frozen=True, slots=True)
class BenchmarkFinished:
    """A run is over."""

    at_us: int
    run_id: str
    result: BenchmarkResult
    saved_as: str | None
    """Its name in the run library."""


@dataclass(frozen=True, slots=True)
class BenchmarkSummed:
    """What came of a benchmark, for people: its summary, or why it could not be."""

    at_us: int
    text: str
    """Several lines."""
    failed: bool


BenchmarkRecord = (
    BenchmarkPlanned
    | BenchmarkPhase
    | BenchmarkReport
    | BenchmarkProgress
    | BenchmarkLog
    | BenchmarkFinished
    | BenchmarkSummed
)
