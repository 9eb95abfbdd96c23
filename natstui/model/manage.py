"""Changes to a server: what is asked, what became of it, what the journal keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal[
    "create_stream", "edit_stream", "delete_stream", "purge_stream", "delete_message",
    "step_down_stream", "create_consumer", "edit_consumer", "delete_consumer", "pause_consumer",
    "resume_consumer", "reset_consumer", "unpin_consumer", "step_down_consumer",
]  # fmt: skip

JournalAction = Literal[Action, "publish", "request", "pull", "answer"]
"""What the journal keeps: changes, and messages sent and answered."""

IRREVERSIBLE: frozenset[Action] = frozenset(
    {"delete_stream", "purge_stream", "delete_message", "delete_consumer"}
)
"""Asked for by typing the name of what is lost."""


@dataclass(frozen=True, slots=True)
class Change:
    """Change one stream or consumer."""

    command_id: int
    action: Action
    stream: str
    consumer: str | None = None
    body_json: str = "{}"
    """The configuration wanted, or the arguments: `filter seq keep`, `pause_until`, `group`."""
    seen_json: str | None = None
    """The configuration the user saw; a different one on the server is a conflict."""
    confirmed: str | None = None
    """The name as the user typed it, for what is irreversible or in production."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back a change of the journal: the last that can be, when `entry` is None."""

    command_id: int
    entry: str | None = None
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Answer with the newest entries of the journal, newest first, as JSON."""

    command_id: int
    entries_count: int = 200


@dataclass(frozen=True, slots=True)
class ReadSurroundings:
    """Answer with what a form needs: streams and subjects, number of servers, templates."""

    command_id: int
    stream: str | None = None
    """Also the filters of this stream's consumers."""


@dataclass(frozen=True, slots=True)
class PreviewPurge:
    """Answer with how many messages a purge would remove."""

    command_id: int
    stream: str
    body_json: str = "{}"


@dataclass(frozen=True, slots=True)
class SaveTemplate:
    """Keep a stream's configuration as an own template."""

    command_id: int
    name: str
    config_json: str


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One write as it happened."""

    entry: str
    """Its name, unique in a journal."""
    at_us: int
    server: str
    """The connection's label and address."""
    who: str
    """The NATS user and account, and the user of this machine."""
    action: JournalAction
    stream: str
    """Empty for a message that no stream is known to have stored."""
    consumer: str | None
    request_json: str
    """The configuration or the arguments; of a message its subject and size, never its payload."""
    before_json: str | None
    """The configuration before; None when there was none."""
    after_json: str | None
    """The configuration after; of a message what became of it."""
    outcome: Literal["done", "failed", "unknown"]
    """Unknown: no answer came, so it may have been done."""
    reason: str | None
    undoes: str | None = None
    """The entry that this one took back."""
