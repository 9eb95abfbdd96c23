"""Data about rows beyond their history: gaps between pulls, losses, publishers, orphans.

`update_memory` of `remember` updates the data once per poll.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.thresholds import (
    ALLOWED_PULL_GAP_FACTOR,
    MAX_PULL_GAP_IF_UNKNOWN_S,
    NO_PULLS_AFTER_S,
    PULL_GAPS_KNOWN_AFTER_S,
)
from natstui.model.live.known_rows import Roster, RowKey
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns

RowName = tuple[str | int, ...]
"""The names of a stream, or of a stream and a consumer: a row's key without its last part."""


class ClientActivity(Struct, frozen=True):
    """Times of a consumer's pull requests or deliveries, and the gaps between them.

    Times are of the engine's clock, which nobody sets. Time without polls does not count:
    `first_mono_us` and `last_active_mono_us` are moved forward by it.
    """

    first_mono_us: int
    """Time of the first seen pull request or delivery."""
    last_active_mono_us: int
    """Time of the last seen pull request or delivery."""
    last_seen_mono_us: int
    """The same, with the time without polls, which the server counts."""
    gaps_count: int = 0
    """Number of ended gaps."""
    longest_gap_us: int = 0
    """The longest ended gap; each shorter gap lowers it a little."""
    polled_since_mono_us: int = 0
    """Time of the first poll after the latest time without polls; 0 without one."""

    @property
    def longest_gap_s(self) -> float | None:
        """Return the longest ended gap between pull requests or deliveries, in s.

        None until two gaps have ended, unless 10 s have passed without any gap.
        """
        watched_s = (self.last_active_mono_us - self.first_mono_us) / 1e6
        if self.gaps_count < 2 and not (
            watched_s >= PULL_GAPS_KNOWN_AFTER_S and self.gaps_count == 0
        ):
            return None
        return self.longest_gap_us / 1e6

    @property
    def allowed_gap_s(self) -> float:
        """Return the allowed gap between pull requests or deliveries, in s.

        It is three times the longest gap, at least 10 s; 20 s while the longest is unknown.
        """
        longest_gap_s = self.longest_gap_s
        if longest_gap_s is None:
            return MAX_PULL_GAP_IF_UNKNOWN_S
        return max(NO_PULLS_AFTER_S, ALLOWED_PULL_GAP_FACTOR * longest_gap_s)


class MessageLoss(Struct, frozen=True):
    """Messages that the stream removed before a consumer received them."""

    lost_msgs: int
    """Number of all lost messages."""
    at_us: int
    """Time of the newest loss, UTC."""
    since_at_us: int
    first_seq: int
    last_seq: int
    """Range of the lost sequences."""
    is_purge: bool
    """Whether the newest loss was a purge: no limit of the stream explains it."""
    counted_since_us: int | None = None
    """Time of the poll before the first loss, UTC, from which losses are counted."""

    @property
    def per_min(self) -> float | None:
        """Return the lost messages per minute until the newest loss; None if unknown."""
        if self.counted_since_us is None or self.at_us <= self.counted_since_us:
            return None
        return 60e6 * self.lost_msgs / (self.at_us - self.counted_since_us)


class SteadyPublishing(Struct, frozen=True):
    """A time in which messages were published to a stream without a long gap."""

    steady_since_us: int
    """Start of the time without a long gap between messages, UTC."""
    stored_at_us: int
    """Time of the newest message, UTC."""
    longest_gap_us: int = 0
    """The longest gap between two polls with new messages."""
    polled_mono_us: int | None = None
    """Steady time of the newest poll with new messages, None if none: it needs no server clock."""


class Purge(Struct, frozen=True):
    """A removal of a stream's first messages that no limit explains."""

    purged_msgs: int
    at_us: int
    first_seq: int
    """First sequence of the stream after the removal."""


class MissingMessages(Struct, frozen=True):
    """Messages that disappeared from a stream between two polls without an explanation."""

    missing_msgs: int
    present_at_us: int
    """Time of the poll that had them, UTC."""
    at_us: int
    """Time of the poll that did not, UTC."""
    latest_at_us: int
    """Time of the latest poll with further missing messages, UTC."""


class ConsumerlessStart(Struct, frozen=True):
    """Time and last sequence of an interest stream at its first poll without a consumer."""

    last_seq: int
    at_us: int


class PollsAboveZero(Struct, frozen=True):
    """Consecutive polls in which a number of messages was above zero."""

    polls_count: int
    lowest_msgs: int
    """The lowest of the three newest values."""
    since_at_us: int
    newest_msgs: tuple[int, ...] = ()
    newest_zero_polls_count: int = 0
    """Number of newest polls in which the number was 0 again."""


class RuleMemory(Struct, frozen=True):
    """Data about streams and consumers that rules need and that is kept from poll to poll."""

    client_activity: Mapping[RowKey, ClientActivity] = field(default_factory=dict)
    losses: Mapping[RowKey, MessageLoss] = field(default_factory=dict)
    steady_publishing: Mapping[RowKey, SteadyPublishing] = field(default_factory=dict)
    purges: Mapping[RowKey, Purge] = field(default_factory=dict)
    missing_messages: Mapping[RowKey, MissingMessages] = field(default_factory=dict)
    """Messages that a user deleted, or the store lost while its server was down."""
    orphans: Mapping[RowKey, PollsAboveZero] = field(default_factory=dict)
    """Work queues with messages that match no consumer."""
    differing_replicas: Mapping[RowKey, PollsAboveZero] = field(default_factory=dict)
    """Streams with a replica that has other messages than the leader."""
    consumerless: Mapping[RowKey, ConsumerlessStart] = field(default_factory=dict)
    """Interest streams without a consumer."""
    recreated_at_us: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    """Name of a consumer → times at which it was seen recreated, UTC, the newest last."""
    deleted_at_us: Mapping[RowName, int] = field(default_factory=dict)
    """Names of a deleted stream and consumer → time of the deletion, UTC, in the last minute."""
    streams_recreated_at_us: Mapping[str, int] = field(default_factory=dict)
    """Name of a stream → time at which it was seen recreated, UTC."""
    streams_deleted_at_us: Mapping[RowName, int] = field(default_factory=dict)
    """Name of a stream → time at which it was seen deleted, UTC."""


class PreviousRows(Struct, frozen=True):
    """The rows of the previous poll."""

    consumers: Roster
    consumer_columns: ConsumerColumns
    streams: Roster
    stream_columns: StreamColumns
    consumer_settings: Mapping[tuple[str, str], ConsumerConfiguration]
