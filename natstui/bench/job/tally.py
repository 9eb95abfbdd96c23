"""The counts of a worker: totals inside, deltas outside; latencies are added as arrays."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from natstui.bench.job.digits import Int64s
from natstui.bench.job.seen import FOREIGN, ReceivedSequences
from natstui.bench.job.stamps import StampPlace, read_stamps
from natstui.model.bench.counts import LATENCY_FIELDS, Counts, Latencies
from natstui.model.bench.latency import LatencyCounts

_BUCKETS = 128 * 58
"""Number of buckets: enough for every latency below 2⁶³ ns."""
_EXACT_BELOW = 128
"""Latencies below have a bucket each."""
_BELOW_BUCKET_BITS = 52 - 7
"""Shift of a float's mantissa; seven bits of it distinguish buckets of one power of two."""
_FIRST = ((1023 + 7) << 7) - _EXACT_BELOW
"""Exponent and first bits of 128.0, less its bucket."""


def buckets_of(latencies_ns: Int64s) -> Int64s:
    """Return the index of the histogram bucket of each latency in ns.

    It is the same as `model.bench.latency.bucket_of` returns for one.
    """
    values = np.maximum(latencies_ns, 0)
    # A float begins with exponent and mantissa: the bit length and the first bits behind it, which
    # are the bucket. Exact below 2⁵³ ns, which is 104 days.
    buckets: Int64s = (values.astype(np.float64).view(np.int64) >> _BELOW_BUCKET_BITS) - _FIRST
    is_small = values < _EXACT_BELOW
    if is_small.any():
        buckets[is_small] = values[is_small]
    return buckets


class Recorder:
    """A histogram of latencies that is emptied by each `pop_new`."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)

    def add(self, latencies_ns: Int64s) -> None:
        """Add latencies in ns, one per message."""
        if len(latencies_ns):
            buckets = buckets_of(latencies_ns)
            # What comes together took about as long: few buckets, far from the first.
            lowest = int(buckets.min())
            counts = np.bincount(buckets - lowest)
            self._counts[lowest : lowest + len(counts)] += counts

    def pop_new(self) -> LatencyCounts:
        """Return the histogram of latencies since the last call, and empty it."""
        (used_buckets,) = np.nonzero(self._counts)
        delta = LatencyCounts(
            tuple(used_buckets.tolist()), tuple(self._counts[used_buckets].tolist())
        )
        self._counts[used_buckets] = 0
        return delta


_NEVER_NS = 1 << 62
_NAMES = tuple(part.name for part in fields(Counts))


class Tally:
    """The counts and latencies of one worker.

    Times are of the steady clock in ns. Only messages of the steady phase are timed.
    """

    def __init__(self) -> None:
        self.seen = ReceivedSequences()
        self.steady_ns = _NEVER_NS
        """Start of the messages that count for rates and latencies; never before GO."""
        self.steady_end_ns: int | None = None
        """Latencies of messages due later are not counted; None: no end."""
        self.last_sent_ns = 0
        self.last_received_ns = 0
        self._totals = dict.fromkeys(_NAMES, 0)
        self._taken = dict(self._totals)
        self._recorders = {name: Recorder() for name in LATENCY_FIELDS}

    def add(self, name: str, count: int = 1) -> None:
        """Add to the count of this name, a field of `Counts`."""
        self._totals[name] += count

    def count(self, name: str) -> int:
        """Return the total of the count of this name, a field of `Counts`."""
        return self._totals[name]

    def sent(self, count: int, payload_bytes: int, now_ns: int) -> None:
        """Count messages and payload bytes that were passed to the socket."""
        self._totals["sent_msgs"] += count
        self._totals["sent_bytes"] += payload_bytes
        if now_ns >= self.steady_ns:
            self._totals["steady_sent_msgs"] += count
            self.last_sent_ns = now_ns

    def timed(
        self,
        name: str,
        due_ns: Int64s,
        sent_ns: Int64s | int | None,
        now_ns: Int64s | int,
    ) -> int:
        """Record latencies that end at `now_ns`, and return how many are of the steady phase.

        `name` is a field of `Latencies`. They begin at the due time; with `sent_ns`, also those
        from the time of sending are recorded, as `NAME_uncorrected`.
        """
        steady = due_ns >= self.steady_ns
        if self.steady_end_ns is not None:
            steady &= due_ns < self.steady_end_ns
        count = int(np.count_nonzero(steady))
        # Choosing rows costs as much as all the rest, and nearly always all are chosen.
        selected = slice(None) if count == len(due_ns) else steady
        self._recorders[name].add((now_ns - due_ns)[selected])
        if sent_ns is not None:
            sent_times = np.broadcast_to(np.asarray(sent_ns, np.int64), due_ns.shape)
            self._recorders[f"{name}_uncorrected"].add((now_ns - sent_times)[selected])
        return count

    def late(self, due_ns: Int64s, now_ns: int) -> None:
        """Record by how much messages of the steady phase are sent after their due time."""
        if self.steady_ns <= int(due_ns[-1]):
            self._recorders["late"].add((now_ns - due_ns)[due_ns >= self.steady_ns])

    def acked(
        self, due_ns: Int64s, sent_ns: Int64s, now_ns: Int64s | int, duplicates: int = 0
    ) -> None:
        """Count publish acks, of which `duplicates` were stored before, and record their latency.

        There is one due and sent time per ack.
        """
        steady = self.timed("ack", due_ns, sent_ns, now_ns)
        self._totals["acked_msgs"] += len(due_ns) - duplicates
        self._totals["duplicate_acked_msgs"] += duplicates
        self._totals["steady_acked_msgs"] += steady
        if steady:
            self.last_sent_ns = int(np.max(now_ns))

    def received(
        self,
        payloads: np.ndarray,
        place: StampPlace,
        now_ns: int,
        stream_seqs: Int64s | None = None,
    ) -> npt.NDArray[np.bool_] | None:
        """Count (n, size) received payloads, record their latency, detect repeats and wrong order.

        If `place` has a stamp, messages without a stamp of this run are foreign; `stream_seqs` are
        needed to detect their repeats. Returns the mask of messages of this run; None if all are.
        """
        count, size_bytes = payloads.shape
        stamps = read_stamps(payloads, place)
        if stamps is None:
            if place.length:
                self._foreign(count, stream_seqs)
                return np.zeros(count, np.bool_)
            self.received_unstamped(count, size_bytes, now_ns)
            return None
        if stamps.own is not None:
            foreign_count, count = count - len(stamps.seq), len(stamps.seq)
            self._foreign(foreign_count, None if stream_seqs is None else stream_seqs[~stamps.own])
            if not count:
                return stamps.own
        steady_count = int(np.count_nonzero(stamps.due_ns >= self.steady_ns))
        self.timed("e2e", stamps.due_ns, stamps.sent_ns, now_ns)
        new_count, late_count = self.seen.add(stamps.publisher, stamps.seq)
        self._totals["duplicate_msgs"] += count - new_count
        self._totals["out_of_order_msgs"] += late_count
        self._received(count, steady_count, size_bytes, now_ns)
        return stamps.own

    def _foreign(self, count: int, stream_seqs: Int64s | None) -> None:
        """Count messages of others, with repeats, and store their stream sequences."""
        self._totals["foreign_msgs"] += count
        if stream_seqs is not None:
            self.seen.add(np.full(count, FOREIGN), stream_seqs)

    def received_unstamped(self, count: int, size_bytes: int, now_ns: int) -> None:
        """Count received messages of `size_bytes` each that have no stamp."""
        self._received(count, count if now_ns >= self.steady_ns else 0, size_bytes, now_ns)

    def _received(self, count: int, steady: int, size_bytes: int, now_ns: int) -> None:
        self._totals["received_msgs"] += count
        self._totals["received_bytes"] += count * size_bytes
        if steady:
            self._totals["steady_received_msgs"] += steady
            self._totals["steady_received_bytes"] += steady * size_bytes
            self.last_received_ns = now_ns

    def seen_stored(self, stream_seqs: Int64s) -> None:
        """Detect repeats and wrong order of messages without a stamp, by stream sequence."""
        new_count, late_count = self.seen.add(np.zeros(len(stream_seqs), np.int64), stream_seqs)
        self._totals["duplicate_msgs"] += len(stream_seqs) - new_count
        self._totals["out_of_order_msgs"] += late_count

    def replied(self, count: int, total_bytes: int, steady: int, now_ns: int) -> None:
        """Count replies to our requests, of `total_bytes` together.

        `steady` of them are of the steady phase, and count for rates.
        """
        self._totals["received_msgs"] += count
        self._totals["received_bytes"] += total_bytes
        self._totals["steady_received_msgs"] += steady
        self._totals["steady_received_bytes"] += total_bytes * steady // max(count, 1)
        if steady:
            self.last_received_ns = now_ns

    def response_latency(self, responded_ns: Int64s, now_ns: int, steady_of_ns: Int64s) -> None:
        """Record the latencies of responses, from `responded_ns` to `now_ns`.

        `steady_of_ns` are the due times of their requests: only those of the steady phase are
        recorded.
        """
        steady = steady_of_ns >= self.steady_ns
        self._recorders["response"].add((now_ns - responded_ns)[steady])

    def store_latency(self, latencies_ns: Int64s) -> None:
        """Record latencies from storing to receiving a message, in ns."""
        self._recorders["store"].add(latencies_ns)

    def give_up_open(self, name: str) -> None:
        """Count every message without a reply as unanswered, at the end.

        `name` is the count of accepted replies, a field of `Counts`.
        """
        reply_counts = (name, "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs")
        replied_msgs = sum(self._totals[reply_count] for reply_count in reply_counts)
        self._totals["unanswered_msgs"] += max(self._totals["sent_msgs"] - replied_msgs, 0)

    def pop_new(self) -> tuple[Counts, Latencies]:
        """Return the counts and latencies since the last call."""
        delta = Counts(*(self._totals[name] - self._taken[name] for name in _NAMES))
        self._taken = dict(self._totals)
        latencies = Latencies(
            **{name: recorder.pop_new() for name, recorder in self._recorders.items()}
        )
        return delta, latencies

    def totals(self) -> Counts:
        """Return all counts up to the last `pop_new`."""
        return Counts(*(self._taken[name] for name in _NAMES))
