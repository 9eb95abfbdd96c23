"""The rows of one poll: one sequence per field, one row per stream or consumer.

Columns keep recordings small, as a consumer needs 16 bytes compressed instead of 300, and let the
screen format only the rows in view. Times
ending in `_at_us` are UTC microseconds since 1970; `_mono_us` is the engine's steady clock
(`natstui.clock`), which is never set, and which counts while the machine sleeps.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Peer(Struct, frozen=True):
    """One replica as the leader reports it (`cluster.replicas[]`)."""

    name: str
    current: bool
    offline: bool
    active_ns: int | None
    """Time since the leader's last contact; None without any."""
    lag_msgs: int
    """Raft entries behind the leader."""


class StoredReplica(Struct, frozen=True):
    """The stored messages of one replica, as reported by its own server (`state` of bulk JSZ)."""

    name: str
    """Of the server."""
    first_seq: int
    last_seq: int
    stored_msgs: int


DesiredStatus = Literal[
    "", "meta", "membership", "snapshot", "catchup", "quorum", "blocked", "unavailable"
]


class DesiredPlacement(Struct, frozen=True):
    """An unfinished move or scaling (`cluster.desired`, servers since 2.15)."""

    created_at_us: int
    servers: tuple[str, ...]
    """The future servers of the replicas."""
    status: DesiredStatus
    """Why it waits; empty if unknown."""
    reason: str
    """The same as the server's text for people."""


class Upstream(Struct, frozen=True):
    """The mirror or one source of a stream, as its leader reports it."""

    name: str
    lag_msgs: int
    active_ns: int | None
    """Time since the last message or heartbeat; None without any."""
    error: str | None
    mirror: bool


class StreamColumns(Struct, frozen=True):
    """The live state of streams (`STREAM.LIST`, `state` and `cluster`); equal lengths."""

    name: tuple[str, ...] = ()
    created_at_us: tuple[int, ...] = ()
    """`created`: with the name, the identity of a stream."""
    sampled_mono_us: tuple[int, ...] = ()
    """Time of this row by its leader, on the engine's clock; the time of the reply for old servers
    (and in old recordings).
    """
    stored_msgs: tuple[int, ...] = ()
    stored_bytes: tuple[int, ...] = ()
    first_seq: tuple[int, ...] = ()
    last_seq: tuple[int, ...] = ()
    first_at_us: tuple[int | None, ...] = ()
    """`first_ts`; None while the stream is empty."""
    last_at_us: tuple[int | None, ...] = ()
    """`last_ts`; None when nothing was ever stored."""
    deleted_msgs: tuple[int, ...] = ()
    """Holes between first and last (`num_deleted`)."""
    lost_msgs: tuple[int, ...] = ()
    """Lost by damage of the store (`lost.msgs`)."""
    subjects_count: tuple[int, ...] = ()
    consumers_count: tuple[int, ...] = ()
    leader: tuple[str | None, ...] = ()
    """None while a stream has no leader, or the leader does not reply."""
    peers: tuple[tuple[Peer, ...], ...] = ()
    """Replicas without the leader; empty for one replica."""
    upstreams: tuple[tuple[Upstream, ...], ...] = ()
    replicas: tuple[tuple[StoredReplica, ...], ...] = ()
    """Stored messages of the replicas without the leader; empty if only the leader was read."""
    desired: tuple[DesiredPlacement | None, ...] = ()
    """The unfinished move or scaling."""


class ConsumerColumns(Struct, frozen=True):
    """The live state of consumers (`CONSUMER.LIST`), from their leaders only; equal lengths."""

    stream: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    created_at_us: tuple[int, ...] = ()
    """`created`: with stream and name, the identity of a consumer."""
    sampled_mono_us: tuple[int, ...] = ()
    delivered_consumer_seq: tuple[int, ...] = ()
    """Number of deliveries, redeliveries included (`delivered.consumer_seq`)."""
    delivered_stream_seq: tuple[int, ...] = ()
    """Highest stream sequence ever delivered."""
    ack_floor_consumer_seq: tuple[int, ...] = ()
    ack_floor_stream_seq: tuple[int, ...] = ()
    """Every message up to here is acked, terminated or dropped."""
    delivered_at_us: tuple[int | None, ...] = ()
    """`delivered.last_active`."""
    acked_at_us: tuple[int | None, ...] = ()
    """`ack_floor.last_active`."""
    pending_msgs: tuple[int, ...] = ()
    """Unprocessed: matching and never delivered (`num_pending`)."""
    ack_pending_msgs: tuple[int, ...] = ()
    """Delivered and waiting for their acknowledgement (`num_ack_pending`)."""
    redelivered_msgs: tuple[int, ...] = ()
    """Distinct messages delivered more than once and not acked (`num_redelivered`)."""
    waiting_pulls_count: tuple[int, ...] = ()
    """Open pull requests (`num_waiting`)."""
    push_bound: tuple[bool, ...] = ()
    """Whether there is a subscriber on the deliver subject; False for pull consumers."""
    paused: tuple[bool, ...] = ()
    pinned_client: tuple[str | None, ...] = ()
    """The pinned client's id, for a priority policy that pins."""
    next_at_us: tuple[int | None, ...] = ()
    """When the next message to deliver was stored; None if it was not requested or nothing is
    pending.
    """
    leader: tuple[str | None, ...] = ()
    peers: tuple[tuple[Peer, ...], ...] = ()
    pinned_at_us: tuple[int | None, ...] = ()
    """When that client was pinned (`pinned_ts`)."""


class Account(Struct, frozen=True):
    """Use of the account and its limits (`$JS.API.INFO`); a limit of None is unlimited."""

    memory_bytes: int
    storage_bytes: int
    streams_count: int
    consumers_count: int
    max_memory_bytes: int | None
    max_storage_bytes: int | None
    max_streams_count: int | None
    max_consumers_count: int | None
    api_requests_count: int
    api_errors_count: int
    api_inflight_count: int | None
    """None before server 2.11, which does not report it."""
    api_level: int
    """0 on server 2.10, which does not report it."""
    domain: str | None


class PollCost(Struct, frozen=True):
    """The requests of one poll."""

    requests_count: int
    received_bytes: int
    elapsed_us: int
    api_rtt_us: int | None
    """Round trip of `$JS.API.INFO` in this poll."""
    interval_us: int
    """From the start of this poll to the start of the next, at least the requested interval."""
    backoff_reason: str | None
    """Why it is longer than requested, if it is."""
    round_us: int | None = None
    """Maximum time until a row is polled again, if not every poll has every row."""
    errors_count: int = 0
    """Error replies of the API to polls since the previous poll."""


class OfflineAsset(Struct, frozen=True):
    """A stream or consumer that its server refuses to run (`offline` in the list)."""

    stream: str
    consumer: str
    """Empty for the stream itself."""
    reason: str
    """The server's reason: mostly a feature that it does not know, being older than the previous
    one.
    """


class UnlistedConsumers(Struct, frozen=True):
    """Consumers of a stream that are missing in its list of consumers."""

    stream: str
    consumers_count: int


class Snapshot(Struct, frozen=True):
    """One poll. Rows that were not requested are absent, not unchanged."""

    taken_mono_us: int
    taken_at_us: int
    streams: StreamColumns
    consumers: ConsumerColumns
    streams_complete: bool
    """Whether every stream was listed: one that is absent, and not unreachable, was deleted."""
    consumers_complete: bool
    """The consumers of every stream were listed."""
    swept_streams: tuple[str, ...]
    """Streams whose consumers were all listed; empty when `consumers_complete`."""
    unreachable_streams: tuple[str, ...]
    """Streams whose leader did not reply to the server (`missing` in the list)."""
    unreachable_consumers: tuple[tuple[str, str], ...]
    """The same for consumers: (stream, consumer)."""
    account: Account | None
    cost: PollCost
    offline: tuple[OfflineAsset, ...] = ()
    """Unreachable streams and consumers that their servers refuse to run, with the reason."""
    unlisted: tuple[UnlistedConsumers, ...] = ()


def added_columns(table: type[StreamColumns] | type[ConsumerColumns]) -> tuple[str, ...]:
    """Return the columns of a table that an older recording may not have.

    Counters and names are in every recording: they have no value for unknown.
    """
    always_present_types = ("tuple[int,", "tuple[str,")
    return tuple(
        name
        for name in table.__struct_fields__
        if not table.__annotations__[name].startswith(always_present_types)
    )
