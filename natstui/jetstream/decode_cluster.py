"""The `cluster` section of a stream or consumer, and what the lists say about absent ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from natstui.errors import RequestFailed
from natstui.model.snapshot import Peer

Row = TypeVar("Row")


class PeerRow(msgspec.Struct):
    """`cluster.replicas[]`."""

    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0


class ClusterRow(msgspec.Struct):
    """`cluster`."""

    leader: str = ""
    replicas: tuple[PeerRow, ...] | None = None


def leader_of(cluster: ClusterRow | None, server_name: str | None) -> str | None:
    """Return who leads; a server without a cluster leads everything itself."""
    return server_name if cluster is None else cluster.leader or None


def peers_of(cluster: ClusterRow | None) -> tuple[Peer, ...]:
    """Return the replicas as the leader sees them."""
    if cluster is None or not cluster.replicas:
        return ()
    return tuple(
        # `active` 0 is "never heard of", not "heard of just now".
        Peer(peer.name, peer.current, peer.offline, peer.active or None, peer.lag)
        for peer in cluster.replicas
    )


def limit(number: int | None) -> int | None:
    """Return a limit; the server writes -1, 0 or nothing for unlimited."""
    return number if number is not None and number > 0 else None


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """One page of a list: rows of reachable assets, and the names of those that are not."""

    rows: tuple[Row, ...]
    total_count: int
    limit_count: int
    """How far the next page is, however many rows this one has."""
    missing: tuple[str, ...]


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what decoding complains about into RequestFailed: the reply is not as documented."""
    try:
        yield
    except (msgspec.DecodeError, ValueError) as error:
        raise RequestFailed(f"the server's answer to {what} cannot be read: {error}") from error
