"""Which leaders to move so that every server leads as many as the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """A stream or consumer with several replicas."""

    stream: str
    consumer: str | None
    created_at_us: int
    leader: str | None
    ready: tuple[str, ...]
    """Replicas that could lead at once: current, and heard of a moment ago."""
    members: tuple[str, ...]
    """All servers that have it, the leader too."""

    @property
    def text(self) -> str:
        """Return what it is called."""
        return self.stream if self.consumer is None else f"{self.consumer} on {self.stream}"


@dataclass(frozen=True, slots=True)
class Move:
    """One leader, and who shall lead instead."""

    group: Group
    to: str
    from_count: int
    """How many its server led before this move,"""
    to_count: int
    """and how many the other one."""

    @property
    def text(self) -> str:
        """Return what is moved, and why."""
        kind = "streams" if self.group.consumer is None else "consumers"
        return (
            f"{self.group.text}: {self.group.leader} → {self.to}, because {self.group.leader} "
            f"leads {self.from_count} {kind} and {self.to} leads {self.to_count}"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves in their order, and what comes of them."""

    moves: tuple[Move, ...]
    before_count: dict[str, int]
    """Server → how many it leads, of those with replicas."""
    after_count: dict[str, int]
    leaderless_count: int
    """Groups without a leader, which nothing can move."""


def planned(groups: Sequence[Group]) -> Plan:
    """Return the fewest moves after which no move makes it more even.

    Each goes from the server that leads most to a ready replica that leads at least two less:
    of servers that have everything, none then leads more than one above another.
    """
    counts = Counter({name: 0 for group in groups for name in group.members})
    counts.update(group.leader for group in groups if group.leader is not None)
    before, leads = dict(counts), dict[int, str]()
    for at, one in enumerate(groups):
        if one.leader is not None:
            leads[at] = one.leader
    moved: dict[int, Move] = {}
    while (best := _best(groups, leads, counts)) is not None:
        at, to = best
        source = leads[at]
        moved[at] = Move(groups[at], to, counts[source], counts[to])
        counts[source] -= 1
        counts[to] += 1
        leads[at] = to
    moves = tuple(it for it in moved.values() if it.to != it.group.leader)
    return Plan(moves, before, dict(counts), len(groups) - len(leads))


def _best(
    groups: Sequence[Group], leads: dict[int, str], counts: Counter[str]
) -> tuple[int, str] | None:
    """Return the move that evens out most: which group, and to whom."""
    found: tuple[int, int, str] | None = None
    for at, source in leads.items():
        one = groups[at]
        able = one.ready if source == one.leader else (*one.ready, one.leader or "")
        for to in able:
            gain = counts[source] - counts[to]
            if to != source and gain >= 2 and (found is None or gain > found[0]):
                found = gain, at, to
    return None if found is None else found[1:]


def uneven_text(counts: dict[str, int]) -> str:
    """Return how many each server leads, as `n1 12, n2 9`."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def named(groups: Iterable[Group], kind: str) -> list[Group]:
    """Return those that are streams, or consumers."""
    return [group for group in groups if (group.consumer is None) is (kind == "stream")]
