"""What a server or a connection got and sent a second, between two readings of its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class TrafficCounters(Protocol):
    """Counters of messages and bytes, of which some may not be known."""

    @property
    def in_msgs(self) -> int | None:
        """Messages that came in."""

    @property
    def in_bytes(self) -> int | None:
        """Their bytes."""

    @property
    def out_msgs(self) -> int | None:
        """Messages that went out."""

    @property
    def out_bytes(self) -> int | None:
        """Their bytes."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What came in and went out a second."""

    in_msgs_per_s: float
    in_bytes_per_s: float
    out_msgs_per_s: float
    out_bytes_per_s: float


def traffic_of(old: TrafficCounters, new: TrafficCounters, elapsed_s: float) -> Traffic | None:
    """Return the traffic between two readings; None where a counter is not known."""
    pairs = (
        (old.in_msgs, new.in_msgs),
        (old.in_bytes, new.in_bytes),
        (old.out_msgs, new.out_msgs),
        (old.out_bytes, new.out_bytes),
    )
    per_s = [max(0, b - a) / elapsed_s for a, b in pairs if a is not None and b is not None]
    return Traffic(*per_s) if len(per_s) == len(pairs) else None
