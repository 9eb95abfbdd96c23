"""The charts of a benchmark: throughput, sent and received totals, latency."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from natstui.model.bench.counts import main_latency
from natstui.model.bench.view import BenchmarkView, RoleAndWorkerId, WorkerPoint
from natstui.tui.kit.chart.frame import ChartData, Mark, Series, Tone
from natstui.tui.kit.sparkline import means_by_time

SENT_COLOR_INDEX, RECEIVED_COLOR_INDEX, LATENCY_COLOR_INDEX = 0, 1, 3
"""Indexes of the line colours in every chart and panel of a benchmark."""
SLOT_US = 100_000
"""Width of a slot of the throughput lines; workers report a little more often."""


def summed_workers(view: BenchmarkView, count_name: str) -> list[RoleAndWorkerId]:
    """Return role and id of the workers whose counts of `count_name` make the total of the run.

    The traits of a role determine whether its workers are included; if they include no role, all
    workers are included.
    """
    plan = view.planned.plan if view.planned is not None else None
    roles = plan.roles if plan is not None else ()
    unsummed_roles = {role.name for role in roles if not role.traits.is_summed(count_name)}
    return [key for key in view.totals if key[0] not in unsummed_roles] or [*view.totals]


def cumulative_msgs(view: BenchmarkView, count_name: str) -> list[float]:
    """Return the total of `count_name` over all workers at the end of each slot of 0.1 s, oldest
    first.

    Counts are interpolated between two reports of a worker; the last value is the sum of all
    reports.
    """
    first_us, newest_us = _report_time_range_us(view)
    if not newest_us:
        return []
    slot_count = (newest_us - first_us) // SLOT_US + 2
    total_msgs = [0.0] * slot_count
    for key in summed_workers(view, count_name):
        points = view.series[key]
        worker_msgs = _cumulative_worker_msgs(
            points, count_name, getattr(view.totals[key], count_name), first_us, slot_count
        )
        total_msgs = [total + added for total, added in zip(total_msgs, worker_msgs, strict=True)]
    return total_msgs


def _cumulative_worker_msgs(
    points: Sequence[WorkerPoint],
    count_name: str,
    total_count: int,
    first_us: int,
    slot_count: int,
) -> list[float]:
    """Return a worker's cumulative count at the end of each slot of 0.1 s, interpolated between
    its reports.
    """
    # The count of points that are no longer stored is the start value.
    at_us = points[0].at_us - round(points[0].interval_s * 1e6)
    count = float(total_count - sum(getattr(point, count_name) for point in points))
    values: list[float] = []
    for point in points:
        new_count, interval_us = getattr(point, count_name), max(1, point.at_us - at_us)
        while (
            len(values) < slot_count
            and (slot_us := first_us + len(values) * SLOT_US) <= point.at_us
        ):
            values.append(count + new_count * max(0, slot_us - at_us) / interval_us)
        at_us, count = max(at_us, point.at_us), count + new_count
    return values + [count] * (slot_count - len(values))


def throughput(view: BenchmarkView, count_name: str) -> list[float | None]:
    """Return messages per second of all workers together in each slot of 0.1 s, oldest first."""
    counts = cumulative_msgs(view, count_name)
    if not any(counts):
        return []
    # The newest slots are not full while a worker has yet to report.
    return [(next_count - count) * 1e6 / SLOT_US for count, next_count in pairwise(counts[:-2])]


def with_slot_times(
    view: BenchmarkView, values: Sequence[float | None]
) -> list[tuple[int, float | None]]:
    """Return (end time in Unix µs, value) of each slot of 0.1 s, for values as `throughput`
    returns them.
    """
    first_us = _report_time_range_us(view)[0]
    return [(first_us + slot * SLOT_US, value) for slot, value in enumerate(values, 1)]


SMOOTHED_SLOTS = 10
"""Number of slots of which a throughput value is the mean: reports come in bursts."""


def moving_means(values: Sequence[float | None]) -> list[float | None]:
    """Return moving means: of each value and up to `SMOOTHED_SLOTS` - 1 values before it."""
    means: list[float | None] = []
    for index in range(len(values)):
        window_values = [
            value
            for value in values[max(0, index + 1 - SMOOTHED_SLOTS) : index + 1]
            if value is not None
        ]
        means.append(sum(window_values) / len(window_values) if window_values else None)
    return means


def rate_now_per_s(
    view: BenchmarkView, count_name: str, keys: Sequence[RoleAndWorkerId]
) -> float | None:
    """Return the messages per second of these workers, as the last value of `moving_means` would
    be.

    None before the first slot is complete. The rate of all workers is the sum of their rates.
    """
    first_us, newest_us = _report_time_range_us(view)
    # The newest slots are left out while a worker has yet to report.
    slot_count = (newest_us - first_us) // SLOT_US - 1
    if slot_count < 1:
        return None
    end_us, averaged_us = (
        first_us + slot_count * SLOT_US,
        min(slot_count, SMOOTHED_SLOTS) * SLOT_US,
    )
    msgs = sum(
        _msgs_after(view.series[key], count_name, end_us - averaged_us)
        - _msgs_after(view.series[key], count_name, end_us)
        for key in keys
    )
    return msgs * 1e6 / averaged_us


def _msgs_after(points: Sequence[WorkerPoint], count_name: str, moment_us: int) -> float:
    """Return the number of messages that a worker reported after a moment, interpolated."""
    msgs = 0.0
    for index in range(len(points) - 1, -1, -1):
        point = points[index]
        if point.at_us <= moment_us:
            break
        interval_start_us = (
            points[index - 1].at_us if index else point.at_us - round(point.interval_s * 1e6)
        )
        interval_share = (point.at_us - moment_us) / max(1, point.at_us - interval_start_us)
        msgs += getattr(point, count_name) * min(1.0, interval_share)
    return msgs


MAX_SPARKLINE_S = 10.0
"""Longest time span of a run's sparklines."""


def sparkline_span_s(view: BenchmarkView) -> float:
    """Return the time span of all sparklines of a run, in seconds."""
    return min(MAX_SPARKLINE_S, _chart_window_s(view))


def recent_values(
    view: BenchmarkView, points: Sequence[tuple[int, float | None]], cells: int
) -> list[float | None]:
    """Return the means of the last seconds of a run, one per cell; `points` are (Unix µs,
    value).
    """
    newest_us, window_us = _report_time_range_us(view)[1], sparkline_span_s(view) * 1e6
    ages_us_and_values = [(float(newest_us - at_us), value) for at_us, value in points]
    return means_by_time(ages_us_and_values, cells, window_us, _MAX_GAP_US)


_MAX_GAP_US = 2_000_000
"""Interval between two reports above which a line has a gap."""
_MAX_CHART_US = 120_000_000
"""Limit of the time axis: the reports cover a minute, but the clock can be set by any time."""


def _report_time_range_us(view: BenchmarkView) -> tuple[int, int]:
    """Return the start of the first report and the time of the newest report, in Unix µs; of the
    last two minutes at most.

    They are the time axis of every chart; both are 0 without reports.
    """
    last_report_times_us = [points[-1].at_us for points in view.series.values() if points]
    first_report_starts_us = [
        points[0].at_us - round(points[0].interval_s * 1e6)
        for points in view.series.values()
        if points
    ]
    if not last_report_times_us:
        return 0, 0
    newest_us = max(last_report_times_us)
    return max(min(first_report_starts_us), newest_us - _MAX_CHART_US), newest_us


def _chart_window_s(view: BenchmarkView) -> float:
    first_us, newest_us = _report_time_range_us(view)
    return max(5.0, (newest_us - first_us) / 1e6)


def _ends_at_s(view: BenchmarkView) -> float | None:
    """Return the end of a run in Unix seconds; None while it is running."""
    newest_us = _report_time_range_us(view)[1]
    return newest_us / 1e6 if view.phase == "finished" and newest_us else None


def throughput_chart(view: BenchmarkView) -> ChartData | None:
    """Return the chart of messages sent and received per second by all workers; None without
    rates.
    """
    rates = [moving_means(throughput(view, name)) for name in ("sent_msgs", "received_msgs")]
    count = max(map(len, rates))
    if not count:
        return None
    # The newest slots are left out while a worker has yet to report.
    omitted_slots_count = len(cumulative_msgs(view, "sent_msgs")) - 1 - count
    step_s = SLOT_US / 1e6
    labels, result = ("sent", "received"), view.finished.result if view.finished else None
    means = (result.publish_per_s, result.receive_per_s) if result else (None, None)
    lines = [Series(label, values) for label, values in zip(labels, rates, strict=True) if values]
    overall_means = [mean for mean, values in zip(means, rates, strict=True) if values]
    return ChartData(
        title="Throughput",
        unit="msgs/s",
        at_s=[(slot - count + 1 - omitted_slots_count) * step_s for slot in range(count)],
        series=tuple(lines),
        window_s=_chart_window_s(view),
        ends_at_unix_s=_ends_at_s(view),
        fill="between",
        marks=run_marks(view),
        overall=tuple(overall_means) if result else (),
        overall_label="mean",
    )


_SIGN_AND_TONE_BY_CHANGE: dict[str, tuple[str, Tone]] = {
    "phase": ("▲", "note"),
    "rate": ("±", "note"),
    "added": ("+", "good"),
    "killed": ("✖", "bad"),
}


def run_marks(view: BenchmarkView) -> tuple[Mark, ...]:
    """Return the marks on the time axis of a run's charts: phases, changed rates, added and killed
    workers.
    """
    newest_us = _report_time_range_us(view)[1]
    return tuple(
        Mark(min(0.0, (change.at_us - newest_us) / 1e6), sign, change.mark or "", tone)
        for change in view.log
        if change.change in _SIGN_AND_TONE_BY_CHANGE
        for sign, tone in (_SIGN_AND_TONE_BY_CHANGE[change.change or ""],)
    )


def cumulative_chart(view: BenchmarkView) -> ChartData | None:
    """Return the chart of messages sent and received in total; None before the second slot."""
    sent_counts, received_counts = (
        cumulative_msgs(view, "sent_msgs"),
        cumulative_msgs(view, "received_msgs"),
    )
    if len(sent_counts) < 2:
        return None
    step_s = SLOT_US / 1e6
    return ChartData(
        title="Sent and received",
        unit="msgs",
        at_s=[(slot - len(sent_counts) + 1) * step_s for slot in range(len(sent_counts))],
        series=(Series("sent", sent_counts), Series("received", received_counts)),
        window_s=_chart_window_s(view),
        ends_at_unix_s=_ends_at_s(view),
        fill="between",
        overall=(sent_counts[-1], received_counts[-1]) if view.finished else (),
        overall_label="total",
    )


def latency_chart(view: BenchmarkView) -> ChartData | None:
    """Return the chart of the main latency, a band from p50 to p99; None without two points."""
    name_and_histogram = main_latency(view.latencies)
    if name_and_histogram is None or len(view.seconds) < 2:
        return None
    name, newest_us = name_and_histogram[0], _report_time_range_us(view)[1]
    return ChartData(
        title=f"Latency {name}",
        unit="s",
        at_s=[min(0.0, (point.at_us - newest_us) / 1e6) for point in view.seconds],
        series=(
            Series("p50", [_ns_to_s(point.p50_ns.get(name)) for point in view.seconds]),
            Series("p99", [_ns_to_s(point.p99_ns.get(name)) for point in view.seconds]),
        ),
        window_s=_chart_window_s(view),
        ends_at_unix_s=_ends_at_s(view),
        fill="band",
        marks=tuple(mark._replace(text="") for mark in run_marks(view)),
        color_offset=LATENCY_COLOR_INDEX,
        overall=tuple(
            _ns_to_s(name_and_histogram[1].percentile_ns(percentile)) for percentile in (50, 99)
        )
        if view.finished
        else (),
        overall_label="overall",
    )


def _ns_to_s(latency_ns: int | None) -> float | None:
    return None if latency_ns is None else latency_ns / 1e9
