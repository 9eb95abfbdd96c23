"""The `cluster` section of a stream or consumer, and the pages of lists with missing ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, get_args

import msgspec

from natstui.errors import RequestFailed
from natstui.jetstream.connection.replies import MOST
from natstui.jetstream.connection.times import time_us
from natstui.model.live.snapshot import DesiredPlacement, DesiredStatus, Peer

Row = TypeVar("Row")


class PeerRow(msgspec.Struct):
    """`cluster.replicas[]`."""

    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0
    pending: bool = False
    """Whether it is a future replica, which does not count yet."""


class _Named(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    type: str = ""
    description: str = ""
    err: str = ""


class DesiredRow(msgspec.Struct):
    """`cluster.desired`."""

    created: str = ""
    replicas: tuple[_Named, ...] | None = None
    status: _Status | None = None


class ClusterRow(msgspec.Struct):
    """`cluster`."""

    leader: str = ""
    replicas: tuple[PeerRow, ...] | None = None
    desired: DesiredRow | None = None


def leader_of(cluster: ClusterRow | None, server_name: str | None) -> str | None:
    """Return the leader; a server without a cluster leads everything itself."""
    return server_name if cluster is None else cluster.leader or None


def clock_of(cluster: ClusterRow | None) -> str | None:
    """Return whose clock a row's `ts` is; None without a leader. A lone server is ""."""
    return "" if cluster is None else cluster.leader or None


def peers_of(cluster: ClusterRow | None) -> tuple[Peer, ...]:
    """Return the replicas as the leader reports them."""
    if cluster is None or not cluster.replicas:
        return ()
    return tuple(
        # `active` 0 is "never heard of", not "heard of just now".
        Peer(
            peer.name, peer.current, peer.offline, bounded(peer.active) or None, bounded(peer.lag)
        )
        for peer in cluster.replicas
        if not peer.pending
    )


def desired_of(cluster: ClusterRow | None) -> DesiredPlacement | None:
    """Return the running move or scaling; None without one."""
    if cluster is None or cluster.desired is None:
        return None
    row, status = cluster.desired, cluster.desired.status or _Status()
    return DesiredPlacement(
        time_us(row.created),
        tuple(replica.name for replica in row.replicas or ()),
        next(
            (status_name for status_name in get_args(DesiredStatus) if status_name == status.type),
            "",
        ),
        status.err or status.description,
    )


def bounded(number: int) -> int:
    """Return the number, limited to what a recording and its readers can store."""
    return min(max(0, number), MOST)


_REFUSED_CODES = (10194, 10195)
"""Error codes of `stream is offline: …` and `consumer is offline: …`: its server cannot run it."""


def refused_reason(error: RequestFailed) -> str | None:
    """Return why a server refuses to run a stream or consumer; None for any other error."""
    if error.err_code not in _REFUSED_CODES:
        return None
    text = str(error)
    return text.partition("is offline: ")[2] or text


def limit(number: int | None) -> int | None:
    """Return a limit; the server writes -1, 0 or nothing for unlimited."""
    return number if number is not None and 0 < number <= MOST else None


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """One page of a list: rows of reachable assets, and the names of the others."""

    rows: tuple[Row, ...]
    total_count: int
    limit_count: int
    """Offset of the next page, independent of the number of rows in this one."""
    missing: tuple[str, ...]
    offline: Mapping[str, str] = field(default_factory=dict)
    """Assets that their servers refuse to run, and why (`offline`)."""
