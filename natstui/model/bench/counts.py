"""What benchmark workers count and time; everything here adds up exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from natstui.model.bench.latency import EMPTY, LatencyCounts, merge


@dataclass(frozen=True, slots=True)
class Counts:
    """Everything a worker counts; adds up over time, workers and roles."""

    sent_msgs: int = 0
    sent_bytes: int = 0
    acked_msgs: int = 0
    """Stored for the first time, as the server acknowledged."""
    duplicate_acked_msgs: int = 0
    """Acknowledged with `duplicate: true`: the server had them already."""
    refused_msgs: int = 0
    """Acknowledged with an error, for good."""
    unanswered_msgs: int = 0
    """Neither acknowledged nor answered within the time-out."""
    missed_msgs: int = 0
    """Owed by the schedule when it ended, and never sent."""
    received_msgs: int = 0
    received_bytes: int = 0
    """Payload as received, without headers."""
    redelivered_msgs: int = 0
    """Received with a delivery count above 1."""
    duplicate_msgs: int = 0
    """Received by this worker before."""
    out_of_order_msgs: int = 0
    """Received behind a later message of the same publisher."""
    acks_sent_msgs: int = 0
    acks_confirmed_msgs: int = 0
    """Double acks the server answered."""
    naks_sent_msgs: int = 0
    terms_sent_msgs: int = 0
    never_acked_msgs: int = 0
    """Left without an acknowledgement on purpose."""
    foreign_msgs: int = 0
    """Received, and sent by somebody else than this run; in no other count."""
    steady_sent_msgs: int = 0
    steady_acked_msgs: int = 0
    steady_received_msgs: int = 0
    steady_received_bytes: int = 0
    retried_msgs: int = 0
    """Refused while the server came back, and sent again; not among `refused_msgs`."""

    def plus(self, other: Counts) -> Counts:
        """Return the sum."""
        return Counts(*(getattr(self, name) + getattr(other, name) for name in _COUNT_NAMES))


_COUNT_NAMES = tuple(part.name for part in fields(Counts))


def total_counts(counts: Iterable[Counts]) -> Counts:
    """Return the sum of many."""
    together = [tuple(getattr(count, name) for name in _COUNT_NAMES) for count in counts]
    return Counts(*map(sum, zip(*together, strict=True))) if together else Counts()


@dataclass(frozen=True, slots=True)
class Latencies:
    """The six latencies, corrected and uncorrected, as histograms."""

    ack: LatencyCounts = EMPTY
    """Publish → acknowledgement, from when the message was due."""
    e2e: LatencyCounts = EMPTY
    """Send → receive, from when the message was due."""
    store: LatencyCounts = EMPTY
    """Store → deliver: from the server's clock to ours, exact only on one machine."""
    rtt: LatencyCounts = EMPTY
    """Request → reply or response, from when the request was due."""
    ack_uncorrected: LatencyCounts = EMPTY
    """The same three from when the message was really sent."""
    e2e_uncorrected: LatencyCounts = EMPTY
    rtt_uncorrected: LatencyCounts = EMPTY
    response: LatencyCounts = EMPTY
    """Response stored → received by who asked: the second leg; the first is `e2e`."""
    late: LatencyCounts = EMPTY
    """Due → begun by its sender, at a fixed rate: what of the others is the generator's own."""


LATENCY_WORDS = {
    "ack": "due → acknowledged",
    "e2e": "due → received",
    "store": "stored → received, redeliveries included",
    "rtt": "due → replied",
    "response": "response stored → received",
    "late": "due → sent: the delay within the sender",
}
"""From when to when each is, in words: they are of different messages, and do not add up."""
LATENCY_FIELDS = tuple(part.name for part in fields(Latencies))
TELLING_LATENCIES = ("e2e", "rtt", "ack", "store", "late")
"""The most telling first."""


def main_latency(latencies: Latencies) -> tuple[str, LatencyCounts] | None:
    """Return the latency that matters most of those that were measured, and its name."""
    for name in TELLING_LATENCIES:
        histogram: LatencyCounts = getattr(latencies, name)
        if histogram.buckets:
            return name, histogram
    return None


def merge_latencies(many: Iterable[Latencies]) -> Latencies:
    """Return the histograms of all together."""
    kept = list(many)
    return Latencies(
        **{name: merge(getattr(one, name) for one in kept) for name in LATENCY_FIELDS}
    )
