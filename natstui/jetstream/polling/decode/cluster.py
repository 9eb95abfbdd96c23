"""Decodes the `cluster` section of a stream or consumer; has the type of a list's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, get_args

import msgspec

from natstui.errors import RequestFailed
from natstui.jetstream.connection.replies import MAX_INT64
from natstui.jetstream.connection.times import time_us
from natstui.model.live.snapshot import DesiredPlacement, DesiredStatus, Peer

Row = TypeVar("Row")


class PeerRow(msgspec.Struct):
    """One replica in `cluster.replicas`."""

    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0
    pending: bool = False
    """Whether this is a future replica, which does not count yet."""


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

    leader: str = ""
    replicas: tuple[PeerRow, ...] | None = None
    desired: DesiredRow | None = None


def leader_of(cluster: ClusterRow | None, server_name: str | None) -> str | None:
    """Return the leader, None if there is none; without a cluster section it is `server_name`."""
    return server_name if cluster is None else cluster.leader or None


def clock_server_of(cluster: ClusterRow | None) -> str | None:
    """Return the server whose clock has set `ts` in a row: the leader, or None without one.

    Returns "" without a cluster.
    """
    return "" if cluster is None else cluster.leader or None


def peers_of(cluster: ClusterRow | None) -> tuple[Peer, ...]:
    """Return the replicas that the leader reports, without future ones."""
    if cluster is None or not cluster.replicas:
        return ()
    return tuple(
        # `active` 0 means that the leader never heard from it, not that it did just now.
        Peer(
            peer.name,
            peer.current,
            peer.offline,
            clamp_to_int64(peer.active) or None,
            clamp_to_int64(peer.lag),
        )
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


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """One page of a list: rows of streams or consumers, and the names of unreachable ones."""

    rows: tuple[Row, ...]
    total_count: int
    limit_count: int
    """Offset of the next page, independent of the number of rows in this one."""
    missing: tuple[str, ...]
    offline: Mapping[str, str] = field(default_factory=dict)
    """Stream or consumer that its server refuses to run → reason."""
