"""The ack tap: reads every answer to the messages of one consumer for a few seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.bench.latency import EMPTY, LatencyCounts

TAP_S = 10.0
"""How long a tap lasts unless it is told otherwise."""
LONGEST_TAP_S = 300.0
MOST_TAPPED_MSGS = 100_000
"""A tap ends after so many answers,"""
MOST_TAPPED_PER_S = 10_000
"""or when more than this come in a second: reading them would cost a tenth of a core."""


@dataclass(frozen=True, slots=True)
class StartTap:
    """Read the answers of one consumer's clients; one tap at a time."""

    command_id: int
    stream: str
    consumer: str
    for_s: float = TAP_S


@dataclass(frozen=True, slots=True)
class StopTap:
    """End the tap."""

    command_id: int


@dataclass(frozen=True, slots=True)
class UnsettledMessage:
    """A message that was answered, and is not acknowledged."""

    stream_seq: int
    deliveries_count: int
    """Deliveries of it when it was answered last."""
    stored_at_us: int
    """By the server's clock."""
    answer: Literal["nak", "in progress"]
    """The last answer."""
    answered_at_us: int


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """How many answers of each kind were read."""

    acks_count: int = 0
    again_acks_count: int = 0
    """Acks among them of a delivery that was acknowledged before, as by a double ack."""
    repeated_acks_count: int = 0
    """Acks among them of messages that had been delivered before."""
    naks_count: int = 0
    terms_count: int = 0
    in_progress_count: int = 0
    others_count: int = 0
    """Answers that are none of these."""


@dataclass(frozen=True, slots=True)
class Tapped:
    """What a tap has read so far; never recorded."""

    at_us: int
    command_id: int
    stream: str
    consumer: str
    elapsed_s: float
    for_s: float
    ended: str | None
    """Why it ended; None while it reads."""
    counts: AnswerCounts
    read_msgs: int
    read_bytes: int
    """What it cost: messages and bytes that the server sent for it."""
    stored_to_acked: LatencyCounts = EMPTY
    """From when a message was stored, not from its delivery, which an answer does not tell."""
    unsettled: tuple[UnsettledMessage, ...] = ()
    """Refused or in progress, and not acknowledged until now: the oldest ones."""
    unsettled_msgs: int = 0
    """How many there are of these."""
