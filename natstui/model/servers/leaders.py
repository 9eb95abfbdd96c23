"""Counts per server: led streams and consumers, and replicas that are behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from natstui.model.live.snapshot import ConsumerColumns, Peer, StreamColumns
from natstui.model.servers.replicas import replica_state


class LeaderCounts(Struct, frozen=True):
    """Counts of leaders and replicas of the account, by server name."""

    streams_count: Mapping[str, int] = field(default_factory=dict)
    consumers_count: Mapping[str, int] = field(default_factory=dict)
    behind_count: Mapping[str, int] = field(default_factory=dict)
    """Replicas that are offline, behind, or without contact for 5 s."""
    leaderless_count: int = 0
    """Streams and consumers without a leader."""


def count_leaders(streams: StreamColumns, consumers: ConsumerColumns) -> LeaderCounts:
    """Return the number of led streams, led consumers and lagging replicas of each server."""
    led_streams, led_consumers = Counter(streams.leader), Counter(consumers.leader)
    leaderless_count = led_streams.pop(None, 0) + led_consumers.pop(None, 0)
    behind_counts: Counter[str] = Counter()
    _count_lagging_replicas(streams.peers, behind_counts)
    _count_lagging_replicas(consumers.peers, behind_counts)
    return LeaderCounts(
        {name: count for name, count in led_streams.items() if name},
        {name: count for name, count in led_consumers.items() if name},
        behind_counts,
        leaderless_count,
    )


def _count_lagging_replicas(rows: Sequence[Sequence[Peer]], behind_counts: Counter[str]) -> None:
    for peers in rows:
        for peer in peers:
            if replica_state(peer) != "current":
                behind_counts[peer.name] += 1
