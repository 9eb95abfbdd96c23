"""The rows of streams and consumers. See `watch_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.snapshot import Peer, Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """One stream: what it is, what it holds, what flows; a limit of null is unlimited."""

    schema: Literal[1] = 1
    kind: Literal["stream"] = "stream"
    name: str
    at_us: int
    created_at_us: int
    """With the name, the identity of a stream."""
    type: Literal["stream", "kv", "object"] | None
    """A KV bucket and an object store are streams by the convention of their name."""
    description: str | None
    subjects: tuple[str, ...] | None
    storage: str | None
    retention: str | None
    discard: str | None
    stored_msgs: int
    stored_bytes: int
    in_msgs_per_s: float | None
    """Growth of the last sequence between the two newest polls."""
    in_bytes_per_s: float | None
    in_bytes_estimated: bool
    """Messages left meanwhile: bytes in are messages in × the mean size of a stored one."""
    removed_msgs_per_s: float | None
    """Stored messages that left: by limits, acknowledgements, deletes or purges."""
    first_seq: int
    last_seq: int
    first_at_us: int | None
    last_at_us: int | None
    deleted_msgs: int
    """Holes between the first and the last."""
    lost_msgs: int
    subjects_count: int
    consumers_count: int
    max_msgs: int | None
    max_msgs_per_subject: int | None
    max_bytes: int | None
    max_age_ns: int | None
    msgs_used_percent: float | None
    """Of the limit of messages; null without one."""
    bytes_used_percent: float | None
    full_in_s: float | None
    """Until the first of these two limits is reached at the present trend; null if never."""
    duplicate_window_ns: int | None
    mirror: str | None
    sources: tuple[str, ...] | None
    upstreams: tuple[Upstream, ...]
    """The mirror or the sources as the leader sees them."""
    replicas_count: int | None
    leader: str | None
    """null while a replicated stream has no leader."""
    peers: tuple[Peer, ...]
    """Replicas without the leader."""
    sampled_ago_s: float
    """The age of these values."""
    stale: bool
    """They could not be refreshed."""


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
