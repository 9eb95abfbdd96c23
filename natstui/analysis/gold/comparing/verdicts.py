"""The metrics that differ between sessions, and whether they are better or worse: pure functions.

Many tests at once find differences by chance: p-values are corrected by Holm's method, separately
for totals and for streams and consumers.
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
"""Metric → its better direction; that of a benchmark metric depends on its name."""
LEAST_DIFFERENCE = {PENDING: 10.0, UPSTREAM_LAG: 10.0, LAG: 0.1, REPEATED: 0.01}
"""Metric → minimum absolute difference that is reported."""
WAITING_SHARE = 0.5
"""Minimum share of time with waiting messages for the throughput to be the consumer's maximum."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A metric of a session, or of a stream or consumer in it, reduced to statistics."""

    session: str
    metric: str
    stream: str | None
    consumer: str | None
    first_at_us: int
    waiting_share: float | None
    """Share of the blocks with more waiting messages than the consumer receives per second."""
    series: statistics.Series


Row = tuple[str, str, str, str | None, str | None, float, float, float | None, float | None,
            float | None, float | None, str | None, str | None, str]  # fmt: skip


def compare(
    reduced: list[Reduced],
    baseline: tuple[str, ...],
    systems: Mapping[str, tuple[str, str]] | None = None,
) -> list[Row]:
    """Return the comparison of sessions with the baseline.

    With `baseline`, all other sessions are one group; without, the earliest session of each system
    is its baseline, and each later one is compared separately. `systems` are by session; None: all
    are of the same system.
    """
    by_session: dict[str, list[Reduced]] = {}
    for metric_of_session in reduced:
        by_session.setdefault(metric_of_session.session, []).append(metric_of_session)
    began_at_us = {
        name: min(metric_of_session.first_at_us for metric_of_session in metrics)
        for name, metrics in by_session.items()
    }
    sessions = sorted(began_at_us, key=lambda name: (began_at_us[name], name))
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
    """A metric of both sides, and its difference; None with too few values."""

    before: _Side
    after: _Side
    difference: statistics.Difference | None


@dataclass(frozen=True, slots=True)
class _Side:
    """A metric of one side."""

    group: statistics.Group
    waiting_share: float | None


_MetricKey = tuple[str, str | None, str | None]
"""(metric, stream, consumer)."""
_ChangeColumns = tuple[
    float | None, float | None, float | None, float | None, str | None, str | None
]


def _rows(
    by_session: dict[str, list[Reduced]], first: tuple[str, ...], second: tuple[str, ...]
) -> Iterator[Row]:
    sides = [
        _sides(
            [metric_of_session for name in names for metric_of_session in by_session.get(name, ())]
        )
        for names in (first, second)
    ]
    common_keys = sorted(sides[0].keys() & sides[1].keys(), key=lambda key: tuple(map(str, key)))
    names = (", ".join(first), ", ".join(second))
    for are_single in (False, True):
        keys = [key for key in common_keys if (key[1] is not None) == are_single]
        pairs = {key: _pair(sides[0][key], sides[1][key]) for key in keys}
        p_values = [pair.difference.p_value for pair in pairs.values() if pair.difference]
        corrected = iter(statistics.holm(p_values))
        for key, pair in pairs.items():
            p_value = next(corrected) if pair.difference else None
            verdict = UNKNOWN if p_value is None else _verdict(key[0], pair, p_value)
            # Of thousands of consumers nobody reads what did not change.
            if not are_single or verdict not in (SAME, UNKNOWN):
                means = (pair.before.group.mean, pair.after.group.mean)
                yield (*names, *key, *means, *_change_columns(key[0], pair, p_value), verdict)


def _sides(reduced: list[Reduced]) -> dict[_MetricKey, _Side]:
    """Return the metrics of one side, each with its sessions pooled."""
    members: dict[_MetricKey, list[Reduced]] = {}
    for metric_of_session in reduced:
        members.setdefault(
            (metric_of_session.metric, metric_of_session.stream, metric_of_session.consumer), []
        ).append(metric_of_session)
    return {key: _side(metrics) for key, metrics in members.items()}


def _side(members: list[Reduced]) -> _Side:
    """Return the pooled metric of sessions; from five sessions on, each counts as one value."""
    shares = [member.waiting_share for member in members if member.waiting_share is not None]
    waiting = sum(shares) / len(shares) if shares else None
    if len(members) >= statistics.LEAST_VALUES:
        means = [member.series.mean for member in members]
        mean = sum(means) / len(means)
        variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
        return _Side(statistics.Group(len(means), mean, variance), waiting)
    total = sum(member.series.n for member in members)
    mean = sum(member.series.n * member.series.mean for member in members) / total
    groups = [statistics.group(member.series) for member in members]
    within = sum(
        member.series.n * (group.variance + (member.series.mean - mean) ** 2)
        for member, group in zip(members, groups, strict=True)
    )
    n = sum(group.n for group in groups)
    return _Side(statistics.Group(n, mean, within / total), waiting)


def _pair(before: _Side, after: _Side) -> _Pair:
    return _Pair(before, after, statistics.difference(before.group, after.group))


def _change_columns(metric: str, pair: _Pair, p_value: float | None) -> _ChangeColumns:
    """Return the changes with their interval, the p-value, and the texts of both."""
    before, after, difference = pair.before.group.mean, pair.after.group.mean, pair.difference
    if difference is None:
        return (None, None, None, None, None, None)
    ends = difference.interval(statistics.SIGNIFICANCE)
    if before <= 0:
        text = _change_text(metric, before, after, None)
        return (None, None, None, p_value, text, _interval(metric, ends, shares=False))
    change, low, high = (value / before for value in (difference.gap, *ends))
    text = _change_text(metric, before, after, change)
    return (change, low, high, p_value, text, _interval(metric, (low, high), shares=True))


def _verdict(metric: str, pair: _Pair, p_value: float) -> str:
    assert pair.difference is not None
    gap, before = pair.difference.gap, pair.before.group.mean
    is_small = abs(gap) < LEAST_DIFFERENCE.get(metric, 0.0)
    if (
        p_value >= statistics.SIGNIFICANCE
        or is_small
        or abs(gap) < statistics.LEAST_CHANGE * before
    ):
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


def _change_text(metric: str, before: float, after: float, change: float | None) -> str:
    """Return a change as text, as `throughput -20.0 % (80 instead of 100 msg/s)`."""
    name, unit = _name_and_unit(metric)
    means = f"{_number(after)} instead of {_number(before)} {unit}"
    return f"{name} {means}" if change is None else f"{name} {change * 100:+.1f} % ({means})"


def _interval(metric: str, ends: tuple[float, float], *, shares: bool) -> str:
    name, unit = _name_and_unit(metric)
    if shares:
        return f"{name} between {ends[0] * 100:+.1f} and {ends[1] * 100:+.1f} %"
    return f"{name} between {_number(ends[0])} and {_number(ends[1])} {unit} more"


def _name_and_unit(metric: str) -> tuple[str, str]:
    """Return the name of a metric and its unit."""
    name, _, unit = metric.removesuffix(")").rpartition(" (")
    return name, unit


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
