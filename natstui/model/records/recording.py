"""What a recorder reports about itself, where a replay is, and one recording in a list of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.clean import clean_line
from natstui.model.records.findings import FindingsSoFar
from natstui.units import bytes_text

MarkKind = Literal[
    "advisory", "configuration", "note", "gap", "link", "unavailable", "action", "benchmark"
]

SessionAction = Literal["rename", "note", "pack", "pack redacted", "delete"]


@dataclass(frozen=True, slots=True)
class RecordingChanged:
    """The recorder started, stopped, grew, or is in trouble; never recorded itself."""

    at_us: int
    on: bool
    """Recording, even while it is in trouble: it goes on as soon as it can."""
    folder: str | None
    size_bytes: int | None
    """On disk, sealed and open segments together."""
    reason: str | None = None
    """One sentence: the trouble now; None while all is well."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The recorder could not write; what happened meanwhile may be missing."""

    at_us: int
    from_at_us: int
    """The last moment recorded before."""
    lost_records_count: int
    """Records that were given up; 0 when all of them waited in memory."""
    reason: str


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The wall clock was set; records from here on count from the new time."""

    at_us: int
    """On the new clock."""
    step_us: int
    """How far it was set forward; negative when it was set back."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment on the timeline that is worth a jump."""

    at_us: int
    kind: MarkKind
    text: str
    """One sentence for people."""


@dataclass(frozen=True, slots=True)
class ReplayReset:
    """Forget everything: the records that follow build another moment, until the next position.

    Nothing should be drawn between this and the next `ReplayPosition`.
    """

    at_us: int
    """The moment that is being built."""


@dataclass(frozen=True, slots=True)
class ReplayPosition:
    """Where the replay is. Sent after every seek and step, and while it plays."""

    at_us: int
    """The moment shown: everything recorded until then was sent."""
    start_at_us: int
    end_at_us: int
    """The newest moment recorded; it grows while the session is still being recorded."""
    speed_ratio: float
    """Times real time."""
    playing: bool
    recording: bool
    """Somebody is still recording the session."""
    newest_at_us: int | None = None
    """The moment of the newest record shown; its own time is another when the clock was set."""
    left_out_lines_count: int = 0
    """Lines of the recording that cannot be read, as far as it was looked at."""


@dataclass(frozen=True, slots=True)
class ReplayMarks:
    """Every mark on the timeline, ascending; sent at the start and when there are more."""

    at_us: int
    marks: tuple[Mark, ...]
    left_out_count: int
    """Marks beyond those a timeline can show."""


@dataclass(frozen=True, slots=True)
class StartRecording:
    """Record from now on; refused while a recording runs."""

    command_id: int
    name: str
    """For people, part of the folder's name; may be empty."""
    findings: FindingsSoFar | None = None
    """What is wrong already, and since when: the recording knows only what comes from now on."""


@dataclass(frozen=True, slots=True)
class StopRecording:
    """Seal the recording and end it."""

    command_id: int


@dataclass(frozen=True, slots=True)
class ListSessions:
    """Tell which recordings there are: a list of `SessionSummary`, the newest first."""

    command_id: int


@dataclass(frozen=True, slots=True)
class ChangeSession:
    """Do something to one recording of the library, as `natstui sessions` does."""

    command_id: int
    action: SessionAction
    folder: str
    """Of the session, on the engine's machine."""
    text: str = ""
    """The new name, the note, or the new file; `~` is the home of the engine's user."""


@dataclass(frozen=True, slots=True)
class Play:
    """Let the replay run."""

    command_id: int


@dataclass(frozen=True, slots=True)
class PauseReplay:
    """Hold the replay at this moment."""

    command_id: int


@dataclass(frozen=True, slots=True)
class Step:
    """Go to another poll and pause there."""

    command_id: int
    polls_count: int
    """Forward; negative goes back."""


@dataclass(frozen=True, slots=True)
class SeekTo:
    """Go to a moment; the nearest end when it is outside the recording."""

    command_id: int
    at_us: int


@dataclass(frozen=True, slots=True)
class SeekMark:
    """Go to the next or the previous mark and pause there."""

    command_id: int
    forward: bool


SPEEDS_RATIO = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The speeds of a replay, ascending."""


@dataclass(frozen=True, slots=True)
class ChangeSpeed:
    """Replay this many of `SPEEDS_RATIO` faster, or slower if it is negative, up to its ends."""

    command_id: int
    speeds_count: int


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Write these streams or consumers as flat tables: a session's samples, or the newest poll."""

    command_id: int
    folder: str
    """A new one, on the engine's machine; `~` is the home of its user."""
    format: Literal["csv", "jsonl"]
    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """One session of the library."""

    folder: str
    id: str
    """Name of the folder."""
    name: str
    server: str
    started_at_us: int
    ended_at_us: int
    size_bytes: int
    streams_count: int | None
    """Known near the end; None when there was no poll."""
    consumers_count: int | None
    polls_count: int
    benchmarks_count: int
    gaps_count: int
    """Times something could not be recorded, and what was deleted to keep within a limit."""
    status: str
    """`recording`, `complete`, or `cut off`."""
    notes: tuple[str, ...]
    problem: str | None = None
    """Why it cannot be read."""


def what_goes(it: SessionSummary) -> str:
    """Return what is lost with a session: which it is, and how much of it there is."""
    return f"{clean_line(it.id)} ({bytes_text(it.size_bytes)})"
