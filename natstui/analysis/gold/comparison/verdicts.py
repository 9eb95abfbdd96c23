"""Compares the metrics of sessions: which differ, and whether they are better or worse.

Many tests find differences by chance: p-values are corrected by Holm's method, separately for
totals and for streams and consumers. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from natstui.analysis.gold.comparison import statistics

NO_CHANGE, UNKNOWN = "no significant change", "unknown"

THROUGHPUT, PENDING, LAG = "throughput (msg/s)", "pending (messages)", "lag (s)"
ACK_TIME, REPEATED = "time to acknowledge (µs)", "repeated deliveries (share)"
PUBLISHED, UPSTREAM_LAG = "published (msg/s)", "behind its origin (messages)"
BETTER_DIRECTION_BY_METRIC = {
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
MIN_DIFFERENCE_BY_METRIC = {PENDING: 10.0, UPSTREAM_LAG: 10.0, LAG: 0.1, REPEATED: 0.01}
"""Metric → minimum absolute difference that is reported."""
MIN_WAITING_SHARE = 0.5
"""Minimum share of blocks with messages pending if the throughput is the consumer's maximum."""


class MetricSummary(Struct, frozen=True):
    """The statistics of a metric of a session, or of a stream or consumer in a session."""

    session: str
    metric: str
    stream: str | None
    consumer: str | None
    first_at_us: int
    waiting_share: float | None
    """Share of the blocks with more messages pending than the consumer receives per second."""
    series: statistics.SeriesStatistics


class ComparisonRow(NamedTuple):
    """A row of the table `comparison`, without its column `sample`."""

    baseline: str
    compared: str
    metric: str
    stream: str | None
    consumer: str | None
    baseline_mean: float
    compared_mean: float
    mean_change: float | None
    low_change: float | None
    high_change: float | None
    p_value: float | None
    words: str | None
    interval: str | None
    verdict: str


def compare(
    summaries: list[MetricSummary],
    baseline: tuple[str, ...],
    systems: Mapping[str, tuple[str, str]] | None = None,
) -> list[ComparisonRow]:
    """Return rows of the comparison of sessions with the baseline.

    With `baseline`, all other sessions together are compared with it. Without, the earliest
    session of each system is its baseline, and each later one is compared separately. `systems`
    are by session; None: all sessions are of the same system.
    """
    summaries_by_session: dict[str, list[MetricSummary]] = {}
    for summary in summaries:
        summaries_by_session.setdefault(summary.session, []).append(summary)
    start_us_by_session = {
        name: min(summary.first_at_us for summary in metrics)
        for name, metrics in summaries_by_session.items()
    }
    sessions = sorted(start_us_by_session, key=lambda name: (start_us_by_session[name], name))
    if baseline:
        other_sessions = tuple(name for name in sessions if name not in baseline)
        return (
            list(_compare_sides(summaries_by_session, baseline, other_sessions))
            if other_sessions
            else []
        )
    rows: list[ComparisonRow] = []
    baseline_session_by_system: dict[tuple[str, str] | None, str] = {}
    for name in sessions:
        baseline_session = baseline_session_by_system.setdefault(
            systems[name] if systems else None, name
        )
        if name != baseline_session:
            rows += _compare_sides(summaries_by_session, (baseline_session,), (name,))
    return rows


class _MetricPair(Struct, frozen=True):
    """A metric of the baseline and the compared side, with their difference.

    The difference is None if a side has too few values.
    """

    baseline_side: _MetricSide
    compared_side: _MetricSide
    difference: statistics.MeanDifference | None


class _MetricSide(Struct, frozen=True):
    """A metric of one side, pooled from its sessions."""

    group: statistics.ValueGroup
    waiting_share: float | None


class _MetricKey(NamedTuple):
    metric: str
    stream: str | None
    consumer: str | None


class _ChangeColumns(NamedTuple):
    """The columns of a comparison row about the change of a metric; changes are shares."""

    mean_change: float | None
    low_change: float | None
    high_change: float | None
    p_value: float | None
    words: str | None
    interval: str | None


def _compare_sides(
    summaries_by_session: dict[str, list[MetricSummary]],
    baseline_sessions: tuple[str, ...],
    compared_sessions: tuple[str, ...],
) -> Iterator[ComparisonRow]:
    metrics_by_side = [
        _pool_metrics(
            [summary for name in names for summary in summaries_by_session.get(name, ())]
        )
        for names in (baseline_sessions, compared_sessions)
    ]
    common_keys = sorted(
        metrics_by_side[0].keys() & metrics_by_side[1].keys(), key=lambda key: tuple(map(str, key))
    )
    names = (", ".join(baseline_sessions), ", ".join(compared_sessions))
    for is_asset in (False, True):
        keys = [key for key in common_keys if (key.stream is not None) == is_asset]
        pair_by_key = {
            key: _pair_sides(metrics_by_side[0][key], metrics_by_side[1][key]) for key in keys
        }
        p_values = [pair.difference.p_value for pair in pair_by_key.values() if pair.difference]
        corrected_p_values = iter(statistics.correct_p_values(p_values))
        for key, pair in pair_by_key.items():
            p_value = next(corrected_p_values) if pair.difference else None
            verdict = UNKNOWN if p_value is None else _verdict_of_pair(key.metric, pair, p_value)
            # Of streams and consumers, of which there may be thousands, only changes are listed.
            if not is_asset or verdict not in (NO_CHANGE, UNKNOWN):
                means = (pair.baseline_side.group.mean, pair.compared_side.group.mean)
                change_columns = _change_columns(key.metric, pair, p_value)
                yield ComparisonRow._make((*names, *key, *means, *change_columns, verdict))


def _pool_metrics(summaries: list[MetricSummary]) -> dict[_MetricKey, _MetricSide]:
    """Return the metrics of one side, each pooled from the sessions of the side."""
    summaries_by_key: dict[_MetricKey, list[MetricSummary]] = {}
    for summary in summaries:
        key = _MetricKey(summary.metric, summary.stream, summary.consumer)
        summaries_by_key.setdefault(key, []).append(summary)
    return {key: _pool_sessions(key_summaries) for key, key_summaries in summaries_by_key.items()}


def _pool_sessions(summaries: list[MetricSummary]) -> _MetricSide:
    """Return a metric pooled from its sessions.

    Of five or more sessions the mean of each counts as one value; of fewer sessions all
    independent values count.
    """
    shares = [summary.waiting_share for summary in summaries if summary.waiting_share is not None]
    waiting_share = sum(shares) / len(shares) if shares else None
    if len(summaries) >= statistics.MIN_VALUES_COUNT:
        means = [summary.series.mean for summary in summaries]
        mean = sum(means) / len(means)
        variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
        return _MetricSide(statistics.ValueGroup(len(means), mean, variance), waiting_share)
    total = sum(summary.series.n for summary in summaries)
    mean = sum(summary.series.n * summary.series.mean for summary in summaries) / total
    session_groups = [statistics.to_group(summary.series) for summary in summaries]
    sum_of_squares = sum(
        summary.series.n * (group.variance + (summary.series.mean - mean) ** 2)
        for summary, group in zip(summaries, session_groups, strict=True)
    )
    n = sum(group.n for group in session_groups)
    return _MetricSide(statistics.ValueGroup(n, mean, sum_of_squares / total), waiting_share)


def _pair_sides(before: _MetricSide, after: _MetricSide) -> _MetricPair:
    return _MetricPair(before, after, statistics.compare_groups(before.group, after.group))


def _change_columns(metric: str, pair: _MetricPair, p_value: float | None) -> _ChangeColumns:
    """Return the columns about the change of a metric, and its interval.

    The changes, shares of the baseline, are None if the baseline is 0; all columns are None if a
    side has too few values.
    """
    before, after, difference = (
        pair.baseline_side.group.mean,
        pair.compared_side.group.mean,
        pair.difference,
    )
    if difference is None:
        return _ChangeColumns(None, None, None, None, None, None)
    interval_ends = difference.interval(statistics.SIGNIFICANCE)
    if before <= 0:
        text = _change_text(metric, before, after, None)
        interval = _interval_text(metric, interval_ends, are_shares=False)
        return _ChangeColumns(None, None, None, p_value, text, interval)
    change_share, low_share, high_share = (
        value / before for value in (difference.mean_difference, *interval_ends)
    )
    text = _change_text(metric, before, after, change_share)
    interval = _interval_text(metric, (low_share, high_share), are_shares=True)
    return _ChangeColumns(change_share, low_share, high_share, p_value, text, interval)


def _verdict_of_pair(metric: str, pair: _MetricPair, p_value: float) -> str:
    assert pair.difference is not None
    mean_difference, before = pair.difference.mean_difference, pair.baseline_side.group.mean
    is_too_small = abs(mean_difference) < MIN_DIFFERENCE_BY_METRIC.get(metric, 0.0)
    if (
        p_value >= statistics.SIGNIFICANCE
        or is_too_small
        or abs(mean_difference) < statistics.MIN_CHANGE_SHARE * before
    ):
        return NO_CHANGE
    if metric == THROUGHPUT:
        # A consumer without pending messages receives less only because less was published.
        waiting_share = (
            pair.baseline_side if mean_difference > 0 else pair.compared_side
        ).waiting_share or 0.0
        better_direction = "high" if waiting_share >= MIN_WAITING_SHARE else ""
    else:
        better_direction = BETTER_DIRECTION_BY_METRIC.get(
            metric, "low" if "latency" in metric else "high"
        )
    if not better_direction:
        return "more" if mean_difference > 0 else "less"
    return "slower" if (mean_difference > 0) == (better_direction == "low") else "faster"


def _change_text(metric: str, before: float, after: float, change_share: float | None) -> str:
    """Return a change as text, such as `throughput -20.0 % (80 instead of 100 msg/s)`."""
    name, unit = _name_and_unit(metric)
    means_text = f"{_number_text(after)} instead of {_number_text(before)} {unit}"
    if change_share is None:
        return f"{name} {means_text}"
    return f"{name} {change_share * 100:+.1f} % ({means_text})"


def _interval_text(metric: str, interval_ends: tuple[float, float], *, are_shares: bool) -> str:
    name, unit = _name_and_unit(metric)
    if are_shares:
        return f"{name} between {interval_ends[0] * 100:+.1f} and {interval_ends[1] * 100:+.1f} %"
    low_text, high_text = map(_number_text, interval_ends)
    return f"{name} between {low_text} and {high_text} {unit} more"


def _name_and_unit(metric: str) -> tuple[str, str]:
    """Return the name of a metric and its unit."""
    name, _, unit = metric.removesuffix(")").rpartition(" (")
    return name, unit


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
