"""What a running benchmark can be told."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StartBenchmark:
    """Run a scenario: the name of a ready one, or the text of a file."""

    command_id: int
    scenario: str
    overrides: dict[str, str] = field(default_factory=dict)


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
class ListBenchmarks:
    """Answer with the ready scenarios and the names of saved runs, newest first."""

    command_id: int


@dataclass(frozen=True, slots=True)
class CompareRuns:
    """Answer with what changed from the first saved run to each other; one is shown as it is."""

    command_id: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadyScenario:
    """A scenario that comes with natstui."""

    name: str
    title: str
    text: str
    """The file, ready to be changed."""


BenchmarkCommand = (
    StartBenchmark
    | StopBenchmark
    | ChangeRate
    | KillWorker
    | AddWorker
    | ListBenchmarks
    | CompareRuns
)
