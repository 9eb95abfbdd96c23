"""An analysis of a recorded session in the engine: its progress and result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class StartAnalysis:
    """Analyse a session in a child process; one at a time."""

    command_id: int
    session: str | None = None
    """A folder, an id, a name, or `last`; None: the newest, or the replayed one."""


@dataclass(frozen=True, slots=True)
class StopAnalysis:
    """Stop the running analysis; no unfinished files are left."""

    command_id: int


@dataclass(frozen=True, slots=True)
class AnalysisProgress:
    """The progress of an analysis. For the viewer only: it is never recorded."""

    at_us: int
    run_id: int
    """The `command_id` of its start."""
    session: str
    """Name of the session's folder."""
    text: str
    """The current step, in a few words."""
    done_count: int
    """Finished steps."""
    steps_count: int
    tasks_done_count: int
    """Finished Spark tasks of this step."""
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
    """Every table with its columns and first rows, as printed by `natstui analyze --json`."""


AnalysisCommand = StartAnalysis | StopAnalysis
AnalysisRecord = AnalysisProgress | AnalysisFinished


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """The last started analysis, with its newest progress."""

    progress: AnalysisProgress | None = None
    finished: AnalysisFinished | None = None
    began_at_us: int | None = None
    """When it first reported progress."""

    @property
    def run_id(self) -> int | None:
        """Return the `command_id` of the analysis; None before the first record."""
        newest = self.finished or self.progress
        return newest.run_id if newest is not None else None

    @property
    def running(self) -> AnalysisProgress | None:
        """Return the newest progress of a running analysis; None after its end."""
        return self.progress if self.finished is None else None

    def after(self, record: AnalysisRecord) -> AnalysisRun:
        """Return the run after one more record; progress of another run replaces it."""
        match record:
            case AnalysisProgress():
                is_same_run = self.progress is not None and self.progress.run_id == record.run_id
                return AnalysisRun(record, None, self.began_at_us if is_same_run else record.at_us)
            case AnalysisFinished():
                is_same_run = self.progress is not None and self.progress.run_id == record.run_id
                return AnalysisRun(self.progress if is_same_run else None, record)
