"""Sums of reported latencies: cheaper than merging histograms that do not change."""

from __future__ import annotations

from natstui.model.bench.counts import LATENCY_FIELDS, Latencies
from natstui.model.bench.latency import from_counts


class LatencySums:
    """The sum of reported latencies."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, int]] = {name: {} for name in LATENCY_FIELDS}

    def add(self, latencies: Latencies) -> None:
        """Take one report."""
        for name, total in self._counts.items():
            delta = getattr(latencies, name)
            for bucket, count in zip(delta.buckets, delta.counts, strict=True):
                total[bucket] = total.get(bucket, 0) + count

    def total(self) -> Latencies:
        """Return the histograms so far."""
        return Latencies(**{name: from_counts(one) for name, one in self._counts.items()})
