"""A plan to balance leaders: moves after which servers lead about equally many groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct


class ReplicaGroup(Struct, frozen=True):
    """A stream or consumer with several replicas."""

    stream: str
    consumer: str | None
    created_at_us: int
    leader: str | None
    ready: tuple[str, ...]
    """Replicas that can become leader: current, and recently in contact with the leader."""
    members: tuple[str, ...]
    """All servers with a replica, including the leader."""

    @property
    def text(self) -> str:
        """Return the display name: `STREAM`, or `CONSUMER on STREAM`."""
        return self.stream if self.consumer is None else f"{self.consumer} on {self.stream}"


class Move(Struct, frozen=True):
    """The move of a leader to another server."""

    group: ReplicaGroup
    to: str
    from_count: int
    """Number of groups led by the current server before the move."""
    to_count: int
    """Number of groups led by the other server before the move."""

    @property
    def text(self) -> str:
        """Return the move with its reason, as text."""
        kind = "streams" if self.group.consumer is None else "consumers"
        return (
            f"{self.group.text}: {self.group.leader} → {self.to}, because {self.group.leader} "
            f"leads {self.from_count} {kind} and {self.to} leads {self.to_count}"
        )


class BalancePlan(Struct, frozen=True):
    """The moves in their order, with the counts of leaders before and after."""

    moves: tuple[Move, ...]
    before_count: dict[str, int]
    """Server → number of groups with replicas that it leads."""
    after_count: dict[str, int]
    leaderless_count: int
    """Groups without a leader, which cannot be moved."""


def plan_moves(groups: Sequence[ReplicaGroup]) -> BalancePlan:
    """Return the fewest moves after which no further move improves the balance.

    Each moves a leader from the server with the most to a ready replica with at least two fewer.
    If all servers have all groups, their counts then differ by at most one.
    """
    counts = Counter({name: 0 for group in groups for name in group.members})
    counts.update(group.leader for group in groups if group.leader is not None)
    counts_before, leader_of_group = dict(counts), dict[int, str]()
    for index, group in enumerate(groups):
        if group.leader is not None:
            leader_of_group[index] = group.leader
    move_of_group: dict[int, Move] = {}
    while (best_move := _find_best_move(groups, leader_of_group, counts)) is not None:
        index, target = best_move
        source = leader_of_group[index]
        move_of_group[index] = Move(groups[index], target, counts[source], counts[target])
        counts[source] -= 1
        counts[target] += 1
        leader_of_group[index] = target
    moves = tuple(move for move in move_of_group.values() if move.to != move.group.leader)
    return BalancePlan(moves, counts_before, dict(counts), len(groups) - len(leader_of_group))


def _find_best_move(
    groups: Sequence[ReplicaGroup], leader_of_group: dict[int, str], counts: Counter[str]
) -> tuple[int, str] | None:
    """Return the group and the server of the best move; None if no move improves the balance."""
    best_move: tuple[int, int, str] | None = None
    for index, leader in leader_of_group.items():
        group = groups[index]
        candidates = group.ready if leader == group.leader else (*group.ready, group.leader or "")
        for server in candidates:
            gain = counts[leader] - counts[server]
            if server != leader and gain >= 2 and (best_move is None or gain > best_move[0]):
                best_move = gain, index, server
    return None if best_move is None else best_move[1:]


def leader_counts_text(counts: dict[str, int]) -> str:
    """Return the number of leaders per server as text, as `n1 12, n2 9`."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def groups_of_kind(groups: Iterable[ReplicaGroup], kind: str) -> list[ReplicaGroup]:
    """Return the groups of streams (`stream`) or of consumers (`consumer`)."""
    return [group for group in groups if (group.consumer is None) is (kind == "stream")]
