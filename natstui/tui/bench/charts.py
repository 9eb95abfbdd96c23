"""The charts of a benchmark: throughput, sent and received totals, latency."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from natstui.model.bench.counts import main_latency
from natstui.model.bench.view import BenchmarkView, WorkerKey, WorkerPoint
from natstui.tui.kit.chart.frame import ChartData, Mark, Series, Tone
from natstui.tui.kit.sparkline import means_by_time

SENT_COLOR, RECEIVED_COLOR, LATENCY_COLOR = 0, 1, 3
"""Indexes of the line colours in every chart and panel of a benchmark."""
SLOT_US = 100_000
"""Width of a slot of the throughput lines; workers report a little more often."""


def summed_workers(view: BenchmarkView, name: str) -> list[WorkerKey]:
    """Return the workers whose counts of `name` are summed, by the traits of their roles.

    Those are all workers if no role is summed.
    """
    plan = view.planned.plan if view.planned is not None else None
    roles = plan.roles if plan is not None else ()
    unsummed_roles = {role.name for role in roles if not role.traits.is_summed(name)}
    return [key for key in view.totals if key[0] not in unsummed_roles] or [*view.totals]


def cumulative_msgs(view: BenchmarkView, name: str) -> list[float]:
    """Return the cumulative messages of all workers at the end of each slot, oldest first.

    Between two reports a worker's count grows evenly; the last value is the sum of all reports.
    """
    first_us, newest_us = _span_us(view)
    if not newest_us:
        return []
    slot_count = (newest_us - first_us) // SLOT_US + 2
    total = [0.0] * slot_count
    for key in summed_workers(view, name):
        points = view.series[key]
        worker_msgs = _cumulative_worker_msgs(
            points, name, getattr(view.totals[key], name), first_us, slot_count
        )
        total = [a + b for a, b in zip(total, worker_msgs, strict=True)]
    return total


def _cumulative_worker_msgs(
    points: Sequence[WorkerPoint], name: str, total_count: int, first_us: int, slot_count: int
) -> list[float]:
    """Return a worker's cumulative count at the end of each slot, interpolated between reports."""
    # The count of points that are no longer stored is the start value.
    at_us = points[0].at_us - round(points[0].interval_s * 1e6)
    count = float(total_count - sum(getattr(point, name) for point in points))
    values: list[float] = []
    for point in points:
        new_count, span_us = getattr(point, name), max(1, point.at_us - at_us)
        while (
            len(values) < slot_count
            and (slot_us := first_us + len(values) * SLOT_US) <= point.at_us
        ):
            values.append(count + new_count * max(0, slot_us - at_us) / span_us)
        at_us, count = max(at_us, point.at_us), count + new_count
    return values + [count] * (slot_count - len(values))


def throughput(view: BenchmarkView, name: str) -> list[float | None]:
    """Return messages per second of all workers together, one value per slot, oldest first."""
    counts = cumulative_msgs(view, name)
    if not any(counts):
        return []
    # The newest slots are not full while a worker has yet to report.
    return [(b - a) * 1e6 / SLOT_US for a, b in pairwise(counts[:-2])]


def with_slot_times(
    view: BenchmarkView, values: Sequence[float | None]
) -> list[tuple[int, float | None]]:
    """Return (end time, value) of each slot, for values as `throughput` returns them."""
    first_us = _span_us(view)[0]
    return [(first_us + slot * SLOT_US, value) for slot, value in enumerate(values, 1)]


SMOOTHED_SLOTS = 10
"""Number of slots of which a throughput value is the mean: reports come in bursts."""


def smooth(values: Sequence[float | None]) -> list[float | None]:
    """Return moving means: of each value and up to `SMOOTHED_SLOTS` - 1 values before it."""
    means: list[float | None] = []
    for index in range(len(values)):
        recent = [
            v for v in values[max(0, index + 1 - SMOOTHED_SLOTS) : index + 1] if v is not None
        ]
        means.append(sum(recent) / len(recent) if recent else None)
    return means


def rate_now_per_s(view: BenchmarkView, name: str, keys: Sequence[WorkerKey]) -> float | None:
    """Return the current messages per second of these workers, as the end of `smooth` has it.

    None before there is a slot. The rate of all workers is the sum of their rates.
    """
    first_us, newest_us = _span_us(view)
    # The newest slots are left out while a worker has yet to report.
    slot_count = (newest_us - first_us) // SLOT_US - 1
    if slot_count < 1:
        return None
    end_us, smoothed_us = (
        first_us + slot_count * SLOT_US,
        min(slot_count, SMOOTHED_SLOTS) * SLOT_US,
    )
    msgs = sum(
        _msgs_after(view.series[key], name, end_us - smoothed_us)
        - _msgs_after(view.series[key], name, end_us)
        for key in keys
    )
    return msgs * 1e6 / smoothed_us


def _msgs_after(points: Sequence[WorkerPoint], name: str, moment_us: int) -> float:
    """Return the number of messages that a worker reported after a moment, interpolated."""
    msgs = 0.0
    for index in range(len(points) - 1, -1, -1):
        point = points[index]
        if point.at_us <= moment_us:
            break
        since_us = (
            points[index - 1].at_us if index else point.at_us - round(point.interval_s * 1e6)
        )
        share = (point.at_us - moment_us) / max(1, point.at_us - since_us)
        msgs += getattr(point, name) * min(1.0, share)
    return msgs


RECENT_S = 10.0
"""Longest time span of a run's sparklines."""


def recent_s(view: BenchmarkView) -> float:
    """Return the time span of all sparklines of a run."""
    return min(RECENT_S, _window_s(view))


def recent_values(
    view: BenchmarkView, points: Sequence[tuple[int, float | None]], cells: int
) -> list[float | None]:
    """Return the means of the last seconds of a run, one per cell; `points` are (time, value)."""
    newest_us, window_us = _span_us(view)[1], recent_s(view) * 1e6
    ages = [(float(newest_us - at_us), value) for at_us, value in points]
    return means_by_time(ages, cells, window_us, _MAX_GAP_US)


_MAX_GAP_US = 2_000_000
"""Interval between two reports above which a line has a gap."""


def _span_us(view: BenchmarkView) -> tuple[int, int]:
    """Return the first and newest moment of all reports, the time axis of every chart.

    Both are 0 without reports.
    """
    ends = [points[-1].at_us for points in view.series.values() if points]
    starts = [
        points[0].at_us - round(points[0].interval_s * 1e6)
        for points in view.series.values()
        if points
    ]
    return (min(starts), max(ends)) if ends else (0, 0)


def _window_s(view: BenchmarkView) -> float:
    first_us, newest_us = _span_us(view)
    return max(5.0, (newest_us - first_us) / 1e6)


def _ends_at_s(view: BenchmarkView) -> float | None:
    """Return the end of a run in Unix time; None while it is running."""
    newest_us = _span_us(view)[1]
    return newest_us / 1e6 if view.phase == "finished" and newest_us else None


def throughput_chart(view: BenchmarkView) -> ChartData | None:
    """Return the chart of messages sent and received per second by all workers, or None."""
    rates = [smooth(throughput(view, name)) for name in ("sent_msgs", "received_msgs")]
    count = max(map(len, rates))
    if not count:
        return None
    # The newest slots are left out while a worker has yet to report.
    slots_after = len(cumulative_msgs(view, "sent_msgs")) - 1 - count
    step_s = SLOT_US / 1e6
    labels, result = ("sent", "received"), view.finished.result if view.finished else None
    means = (result.publish_per_s, result.receive_per_s) if result else (None, None)
    lines = [Series(label, values) for label, values in zip(labels, rates, strict=True) if values]
    overall = [mean for mean, values in zip(means, rates, strict=True) if values]
    return ChartData(
        title="Throughput",
        unit="msgs/s",
        at_s=[(slot - count + 1 - slots_after) * step_s for slot in range(count)],
        series=tuple(lines),
        window_s=_window_s(view),
        ends_at_s=_ends_at_s(view),
        fill="between",
        marks=run_marks(view),
        overall=tuple(overall) if result else (),
        overall_label="mean",
    )


_SIGNS: dict[str, tuple[str, Tone]] = {
    "phase": ("▲", "note"),
    "rate": ("±", "note"),
    "added": ("+", "good"),
    "killed": ("✖", "bad"),
}


def run_marks(view: BenchmarkView) -> tuple[Mark, ...]:
    """Return the marks of a run: phases, changed rates, added and killed workers."""
    newest_us = _span_us(view)[1]
    return tuple(
        Mark(min(0.0, (change.at_us - newest_us) / 1e6), sign, change.mark or "", tone)
        for change in view.log
        if change.change in _SIGNS
        for sign, tone in (_SIGNS[change.change or ""],)
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
        window_s=_window_s(view),
        ends_at_s=_ends_at_s(view),
        fill="between",
        overall=(sent_counts[-1], received_counts[-1]) if view.finished else (),
        overall_label="total",
    )


def latency_chart(view: BenchmarkView) -> ChartData | None:
    """Return the chart of the main latency, a band from p50 to p99; None without two points."""
    main = main_latency(view.latencies)
    if main is None or len(view.seconds) < 2:
        return None
    name, newest_us = main[0], _span_us(view)[1]
    return ChartData(
        title=f"Latency {name}",
        unit="s",
        at_s=[min(0.0, (point.at_us - newest_us) / 1e6) for point in view.seconds],
        series=(
            Series("p50", [_seconds(point.p50_ns.get(name)) for point in view.seconds]),
            Series("p99", [_seconds(point.p99_ns.get(name)) for point in view.seconds]),
        ),
        window_s=_window_s(view),
        ends_at_s=_ends_at_s(view),
        fill="band",
        marks=tuple(mark._replace(text="") for mark in run_marks(view)),
        color_offset=LATENCY_COLOR,
        overall=tuple(_seconds(main[1].percentile_ns(percentile)) for percentile in (50, 99))
        if view.finished
        else (),
        overall_label="overall",
    )


def _seconds(latency_ns: int | None) -> float | None:
    return None if latency_ns is None else latency_ns / 1e9
