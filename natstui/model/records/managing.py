"""Changes to a server: the commands, their confirmations, and the entries of the journal."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from natstui.model.records.confirmation import ServerIdentity
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
from natstui.model.records.tap import StartTap, StopTap, TapResults

Action = Literal[
    "create_stream", "edit_stream", "delete_stream", "purge_stream", "delete_message",
    "step_down_stream", "create_consumer", "edit_consumer", "delete_consumer", "pause_consumer",
    "resume_consumer", "reset_consumer", "unpin_consumer", "step_down_consumer",
    "remove_peer_stream",
]  # fmt: skip

SilenceAction = Literal["silence", "lift_silence"]
"""Journalled only: nothing is sent to the server."""
JournalAction = Literal[
    Action, KeyAction, ObjectAction, SilenceAction,
    "restore_stream", "step_down_meta", "kick_connection", "remove_server",
    "publish", "request", "reply", "pull", "answer", "benchmark",
]  # fmt: skip
"""Entries of the journal: changes, sent and acked messages, benchmarks, silenced findings."""


class Change(Struct, frozen=True):
    """Change one stream or consumer."""

    command_id: int
    action: Action
    stream: str
    consumer: str | None = None
    body_json: str = "{}"
    """The requested configuration, or the arguments as listed in the catalogue of actions."""
    seen_json: str | None = None
    """The configuration that the user saw; a different one on the server is a conflict."""
    confirmed: str | None = None
    """The name as typed by the user, for what is irreversible or in production."""
    created_at_us: int | None = None
    """Creation time of the stream or consumer that the user saw.

    One that was deleted and recreated since is another one: it is not changed.
    """
    previewed_msgs: int | None = None
    """Deleted messages according to the confirmation; more of them are a conflict, except for
    those published since.
    """
    previewed_last_seq: int | None = None
    """Last sequence of the stream at the confirmation: no later message is purged."""
    previewed_last_at_us: int | None = None
    """Time when that message was stored; another time is a conflict."""
    dry_run: bool = False
    """Reply with the `Confirmation` of the change, and change nothing."""
    place: ServerIdentity | None = None
    """The server that the user saw; the change is refused on another server or account."""


class Undo(Struct, frozen=True):
    """Undo a change of the journal: the last undoable one, when `entry` is None."""

    command_id: int
    entry: str | None = None
    confirmed: str | None = None
    previewed_msgs: int | None = None
    previewed_last_seq: int | None = None
    previewed_last_at_us: int | None = None
    """All as in a `Change`."""
    dry_run: bool = False
    """Reply with the `Confirmation` of the change, and change nothing."""


class ReadJournal(Struct, frozen=True):
    """Reply with the newest entries of the journal, newest first, as JSON."""

    command_id: int
    entries_count: int = 200


class ReadServerIdentity(Struct, frozen=True):
    """Reply with the current `ServerIdentity`, which a form sends with its change."""

    command_id: int


class ReadNamesInUse(Struct, frozen=True):
    """Reply with the data of a form: streams and subjects, number of servers, templates."""

    command_id: int
    stream: str | None = None
    """With the filters of this stream's consumers."""


class SaveTemplate(Struct, frozen=True):
    """Save a stream's configuration as a template of the user."""

    command_id: int
    name: str
    config_json: str


class JournalEntry(Struct, frozen=True):
    """An entry of the journal: a change, a sent message or a silence, with its outcome."""

    entry: str
    """Its id, unique in a journal."""
    at_us: int
    server: str
    """The connection's label and address."""
    who: str
    """The NATS user and account, and the user of this machine."""
    action: JournalAction
    stream: str
    """Empty for a message whose stream is unknown."""
    consumer: str | None
    request_json: str
    """The configuration or the arguments; of a message its subject and size, never its payload."""
    before_json: str | None
    """The configuration before; None when there was none."""
    after_json: str | None
    """The configuration after; of a message its result."""
    outcome: Literal["done", "failed", "unknown"]
    """`unknown`: without a reply, so the change may have been done."""
    reason: str | None
    undoes: str | None = None
    """The entry that this one undid."""
    created_at_us: int | None = None
    """Creation time of the stream or consumer; None in entries of an older natstui."""
    stream_created_at_us: int | None = None
    """Creation time of the consumer's stream."""
    place: str | None = None
    """The name of the cluster or server with its domain; None without a lasting name."""
    server_id: str | None = None
    """Id of the connected server; another one after each restart."""
    account: str | None = None
    loses: str | None = None
    """What was deleted for good, in clauses."""
    others_created_at_us: dict[str, int] = field(default_factory=dict)
    """Name → creation time of some other streams, when a stream was deleted: they identify the
    system later."""


class SilenceFinding(Struct, frozen=True):
    """Silence one kind of finding of one stream, consumer or account, or end such a silence."""

    command_id: int
    code: str
    stream: str
    """Empty for the account and for monitoring itself."""
    consumer: str
    created_at_us: int
    """Creation time of the entity; 0 for the account."""
    part: str
    reason: str
    for_s: float | None
    """Duration from now; None: end the silence."""


ManagingCommand = (
    Change
    | Undo
    | ReadJournal
    | ReadServerIdentity
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

ManagingRecord = Answered | Tailed | TapResults | FileMoved | Listened
"""For the viewer only: payloads and configurations are not recorded."""
