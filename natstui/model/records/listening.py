"""Listening to subjects: commands, and the received counts and messages."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.model.records.messages import StoredMessage

SubjectOrder = Literal["msgs_per_s", "bytes_per_s", "msgs", "bytes", "subject"]
RowKind = Literal["branch", "subject", "rest", "others"]

RATE_WINDOW_S = 3.0
"""Time span of the rates in seconds."""
MAX_KEPT_MSGS = 200
"""Number of the newest messages that are kept."""


class SubjectRowOptions(Struct, frozen=True):
    """Order and filter of the subject rows."""

    by: SubjectOrder = "msgs_per_s"
    reverse: bool = True
    """Whether the largest is first."""
    as_tree: bool = True
    """Whether there is a row for each token, with its subtree; else one for each subject."""
    pattern: str = ""
    """A regular expression: other subjects have neither rows nor messages."""
    internal: bool = False
    """Whether internal subjects of servers and clients are included."""
    open_level: int = 2
    """Levels of expanded tokens."""
    toggled: tuple[str, ...] = ()
    """Exceptions: tokens collapsed where others are expanded, and the reverse."""


class StartListening(Struct, frozen=True):
    """Start to count and list messages on subjects; ends an earlier listening.

    The reply has a note if push consumers may lose messages because the listening gets them. In
    read-only mode, it is refused if they would lose messages for good.
    """

    command_id: int
    subjects: tuple[str, ...]
    look: SubjectRowOptions


class SetSubjectRowOptions(Struct, frozen=True):
    """Change order and filter of the current listening; counts are kept."""

    command_id: int
    look: SubjectRowOptions


class ReadListeningMessage(Struct, frozen=True):
    """Reply with a received message, as `ListeningMessage`, with its entire payload."""

    command_id: int
    heard_id: int


class StopListening(Struct, frozen=True):
    """Stop listening, unless another listening has started meanwhile."""

    command_id: int
    listening_id: int
    """The command that started it."""


class SubjectRow(Struct, frozen=True):
    """A subject, or a token with its subtree."""

    path: str
    """The subject, or the tokens down to this one; of a rest, the tokens above it."""
    kind: RowKind
    """A token with a subtree, a subject, the rest of a list, or the subjects that were not counted
    separately.
    """
    deep_level: int
    """Number of tokens above it in the tree."""
    is_open: bool
    subjects_count: int
    """Number of different subjects that it represents."""
    came_msgs: int
    came_bytes: int
    """Size of headers and payloads."""
    msgs_per_s: float | None
    bytes_per_s: float | None
    """None before two counts."""


class ListeningMessage(Struct, frozen=True):
    """One received message."""

    heard_id: int
    """Number of the message since the start of listening."""
    reply: str
    message: StoredMessage


class Listened(Struct, frozen=True):
    """All data of a listening screen: an update, never recorded."""

    at_us: int
    command_id: int
    elapsed_s: float
    look: SubjectRowOptions
    """Order and filter of this update."""
    came_msgs: int
    came_bytes: int
    msgs_per_s: float | None
    bytes_per_s: float | None
    subjects_count: int
    """Number of separately counted subjects."""
    other_subjects_count: int
    """Estimated number of further subjects, for which there was no room; 0: none."""
    unwanted_msgs: int
    """Messages of subjects that do not match the filter."""
    wanted_subjects_count: int
    rows: tuple[SubjectRow, ...]
    heard: tuple[ListeningMessage, ...]
    """The newest matching messages, oldest first; with previews of the payloads."""
    interruptions_count: int
    """How often the connection was lost: messages published then were not received."""
    interrupted_by: str | None
    """Reason of the last loss."""


ListeningCommand = StartListening | SetSubjectRowOptions | ReadListeningMessage | StopListening
