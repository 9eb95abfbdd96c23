"""Where latency breaks while the rate is stepped up: percentiles per step, and the rule. Pure."""

from __future__ import annotations

from natstui.model.benchmark_counts import Latencies
from natstui.model.benchmark_role import SENDERS, BenchmarkPlan, RateSegment
from natstui.model.latency import LatencyCounts, merge
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
        self._found: list[dict[str, list[LatencyCounts]]] = [{} for _ in self._steps]

    def add(self, elapsed_s: float, latencies: Latencies) -> None:
        """Take a report that came so long after the start."""
        step = self._step(elapsed_s)
        if step is not None:
            for name in _PREFERRED:
                histogram: LatencyCounts = getattr(latencies, name)
                if histogram.total_count:
                    self._found[step].setdefault(name, []).append(histogram)

    def _step(self, elapsed_s: float) -> int | None:
        ends_s = 0.0
        for number, step in enumerate(self._steps):
            ends_s += step.duration_s or 0.0
            if elapsed_s < ends_s:
                return number
        return len(self._steps) - 1 if self._steps else None

    def broken(self, elapsed_s: float) -> str | None:
        """Return the sentence once a step that is over was too much; None while all held."""
        now = self._step(elapsed_s) or 0
        p99_ns = self._p99_ns(now)
        for number in range(1, len(p99_ns)):
            best_ns = min(p99_ns[:number])
            if p99_ns[number] > max(BREAKS_ABOVE_NS, BREAKS_TIMES * best_ns):
                held, above = self._steps[number - 1], self._steps[number]
                return (
                    f"the knee: {rate_text(held.end_per_s)} msgs/s held with p99"
                    f" {duration_text(p99_ns[number - 1] / 1e9)}, at"
                    f" {rate_text(above.end_per_s)} msgs/s it is"
                    f" {duration_text(p99_ns[number] / 1e9)}"
                )
        return None

    def never_broken(self, elapsed_s: float) -> str | None:
        """Return the sentence of a run that went up all its steps; None without steps."""
        total_s = sum(step.duration_s or 0.0 for step in self._steps)
        if not self._steps or elapsed_s < total_s or not self._found[-1]:
            return None
        p99_ns = self._p99_ns(len(self._steps))
        last = f"{rate_text(self._steps[-1].end_per_s)} msgs/s"
        return f"no knee up to {last}: p99 is {duration_text(p99_ns[-1] / 1e9)} there"

    def _p99_ns(self, count: int) -> list[int]:
        """Return the p99 of the first steps, up to one without latencies."""
        percentiles: list[int] = []
        for found in self._found[:count]:
            name = next((one for one in _PREFERRED if one in found), None)
            p99_ns = merge(found[name]).percentile_ns(99) if name else None
            if p99_ns is None:
                break
            percentiles.append(p99_ns)
        return percentiles


def _steps(plan: BenchmarkPlan) -> tuple[RateSegment, ...]:
    """Return the schedule of the first role that goes up steps."""
    for role in plan.roles:
        rates = [one.end_per_s for one in role.schedule]
        level = all(one.start_per_s == one.end_per_s for one in role.schedule)
        bounded = all(one.duration_s is not None for one in role.schedule)
        if role.pattern in SENDERS and len(rates) >= STEPS_AT_LEAST and level and bounded:
            return role.schedule if rates == sorted(rates) else ()
    return ()
