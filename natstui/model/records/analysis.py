"""An analysis of a recorded session that the engine runs: its progress and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class StartAnalysis:
    """Analyse a session in a process of its own; one at a time."""

    command_id: int
    session: str | None = None
    """A folder, an id, a name, or `last`; None: the newest, or the one that is replayed."""


@dataclass(frozen=True, slots=True)
class StopAnalysis:
    """End the running analysis; no unfinished files are left."""

    command_id: int


@dataclass(frozen=True, slots=True)
class AnalysisProgress:
    """How far an analysis is. For the viewer only: it is never recorded."""

    at_us: int
    run_id: int
    """The `command_id` it was started with."""
    session: str
    """Name of the session's folder."""
    text: str
    """The step it is at, in a few words."""
    done_count: int
    """Steps that are done."""
    steps_count: int
    tasks_done_count: int
    """Spark's tasks of this step."""
    tasks_count: int


@dataclass(frozen=True, slots=True)
class AnalysisFinished:
    """An analysis ended. For the viewer only: it is never recorded."""

    at_us: int
    run_id: int
    session: str | None
    """None when the session was not found."""
    status: Literal["done", "cancelled", "failed"]
    text: str
    """One sentence for people."""
    result_json: str | None = None
    """Every table with its columns and first rows, as `natstui analyze --json` prints it."""


AnalysisCommand = StartAnalysis | StopAnalysis
AnalysisRecord = AnalysisProgress | AnalysisFinished


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """The analysis that was started last, with its newest progress."""

    progress: AnalysisProgress | None = None
    finished: AnalysisFinished | None = None
    began_at_us: int | None = None
    """When it first said how far it is."""

    @property
    def run_id(self) -> int | None:
        """The `command_id` of its start."""
        newest = self.finished or self.progress
        return newest.run_id if newest is not None else None

    @property
    def running(self) -> AnalysisProgress | None:
        """Its newest progress; None when it has ended."""
        return self.progress if self.finished is None else None

    def after(self, record: AnalysisRecord) -> AnalysisRun:
        """Return the run after one more record; progress of another run replaces it."""
        match record:
            case AnalysisProgress():
                same = self.progress is not None and self.progress.run_id == record.run_id
                return AnalysisRun(record, None, self.began_at_us if same else record.at_us)
            case AnalysisFinished():
                of_it = self.progress is not None and self.progress.run_id == record.run_id
                return AnalysisRun(self.progress if of_it else None, record)
