"""Counts and latencies of benchmark workers, and values derived from them; all add up exactly."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from natstui.model.bench.latency import EMPTY_HISTOGRAM, LatencyCounts, from_counts, merge
from natstui.model.bench.plan import Role


class Counts(Struct, frozen=True):
    """All counts of a worker, which add up over time, workers and roles."""

    sent_msgs: int = 0
    sent_bytes: int = 0
    acked_msgs: int = 0
    """Messages acked by the server as newly stored."""
    duplicate_acked_msgs: int = 0
    """Messages acked with `duplicate: true`, as the server had them already."""
    refused_msgs: int = 0
    """Messages refused by the server for good, with an error in the ack."""
    unanswered_msgs: int = 0
    """Messages or requests without an ack or reply within the timeout."""
    missed_msgs: int = 0
    """Messages due by the schedule, but never sent."""
    received_msgs: int = 0
    received_bytes: int = 0
    """Bytes of received payloads, without headers."""
    redelivered_msgs: int = 0
    """Messages received with a delivery count above 1."""
    duplicate_msgs: int = 0
    """Messages received again by the same worker."""
    out_of_order_msgs: int = 0
    """Messages received after a later message of the same publisher."""
    acks_sent_msgs: int = 0
    acks_confirmed_msgs: int = 0
    """Double acks that the server confirmed."""
    naks_sent_msgs: int = 0
    terms_sent_msgs: int = 0
    never_acked_msgs: int = 0
    """Messages that were not acked on purpose."""
    foreign_msgs: int = 0
    """Messages received from senders outside this run; in no other count."""
    steady_sent_msgs: int = 0
    steady_acked_msgs: int = 0
    steady_received_msgs: int = 0
    steady_received_bytes: int = 0
    retried_msgs: int = 0
    """Messages refused by a restarting server and sent again; not in `refused_msgs`."""

    def plus(self, other: Counts) -> Counts:
        """Return the sum of these counts and `other`."""
        return Counts(*(getattr(self, name) + getattr(other, name) for name in _COUNT_FIELDS))


_COUNT_FIELDS = Counts.__struct_fields__


def total_counts(counts: Iterable[Counts]) -> Counts:
    """Return the sum of several counts."""
    count_tuples = [tuple(getattr(count, name) for name in _COUNT_FIELDS) for count in counts]
    return Counts(*map(sum, zip(*count_tuples, strict=True))) if count_tuples else Counts()


class Latencies(Struct, frozen=True):
    """The six latencies, corrected and uncorrected, as histograms."""

    ack: LatencyCounts = EMPTY_HISTOGRAM
    """Publish → ack, from the due time of the message."""
    e2e: LatencyCounts = EMPTY_HISTOGRAM
    """Send → receive, from the due time of the message."""
    store: LatencyCounts = EMPTY_HISTOGRAM
    """Store → deliver: from the server's clock to the receiver's, exact only on one machine."""
    rtt: LatencyCounts = EMPTY_HISTOGRAM
    """Request → reply or response, from the due time of the request."""
    ack_uncorrected: LatencyCounts = EMPTY_HISTOGRAM
    """`ack`, `e2e` and `rtt` from the time of sending."""
    e2e_uncorrected: LatencyCounts = EMPTY_HISTOGRAM
    rtt_uncorrected: LatencyCounts = EMPTY_HISTOGRAM
    response: LatencyCounts = EMPTY_HISTOGRAM
    """Response stored → received by the requester; `e2e` is that of the request."""
    late: LatencyCounts = EMPTY_HISTOGRAM
    """Due → sending started, at a fixed rate: the share of the load generator in the others."""


LATENCY_MEANINGS = {
    "ack": "due → acknowledged",
    "e2e": "due → received",
    "store": "stored → received, redeliveries included",
    "rtt": "due → replied",
    "response": "response stored → received",
    "late": "due → sent: the delay within the sender",
}
"""Latency → its start and end, as text."""
LATENCY_FIELDS = Latencies.__struct_fields__
LATENCIES_BY_IMPORTANCE = ("e2e", "rtt", "ack", "store", "late")
"""Names of latencies, the most important first."""


def main_latency(latencies: Latencies) -> tuple[str, LatencyCounts] | None:
    """Return the name and histogram of the most important measured latency; None without one."""
    for name in LATENCIES_BY_IMPORTANCE:
        histogram: LatencyCounts = getattr(latencies, name)
        if histogram.buckets:
            return name, histogram
    return None


def merge_latencies(all_latencies: Iterable[Latencies]) -> Latencies:
    """Return the merged histograms of the latencies of several workers or intervals."""
    latencies_list = list(all_latencies)
    return Latencies(
        **{
            name: merge(getattr(latencies, name) for latencies in latencies_list)
            for name in LATENCY_FIELDS
        }
    )


class LatencyTotals:
    """The sum of the histograms of all reported latencies."""

    def __init__(self) -> None:
        self._count_by_bucket_by_latency: dict[str, dict[int, int]] = {
            name: {} for name in LATENCY_FIELDS
        }

    def add(self, latencies: Latencies) -> None:
        """Add the latencies of one report."""
        for name, count_by_bucket in self._count_by_bucket_by_latency.items():
            histogram = getattr(latencies, name)
            for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
                count_by_bucket[bucket] = count_by_bucket.get(bucket, 0) + count

    def total(self) -> Latencies:
        """Return the histograms of all added reports."""
        return Latencies(
            **{
                name: from_counts(counts)
                for name, counts in self._count_by_bucket_by_latency.items()
            }
        )


_ACK_MODES_PER_MESSAGE = ("explicit", "double")


def in_flight_msgs(role: Role, counts: Counts) -> int | None:
    """Return the sent messages without a reply, or the received messages without an ack.

    None for roles without replies or acks, or if one ack covers many messages.
    """
    pattern_traits = role.traits
    if pattern_traits.awaits_reply or pattern_traits.awaits_responses:
        replied_msgs = counts.received_msgs - counts.duplicate_msgs + counts.duplicate_acked_msgs
    elif pattern_traits.sends and pattern_traits.is_stored:
        replied_msgs = counts.acked_msgs + counts.duplicate_acked_msgs
    elif pattern_traits.has_shared_consumer and role.acks in _ACK_MODES_PER_MESSAGE:
        acked_msgs = counts.acks_sent_msgs + counts.naks_sent_msgs + counts.terms_sent_msgs
        return max(counts.received_msgs - acked_msgs - counts.never_acked_msgs, 0)
    else:
        return None
    failed_msgs = counts.refused_msgs + counts.unanswered_msgs
    return max(counts.sent_msgs - replied_msgs - failed_msgs, 0)
