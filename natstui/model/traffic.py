"""Traffic of a server or a connection per second, from two readings of its counters."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class TrafficCounters(Protocol):
    """Counters of messages and bytes, of which some may be unknown."""

    @property
    def in_msgs(self) -> int | None:
        """Return the number of received messages."""

    @property
    def in_bytes(self) -> int | None:
        """Return the bytes of the received messages."""

    @property
    def out_msgs(self) -> int | None:
        """Return the number of sent messages."""

    @property
    def out_bytes(self) -> int | None:
        """Return the bytes of the sent messages."""


class Traffic(Struct, frozen=True):
    """The traffic per second."""

    in_msgs_per_s: float
    in_bytes_per_s: float
    out_msgs_per_s: float
    out_bytes_per_s: float


def traffic_of(old: TrafficCounters, new: TrafficCounters, elapsed_s: float) -> Traffic | None:
    """Return the traffic per second between two readings; None if a counter is unknown."""
    pairs = (
        (old.in_msgs, new.in_msgs),
        (old.in_bytes, new.in_bytes),
        (old.out_msgs, new.out_msgs),
        (old.out_bytes, new.out_bytes),
    )
    rates_per_s = [
        max(0, after - before) / elapsed_s
        for before, after in pairs
        if before is not None and after is not None
    ]
    return Traffic(*rates_per_s) if len(rates_per_s) == len(pairs) else None
