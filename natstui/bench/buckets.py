"""The histogram of `model.latency`, filled with whole arrays at once."""

from __future__ import annotations

import numpy as np

from natstui.bench.digits import Int64s
from natstui.model.latency import LatencyCounts

_BUCKETS = 128 * 58
"""Enough for every latency below 2⁶³ ns."""


def buckets_of(latencies_ns: Int64s) -> Int64s:
    """Return the bucket of each latency, as `model.latency.bucket_of` does for one."""
    values = np.maximum(latencies_ns, 0)
    # The exponent of the float is the bit length; exact below 2⁵³ ns, which is 104 days.
    _, bits = np.frexp(values.astype(np.float64))
    shifts = np.maximum(bits.astype(np.int64) - 8, 0)
    return (shifts << 7) + (values >> shifts)


class Recorder:
    """Takes latencies and hands out what was added since the last time."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)

    def add(self, latencies_ns: Int64s) -> None:
        """Take many latencies."""
        if len(latencies_ns):
            counts = np.bincount(buckets_of(latencies_ns))
            self._counts[: len(counts)] += counts

    def take(self) -> LatencyCounts:
        """Return what came since the last call, and begin anew."""
        (filled,) = np.nonzero(self._counts)
        delta = LatencyCounts(tuple(filled.tolist()), tuple(self._counts[filled].tolist()))
        self._counts[filled] = 0
        return delta
