"""Finds the step of a rising rate at which latency rises sharply. Pure."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from natstui.model.bench.counts import Latencies, LatencyTotals
from natstui.model.bench.plan import BenchmarkPlan, RateSegment
from natstui.units import duration_text, rate_text

MIN_STEPS = 3
SHARP_RISE_ABOVE_NS = 10_000_000
SHARP_RISE_FACTOR = 5
"""A p99 above this multiple of the lowest p99 of earlier steps, and above 10 ms, is a sharp rise.
"""
_LATENCY_NAMES = ("e2e", "ack", "rtt")


class KneeDetector:
    """Finds the step of a rising rate at which latency rises sharply."""

    def __init__(self, plan: BenchmarkPlan) -> None:
        """Create a detector for a plan; it finds nothing in a plan without a stepped rate."""
        self._steps = _steps(plan)
        self._step_ends_s = list(accumulate(step.duration_s or 0.0 for step in self._steps))
        self._latencies_by_step = [LatencyTotals() for _ in self._steps]
        self._cached_p99_ns: list[int] = []
        """The cached p99 (ns) of the first completed steps."""

    def add(self, elapsed_s: float, latencies: Latencies) -> None:
        """Add the latencies of a report to the step at `elapsed_s` after the start."""
        if not self._steps:
            return
        step = min(bisect_right(self._step_ends_s, elapsed_s), len(self._steps) - 1)
        self._latencies_by_step[step].add(latencies)

    def sharp_rise_text(self, elapsed_s: float) -> str | None:
        """Return a sentence about the first completed step with a sharp rise; None without one."""
        p99_ns = self._p99_ns(bisect_right(self._step_ends_s, elapsed_s))
        for number in range(1, len(p99_ns)):
            lowest_p99_ns = min(p99_ns[:number])
            if p99_ns[number] > max(SHARP_RISE_ABOVE_NS, SHARP_RISE_FACTOR * lowest_p99_ns):
                step, next_step = self._steps[number - 1], self._steps[number]
                return (
                    f"latency rises sharply above {rate_text(step.end_per_s)} msgs/s: p99 is "
                    f"{duration_text(p99_ns[number - 1] / 1e9)} there, and "
                    f"{duration_text(p99_ns[number] / 1e9)} at {rate_text(next_step.end_per_s)} "
                    "msgs/s"
                )
        return None

    def no_sharp_rise_text(self, elapsed_s: float) -> str | None:
        """Return a sentence about a run without a sharp rise; None before its last step ends."""
        if not self._steps or elapsed_s < self._step_ends_s[-1]:
            return None
        p99_ns = self._p99_ns(len(self._steps))
        if len(p99_ns) < len(self._steps):
            return None
        last_rate_text = f"{rate_text(self._steps[-1].end_per_s)} msgs/s"
        return (
            f"no sharp rise of latency up to {last_rate_text}: p99 is "
            f"{duration_text(p99_ns[-1] / 1e9)} there"
        )

    def _p99_ns(self, count: int) -> list[int]:
        """Return the p99 (ns) of the first `count` steps, up to one without latencies."""
        p99_ns_by_step = self._cached_p99_ns[:count]
        for number in range(len(p99_ns_by_step), count):
            total = self._latencies_by_step[number].total()
            histograms = (getattr(total, name) for name in _LATENCY_NAMES)
            histogram = next((counts for counts in histograms if counts.buckets), None)
            p99_ns = histogram.percentile_ns(99) if histogram is not None else None
            if p99_ns is None:
                break
            p99_ns_by_step.append(p99_ns)
            # The last step also gets the latencies after its end.
            if number < len(self._steps) - 1:
                self._cached_p99_ns.append(p99_ns)
        return p99_ns_by_step


def _steps(plan: BenchmarkPlan) -> tuple[RateSegment, ...]:
    """Return the schedule of the first sender with a stepped rate; empty if a rate falls."""
    for role in plan.roles:
        rates = [segment.end_per_s for segment in role.schedule]
        is_stepped = all(segment.start_per_s == segment.end_per_s for segment in role.schedule)
        has_ends = all(segment.duration_s is not None for segment in role.schedule)
        if role.traits.sends and len(rates) >= MIN_STEPS and is_stepped and has_ends:
            return role.schedule if rates == sorted(rates) else ()
    return ()
