"""Who leads how many streams and consumers, and which replicas are behind, by server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from natstui.model.live.snapshot import ConsumerColumns, Peer, StreamColumns
from natstui.model.servers.replicas import state_of


@dataclass(frozen=True, slots=True)
class Leaders:
    """Leaders and replicas of the account, by the names of servers."""

    streams_count: Mapping[str, int] = field(default_factory=dict)
    consumers_count: Mapping[str, int] = field(default_factory=dict)
    behind_count: Mapping[str, int] = field(default_factory=dict)
    """Replicas that are offline, behind, or not heard of for 5 s."""
    leaderless_count: int = 0
    """Streams and consumers without a leader."""


def leaders_of(streams: StreamColumns, consumers: ConsumerColumns) -> Leaders:
    """Return the leaders and replicas of all rows."""
    of_streams, of_consumers = Counter(streams.leader), Counter(consumers.leader)
    leaderless = of_streams.pop(None, 0) + of_consumers.pop(None, 0)
    behind: Counter[str] = Counter()
    _count_behind(streams.peers, behind)
    _count_behind(consumers.peers, behind)
    return Leaders(
        {name: count for name, count in of_streams.items() if name},
        {name: count for name, count in of_consumers.items() if name},
        behind,
        leaderless,
    )


def _count_behind(rows: Sequence[Sequence[Peer]], behind: Counter[str]) -> None:
    for peers in rows:
        for peer in peers:
            if state_of(peer) != "current":
                behind[peer.name] += 1
