"""Data about rows beyond their history: gaps between pulls, losses, publishers, orphans.

`update_memory` of `remember` updates the data once per poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from natstui.model.findings.thresholds import (
    NO_PULLS_AFTER_S,
    PACE_FACTOR,
    PACE_KNOWN_S,
    UNKNOWN_PACE_S,
)
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.table import Key, Roster

Name = tuple[str | int, ...]
"""The key of a row without the time of its creation."""


@dataclass(frozen=True, slots=True)
class PullPace:
    """The activity of a consumer's clients: pull requests or deliveries, and the gaps between."""

    first_at_us: int
    """Time of the first seen pull request or delivery, UTC."""
    seen_at_us: int
    """Time of the last seen pull request or delivery, UTC."""
    gaps_count: int = 0
    """Number of ended gaps."""
    longest_gap_us: int = 0
    """The longest ended gap; each shorter gap lowers it a little."""

    @property
    def longest_gap_s(self) -> float | None:
        """Return the longest ended gap in client activity, in s.

        None until two gaps have ended, unless 10 s have passed without any gap.
        """
        watched_s = (self.seen_at_us - self.first_at_us) / 1e6
        if self.gaps_count < 2 and not (watched_s >= PACE_KNOWN_S and self.gaps_count == 0):
            return None
        return self.longest_gap_us / 1e6

    @property
    def allowed_gap_s(self) -> float:
        """Return the allowed gap in client activity, in s; 20 s while the longest is unknown.

        Else it is three times the longest gap, at least 10 s.
        """
        longest_s = self.longest_gap_s
        if longest_s is None:
            return UNKNOWN_PACE_S
        return max(NO_PULLS_AFTER_S, PACE_FACTOR * longest_s)


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages that the stream removed before a consumer received them."""

    lost_msgs: int
    """Number of all lost messages."""
    at_us: int
    """Time of the newest loss, UTC."""
    since_at_us: int
    first_seq: int
    last_seq: int
    """Range of the lost sequences."""
    purged: bool
    """Whether the newest loss was a purge: no limit of the stream explains it."""
    counted_since_us: int | None = None
    """Time of the poll before the first loss, UTC, from which losses are counted."""

    @property
    def per_min(self) -> float | None:
        """Return the lost messages per minute until the newest loss; None if unknown."""
        if self.counted_since_us is None or self.at_us <= self.counted_since_us:
            return None
        return 60e6 * self.lost_msgs / (self.at_us - self.counted_since_us)


@dataclass(frozen=True, slots=True)
class StoreFlow:
    """The steadiness of publishing to a stream."""

    run_since_us: int
    """Start of the time without a long gap between messages, UTC."""
    stored_at_us: int
    """Time of the newest message, UTC."""
    longest_gap_us: int = 0
    """The longest gap between two polls with new messages."""


@dataclass(frozen=True, slots=True)
class Purge:
    """A removal of a stream's first messages that no limit explains."""

    purged_msgs: int
    at_us: int


@dataclass(frozen=True, slots=True)
class MissingMessages:
    """Messages that disappeared from a stream between two polls without an explanation."""

    missing_msgs: int
    before_us: int
    """Time of the poll that had them, UTC."""
    at_us: int
    """Time of the poll that did not, UTC."""
    latest_at_us: int
    """Time of the latest poll with further missing messages, UTC."""


@dataclass(frozen=True, slots=True)
class WithoutConsumers:
    """The last sequence of an interest stream at its first poll without a consumer."""

    last_seq: int
    at_us: int


@dataclass(frozen=True, slots=True)
class PositiveRun:
    """A series of polls in which a number of messages was above zero."""

    polls_count: int
    lowest_msgs: int
    """The lowest of the three newest values."""
    since_at_us: int
    newest_msgs: tuple[int, ...] = ()
    missed_polls_count: int = 0
    """Number of newest polls in which the number was 0 again."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Data about rows that is passed from poll to poll."""

    pulls: Mapping[Key, PullPace] = field(default_factory=dict)
    losses: Mapping[Key, Loss] = field(default_factory=dict)
    flows: Mapping[Key, StoreFlow] = field(default_factory=dict)
    purges: Mapping[Key, Purge] = field(default_factory=dict)
    missing_messages: Mapping[Key, MissingMessages] = field(default_factory=dict)
    """Messages that a user deleted, or the store lost while its server was down."""
    orphans: Mapping[Key, PositiveRun] = field(default_factory=dict)
    """Work queues with messages that match no consumer."""
    differing_replicas: Mapping[Key, PositiveRun] = field(default_factory=dict)
    """Streams with a replica that has other messages than the leader."""
    consumerless: Mapping[Key, WithoutConsumers] = field(default_factory=dict)
    """Interest streams without a consumer."""
    recreated_at_us: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    """Name of a consumer → times at which it was seen recreated, UTC, the newest last."""
    deleted_at_us: Mapping[Name, int] = field(default_factory=dict)
    """Key of a consumer → time at which it was seen deleted, UTC, of the last minute."""
    streams_recreated_at_us: Mapping[str, int] = field(default_factory=dict)
    """Name of a stream → time at which it was seen recreated, UTC."""
    streams_deleted_at_us: Mapping[Name, int] = field(default_factory=dict)
    """Key of a stream → time at which it was seen deleted, UTC."""


@dataclass(frozen=True, slots=True)
class PreviousRows:
    """The rows of the previous poll."""

    consumers: Roster
    consumer_columns: ConsumerColumns
    streams: Roster
    stream_columns: StreamColumns
