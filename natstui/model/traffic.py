"""Traffic of a server or a connection per second, from two readings of its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class TrafficCounters(Protocol):
    """Counters of messages and bytes, of which some may be unknown."""

    @property
    def in_msgs(self) -> int | None:
        """Return the received messages."""

    @property
    def in_bytes(self) -> int | None:
        """Return the bytes of these messages."""

    @property
    def out_msgs(self) -> int | None:
        """Return the sent messages."""

    @property
    def out_bytes(self) -> int | None:
        """Return the bytes of these messages."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic per second."""

    in_msgs_per_s: float
    in_bytes_per_s: float
    out_msgs_per_s: float
    out_bytes_per_s: float


def traffic_of(old: TrafficCounters, new: TrafficCounters, elapsed_s: float) -> Traffic | None:
    """Return the traffic between two readings; None for unknown counters."""
    pairs = (
        (old.in_msgs, new.in_msgs),
        (old.in_bytes, new.in_bytes),
        (old.out_msgs, new.out_msgs),
        (old.out_bytes, new.out_bytes),
    )
    per_s = [max(0, b - a) / elapsed_s for a, b in pairs if a is not None and b is not None]
    return Traffic(*per_s) if len(per_s) == len(pairs) else None
