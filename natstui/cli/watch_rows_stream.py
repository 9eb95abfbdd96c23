"""The row of a stream. See `watch_rows`."""

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
