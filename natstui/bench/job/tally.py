"""The counts and latencies of a worker; each report gets what was added since the last one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from natstui.bench.job.digits import Int64s
from natstui.bench.job.sequences import FOREIGN_PUBLISHER, ReceivedSequences
from natstui.bench.job.stamps import StampLayout, read_stamps
from natstui.model.bench.counts import LATENCY_FIELDS, Counts, Latencies
from natstui.model.bench.latency import LatencyCounts

_BUCKETS_COUNT = 128 * 58
"""Number of buckets: enough for every latency below 2⁶³ ns."""
_EXACT_BELOW_NS = 128
"""Every latency in ns below this has a bucket of its own."""
_IGNORED_MANTISSA_BITS = 52 - 7
"""Bits of a float's mantissa that are shifted out: the other seven distinguish the buckets of
one power of two.
"""
_BUCKET_OFFSET = ((1023 + 7) << 7) - _EXACT_BELOW_NS
"""Number to subtract from the shifted bits of a latency to get its bucket.
"""


def buckets_of(latencies_ns: Int64s) -> Int64s:
    """Return the index of the histogram bucket of each latency in ns.

    These are the buckets of `model.bench.latency.bucket_of`.
    """
    bounded_ns = np.maximum(latencies_ns, 0)
    # A float begins with exponent and mantissa: the bit length and the first bits behind it, which
    # are the bucket. Exact below 2⁵³ ns, which is 104 days.
    buckets: Int64s = (
        bounded_ns.astype(np.float64).view(np.int64) >> _IGNORED_MANTISSA_BITS
    ) - _BUCKET_OFFSET
    is_exact = bounded_ns < _EXACT_BELOW_NS
    if is_exact.any():
        buckets[is_exact] = bounded_ns[is_exact]
    return buckets


class LatencyHistogram:
    """The histogram of the latencies that were added since the last `pop_new`."""

    def __init__(self) -> None:
        self._count_by_bucket = np.zeros(_BUCKETS_COUNT, np.int64)

    def add(self, latencies_ns: Int64s) -> None:
        """Add latencies in ns, one per message."""
        if len(latencies_ns):
            buckets = buckets_of(latencies_ns)
            # Latencies of one call are similar: few buckets, far from the first.
            lowest_bucket = int(buckets.min())
            counts = np.bincount(buckets - lowest_bucket)
            self._count_by_bucket[lowest_bucket : lowest_bucket + len(counts)] += counts

    def pop_new(self) -> LatencyCounts:
        """Return the histogram of latencies since the last call, and empty it."""
        (used_buckets,) = np.nonzero(self._count_by_bucket)
        new_counts = LatencyCounts(
            tuple(used_buckets.tolist()), tuple(self._count_by_bucket[used_buckets].tolist())
        )
        self._count_by_bucket[used_buckets] = 0
        return new_counts


_NEVER_NS = 1 << 62
_COUNT_NAMES = Counts.__struct_fields__


class WorkerTimes(Struct, frozen=True):
    """The times of a worker's messages of the steady phase; 0 without one.

    Times are of the steady clock in ns.
    """

    last_sent_ns: int = 0
    last_received_ns: int = 0
    first_received_ns: int = 0
    """Time of the first read with a received message."""
    first_received_msgs: int = 0
    """Number of messages in that read."""

    @property
    def last_ns(self) -> int:
        """Return the time of the last sent or received message."""
        return max(self.last_sent_ns, self.last_received_ns)


class Tally:
    """The counts, latencies and times of one worker.

    Times are of the steady clock in ns. Only messages of the steady phase are timed.
    """

    def __init__(self) -> None:
        self.received_sequences = ReceivedSequences()
        self.steady_ns = _NEVER_NS
        """Messages due from this time on count for rates and latencies; never before the start."""
        self.steady_end_ns: int | None = None
        """Latencies of messages due later are not counted; None: no end."""
        self.last_sent_ns = 0
        self.last_received_ns = 0
        self._first_received_ns = 0
        self._first_received_msgs = 0
        self._totals = dict.fromkeys(_COUNT_NAMES, 0)
        self._reported_totals = dict(self._totals)
        self._histograms = {name: LatencyHistogram() for name in LATENCY_FIELDS}

    def add(self, name: str, count: int = 1) -> None:
        """Add to the count of this name, a field of `Counts`."""
        self._totals[name] += count

    def count(self, name: str) -> int:
        """Return the total of the count of this name, a field of `Counts`."""
        return self._totals[name]

    def count_sent(self, count: int, payload_bytes: int, now_ns: int) -> None:
        """Count messages and payload bytes that were passed to the socket."""
        self._totals["sent_msgs"] += count
        self._totals["sent_bytes"] += payload_bytes
        if now_ns >= self.steady_ns:
            self._totals["steady_sent_msgs"] += count
            self.last_sent_ns = now_ns

    def record_latencies(
        self,
        name: str,
        due_ns: Int64s,
        sent_ns: Int64s | int | None,
        now_ns: Int64s | int,
    ) -> int:
        """Record the latencies of the steady phase from due time to `now_ns`; return their number.

        `name` is a field of `Latencies`. With `sent_ns` the latencies from the time of sending are
        recorded too, as `NAME_uncorrected`.
        """
        steady_mask = due_ns >= self.steady_ns
        if self.steady_end_ns is not None:
            steady_mask &= due_ns < self.steady_end_ns
        count = int(np.count_nonzero(steady_mask))
        # Choosing rows costs as much as all the rest, and nearly always all are chosen.
        steady_rows = slice(None) if count == len(due_ns) else steady_mask
        self._histograms[name].add((now_ns - due_ns)[steady_rows])
        if sent_ns is not None:
            sent_times = np.broadcast_to(np.asarray(sent_ns, np.int64), due_ns.shape)
            self._histograms[f"{name}_uncorrected"].add((now_ns - sent_times)[steady_rows])
        return count

    def record_lateness(self, due_ns: Int64s, now_ns: int) -> None:
        """Record how long after their due time messages of the steady phase are sent, in ns."""
        if self.steady_ns <= int(due_ns[-1]):
            self._histograms["late"].add((now_ns - due_ns)[due_ns >= self.steady_ns])

    def count_acks(
        self, due_ns: Int64s, sent_ns: Int64s, now_ns: Int64s | int, duplicates: int = 0
    ) -> None:
        """Count publish acks and record their latency; `duplicates` of them are of repeats.

        `due_ns` and `sent_ns` have one time per ack.
        """
        steady_count = self.record_latencies("ack", due_ns, sent_ns, now_ns)
        self._totals["acked_msgs"] += len(due_ns) - duplicates
        self._totals["duplicate_acked_msgs"] += duplicates
        self._totals["steady_acked_msgs"] += steady_count
        if steady_count:
            self.last_sent_ns = int(np.max(now_ns))

    def count_received(
        self,
        payloads: np.ndarray,
        layout: StampLayout,
        now_ns: int,
        stream_seqs: Int64s | None = None,
    ) -> npt.NDArray[np.bool_] | None:
        """Count (n, size) received payloads, record their latency, detect repeats and wrong order.

        If `layout` has a stamp, messages without a stamp of this run are foreign; their repeats
        are detected by `stream_seqs`. Returns the mask of the messages of this run; None if all
        are.
        """
        count, size_bytes = payloads.shape
        stamps = read_stamps(payloads, layout)
        if stamps is None:
            if layout.length:
                self._count_foreign(count, stream_seqs)
                return np.zeros(count, np.bool_)
            self.count_unstamped(count, size_bytes, now_ns)
            return None
        if stamps.own_run_mask is not None:
            foreign_count, count = count - len(stamps.seq), len(stamps.seq)
            self._count_foreign(
                foreign_count, None if stream_seqs is None else stream_seqs[~stamps.own_run_mask]
            )
            if not count:
                return stamps.own_run_mask
        steady_count = int(np.count_nonzero(stamps.due_ns >= self.steady_ns))
        self.record_latencies("e2e", stamps.due_ns, stamps.sent_ns, now_ns)
        new_count, out_of_order_count = self.received_sequences.add(stamps.publisher, stamps.seq)
        self._totals["duplicate_msgs"] += count - new_count
        self._totals["out_of_order_msgs"] += out_of_order_count
        self._add_received(count, steady_count, size_bytes, now_ns)
        return stamps.own_run_mask

    def _count_foreign(self, count: int, stream_seqs: Int64s | None) -> None:
        """Count messages of other senders, with repeats, and store their stream sequences."""
        self._totals["foreign_msgs"] += count
        if stream_seqs is not None:
            self.received_sequences.add(np.full(count, FOREIGN_PUBLISHER), stream_seqs)

    def count_unstamped(self, count: int, size_bytes: int, now_ns: int) -> None:
        """Count received messages without a stamp, of `size_bytes` each."""
        self._add_received(count, count if now_ns >= self.steady_ns else 0, size_bytes, now_ns)

    def _add_received(self, count: int, steady_count: int, size_bytes: int, now_ns: int) -> None:
        self._totals["received_msgs"] += count
        self._totals["received_bytes"] += count * size_bytes
        if steady_count:
            self._totals["steady_received_msgs"] += steady_count
            self._totals["steady_received_bytes"] += steady_count * size_bytes
            self.last_received_ns = now_ns
            if now_ns == (self._first_received_ns or now_ns):
                self._first_received_ns = now_ns
                self._first_received_msgs += steady_count

    def count_repeats(self, stream_seqs: Int64s) -> None:
        """Count repeats and wrong order by the stream sequences of received messages."""
        new_count, out_of_order_count = self.received_sequences.add(
            np.zeros(len(stream_seqs), np.int64), stream_seqs
        )
        self._totals["duplicate_msgs"] += len(stream_seqs) - new_count
        self._totals["out_of_order_msgs"] += out_of_order_count

    def count_replies(self, count: int, total_bytes: int, steady_count: int, now_ns: int) -> None:
        """Count replies to requests of this worker, of `total_bytes` together.

        `steady_count` of them are of the steady phase, and count for rates.
        """
        self._totals["received_msgs"] += count
        self._totals["received_bytes"] += total_bytes
        self._totals["steady_received_msgs"] += steady_count
        self._totals["steady_received_bytes"] += total_bytes * steady_count // max(count, 1)
        if steady_count:
            self.last_received_ns = now_ns

    def record_response_latencies(
        self, responded_ns: Int64s, now_ns: int, request_due_ns: Int64s
    ) -> None:
        """Record the latencies of responses, from `responded_ns` to `now_ns`.

        `request_due_ns` are the due times of their requests: responses to requests before the
        steady phase are left out.
        """
        steady_mask = request_due_ns >= self.steady_ns
        self._histograms["response"].add((now_ns - responded_ns)[steady_mask])

    def record_store_latencies(self, latencies_ns: Int64s) -> None:
        """Record latencies from storing to receiving a message, in ns."""
        self._histograms["store"].add(latencies_ns)

    def count_unanswered(self, name: str) -> None:
        """Count every sent message without a reply as unanswered; called once, at the end.

        `name` is the field of `Counts` with the number of accepted replies.
        """
        reply_count_names = (name, "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs")
        replied_msgs = sum(self._totals[count_name] for count_name in reply_count_names)
        self._totals["unanswered_msgs"] += max(self._totals["sent_msgs"] - replied_msgs, 0)

    def pop_new(self) -> tuple[Counts, Latencies]:
        """Return the counts and latencies since the last call."""
        new_counts = Counts(
            *(self._totals[name] - self._reported_totals[name] for name in _COUNT_NAMES)
        )
        self._reported_totals = dict(self._totals)
        latencies = Latencies(
            **{name: histogram.pop_new() for name, histogram in self._histograms.items()}
        )
        return new_counts, latencies

    def totals(self) -> Counts:
        """Return the total counts up to the last `pop_new`."""
        return Counts(*(self._reported_totals[name] for name in _COUNT_NAMES))

    def times(self) -> WorkerTimes:
        """Return the times up to now."""
        return WorkerTimes(
            last_sent_ns=self.last_sent_ns,
            last_received_ns=self.last_received_ns,
            first_received_ns=self._first_received_ns,
            first_received_msgs=self._first_received_msgs,
        )
