"""Sending messages, asking, pulling and answering, as commands and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.stored import StoredMessage

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
