"""State of the recorder, position of a replay, and a recording in a list."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.clean import clean_line
from natstui.model.records.findings import FindingsSoFar
from natstui.units import bytes_text

MarkKind = Literal[
    "advisory", "configuration", "note", "gap", "link", "unavailable", "action", "benchmark"
]

SessionAction = Literal["rename", "note", "pack", "pack redacted", "delete"]


class RecordingChanged(Struct, frozen=True):
    """The recorder started, stopped, grew, or failed; never recorded itself."""

    at_us: int
    on: bool
    """Whether it records, even while it fails: it continues as soon as it can."""
    folder: str | None
    size_bytes: int | None
    """Size on disk, sealed and open segments together."""
    reason: str | None = None
    """One sentence: the current failure; None without one."""
    notice: str | None = None
    """One sentence about what is no failure, as segments that a limit deleted."""


class Gap(Struct, frozen=True):
    """The recorder could not write; records of the meantime may be missing."""

    at_us: int
    from_at_us: int
    """Time of the last recorded record before the gap."""
    lost_records_count: int
    """Records that were dropped; 0 when all of them waited in memory."""
    reason: str


class ClockStepped(Struct, frozen=True):
    """The wall clock was set; records from here on have the new time."""

    at_us: int
    """Time on the new clock."""
    step_us: int
    """How far it was set forward; negative when it was set back."""


class Mark(Struct, frozen=True):
    """A time on the timeline to which the user can jump."""

    at_us: int
    kind: MarkKind
    text: str
    """One sentence for people."""


class ReplayReset(Struct, frozen=True):
    """Discard the state: the following records build it for another time.

    Nothing should be drawn until the next `ReplayPosition`.
    """

    at_us: int
    """The time for which the state is built."""


class ReplayPosition(Struct, frozen=True):
    """The position of the replay. Sent after every seek and step, and while it plays."""

    at_us: int
    """The shown time; all records until then were sent."""
    start_at_us: int
    end_at_us: int
    """The end of the recording; it grows while the session is still recorded."""
    speed_ratio: float
    """Times real time."""
    playing: bool
    recording: bool
    """Whether the session is still being recorded."""
    newest_at_us: int | None = None
    """Time of the newest shown record on the timeline, which differs after a clock change."""
    left_out_lines_count: int = 0
    """Lines of the recording that cannot be read, as far as it was read."""


class ReplayMarks(Struct, frozen=True):
    """Every mark on the timeline, ascending; sent at the start and when there are more."""

    at_us: int
    marks: tuple[Mark, ...]
    left_out_count: int
    """Marks beyond those a timeline can show."""


class StartRecording(Struct, frozen=True):
    """Record from now on; refused while a recording runs."""

    command_id: int
    name: str
    """For people, part of the folder's name; may be empty."""
    findings: FindingsSoFar | None = None
    """Open findings with their start: the recording knows only later events."""


class StopRecording(Struct, frozen=True):
    """Complete the recording and end it."""

    command_id: int


class ListSessions(Struct, frozen=True):
    """Reply with the recordings: a list of `SessionSummary`, the newest first."""

    command_id: int


class ChangeSession(Struct, frozen=True):
    """Change one recording of the library, as `natstui sessions` does."""

    command_id: int
    action: SessionAction
    folder: str
    """Of the session, on the engine's machine."""
    text: str = ""
    """The new name, the note, or the new file; `~` is the home of the engine's user."""


class Play(Struct, frozen=True):
    """Start playing the replay."""

    command_id: int


class PauseReplay(Struct, frozen=True):
    """Pause the replay at its position."""

    command_id: int


class Step(Struct, frozen=True):
    """Move to another poll and pause there."""

    command_id: int
    polls_count: int
    """Number of polls forward; negative: backward."""


class SeekTo(Struct, frozen=True):
    """Seek to a time, or to the nearest end of the recording."""

    command_id: int
    at_us: int


class SeekMark(Struct, frozen=True):
    """Seek to the next or the previous mark and pause there."""

    command_id: int
    forward: bool


SPEEDS_RATIO = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The speeds of a replay, ascending."""


class ChangeSpeed(Struct, frozen=True):
    """Move this many steps in `SPEEDS_RATIO`, slower if negative, up to its ends."""

    command_id: int
    speeds_count: int


class ExportSelection(Struct, frozen=True):
    """Write these streams or consumers as flat tables: a session's samples, or the newest poll."""

    command_id: int
    folder: str
    """A new one, on the engine's machine; `~` is the home of its user."""
    format: Literal["csv", "jsonl"]
    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]


class SessionSummary(Struct, frozen=True):
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
    """Times something could not be recorded, or was deleted to keep within a limit."""
    status: str
    """`recording`, `complete`, or `cut off`."""
    notes: tuple[str, ...]
    problem: str | None = None
    """Why it cannot be read."""


def deleted_session_text(session: SessionSummary) -> str:
    """Return the id and size of a session to delete, as text."""
    return f"{clean_line(session.id)} ({bytes_text(session.size_bytes)})"
