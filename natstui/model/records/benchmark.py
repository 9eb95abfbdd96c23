"""The records of a running benchmark (deltas), and the commands that change it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import BenchmarkResult, PreviousRun
from natstui.model.records.confirmation import Confirmation

RunChange = Literal["phase", "added", "killed", "rate"]
PhaseName = Literal["starting", "ramp", "warmup", "steady", "drain", "finished"]


class BenchmarkPlanned(Struct, frozen=True):
    """A benchmark starts, with its entire plan."""

    at_us: int
    run_id: str
    plan: BenchmarkPlan


class BenchmarkPhase(Struct, frozen=True):
    """The benchmark entered a phase."""

    at_us: int
    run_id: str
    phase: PhaseName


class BenchmarkReport(Struct, frozen=True):
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


class BenchmarkProgress(Struct, frozen=True):
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


class BenchmarkLog(Struct, frozen=True):
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


class BenchmarkFinished(Struct, frozen=True):
    """A run is over."""

    at_us: int
    run_id: str
    result: BenchmarkResult
    saved_as: str | None
    """Its name in the run library."""


class BenchmarkSummed(Struct, frozen=True):
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


class StartBenchmark(Struct, frozen=True):
    """Run a scenario: the name of a built-in one, or the text of a file."""

    command_id: int
    scenario: str
    overrides: dict[str, str] = field(default_factory=dict)
    confirmed: str | None = None
    """The typed name; None: none was typed."""
    decided_on: Confirmation | None = None
    """The confirmation when it was typed: nothing is consumed from another stream or consumer."""


class StopBenchmark(Struct, frozen=True):
    """End the running benchmark now; its result is marked partial."""

    command_id: int


class ChangeRate(Struct, frozen=True):
    """Multiply the rate of the senders, or set it for the role."""

    command_id: int
    factor_ratio: float | None = None
    rate_per_s: float | None = None
    role: str | None = None
    """None: every role that sends."""


class ChangePayload(Struct, frozen=True):
    """Change the payload of the senders."""

    command_id: int
    payload: str
    """In the format of `model.bench.payload_text`."""
    role: str | None = None
    """None: every role that sends."""


class KillWorker(Struct, frozen=True):
    """Kill a worker: its connection breaks as in a crash."""

    command_id: int
    role: str
    worker_id: int | None = None
    """None: the last one."""


class AddWorker(Struct, frozen=True):
    """Start one more worker of a role."""

    command_id: int
    role: str


class PauseWorkers(Struct, frozen=True):
    """Pause the last worker of a role, or all workers; resume them if all are paused."""

    command_id: int
    role: str | None = None
    """Its last worker is meant; None: every worker of the run."""


class ListBenchmarks(Struct, frozen=True):
    """Reply with the built-in scenarios, the names of the newest saved runs, newest first, and the
    number of all saved runs.
    """

    command_id: int


class CompareRuns(Struct, frozen=True):
    """Reply with a comparison of the first saved run with the others, or with a single run."""

    command_id: int
    names: tuple[str, ...]


class BuiltInScenario(Struct, frozen=True):
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
