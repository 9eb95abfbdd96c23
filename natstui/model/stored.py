"""Stored messages as a browser shows them: what is asked for, and the page that answers."""

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
