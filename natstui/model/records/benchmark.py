"""The records of a running benchmark (deltas), and the commands that change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import BenchmarkResult, PreviousRun
from natstui.model.records.confirmation import Confirmation

RunChange = Literal["phase", "added", "killed", "rate"]
PhaseName = Literal["starting", "ramp", "warmup", "steady", "drain", "finished"]


@dataclass(frozen=True, slots=True)
class BenchmarkPlanned:
    """A benchmark starts, with its entire plan."""

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
    """The counts of one worker since its last report: a delta."""

    at_us: int
    run_id: str
    role: str
    worker_id: int
    """Its number in the role, from 0."""
    interval_s: float
    """Time since its last report."""
    counts: Counts
    latencies: Latencies
    cpu_ratio: float
    """Share of one core, in this interval."""


@dataclass(frozen=True, slots=True)
class BenchmarkProgress:
    """The progress of the benchmark: totals."""

    at_us: int
    run_id: str
    phase: PhaseName
    elapsed_s: float
    left_s: float | None
    """Estimated time left; None without an estimate."""
    done_ratio: float | None
    """Progress, 0 … 1."""
    counts: Counts
    pending_msgs: int | None = None
    """Of the run's own consumers: not delivered yet."""
    ack_pending_msgs: int | None = None
    """Of the run's own consumers: delivered and not acknowledged."""
    stored_msgs: int | None = None
    """In the stream."""


@dataclass(frozen=True, slots=True)
class BenchmarkLog:
    """An event of the benchmark: a fault, a worker started or ended, a reconnect."""

    at_us: int
    run_id: str
    text: str
    worker: str | None = None
    """`role/number` of the worker it is about."""
    change: str | None = None
    """How it changed the run, a `RunChange`; None if it did not."""
    mark: str | None = None
    """The label of its mark on the time axis of charts."""


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
    """The end of a benchmark, for people: its summary, or why it could not run."""

    at_us: int
    text: str
    """Several lines."""
    failed: bool
    previous: PreviousRun | None = None
    """The last saved run of the same plan before it; None without one."""


BenchmarkRecord = (
    BenchmarkPlanned
    | BenchmarkPhase
    | BenchmarkReport
    | BenchmarkProgress
    | BenchmarkLog
    | BenchmarkFinished
    | BenchmarkSummed
)


@dataclass(frozen=True, slots=True)
class StartBenchmark:
    """Run a scenario: the name of a built-in one, or the text of a file."""

    command_id: int
    scenario: str
    overrides: dict[str, str] = field(default_factory=dict)
    confirmed: str | None = None
    """The typed name; None: none was typed."""
    decided_on: Confirmation | None = None
    """The confirmation when it was typed: nothing is consumed from another stream or consumer."""


@dataclass(frozen=True, slots=True)
class StopBenchmark:
    """End the running benchmark now; its result is marked partial."""

    command_id: int


@dataclass(frozen=True, slots=True)
class ChangeRate:
    """Multiply the rate of the senders, or set it for the role."""

    command_id: int
    factor_ratio: float | None = None
    rate_per_s: float | None = None
    role: str | None = None
    """None: every role that sends."""


@dataclass(frozen=True, slots=True)
class ChangePayload:
    """Change the payload of the senders."""

    command_id: int
    payload: str
    """In the format of `model.bench.payload_text`."""
    role: str | None = None
    """None: every role that sends."""


@dataclass(frozen=True, slots=True)
class KillWorker:
    """Kill a worker: its connection breaks as in a crash."""

    command_id: int
    role: str
    worker_id: int | None = None
    """None: the last one."""


@dataclass(frozen=True, slots=True)
class AddWorker:
    """Start one more worker of a role."""

    command_id: int
    role: str


@dataclass(frozen=True, slots=True)
class PauseWorkers:
    """Pause the last worker of a role, or all workers; resume them if all are paused."""

    command_id: int
    role: str | None = None
    """Its last worker is meant; None: every worker of the run."""


@dataclass(frozen=True, slots=True)
class ListBenchmarks:
    """Reply with the built-in scenarios, the names of the newest saved runs, newest first, and the
    number of all saved runs.
    """

    command_id: int


@dataclass(frozen=True, slots=True)
class CompareRuns:
    """Reply with a comparison of the first saved run with the others, or with a single run."""

    command_id: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuiltInScenario:
    """A built-in scenario."""

    name: str
    title: str
    text: str
    """The text of its file, to edit."""


BenchmarkCommand = (
    StartBenchmark
    | StopBenchmark
    | ChangeRate
    | ChangePayload
    | KillWorker
    | AddWorker
    | PauseWorkers
    | ListBenchmarks
    | CompareRuns
)
