"""Counts of advisories and acks: of a storm, and of all until now."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.model.bench.latency import LatencyCounts
from natstui.model.live.ack_times import NO_ACKS, AckTimes
from natstui.model.live.advisory_counts import NOTHING_COUNTED, MessageCount, MessageCounts

MessageAdvisoryType = Literal["nak", "terminated", "max_deliver", "removed"]
"""Types of advisories about one message; `removed` is a `terminated` by the stream."""


class AdvisoriesCounted(Struct, frozen=True):
    """Counts of advisories that arrived too fast to be recorded one by one."""

    at_us: int
    """End of the counted time, at most a second; older recorders counted across full seconds."""
    type: MessageAdvisoryType
    """As in `Advisory`."""
    stream: str
    consumer: str
    said_count: int
    """Exact count of all messages."""
    messages: tuple[MessageCount, ...]
    """The most frequent messages among them."""


class AcksCounted(Struct, frozen=True):
    """Counts of sampled acks that arrived too fast to be recorded one by one."""

    at_us: int
    """End of the counted time, at most a second; older recorders counted across full seconds."""
    stream: str
    consumer: str
    times: LatencyCounts
    """From delivery to acknowledgement."""
    repeated_count: int
    """Number of samples of redelivered messages."""
    left_out_count: int
    """Further samples that arrived too fast to be read."""


class BatchCounts(Struct, frozen=True):
    """Atomic batches of one stream that the server abandoned."""

    total_count: int = 0
    last_at_us: int = 0
    """0 for never."""
    last_reason: str = ""
    """The server's reason: `timeout`, `large`, `incomplete`, `unsupported`."""


NO_BATCHES = BatchCounts()


class AdvisoryCounts(Struct, frozen=True):
    """The advisories about one consumer, or one stream, since its creation."""

    stream: str
    consumer: str
    """Empty for the stream itself."""
    naks: MessageCounts = NOTHING_COUNTED
    """Nak'd by the client."""
    terms: MessageCounts = NOTHING_COUNTED
    """Terminated by the client."""
    give_ups: MessageCounts = NOTHING_COUNTED
    """Dropped after max deliver."""
    removed: MessageCounts = NOTHING_COUNTED
    """Deleted from the stream while they were ack pending: no client terminated them."""
    abandoned_batches: BatchCounts = NO_BATCHES
    created_at_us: tuple[int, ...] = ()
    """Of a stream: creation times of its consumers, the newest last."""
    deleted_at_us: tuple[int, ...] = ()
    """Of a stream: deletion times of its consumers, the newest last."""
    elected_at_us: tuple[int, ...] = ()
    """Election times of leaders, the newest last."""
    rolled_back_at_us: int = 0
    """Time when the last sequence of the stream decreased; 0 for never."""
    rolled_back_text: str = ""
    acks: AckTimes = NO_ACKS
    """Sampled acks of the consumer."""

    @property
    def first_at_us(self) -> int:
        """Return the time of the first advisory about a message; 0 without any."""
        counts = (self.naks, self.terms, self.give_ups, self.removed)
        return min((count.first_at_us for count in counts if count.total_count), default=0)

    @property
    def last_at_us(self) -> int:
        """Return the time of the newest advisory."""
        counts = (self.naks, self.terms, self.give_ups, self.removed, self.abandoned_batches)
        times = (count.last_at_us for count in counts)
        other_times_us = (self.rolled_back_at_us, self.acks.last_at_us)
        lists = (self.elected_at_us, self.created_at_us, self.deleted_at_us)
        return max(
            (*times, *other_times_us, *(at_us for times_us in lists for at_us in times_us[-1:]))
        )


class SubjectsCounted(Struct, frozen=True):
    """Messages of a stream by subject, counted for a finding."""

    at_us: int
    stream: str
    created_at_us: int
    """With the name, the identity of the stream."""
    filter_subject: str
    """The filter of the count: `>` is everything."""
    msgs_by_subject: dict[str, int]
    """Subject → stored messages, of the largest subjects."""
    subjects_count: int
    """All subjects that match."""
    stored_msgs: int
    """All messages that match."""
    scheduled_subjects: tuple[str, ...]
    """Subjects in this count whose last message is a schedule (`Nats-Schedule`)."""


class EvidenceSoFar(Struct, frozen=True):
    """All advisories about consumers, streams and messages until now, as counts."""

    at_us: int
    troubles: tuple[AdvisoryCounts, ...]
