"""The rate at which latency breaks while it is stepped up: percentiles per step, and the rule.
Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from natstui.model.bench.counts import Latencies, LatencySums
from natstui.model.bench.plan import BenchmarkPlan, RateSegment
from natstui.units import duration_text, rate_text

STEPS_AT_LEAST = 3
BREAKS_ABOVE_NS = 10_000_000
BREAKS_TIMES = 5
"""Factor on the best p99 of lower steps: above it and 10 ms, latency counts as broken."""
_PREFERRED = ("e2e", "ack", "rtt")


class Knee:
    """Finds the step of a rising rate at which latency rises sharply."""

    def __init__(self, plan: BenchmarkPlan) -> None:
        """Create for a plan; without a stepped role nothing is detected."""
        self._steps = _steps(plan)
        self._ends_s = list(accumulate(step.duration_s or 0.0 for step in self._steps))
        self._sums = [LatencySums() for _ in self._steps]
        self._past_p99_ns: list[int] = []
        """The p99 of completed steps: cached, as it is read many times a second."""

    def add(self, elapsed_s: float, latencies: Latencies) -> None:
        """Add the latencies of a report to the step at `elapsed_s` after the start."""
        if not self._steps:
            return
        step = min(bisect_right(self._ends_s, elapsed_s), len(self._steps) - 1)
        self._sums[step].add(latencies)

    def sharp_rise_text(self, elapsed_s: float) -> str | None:
        """Return the sentence about the first completed step whose p99 rose sharply; None without
        one.
        """
        p99_ns = self._p99_ns(bisect_right(self._ends_s, elapsed_s))
        for number in range(1, len(p99_ns)):
            best_ns = min(p99_ns[:number])
            if p99_ns[number] > max(BREAKS_ABOVE_NS, BREAKS_TIMES * best_ns):
                step, next_step = self._steps[number - 1], self._steps[number]
                return (
                    f"latency rises sharply above {rate_text(step.end_per_s)} msgs/s: p99 is "
                    f"{duration_text(p99_ns[number - 1] / 1e9)} there, and "
                    f"{duration_text(p99_ns[number] / 1e9)} at {rate_text(next_step.end_per_s)} "
                    "msgs/s"
                )
        return None

    def no_sharp_rise_text(self, elapsed_s: float) -> str | None:
        """Return the sentence of a run that completed all steps without a sharp rise.

        None before the end, and without steps.
        """
        if not self._steps or elapsed_s < self._ends_s[-1]:
            return None
        p99_ns = self._p99_ns(len(self._steps))
        if len(p99_ns) < len(self._steps):
            return None
        last = f"{rate_text(self._steps[-1].end_per_s)} msgs/s"
        return (
            f"no sharp rise of latency up to {last}: p99 is "
            f"{duration_text(p99_ns[-1] / 1e9)} there"
        )

    def _p99_ns(self, count: int) -> list[int]:
        """Return the p99 of the first steps, up to one without latencies."""
        percentiles = self._past_p99_ns[:count]
        for number in range(len(percentiles), count):
            total = self._sums[number].total()
            histograms = (getattr(total, name) for name in _PREFERRED)
            histogram = next((counts for counts in histograms if counts.buckets), None)
            p99_ns = histogram.percentile_ns(99) if histogram is not None else None
            if p99_ns is None:
                break
            percentiles.append(p99_ns)
            # The last step takes what comes late, too.
            if number < len(self._steps) - 1:
                self._past_p99_ns.append(p99_ns)
        return percentiles


def _steps(plan: BenchmarkPlan) -> tuple[RateSegment, ...]:
    """Return the schedule of the first stepped role."""
    for role in plan.roles:
        rates = [segment.end_per_s for segment in role.schedule]
        level = all(segment.start_per_s == segment.end_per_s for segment in role.schedule)
        segment = all(segment.duration_s is not None for segment in role.schedule)
        if role.traits.sends and len(rates) >= STEPS_AT_LEAST and level and segment:
            return role.schedule if rates == sorted(rates) else ()
    return ()
