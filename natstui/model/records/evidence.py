"""Announcements about messages as counts: those of a storm, and all that a moment knows of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.bench.latency import LatencyCounts
from natstui.model.live.ack_times import NO_ACKS, AckTimes
from natstui.model.live.message_counts import NOTHING_COUNTED, MessageCount, MessageCounts

MessageTrouble = Literal["nak", "terminated", "max_deliver", "removed"]
"""Types of announcements that are about one message; `removed` is a `terminated` of the stream."""


@dataclass(frozen=True, slots=True)
class AdvisoriesCounted:
    """Announcements that came faster than they are passed on one by one, counted."""

    at_us: int
    type: MessageTrouble
    """As in `Advisory`."""
    stream: str
    consumer: str
    said_count: int
    """Exact: of all messages."""
    messages: tuple[MessageCount, ...]
    """The most frequent messages among them."""


@dataclass(frozen=True, slots=True)
class AcksCounted:
    """Sampled acknowledgements that came faster than they are passed on one by one, counted."""

    at_us: int
    stream: str
    consumer: str
    times: LatencyCounts
    """From delivery to acknowledgement."""
    repeated_count: int
    """Samples among them of messages that had been delivered before."""
    left_out_count: int
    """Further samples that came too fast to be read."""


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Atomic batches of one stream that the server gave up."""

    total_count: int = 0
    last_at_us: int = 0
    """0 for never."""
    last_reason: str = ""
    """As the server says it: `timeout`, `large`, `incomplete`, `unsupported`."""


NO_BATCHES = BatchCounts()


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was announced of one consumer, or of one stream, since it was made."""

    stream: str
    consumer: str
    """Empty for the stream itself."""
    naks: MessageCounts = NOTHING_COUNTED
    """Refused by the client."""
    terms: MessageCounts = NOTHING_COUNTED
    """Terminated by the client."""
    give_ups: MessageCounts = NOTHING_COUNTED
    """Given up at max deliver."""
    removed: MessageCounts = NOTHING_COUNTED
    """Removed from the stream while they waited for their ack: no client terminated them."""
    abandoned_batches: BatchCounts = NO_BATCHES
    created_at_us: tuple[int, ...] = ()
    """Of a stream: when consumers of it were created, the newest last,"""
    deleted_at_us: tuple[int, ...] = ()
    """and deleted."""
    elected_at_us: tuple[int, ...] = ()
    """When leaders were elected, the newest last."""
    rolled_back_at_us: int = 0
    """When its last sequence went back; 0 for never."""
    rolled_back_text: str = ""
    acks: AckTimes = NO_ACKS
    """Its sampled acknowledgements; they are no trouble by themselves."""

    @property
    def last_at_us(self) -> int:
        """When the newest of all this was announced."""
        counts = (self.naks, self.terms, self.give_ups, self.removed, self.abandoned_batches)
        times = (count.last_at_us for count in counts)
        others = (self.rolled_back_at_us, self.acks.last_at_us)
        lists = (self.elected_at_us, self.created_at_us, self.deleted_at_us)
        return max((*times, *others, *(at_us for each in lists for at_us in each[-1:])))


@dataclass(frozen=True, slots=True)
class SubjectsCounted:
    """Messages of a stream by subject, counted because only that shows what is wrong."""

    at_us: int
    stream: str
    created_at_us: int
    """With the name, the identity of the stream."""
    filter_subject: str
    """What was counted: `>` is everything."""
    msgs_by_subject: dict[str, int]
    """Subject → stored messages, of those that have most."""
    subjects_count: int
    """All subjects that match."""
    stored_msgs: int
    """All messages that match."""
    scheduled_subjects: tuple[str, ...]
    """Those of the subjects whose last message is a schedule (`Nats-Schedule`)."""


@dataclass(frozen=True, slots=True)
class EvidenceSoFar:
    """All that was announced of consumers, streams and messages until now, as counts."""

    at_us: int
    troubles: tuple[Trouble, ...]
