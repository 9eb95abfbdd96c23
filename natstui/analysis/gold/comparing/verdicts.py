"""Which metrics of two sessions differ, and which of the two is worse: pure functions.

Asking many questions at once finds something by chance: p-values are corrected by Holm's method,
those of everything together and those of streams and consumers apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from natstui.analysis.gold.comparing import statistics

SAME, UNKNOWN = "no significant change", "unknown"

THROUGHPUT, PENDING, LAG = "throughput (msg/s)", "pending (messages)", "lag (s)"
ACK_TIME, REPEATED = "time to acknowledge (µs)", "repeated deliveries (share)"
PUBLISHED, UPSTREAM_LAG = "published (msg/s)", "behind its origin (messages)"
BETTER = {
    "api round trip (µs)": "low",
    PUBLISHED: "",
    "delivered (msg/s)": "",
    PENDING: "low",
    LAG: "low",
    ACK_TIME: "low",
    REPEATED: "low",
    UPSTREAM_LAG: "low",
}
"""Which way is better; of benchmark metrics, the name decides."""
LEAST_DIFFERENCE = {PENDING: 10.0, UPSTREAM_LAG: 10.0, LAG: 0.1, REPEATED: 0.01}
"""A smaller difference is not reported, however large it is beside a baseline of nearly 0."""
WAITING_SHARE = 0.5
"""A consumer is as fast as it can be while messages wait for it: in at least this much time."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """One metric of one session, or of one stream or consumer in it."""

    session: str
    metric: str
    stream: str | None
    consumer: str | None
    first_at_us: int
    waiting_share: float | None
    """Of the blocks: messages waited for the consumer, more than it takes in a second."""
    series: statistics.Series


Row = tuple[str, str, str, str | None, str | None, float, float, float | None, float | None,
            float | None, float | None, str | None, str | None, str]  # fmt: skip


def compare(
    reduced: list[Reduced],
    baseline: tuple[str, ...],
    systems: Mapping[str, tuple[str, str]] | None = None,
) -> list[Row]:
    """Compare the sessions that are not the baseline with it.

    With a baseline, all others together are one group; without, the earliest session of each
    system is its baseline and each other one is compared by itself. `systems` are those of the
    sessions; without, all are of one.
    """
    by_session: dict[str, list[Reduced]] = {}
    for one in reduced:
        by_session.setdefault(one.session, []).append(one)
    began = {name: min(one.first_at_us for one in many) for name, many in by_session.items()}
    sessions = sorted(began, key=lambda name: (began[name], name))
    if baseline:
        others = tuple(name for name in sessions if name not in baseline)
        return list(_rows(by_session, baseline, others)) if others else []
    rows: list[Row] = []
    first_of: dict[tuple[str, str] | None, str] = {}
    for name in sessions:
        first = first_of.setdefault(systems[name] if systems else None, name)
        if name != first:
            rows += _rows(by_session, (first,), (name,))
    return rows


@dataclass(frozen=True, slots=True)
class _Pair:
    """One metric of both sides, and how they differ; None with too few values."""

    before: _Side
    after: _Side
    found: statistics.Difference | None


@dataclass(frozen=True, slots=True)
class _Side:
    """One metric of one side."""

    group: statistics.Group
    waiting_share: float | None


_What = tuple[str, str | None, str | None]
"""Metric, stream, consumer."""
_Told = tuple[float | None, float | None, float | None, float | None, str | None, str | None]


def _rows(
    by_session: dict[str, list[Reduced]], first: tuple[str, ...], second: tuple[str, ...]
) -> Iterator[Row]:
    sides = [
        _sides([one for name in names for one in by_session.get(name, ())])
        for names in (first, second)
    ]
    both = sorted(sides[0].keys() & sides[1].keys(), key=lambda what: tuple(map(str, what)))
    names = (", ".join(first), ", ".join(second))
    for alone in (False, True):
        whats = [what for what in both if (what[1] is not None) == alone]
        pairs = {what: _pair(sides[0][what], sides[1][what]) for what in whats}
        p_values = [pair.found.p_value for pair in pairs.values() if pair.found]
        corrected = iter(statistics.holm(p_values))
        for what, pair in pairs.items():
            p_value = next(corrected) if pair.found else None
            verdict = UNKNOWN if p_value is None else _verdict(what[0], pair, p_value)
            # Of thousands of consumers nobody reads what did not change.
            if not alone or verdict not in (SAME, UNKNOWN):
                means = (pair.before.group.mean, pair.after.group.mean)
                yield (*names, *what, *means, *_told(what[0], pair, p_value), verdict)


def _sides(reduced: list[Reduced]) -> dict[_What, _Side]:
    """Return each metric of one side, its sessions pooled."""
    members: dict[_What, list[Reduced]] = {}
    for one in reduced:
        members.setdefault((one.metric, one.stream, one.consumer), []).append(one)
    return {what: _side(many) for what, many in members.items()}


def _side(members: list[Reduced]) -> _Side:
    """Return one side; from five sessions on, each of them counts as one value."""
    shares = [one.waiting_share for one in members if one.waiting_share is not None]
    waiting = sum(shares) / len(shares) if shares else None
    if len(members) >= statistics.LEAST_VALUES:
        means = [one.series.mean for one in members]
        mean = sum(means) / len(means)
        variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
        return _Side(statistics.Group(len(means), mean, variance), waiting)
    total = sum(one.series.n for one in members)
    mean = sum(one.series.n * one.series.mean for one in members) / total
    groups = [statistics.group(one.series) for one in members]
    within = sum(
        one.series.n * (each.variance + (one.series.mean - mean) ** 2)
        for one, each in zip(members, groups, strict=True)
    )
    n = sum(each.n for each in groups)
    return _Side(statistics.Group(n, mean, within / total), waiting)


def _pair(before: _Side, after: _Side) -> _Pair:
    return _Pair(before, after, statistics.difference(before.group, after.group))


def _told(metric: str, pair: _Pair, p_value: float | None) -> _Told:
    """Return the changes with their interval, the p-value, and both in words."""
    before, after, found = pair.before.group.mean, pair.after.group.mean, pair.found
    if found is None:
        return (None, None, None, None, None, None)
    ends = found.interval(statistics.SIGNIFICANCE)
    if before <= 0:
        words = _words(metric, before, after, None)
        return (None, None, None, p_value, words, _interval(metric, ends, shares=False))
    change, low, high = (value / before for value in (found.gap, *ends))
    words = _words(metric, before, after, change)
    return (change, low, high, p_value, words, _interval(metric, (low, high), shares=True))


def _verdict(metric: str, pair: _Pair, p_value: float) -> str:
    assert pair.found is not None
    gap, before = pair.found.gap, pair.before.group.mean
    small = abs(gap) < LEAST_DIFFERENCE.get(metric, 0.0)
    if p_value >= statistics.SIGNIFICANCE or small or abs(gap) < statistics.LEAST_CHANGE * before:
        return SAME
    if metric == THROUGHPUT:
        # Whoever has taken all there was delivers less because less was published.
        waited = (pair.before if gap > 0 else pair.after).waiting_share or 0.0
        better = "high" if waited >= WAITING_SHARE else ""
    else:
        better = BETTER.get(metric, "low" if "latency" in metric else "high")
    if not better:
        return "more" if gap > 0 else "less"
    return "slower" if (gap > 0) == (better == "low") else "faster"


def _words(metric: str, before: float, after: float, change: float | None) -> str:
    """Return `throughput -20.0 % (80 instead of 100 msg/s)`."""
    name, unit = _named(metric)
    means = f"{_number(after)} instead of {_number(before)} {unit}"
    return f"{name} {means}" if change is None else f"{name} {change * 100:+.1f} % ({means})"


def _interval(metric: str, ends: tuple[float, float], *, shares: bool) -> str:
    name, unit = _named(metric)
    if shares:
        return f"{name} between {ends[0] * 100:+.1f} and {ends[1] * 100:+.1f} %"
    return f"{name} between {_number(ends[0])} and {_number(ends[1])} {unit} more"


def _named(metric: str) -> tuple[str, str]:
    """Return the name of a metric and its unit."""
    name, _, unit = metric.removesuffix(")").rpartition(" (")
    return name, unit


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
