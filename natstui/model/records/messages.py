"""Messages as records and commands: stored pages, a live tail, sending, pulling, answering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Jump = Literal["ack_floor", "next_to_deliver", "first_unacked"]

PAGE_MSGS = 100


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a stream, or one that arrived alive (its sequence is None)."""

    stream_seq: int | None
    subject: str
    stored_at_us: int
    headers: tuple[tuple[str, str], ...]
    payload_base64: str
    """The payload, or its beginning when `payload_bytes` is more."""
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class BrowseMessages:
    """Read one page of a stream, through gets and never through a consumer.

    The page begins after or before `from_seq`; without it, at the newest message. `from_time`,
    `jump` (with `consumer`) find the sequence first. Messages come in order of sequence.
    """

    command_id: int
    stream: str
    newer: bool = False
    """Messages from `from_seq` on, instead of those before it."""
    from_seq: int | None = None
    from_time: str | None = None
    consumer: str | None = None
    jump: Jump | None = None
    filter_subject: str | None = None
    last_per_subject: bool = False
    page_msgs: int = PAGE_MSGS
    preview_bytes: int = 512
    """Of each payload; the rest is read with ReadMessage."""


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """Read one message with its whole payload."""

    command_id: int
    stream: str
    stream_seq: int


@dataclass(frozen=True, slots=True)
class CountSubjects:
    """Count the stored messages of each subject."""

    command_id: int
    stream: str
    filter_subject: str = ">"


@dataclass(frozen=True, slots=True)
class PreviewDelivery:
    """Find what a planned consumer would deliver first, and how many from there."""

    command_id: int
    stream: str
    config_json: str


@dataclass(frozen=True, slots=True)
class DeliveryPreview:
    """What a planned consumer would deliver."""

    first: StoredMessage | None
    """None when nothing is stored yet that it would deliver."""
    pending_msgs: int | None
    """From the first on; None when only direct gets could count, and the stream has none."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A page of stored messages."""

    stream: str
    messages: tuple[StoredMessage, ...]
    first_seq: int
    last_seq: int
    """Of the stream when it was read."""
    older_seq: int | None
    """Ask with this `from_seq` for the page before; None when there is none."""
    newer_seq: int | None
    """Ask with this `from_seq` and `newer` for the page after; None when there is none."""
    sought_seq: int | None = None
    """The sequence a time or a jump led to."""
    created_at_us: int | None = None
    """When the stream was made whose messages these are."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a command asked for, for the viewer only: it is never recorded."""

    at_us: int
    command_id: int
    status: Literal["done", "refused", "failed"]
    text: str
    """One sentence for people."""
    body_json: str | None = None


@dataclass(frozen=True, slots=True)
class StartTail:
    """Show messages of these subjects as they arrive; one tail at a time."""

    command_id: int
    subjects: tuple[str, ...]
    preview_bytes: int = 512


@dataclass(frozen=True, slots=True)
class StopTail:
    """End the tail."""

    command_id: int


@dataclass(frozen=True, slots=True)
class Tailed:
    """Messages that arrived alive since the last record of the tail; never recorded."""

    at_us: int
    command_id: int
    messages: tuple[StoredMessage, ...]
    arrived_msgs: int
    """All that arrived since the tail began, shown or not."""
    dropped_msgs: int
    """Of those, how many are in no record because they came too fast."""
    interruptions_count: int = 0
    """How often the connection was lost meanwhile: what was published then never came."""


Answer = Literal["ack", "double_ack", "nak", "in_progress", "term"]


@dataclass(frozen=True, slots=True)
class PublishMessage:
    """Publish into a stream and wait for its acknowledgement."""

    command_id: int
    subject: str
    payload_base64: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    message_id: str | None = None
    """`Nats-Msg-Id`: the stream drops a second one within its duplicate window."""
    ttl: str | None = None
    """`Nats-TTL`, as 10s or never; the stream must allow message TTL."""
    expected_last_seq: int | None = None
    expected_last_subject_seq: int | None = None
    confirmed: str | None = None
    """The subject as typed again, in production."""


@dataclass(frozen=True, slots=True)
class RequestReply:
    """Send a request on any subject and show the first reply."""

    command_id: int
    subject: str
    payload_base64: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 5.0
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class PullNext:
    """Take the next message of a pull consumer; it has to be answered."""

    command_id: int
    stream: str
    consumer: str
    wait_s: float = 2.0
    group: str | None = None
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerMessage:
    """Answer a message that was pulled."""

    command_id: int
    consumer: str
    reply: str
    answer: Answer
    delay_s: float | None = None
    """With nak: deliver it again only after this."""
    reason: str | None = None
    """With term: why, for the advisory."""
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class PubAck:
    """A stream's acknowledgement of a message."""

    stream: str
    stored_seq: int
    duplicate: bool
    counter: str | None = None
    """The counter's new value, of a stream of counters."""


@dataclass(frozen=True, slots=True)
class PulledMessage:
    """A message as a consumer delivered it."""

    message: StoredMessage
    reply: str
    consumer_seq: int
    deliveries_count: int
    pending_msgs: int
    """Left for the consumer after this one."""
