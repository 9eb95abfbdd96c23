"""Where latency breaks while the rate is stepped up: percentiles per step, and the rule. Pure."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from natstui.bench.run.latency_sums import LatencySums
from natstui.model.bench.counts import Latencies
from natstui.model.bench.plan import BenchmarkPlan, RateSegment
from natstui.units import duration_text, rate_text

STEPS_AT_LEAST = 3
BREAKS_ABOVE_NS = 10_000_000
BREAKS_TIMES = 5
"""Latency breaks where a step's p99 is above both: 10 ms, and 5 times the best of lower steps."""
_PREFERRED = ("e2e", "ack", "rtt")


class Knee:
    """Takes what is reported while a run goes up its steps, and says when latency broke."""

    def __init__(self, plan: BenchmarkPlan) -> None:
        """Without a role whose rate is stepped there is nothing to find."""
        self._steps = _steps(plan)
        self._ends_s = list(accumulate(step.duration_s or 0.0 for step in self._steps))
        self._sums = [LatencySums() for _ in self._steps]
        self._past_p99_ns: list[int] = []
        """Of steps to which nothing is added any more; asked for many times a second."""

    def add(self, elapsed_s: float, latencies: Latencies) -> None:
        """Take a report that came so long after the start."""
        if not self._steps:
            return
        step = min(bisect_right(self._ends_s, elapsed_s), len(self._steps) - 1)
        self._sums[step].add(latencies)

    def broken(self, elapsed_s: float) -> str | None:
        """Return the sentence once a step that is over was too much; None while all held."""
        p99_ns = self._p99_ns(bisect_right(self._ends_s, elapsed_s))
        for number in range(1, len(p99_ns)):
            best_ns = min(p99_ns[:number])
            if p99_ns[number] > max(BREAKS_ABOVE_NS, BREAKS_TIMES * best_ns):
                held, above = self._steps[number - 1], self._steps[number]
                return (
                    f"latency rises sharply above {rate_text(held.end_per_s)} msgs/s: p99 is "
                    f"{duration_text(p99_ns[number - 1] / 1e9)} there, and "
                    f"{duration_text(p99_ns[number] / 1e9)} at {rate_text(above.end_per_s)} "
                    "msgs/s"
                )
        return None

    def never_broken(self, elapsed_s: float) -> str | None:
        """Return the sentence of a run that went up all its steps; None without steps."""
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
            measured = (getattr(total, name) for name in _PREFERRED)
            histogram = next((counts for counts in measured if counts.buckets), None)
            p99_ns = histogram.percentile_ns(99) if histogram is not None else None
            if p99_ns is None:
                break
            percentiles.append(p99_ns)
            # The last step takes what comes late, too.
            if number < len(self._steps) - 1:
                self._past_p99_ns.append(p99_ns)
        return percentiles


def _steps(plan: BenchmarkPlan) -> tuple[RateSegment, ...]:
    """Return the schedule of the first role that goes up steps."""
    for role in plan.roles:
        rates = [one.end_per_s for one in role.schedule]
        level = all(one.start_per_s == one.end_per_s for one in role.schedule)
        bounded = all(one.duration_s is not None for one in role.schedule)
        if role.traits.sends and len(rates) >= STEPS_AT_LEAST and level and bounded:
            return role.schedule if rates == sorted(rates) else ()
    return ()
