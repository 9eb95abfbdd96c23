"""Compares the metrics of sessions: which differ, and whether they are better or worse.

Many tests find differences by chance: p-values are corrected by Holm's method, separately for
totals and for streams and consumers. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from natstui.analysis.gold.comparison import statistics

NO_CHANGE, UNKNOWN = "no significant change", "unknown"

THROUGHPUT, PENDING, LAG = "throughput (msg/s)", "pending (messages)", "lag (s)"
ACK_TIME, REPEATED = "time to acknowledge (µs)", "repeated deliveries (share)"
PUBLISHED, UPSTREAM_LAG = "published (msg/s)", "behind its origin (messages)"
BETTER_DIRECTION = {
    "api round trip (µs)": "low",
    PUBLISHED: "",
    "delivered (msg/s)": "",
    PENDING: "low",
    LAG: "low",
    ACK_TIME: "low",
    REPEATED: "low",
    UPSTREAM_LAG: "low",
}
"""Metric → its better direction, empty for none; of benchmark metrics it depends on the name."""
MIN_DIFFERENCE = {PENDING: 10.0, UPSTREAM_LAG: 10.0, LAG: 0.1, REPEATED: 0.01}
"""Metric → minimum absolute difference that is reported."""
MIN_WAITING_SHARE = 0.5
"""Minimum share of blocks with messages pending if the throughput is the consumer's maximum."""


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """The statistics of a metric of a session, or of a stream or consumer in a session."""

    session: str
    metric: str
    stream: str | None
    consumer: str | None
    first_at_us: int
    waiting_share: float | None
    """Share of the blocks with more messages pending than the consumer receives per second."""
    series: statistics.SeriesStatistics


Row = tuple[str, str, str, str | None, str | None, float, float, float | None, float | None,
            float | None, float | None, str | None, str | None, str]  # fmt: skip


def compare(
    summaries: list[MetricSummary],
    baseline: tuple[str, ...],
    systems: Mapping[str, tuple[str, str]] | None = None,
) -> list[Row]:
    """Return rows of the comparison of sessions with the baseline.

    With `baseline`, all other sessions together are compared with it. Without, the earliest
    session of each system is its baseline, and each later one is compared separately. `systems`
    are by session; None: all sessions are of the same system.
    """
    by_session: dict[str, list[MetricSummary]] = {}
    for summary in summaries:
        by_session.setdefault(summary.session, []).append(summary)
    began_at_us = {
        name: min(summary.first_at_us for summary in metrics)
        for name, metrics in by_session.items()
    }
    sessions = sorted(began_at_us, key=lambda name: (began_at_us[name], name))
    if baseline:
        others = tuple(name for name in sessions if name not in baseline)
        return list(_compare_sides(by_session, baseline, others)) if others else []
    rows: list[Row] = []
    baseline_by_system: dict[tuple[str, str] | None, str] = {}
    for name in sessions:
        first = baseline_by_system.setdefault(systems[name] if systems else None, name)
        if name != first:
            rows += _compare_sides(by_session, (first,), (name,))
    return rows


@dataclass(frozen=True, slots=True)
class _MetricPair:
    """A metric of the baseline and the compared side, with their difference.

    The difference is None if a side has too few values.
    """

    before: _MetricSide
    after: _MetricSide
    difference: statistics.Difference | None


@dataclass(frozen=True, slots=True)
class _MetricSide:
    """A metric of one side, pooled from its sessions."""

    group: statistics.Group
    waiting_share: float | None


_MetricKey = tuple[str, str | None, str | None]
"""(metric, stream, consumer)."""
_ChangeColumns = tuple[
    float | None, float | None, float | None, float | None, str | None, str | None
]


def _compare_sides(
    by_session: dict[str, list[MetricSummary]], first: tuple[str, ...], second: tuple[str, ...]
) -> Iterator[Row]:
    sides = [
        _pool_metrics([summary for name in names for summary in by_session.get(name, ())])
        for names in (first, second)
    ]
    common_keys = sorted(sides[0].keys() & sides[1].keys(), key=lambda key: tuple(map(str, key)))
    names = (", ".join(first), ", ".join(second))
    for are_single in (False, True):
        keys = [key for key in common_keys if (key[1] is not None) == are_single]
        pairs = {key: _pair_sides(sides[0][key], sides[1][key]) for key in keys}
        p_values = [pair.difference.p_value for pair in pairs.values() if pair.difference]
        corrected = iter(statistics.correct_p_values(p_values))
        for key, pair in pairs.items():
            p_value = next(corrected) if pair.difference else None
            verdict = UNKNOWN if p_value is None else _verdict_of_pair(key[0], pair, p_value)
            # Of streams and consumers, of which there may be thousands, only changes are listed.
            if not are_single or verdict not in (NO_CHANGE, UNKNOWN):
                means = (pair.before.group.mean, pair.after.group.mean)
                yield (*names, *key, *means, *_change_columns(key[0], pair, p_value), verdict)


def _pool_metrics(summaries: list[MetricSummary]) -> dict[_MetricKey, _MetricSide]:
    """Return the metrics of one side, each pooled from the sessions of the side."""
    members: dict[_MetricKey, list[MetricSummary]] = {}
    for summary in summaries:
        members.setdefault((summary.metric, summary.stream, summary.consumer), []).append(summary)
    return {key: _pool_sessions(metrics) for key, metrics in members.items()}


def _pool_sessions(members: list[MetricSummary]) -> _MetricSide:
    """Return a metric pooled from sessions; each of five or more counts as one value."""
    shares = [member.waiting_share for member in members if member.waiting_share is not None]
    waiting_share = sum(shares) / len(shares) if shares else None
    if len(members) >= statistics.MIN_VALUES_COUNT:
        means = [member.series.mean for member in members]
        mean = sum(means) / len(means)
        variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
        return _MetricSide(statistics.Group(len(means), mean, variance), waiting_share)
    total = sum(member.series.n for member in members)
    mean = sum(member.series.n * member.series.mean for member in members) / total
    groups = [statistics.to_group(member.series) for member in members]
    squares_within = sum(
        member.series.n * (group.variance + (member.series.mean - mean) ** 2)
        for member, group in zip(members, groups, strict=True)
    )
    n = sum(group.n for group in groups)
    return _MetricSide(statistics.Group(n, mean, squares_within / total), waiting_share)


def _pair_sides(before: _MetricSide, after: _MetricSide) -> _MetricPair:
    return _MetricPair(before, after, statistics.compare_groups(before.group, after.group))


def _change_columns(metric: str, pair: _MetricPair, p_value: float | None) -> _ChangeColumns:
    """Return the change and its interval (as shares), the p-value, and both as texts.

    The shares are None if the baseline is 0.
    """
    before, after, difference = pair.before.group.mean, pair.after.group.mean, pair.difference
    if difference is None:
        return (None, None, None, None, None, None)
    ends = difference.interval(statistics.SIGNIFICANCE)
    if before <= 0:
        text = _change_text(metric, before, after, None)
        return (None, None, None, p_value, text, _interval_text(metric, ends, shares=False))
    change, low, high = (value / before for value in (difference.gap, *ends))
    text = _change_text(metric, before, after, change)
    return (change, low, high, p_value, text, _interval_text(metric, (low, high), shares=True))


def _verdict_of_pair(metric: str, pair: _MetricPair, p_value: float) -> str:
    assert pair.difference is not None
    gap, before = pair.difference.gap, pair.before.group.mean
    is_small = abs(gap) < MIN_DIFFERENCE.get(metric, 0.0)
    if p_value >= statistics.SIGNIFICANCE or is_small or abs(gap) < statistics.MIN_CHANGE * before:
        return NO_CHANGE
    if metric == THROUGHPUT:
        # A consumer without pending messages receives less only because less was published.
        waiting_share = (pair.before if gap > 0 else pair.after).waiting_share or 0.0
        better = "high" if waiting_share >= MIN_WAITING_SHARE else ""
    else:
        better = BETTER_DIRECTION.get(metric, "low" if "latency" in metric else "high")
    if not better:
        return "more" if gap > 0 else "less"
    return "slower" if (gap > 0) == (better == "low") else "faster"


def _change_text(metric: str, before: float, after: float, change: float | None) -> str:
    """Return a change as text, such as `throughput -20.0 % (80 instead of 100 msg/s)`."""
    name, unit = _name_and_unit(metric)
    means = f"{_number_text(after)} instead of {_number_text(before)} {unit}"
    return f"{name} {means}" if change is None else f"{name} {change * 100:+.1f} % ({means})"


def _interval_text(metric: str, ends: tuple[float, float], *, shares: bool) -> str:
    name, unit = _name_and_unit(metric)
    if shares:
        return f"{name} between {ends[0] * 100:+.1f} and {ends[1] * 100:+.1f} %"
    return f"{name} between {_number_text(ends[0])} and {_number_text(ends[1])} {unit} more"


def _name_and_unit(metric: str) -> tuple[str, str]:
    """Return the name of a metric and its unit."""
    name, _, unit = metric.removesuffix(")").rpartition(" (")
    return name, unit


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
