"""Changes to a server: the commands, their confirmations, and the entries of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.records.copies import CopyCommand
from natstui.model.records.listening import Listened, ListeningCommand
from natstui.model.records.messages import (
    Answered,
    AnswerMessage,
    BrowseMessages,
    CountSubjects,
    PreviewDelivery,
    PublishMessage,
    PullNext,
    ReadMessage,
    RequestReply,
    StartTail,
    StopTail,
    Tailed,
)
from natstui.model.records.stores import FileMoved, KeyAction, ObjectAction, StoreCommand
from natstui.model.records.system import SystemCommand
from natstui.model.records.tap import StartTap, StopTap, Tapped

Action = Literal[
    "create_stream", "edit_stream", "delete_stream", "purge_stream", "delete_message",
    "step_down_stream", "create_consumer", "edit_consumer", "delete_consumer", "pause_consumer",
    "resume_consumer", "reset_consumer", "unpin_consumer", "step_down_consumer",
    "remove_peer_stream",
]  # fmt: skip

SilenceAction = Literal["silence", "lift_silence"]
"""Noted here, and nothing is sent to the server."""
JournalAction = Literal[
    Action, KeyAction, ObjectAction, SilenceAction,
    "restore_stream", "step_down_meta", "kick_connection", "remove_server",
    "publish", "request", "reply", "pull", "answer", "benchmark",
]  # fmt: skip
"""What the journal keeps: changes, messages sent and answered, benchmarks, findings silenced."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where changes are made: which JetStream, and whose account of it."""

    target: str
    """The connection's label and address."""
    place: str | None
    server_id: str | None
    account: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """Change one stream or consumer."""

    command_id: int
    action: Action
    stream: str
    consumer: str | None = None
    body_json: str = "{}"
    """The configuration wanted, or the arguments that the catalogue of actions lists."""
    seen_json: str | None = None
    """The configuration the user saw; a different one on the server is a conflict."""
    confirmed: str | None = None
    """The name as the user typed it, for what is irreversible or in production."""
    created_at_us: int | None = None
    """When the stream, or the consumer if one is named, was made: the one the user saw.

    One that was deleted and recreated since is another one: it is not changed.
    """
    previewed_msgs: int | None = None
    """Messages that the confirmation showed as removed; more of them are a conflict, but for
    those published since."""
    previewed_last_seq: int | None = None
    """Of the stream when the confirmation was made: no later message is purged."""
    dry_run: bool = False
    """Reply with the `Confirmation` of the change, and change nothing."""
    place: Place | None = None
    """Where the user decided on it: it is refused on another server or in another account."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Undo a change of the journal: the last that can be undone, when `entry` is None."""

    command_id: int
    entry: str | None = None
    confirmed: str | None = None
    previewed_msgs: int | None = None
    previewed_last_seq: int | None = None
    """Both as those of a `Change`."""
    dry_run: bool = False
    """Reply with the `Confirmation` of the change, and change nothing."""


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Answer with the newest entries of the journal, newest first, as JSON."""

    command_id: int
    entries_count: int = 200


@dataclass(frozen=True, slots=True)
class ReadNamesInUse:
    """Answer with what a form needs: streams and subjects, number of servers, templates."""

    command_id: int
    stream: str | None = None
    """Also the filters of this stream's consumers."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a change does and removes now, and the name to type where it has to be confirmed.

    The reply to a dry run, and to a change that is refused until it is confirmed.
    """

    question: str
    """A clause with the name of what is changed and what is removed."""
    name: str
    """The word the user has to type to confirm it."""
    needed: bool
    """Whether it is refused without the name: something is removed for good, or in production."""
    lines: tuple[str, ...] = ()
    """What is removed for good, one clause each."""
    most_msgs: int | None = None
    """The most messages that are removed; None when it is unknown."""
    last_seq: int | None = None
    """Of the stream, when they were counted; None when it is unknown."""
    created_at_us: int | None = None
    """When the stream or consumer was created; None for what does not exist yet."""
    revision_seq: int = 0
    """Of a key or file: what is replaced or removed."""
    place: Place | None = None
    """The server and account that it is about."""


@dataclass(frozen=True, slots=True)
class SaveTemplate:
    """Save a stream's configuration as a template of the user."""

    command_id: int
    name: str
    config_json: str


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One write as it happened."""

    entry: str
    """Its id, unique in a journal."""
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
    """The configuration after; of a message its outcome."""
    outcome: Literal["done", "failed", "unknown"]
    """Unknown: no answer came, so it may have been done."""
    reason: str | None
    undoes: str | None = None
    """The entry that this one undid."""
    created_at_us: int | None = None
    """When the stream or consumer was made; None in entries of an older natstui."""
    stream_created_at_us: int | None = None
    """When the consumer's stream was made."""
    place: str | None = None
    """The name of the cluster or server with its domain; None when it has no lasting name."""
    server_id: str | None = None
    """Of the server connected to; another one after each restart."""
    account: str | None = None
    loses: str | None = None
    """What was removed for good, in clauses."""


@dataclass(frozen=True, slots=True)
class SilenceFinding:
    """Silence one kind of finding of one stream, consumer or account; or hear of it again."""

    command_id: int
    code: str
    stream: str
    """Empty for the account and for monitoring itself."""
    consumer: str
    created_at_us: int
    """When what it is about was made; 0 for the account."""
    part: str
    reason: str
    for_s: float | None
    """For how long from now on; None: it is heard of again."""


ManagingCommand = (
    Change
    | Undo
    | ReadJournal
    | ReadNamesInUse
    | SystemCommand
    | StoreCommand
    | CopyCommand
    | SaveTemplate
    | SilenceFinding
    | BrowseMessages
    | ReadMessage
    | CountSubjects
    | PreviewDelivery
    | PublishMessage
    | RequestReply
    | PullNext
    | AnswerMessage
    | StartTail
    | StopTail
    | StartTap
    | StopTap
    | ListeningCommand
)

ManagingRecord = Answered | Tailed | Tapped | FileMoved | Listened
"""For the viewer only: payloads and configurations that belong in no recording."""
