"""Commands and replies for messages dropped after max deliver, and for sending them again."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from natstui.model.records.confirmation import Confirmation
from natstui.model.records.messages import StoredMessage

MAX_LISTED_MSGS = 5_000


class MaxDeliverDrop(NamedTuple):
    """A message that a consumer dropped after max deliver, by an advisory."""

    at_us: int
    stream_seq: int
    consumer_created_at_us: int | None = None
    """Creation time of that consumer; None if unknown."""


class FindDroppedMessages(Struct, frozen=True):
    """Reply with the messages that a consumer dropped after max deliver, as `DroppedMessages`."""

    command_id: int
    stream: str
    consumer: str
    heard: tuple[tuple[int, int], ...] = ()
    """Time and sequence of the drops in advisories that this viewer received."""
    sessions: tuple[str, ...] = ()
    """Recordings to search for advisories."""
    preview_bytes: int = 512
    """Size of each payload's preview."""


class DroppedMessages(Struct, frozen=True):
    """The messages that a consumer dropped after max deliver; possibly others, if uncertain."""

    messages: tuple[StoredMessage, ...]
    """In order of sequence: those that are still stored, the first 5,000 of them."""
    sequences: tuple[int, ...]
    """All sequences found, also those not listed."""
    gone_count: int
    """Number of these sequences that the stream no longer has."""
    is_known: bool
    """Whether all of these were dropped; False: some of them were acked."""
    remark: str
    """The sources of the sequences, or why they are uncertain."""
    created_at_us: int
    """Creation time of the stream."""
    newest: tuple[int, int]
    """Sequence of the newest message of the stream, and when it was stored."""


class PreviewResend(Struct, frozen=True):
    """Reply with the effect of sending messages of a stream again, as `ResendPreview`."""

    command_id: int
    stream: str
    sequences: tuple[int, ...]
    created_at_us: int
    """Creation time of the stream of the messages; a recreated one is another one."""
    newest: tuple[int, int]
    """As in `DroppedMessages`; a stream that lost it has other messages with the sequences."""
    to_subject: str | None = None
    """New subject of all messages; None: each keeps its own."""


class ResendPreview(Struct, frozen=True):
    """The effect of sending messages again now."""

    messages_count: int
    payload_bytes: int
    gone_count: int
    subjects: tuple[tuple[str, int, str], ...]
    """Subject, messages, and the stream that would store them (empty: none), most first."""
    other_subjects_count: int
    """Number of further subjects."""
    loses: str | None = None
    """What it deletes for good, a clause; None if nothing."""


class ResendMessages(Struct, frozen=True):
    """Store messages of a stream again: under their own subjects, or all under one."""

    command_id: int
    stream: str
    sequences: tuple[int, ...]
    created_at_us: int
    newest: tuple[int, int]
    """Both as in `PreviewResend`."""
    to_subject: str | None = None
    confirmed: str | None = None
    """The stream's name as typed, in production or if messages are deleted."""
    decided_on: Confirmation | None = None
    """The confirmation that was shown: if the losses are others now, nothing is sent."""


CopyReading = FindDroppedMessages | PreviewResend
CopyCommand = CopyReading | ResendMessages
