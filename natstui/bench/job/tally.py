"""What a worker counts: totals inside, deltas outside; latencies fill the histogram by arrays."""

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
"""Enough for every latency below 2⁶³ ns."""
_EXACT_BELOW = 128
"""Smaller latencies have a bucket each."""
_BELOW_BUCKET_BITS = 52 - 7
"""Of a float's mantissa; seven bits of it tell buckets of one power of two apart."""
_FIRST = ((1023 + 7) << 7) - _EXACT_BELOW
"""What exponent and first bits of 128.0 are, less its bucket."""


def buckets_of(latencies_ns: Int64s) -> Int64s:
    """Return the bucket of each latency, as `model.latency.bucket_of` does for one."""
    values = np.maximum(latencies_ns, 0)
    # A float begins with exponent and mantissa: the bit length and the first bits behind it, which
    # are the bucket. Exact below 2⁵³ ns, which is 104 days.
    buckets: Int64s = (values.astype(np.float64).view(np.int64) >> _BELOW_BUCKET_BITS) - _FIRST
    small = values < _EXACT_BELOW
    if small.any():
        buckets[small] = values[small]
    return buckets


class Recorder:
    """Takes latencies and hands out what was added since the last time."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)

    def add(self, latencies_ns: Int64s) -> None:
        """Take many latencies."""
        if len(latencies_ns):
            buckets = buckets_of(latencies_ns)
            # What comes together took about as long: few buckets, far from the first.
            low = int(buckets.min())
            counts = np.bincount(buckets - low)
            self._counts[low : low + len(counts)] += counts

    def take(self) -> LatencyCounts:
        """Return what came since the last call, and begin again."""
        (filled,) = np.nonzero(self._counts)
        delta = LatencyCounts(tuple(filled.tolist()), tuple(self._counts[filled].tolist()))
        self._counts[filled] = 0
        return delta


_NEVER_NS = 1 << 62
_NAMES = tuple(part.name for part in fields(Counts))


class Tally:
    """Counts and latencies of one worker; only what belongs to the steady phase is timed."""

    def __init__(self) -> None:
        self.seen = ReceivedSequences()
        self.steady_ns = _NEVER_NS
        """From then on messages count for rates and latencies; before GO none do."""
        self.steady_end_ns: int | None = None
        """Latencies of messages due later are not counted; None: no end."""
        self.last_sent_ns = 0
        self.last_received_ns = 0
        self._totals = dict.fromkeys(_NAMES, 0)
        self._taken = dict(self._totals)
        self._recorders = {name: Recorder() for name in LATENCY_FIELDS}

    def add(self, name: str, count: int = 1) -> None:
        """Count something."""
        self._totals[name] += count

    def count(self, name: str) -> int:
        """Return the total of something so far."""
        return self._totals[name]

    def sent(self, count: int, payload_bytes: int, now_ns: int) -> None:
        """Count messages handed to the socket."""
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
        """Record latencies that end now; return how many of them count as steady."""
        steady = due_ns >= self.steady_ns
        if self.steady_end_ns is not None:
            steady &= due_ns < self.steady_end_ns
        count = int(np.count_nonzero(steady))
        # Choosing rows costs as much as all the rest, and nearly always all are chosen.
        chosen = slice(None) if count == len(due_ns) else steady
        self._recorders[name].add((now_ns - due_ns)[chosen])
        if sent_ns is not None:
            sent = np.broadcast_to(np.asarray(sent_ns, np.int64), due_ns.shape)
            self._recorders[f"{name}_uncorrected"].add((now_ns - sent)[chosen])
        return count

    def late(self, due_ns: Int64s, now_ns: int) -> None:
        """Record how long after they were due the sender begins with some messages."""
        if self.steady_ns <= int(due_ns[-1]):
            self._recorders["late"].add((now_ns - due_ns)[due_ns >= self.steady_ns])

    def acked(
        self, due_ns: Int64s, sent_ns: Int64s, now_ns: Int64s | int, duplicates: int = 0
    ) -> None:
        """Count publish acknowledgements, and time them from when the messages were due."""
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
        """Count messages as they arrived, time them and look for repeats and wrong order.

        Messages without a stamp of this run are foreign, where `place` says that its own have one.
        Returns which are of this run; None where all are.
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
            foreign, count = count - len(stamps.seq), len(stamps.seq)
            self._foreign(foreign, None if stream_seqs is None else stream_seqs[~stamps.own])
            if not count:
                return stamps.own
        steady = int(np.count_nonzero(stamps.due_ns >= self.steady_ns))
        self.timed("e2e", stamps.due_ns, stamps.sent_ns, now_ns)
        fresh, late = self.seen.add(stamps.publisher, stamps.seq)
        self._totals["duplicate_msgs"] += count - fresh
        self._totals["out_of_order_msgs"] += late
        self._received(count, steady, size_bytes, now_ns)
        return stamps.own

    def _foreign(self, count: int, stream_seqs: Int64s | None) -> None:
        """Count messages that others sent, repeats included, and note their stream sequences."""
        self._totals["foreign_msgs"] += count
        if stream_seqs is not None:
            self.seen.add(np.full(count, FOREIGN), stream_seqs)

    def received_unstamped(self, count: int, size_bytes: int, now_ns: int) -> None:
        """Count messages of this size that carry no stamp."""
        self._received(count, count if now_ns >= self.steady_ns else 0, size_bytes, now_ns)

    def _received(self, count: int, steady: int, size_bytes: int, now_ns: int) -> None:
        self._totals["received_msgs"] += count
        self._totals["received_bytes"] += count * size_bytes
        if steady:
            self._totals["steady_received_msgs"] += steady
            self._totals["steady_received_bytes"] += steady * size_bytes
            self.last_received_ns = now_ns

    def seen_stored(self, stream_seqs: Int64s) -> None:
        """Look for repeats by the sequence in the stream, where messages carry no stamp."""
        fresh, late = self.seen.add(np.zeros(len(stream_seqs), np.int64), stream_seqs)
        self._totals["duplicate_msgs"] += len(stream_seqs) - fresh
        self._totals["out_of_order_msgs"] += late

    def replied(self, count: int, total_bytes: int, steady: int, now_ns: int) -> None:
        """Count replies to our requests; only `steady` of them count for rates."""
        self._totals["received_msgs"] += count
        self._totals["received_bytes"] += total_bytes
        self._totals["steady_received_msgs"] += steady
        self._totals["steady_received_bytes"] += total_bytes * steady // max(count, 1)
        if steady:
            self.last_received_ns = now_ns

    def response_latency(self, answered_ns: Int64s, now_ns: int, steady_of_ns: Int64s) -> None:
        """Record response → received latencies of requests due at `steady_of_ns`."""
        steady = steady_of_ns >= self.steady_ns
        self._recorders["response"].add((now_ns - answered_ns)[steady])

    def store_latency(self, latencies_ns: Int64s) -> None:
        """Record store → deliver latencies."""
        self._recorders["store"].add(latencies_ns)

    def give_up_open(self, name: str) -> None:
        """Count as unanswered what was sent and has no answer: nobody waits any longer.

        `name` is what an answer counts as.
        """
        answers = (name, "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs")
        answered = sum(self._totals[answer] for answer in answers)
        self._totals["unanswered_msgs"] += max(self._totals["sent_msgs"] - answered, 0)

    def take(self) -> tuple[Counts, Latencies]:
        """Return what came since the last call."""
        delta = Counts(*(self._totals[name] - self._taken[name] for name in _NAMES))
        self._taken = dict(self._totals)
        latencies = Latencies(**{name: one.take() for name, one in self._recorders.items()})
        return delta, latencies

    def totals(self) -> Counts:
        """Return everything that was counted up to the last `take`."""
        return Counts(*(self._taken[name] for name in _NAMES))
