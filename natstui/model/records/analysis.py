"""An analysis of a recorded session in the engine: its commands and progress."""

from __future__ import annotations

from msgspec import Struct


class StartAnalysis(Struct, frozen=True):
    """Analyse a session in a child process; one at a time.

    The reply is sent at the end: its body has every table with its columns and first rows, as
    printed by `natstui analyze --json`.
    """

    command_id: int
    session: str | None = None
    """A folder, an id, a name, or `last`; None: the newest, or the replayed one."""


class StopAnalysis(Struct, frozen=True):
    """Stop the running analysis; no unfinished files are left."""

    command_id: int


class AnalysisProgress(Struct, frozen=True):
    """The progress of an analysis before its reply, for the viewer only: it is never recorded."""

    at_us: int
    command_id: int
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


AnalysisCommand = StartAnalysis | StopAnalysis
