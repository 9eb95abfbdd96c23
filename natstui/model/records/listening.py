"""Listening to subjects: what is asked, and the picture of what came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.records.messages import StoredMessage

SubjectOrder = Literal["msgs_per_s", "bytes_per_s", "msgs", "bytes", "subject"]
RowKind = Literal["branch", "subject", "rest", "others"]

RATE_OVER_S = 3.0
"""Rates are those of the last so many seconds."""
HEARD_KEPT_MSGS = 200
"""So many of the newest messages can be looked at."""


@dataclass(frozen=True, slots=True)
class SubjectsLook:
    """Which rows of subjects are wanted, and in what order."""

    by: SubjectOrder = "msgs_per_s"
    reverse: bool = True
    """The largest first."""
    as_tree: bool = True
    """A row for each token, with what is below it; else one for each subject."""
    pattern: str = ""
    """Only subjects that match; of the others neither rows nor messages."""
    internal: bool = False
    """Also subjects that only servers and clients use among themselves."""
    open_level: int = 2
    """Tokens are opened so far down."""
    toggled: tuple[str, ...] = ()
    """Except these, which are closed where others are open, and open where they are closed."""


@dataclass(frozen=True, slots=True)
class StartListening:
    """Count and list what is published to subjects from now on; ends what was listened to."""

    command_id: int
    subjects: tuple[str, ...]
    look: SubjectsLook


@dataclass(frozen=True, slots=True)
class LookAtSubjects:
    """Show what is listened to in another way; nothing is counted anew."""

    command_id: int
    look: SubjectsLook


@dataclass(frozen=True, slots=True)
class ReadHeard:
    """Answer with a message that came, as `Heard`, its whole payload included."""

    command_id: int
    heard_id: int


@dataclass(frozen=True, slots=True)
class StopListening:
    """Listen no longer, unless something else is listened to meanwhile."""

    command_id: int
    listening_id: int
    """The command that began it."""


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A subject, or a token with everything below it."""

    path: str
    """The subject, or the tokens down to this one; of what is left out, those above."""
    kind: RowKind
    """A token with others below it, a subject, those left out of a list, or those that were not
    told apart any more."""
    deep_level: int
    """How many tokens are above it in the tree."""
    is_open: bool
    subjects_count: int
    """Different subjects that it stands for."""
    came_msgs: int
    came_bytes: int
    """Headers and payloads."""
    msgs_per_s: float | None
    bytes_per_s: float | None
    """None as long as nothing is known of a rate."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One message that came."""

    heard_id: int
    """The how manieth it was."""
    reply: str
    message: StoredMessage


@dataclass(frozen=True, slots=True)
class Listened:
    """All that a screen shows of what is listened to: a picture, never recorded."""

    at_us: int
    command_id: int
    elapsed_s: float
    look: SubjectsLook
    """How it was wanted when this was made."""
    came_msgs: int
    came_bytes: int
    msgs_per_s: float | None
    bytes_per_s: float | None
    subjects_count: int
    """Different subjects that were told apart."""
    other_subjects_count: int
    """About how many more came when there was no room for them; 0: none."""
    unwanted_msgs: int
    """Of subjects that are not wanted."""
    wanted_subjects_count: int
    rows: tuple[SubjectRow, ...]
    heard: tuple[Heard, ...]
    """The newest messages that match, oldest first; of each payload the beginning."""
    interruptions_count: int
    """How often the connection was lost: what was published then never came."""
    interrupted_by: str | None
    """Why it was lost the last time."""


ListeningCommand = StartListening | LookAtSubjects | ReadHeard | StopListening
