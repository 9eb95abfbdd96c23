"""The ack tap: reads every ack of one consumer's messages for a few seconds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.model.bench.latency import EMPTY_HISTOGRAM, LatencyCounts

DEFAULT_TAP_S = 10.0
"""Default duration of a tap."""
MAX_TAP_S = 300.0
MAX_TAPPED_MSGS = 100_000
"""Limit of acks at which a tap ends."""
MAX_TAPPED_MSGS_PER_S = 10_000
"""Limit of acks per second at which a tap ends: reading more would cost a tenth of a core."""


class StartTap(Struct, frozen=True):
    """Read the acks of one consumer's clients; one tap at a time."""

    command_id: int
    stream: str
    consumer: str
    for_s: float = DEFAULT_TAP_S


class StopTap(Struct, frozen=True):
    """End an ack tap, unless another one has replaced it."""

    command_id: int
    tap_id: int
    """The command that started it."""


class UnsettledMessage(Struct, frozen=True):
    """A message with a nak or in-progress reply that is not acked."""

    stream_seq: int
    deliveries_count: int
    """Its deliveries at the last reply."""
    stored_at_us: int
    """By the server's clock."""
    answer: Literal["nak", "in progress"]
    """The last reply."""
    answered_at_us: int


class AckCounts(Struct, frozen=True):
    """Number of replies of each kind."""

    acks_count: int = 0
    again_acks_count: int = 0
    """Repeated acks of a delivery, as by a double ack."""
    repeated_acks_count: int = 0
    """Acks of redelivered messages."""
    naks_count: int = 0
    terms_count: int = 0
    in_progress_count: int = 0
    others_count: int = 0
    """Other replies."""


class TapResults(Struct, frozen=True):
    """The results of a tap so far; never recorded."""

    at_us: int
    command_id: int
    stream: str
    consumer: str
    elapsed_s: float
    for_s: float
    ended: str | None
    """Why it ended; None while it reads."""
    counts: AckCounts
    read_msgs: int
    read_bytes: int
    """Cost of the tap: messages and bytes that the server sent for it."""
    stored_to_acked: LatencyCounts = EMPTY_HISTOGRAM
    """From storing a message to its ack; the delivery time is not in an ack."""
    unsettled: tuple[UnsettledMessage, ...] = ()
    """Nak'd or in progress, and not acked until now: the oldest ones."""
    unsettled_msgs: int = 0
    """The total number of these."""
