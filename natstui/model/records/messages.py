"""Messages as records and commands: stored pages, a live tail, publishing, pulling, acks."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.model.records.confirmation import Confirmation

Jump = Literal["ack_floor", "next_to_deliver", "first_unacked"]

PAGE_MSGS = 100


class StoredMessage(Struct, frozen=True):
    """One message of a stream, or a live one (its sequence is None)."""

    stream_seq: int | None
    subject: str
    stored_at_us: int
    headers: tuple[tuple[str, str], ...]
    payload_base64: str
    """The payload, or its beginning if `payload_bytes` is larger."""
    payload_bytes: int


class BrowseMessages(Struct, frozen=True):
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
    """Size of each payload's preview; the rest is read with ReadMessage."""


class ReadMessage(Struct, frozen=True):
    """Read one message with its entire payload."""

    command_id: int
    stream: str
    stream_seq: int


class CountSubjects(Struct, frozen=True):
    """Count the stored messages of each subject."""

    command_id: int
    stream: str
    filter_subject: str = ">"


class PreviewDelivery(Struct, frozen=True):
    """Find the first message that a planned consumer would deliver, and the number of pending
    ones.
    """

    command_id: int
    stream: str
    config_json: str


class DeliveryPreview(Struct, frozen=True):
    """The deliveries of a planned consumer."""

    first: StoredMessage | None
    """None if no stored message would be delivered."""
    pending_msgs: int | None
    """Messages from the first on; None if only direct get could count, and it is not allowed."""


class MessagePage(Struct, frozen=True):
    """A page of stored messages."""

    stream: str
    messages: tuple[StoredMessage, ...]
    first_seq: int
    last_seq: int
    """Last sequence of the stream when it was read."""
    older_seq: int | None
    """`from_seq` of the previous page; None without one."""
    newer_seq: int | None
    """`from_seq` of the next page, with `newer`; None without one."""
    sought_seq: int | None = None
    """The sequence of a requested time or jump."""
    created_at_us: int | None = None
    """Creation time of the stream of these messages."""


class Answered(Struct, frozen=True):
    """The reply to a command, for the viewer only: it is never recorded."""

    at_us: int
    command_id: int
    status: Literal["done", "refused", "failed", "replaced"]
    """Replaced: a tail, tap or subscription was running, and another one has ended it."""
    text: str
    """One sentence for people."""
    body_json: str | None = None


class StartTail(Struct, frozen=True):
    """Show new messages on these subjects; one tail at a time."""

    command_id: int
    subjects: tuple[str, ...]
    preview_bytes: int = 512


class StopTail(Struct, frozen=True):
    """End a tail of new messages, unless another one has replaced it."""

    command_id: int
    tail_id: int
    """The command that started it."""


class Tailed(Struct, frozen=True):
    """Messages since the last record of the tail; never recorded."""

    at_us: int
    command_id: int
    messages: tuple[StoredMessage, ...]
    arrived_msgs: int
    """All messages since the tail started, shown or not."""
    dropped_msgs: int
    """Number of messages that arrived too fast, so that they are in no record."""
    interruptions_count: int = 0
    """How often the connection was lost: messages published then were not received."""


Answer = Literal["ack", "double_ack", "nak", "in_progress", "term"]


class PublishMessage(Struct, frozen=True):
    """Publish into a stream and wait for its acknowledgement."""

    command_id: int
    subject: str
    payload_base64: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    message_id: str | None = None
    """`Nats-Msg-Id`: the stream drops a repeated one within its duplicate window."""
    ttl: str | None = None
    """`Nats-TTL`, as 10s or never; the stream must allow message TTL."""
    expected_last_seq: int | None = None
    expected_last_subject_seq: int | None = None
    confirmed: str | None = None
    """The subject as typed again, in production."""
    decided_on: Confirmation | None = None
    """The confirmation that was shown: another asset than this is not changed."""


class RequestReply(Struct, frozen=True):
    """Send a request on any subject and show the first reply."""

    command_id: int
    subject: str
    payload_base64: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 5.0
    confirmed: str | None = None
    decided_on: Confirmation | None = None
    """The confirmation that was shown: another asset than this is not changed."""


class PullNext(Struct, frozen=True):
    """Pull the next message of a pull consumer; it must be acked or nak'd."""

    command_id: int
    stream: str
    consumer: str
    wait_s: float = 2.0
    group: str | None = None
    confirmed: str | None = None
    decided_on: Confirmation | None = None
    """The confirmation that was shown: another asset than this is not changed."""


class AnswerMessage(Struct, frozen=True):
    """Ack, nak or terminate a pulled message."""

    command_id: int
    consumer: str
    reply: str
    answer: Answer
    delay_s: float | None = None
    """With nak: delay of the redelivery."""
    reason: str | None = None
    """With term: the reason, for the advisory."""
    confirmed: str | None = None
    consumer_created_at_us: int | None = None
    """Creation time of the consumer that delivered it; None if unknown."""


class PubAck(Struct, frozen=True):
    """A stream's acknowledgement of a message."""

    stream: str
    stored_seq: int
    duplicate: bool
    counter: str | None = None
    """The counter's new value, in a stream of counters."""
    domain: str | None = None
    """The stream's domain, where that is another one than the requests reach."""

    @property
    def stream_text(self) -> str:
        """Return the name of the stream, with its domain where that is another one."""
        return self.stream if self.domain is None else f"{self.stream} of domain {self.domain}"


class PulledMessage(Struct, frozen=True):
    """A message as a consumer delivered it."""

    message: StoredMessage
    reply: str
    consumer_seq: int
    deliveries_count: int
    pending_msgs: int
    """Pending messages of the consumer after this one."""
    consumer_created_at_us: int | None = None
    """Creation time of the consumer; None if the user may not read it."""
