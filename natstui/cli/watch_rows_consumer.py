"""The row of a consumer. See `watch_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.snapshot import Peer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """One consumer: what it is, how far it is, what holds it back."""

    schema: Literal[1] = 1
    kind: Literal["consumer"] = "consumer"
    name: str
    stream: str
    at_us: int
    created_at_us: int
    """With stream and name, the identity of a consumer."""
    description: str | None
    status: str
    """What it is doing, in a word or two."""
    status_level: Literal["ok", "idle", "warn", "bad", "unknown"]
    status_reason: str
    """The numbers that say so."""
    pull: bool | None
    durable: bool | None
    ack_policy: str | None
    filter_subjects: tuple[str, ...] | None
    """Empty: everything in the stream."""
    pending_msgs: int
    """Unprocessed: matching and never delivered."""
    ack_pending_msgs: int
    """Delivered and waiting for their acknowledgement."""
    max_ack_pending_msgs: int | None
    redelivered_msgs: int
    """Distinct messages delivered more than once and not settled, or given up."""
    waiting_pulls_count: int
    """Open pull requests."""
    push_bound: bool | None
    """A subscriber listens on the deliver subject; null for a pull consumer."""
    paused: bool
    delivered_msgs_per_s: float | None
    """Deliveries, redeliveries included."""
    acked_msgs_per_s: float | None
    """Growth of the acknowledgement floor."""
    lag_s: float | None
    """Age of the next message to deliver; 0 with nothing pending."""
    drained_in_s: float | None
    """Until nothing is pending at the present trend; null if it does not shrink."""
    delivered_stream_seq: int
    delivered_consumer_seq: int
    ack_floor_stream_seq: int
    ack_floor_consumer_seq: int
    delivered_at_us: int | None
    acked_at_us: int | None
    pinned_client: str | None
    replicas_count: int | None
    leader: str | None
    peers: tuple[Peer, ...]
    sampled_ago_s: float
    """The age of these values."""
    stale: bool
    """They could not be refreshed."""
