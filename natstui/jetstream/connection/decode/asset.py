"""Decodes what streams and consumers have in common; has the type of a list's page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Struct, field

from natstui.clock import wall_us
from natstui.errors import RequestFailed
from natstui.jetstream.connection.replies import MAX_INT64, raise_unreadable
from natstui.jetstream.connection.times import time_us
from natstui.model.live.snapshot import DesiredPlacement, DesiredStatus, Peer

Row = TypeVar("Row")

AnyCount = Annotated[int, msgspec.Meta(ge=0)]
"""A count without upper limit: sequences have 64 unsigned bits, bounds of msgspec are signed."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class PeerRow(msgspec.Struct):
    """One replica in `cluster.replicas`."""

    name: str
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0
    pending: bool = False
    """Whether this is a future replica, which does not count yet."""

    @property
    def active_ns(self) -> int | None:
        """Return the time since the leader's last contact; None without any."""
        # `active` 0 means that the leader never heard from it, not that it did just now.
        return clamp_to_int64(self.active) or None


class _NamedReplica(msgspec.Struct):
    name: str = ""


class _MoveStatus(msgspec.Struct):
    type: str = ""
    description: str = ""
    err: str = ""


class DesiredRow(msgspec.Struct):
    """The section `cluster.desired`: a running move or scaling."""

    created: str = ""
    replicas: tuple[_NamedReplica, ...] | None = None
    status: _MoveStatus | None = None


class ClusterRow(msgspec.Struct):
    """The section `cluster` of a stream or consumer."""

    name: str = ""
    leader: str = ""
    replicas: tuple[PeerRow, ...] | None = None
    desired: DesiredRow | None = None


class AssetShape(msgspec.Struct, kw_only=True):
    """The required types of the fields that streams and consumers have."""

    created: Time
    cluster: ClusterRow | None = None
    ts: Time | None = None


class AssetRow(msgspec.Struct, kw_only=True):
    """One stream or consumer, of a poll or as the reply to its INFO.

    Its fields have the server's names; a field that the server renamed gets its new name by
    `msgspec.field(name=…)`, here and in its shape. The configuration stays raw until it is needed.
    """

    config: msgspec.Raw
    created: str
    cluster: ClusterRow | None = None
    ts: str | None = None
    """Time of the row by its leader's clock; None before server 2.10."""
    written_at_us: int | None = None
    """`ts` in microseconds; set after decoding."""
    requested_mono_us: int = 0
    """Time of the request; set after decoding."""
    sampled_mono_us: int = 0
    """Time of the reply, later the leader's time by our clock; set after decoding."""

    @property
    def created_at_us(self) -> int:
        """Return the creation time in UTC µs; raises RequestFailed for an invalid time."""
        with raise_unreadable("INFO"):
            return time_us(self.created)

    @property
    def server_at_us(self) -> int:
        """Return the time of the row by the server's clock; ours for an old server. UTC µs."""
        return self.written_at_us or wall_us()

    def read_config(self) -> dict[str, Any]:
        """Return the decoded configuration."""
        config: dict[str, Any] = json.loads(bytes(self.config))
        return config


def created_at_us_in(reply: Mapping[str, Any]) -> int | None:
    """Return the creation time (UTC µs) in a decoded reply to a change; None if it has none."""
    created_text = reply.get("created")
    return time_us(created_text) if created_text else None


def leader_of(cluster: ClusterRow | None, server_name: str | None) -> str | None:
    """Return the leader, None if there is none; without a cluster section it is `server_name`."""
    return server_name if cluster is None else cluster.leader or None


def clock_server_of(cluster: ClusterRow | None) -> str | None:
    """Return the server whose clock has set `ts` in a row: the leader, or None without one.

    Returns "" without a cluster.
    """
    return "" if cluster is None else cluster.leader or None


def replicas_of(cluster: ClusterRow | None) -> tuple[PeerRow, ...]:
    """Return the replicas that the leader reports, with future ones and without its own."""
    return (cluster.replicas or ()) if cluster is not None else ()


def peers_of(cluster: ClusterRow | None) -> tuple[Peer, ...]:
    """Return the replicas that the leader reports, without future ones."""
    if cluster is None or not cluster.replicas:
        return ()
    return tuple(
        Peer(peer.name, peer.current, peer.offline, peer.active_ns, clamp_to_int64(peer.lag))
        for peer in cluster.replicas
        if not peer.pending
    )


def desired_of(cluster: ClusterRow | None) -> DesiredPlacement | None:
    """Return the running move or scaling of a stream; None without one."""
    if cluster is None or cluster.desired is None:
        return None
    row, status = cluster.desired, cluster.desired.status or _MoveStatus()
    return DesiredPlacement(
        time_us(row.created),
        tuple(replica.name for replica in row.replicas or ()),
        next(
            (status_name for status_name in get_args(DesiredStatus) if status_name == status.type),
            "",
        ),
        status.err or status.description,
    )


def clamp_to_int64(number: int) -> int:
    """Return the number, limited to 0 … 2⁶³-1, which a recording and its readers can store."""
    return min(max(0, number), MAX_INT64)


_OFFLINE_ASSET_CODES = (10194, 10195)
"""Error codes of `stream is offline: …` and `consumer is offline: …`."""


def refusal_reason(error: RequestFailed) -> str | None:
    """Return why a server refuses to run a stream or consumer; None for other errors."""
    if error.err_code not in _OFFLINE_ASSET_CODES:
        return None
    text = str(error)
    return text.partition("is offline: ")[2] or text


def limit_or_none(number: int | None) -> int | None:
    """Return a limit; None if unlimited, which the server writes as -1, 0 or nothing."""
    return number if number is not None and 0 < number <= MAX_INT64 else None


class Page(Struct, Generic[Row], frozen=True):
    """One page of a list: rows of streams or consumers, and the names of unreachable ones."""

    rows: tuple[Row, ...]
    total_count: int
    limit_count: int
    """Offset of the next page, independent of the number of rows in this one."""
    missing: tuple[str, ...]
    offline: Mapping[str, str] = field(default_factory=dict)
    """Stream or consumer that its server refuses to run → reason."""
    unreachable_rows: tuple[Row, ...] = ()
    """Rows of unreachable ones: configuration, creation time and replicas are right, but most of
    them have zeros as other values.
    """

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """Return the rows of reachable and unreachable streams or consumers."""
        return self.rows + self.unreachable_rows
