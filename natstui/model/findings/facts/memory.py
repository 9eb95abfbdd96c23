"""What is known of rows beyond their history: the pace of clients, losses, publishers, orphans.

`remember` updates it once per poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natstui.model.findings.thresholds import (
    NO_PULLS_AFTER_S,
    PACE_KNOWN_S,
    PACE_TIMES,
    UNKNOWN_PACE_S,
)
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.table import Key, Roster

Name = tuple[str | int, ...]
"""The key of a row without the time of its creation."""


@dataclass(frozen=True, slots=True)
class PullPace:
    """When the clients of a consumer were seen pulling or receiving, and how long they pause."""

    first_at_us: int
    """When an open pull request or a delivery was seen first, UTC."""
    seen_at_us: int
    """When one was seen last, UTC."""
    pauses_count: int = 0
    """How many pauses have ended."""
    longest_gap_us: int = 0
    """The longest pause that ended; forgotten slowly."""

    @property
    def longest_gap_s(self) -> float | None:
        """The longest pause that ended; None until two ended, or while none is known."""
        watched_s = (self.seen_at_us - self.first_at_us) / 1e6
        if self.pauses_count < 2 and not (watched_s >= PACE_KNOWN_S and self.pauses_count == 0):
            return None
        return self.longest_gap_us / 1e6

    @property
    def allowed_gap_s(self) -> float:
        """How long the clients may pause: three of their longest pauses, or 20 s."""
        longest_s = self.longest_gap_s
        if longest_s is None:
            return UNKNOWN_PACE_S
        return max(NO_PULLS_AFTER_S, PACE_TIMES * longest_s)


@dataclass(frozen=True, slots=True)
class Lost:
    """Messages that the stream removed before a consumer received them."""

    lost_msgs: int
    """All together."""
    at_us: int
    """When the newest were removed, UTC."""
    since_at_us: int
    first_seq: int
    last_seq: int
    """The range of their sequences."""
    purged: bool
    """No limit of the stream removed the newest of them: somebody purged it."""
    counted_since_us: int | None = None
    """The poll before the first of them was removed, UTC: from then on they are counted."""

    @property
    def per_min(self) -> float | None:
        """How many were removed a minute, until the newest; None where that is not known."""
        if self.counted_since_us is None or self.at_us <= self.counted_since_us:
            return None
        return 60e6 * self.lost_msgs / (self.at_us - self.counted_since_us)


@dataclass(frozen=True, slots=True)
class StoreFlow:
    """How steadily messages are stored in a stream."""

    run_since_us: int
    """Since when messages come without a long gap, UTC."""
    stored_at_us: int
    """When the newest was stored, UTC."""
    longest_gap_us: int = 0
    """The longest gap between two polls that saw new messages."""


@dataclass(frozen=True, slots=True)
class Purged:
    """A stream whose first sequence rose though no limit explains it."""

    purged_msgs: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Missing:
    """Messages that a stream had at one poll and not at the next, though nothing removes any."""

    missing_msgs: int
    before_us: int
    """The poll that had them,"""
    at_us: int
    """and the one that had not, UTC."""
    again_at_us: int
    """When further ones were missing last: where some are deleted all the time, always."""


@dataclass(frozen=True, slots=True)
class Alone:
    """An interest stream as it was when it was seen without a consumer first."""

    last_seq: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Run:
    """A number that was above zero in each of the newest polls."""

    polls_count: int
    lowest_msgs: int
    """The lowest of the newest three."""
    since_at_us: int
    newest_msgs: tuple[int, ...] = ()
    missed_polls_count: int = 0
    """Newest polls in which it was not above zero, though it was in enough polls before."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is kept from poll to poll of rows that need it."""

    pulls: Mapping[Key, PullPace] = field(default_factory=dict)
    lost: Mapping[Key, Lost] = field(default_factory=dict)
    flows: Mapping[Key, StoreFlow] = field(default_factory=dict)
    purged: Mapping[Key, Purged] = field(default_factory=dict)
    missing: Mapping[Key, Missing] = field(default_factory=dict)
    """A user deleted them, or the store lost them while its server was down."""
    orphans: Mapping[Key, Run] = field(default_factory=dict)
    """Work queues that have more messages than their consumers wait for."""
    differing: Mapping[Key, Run] = field(default_factory=dict)
    """Streams of which a replica has other messages than the leader."""
    alone: Mapping[Key, Alone] = field(default_factory=dict)
    """Interest streams without a consumer."""
    recreated_at_us: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    """When a consumer of a name was seen recreated, UTC, the newest last."""
    gone_at_us: Mapping[Name, int] = field(default_factory=dict)
    """When a consumer of a name was seen deleted, UTC, of the last minute."""
    streams_recreated_at_us: Mapping[str, int] = field(default_factory=dict)
    """When a stream of a name was seen recreated, UTC."""
    streams_gone_at_us: Mapping[Name, int] = field(default_factory=dict)
    """When a stream of a name was seen deleted, UTC: one that is created under it is another."""


@dataclass(frozen=True, slots=True)
class Before:
    """The rows of the poll before."""

    consumers: Roster
    consumer_columns: ConsumerColumns
    streams: Roster
    stream_columns: StreamColumns
