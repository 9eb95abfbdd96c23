"""The charts of a detail screen, computed from the histories of counters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from natstui.model.columns.view import ConsumerView, StreamView, View
from natstui.model.live.history import History, Point
from natstui.model.live.known_rows import RowKey
from natstui.model.live.rates import rates_of_series
from natstui.model.live.state import State
from natstui.model.records.record import Advisory
from natstui.tui.kit.chart.frame import ChartData, Series
from natstui.tui.kit.chart.ticks import Unit
from natstui.values import replace

_EVENT_MARKS_LABEL = "event"
_MIN_GAP_INTERVALS = 4
"""A pause that is this many times the median sample interval is a gap."""


def _min_gap_us(points: Sequence[Point], stale_us: int) -> int:
    """Return the interval between two points, in µs, above which there is a gap."""
    intervals_us = sorted(later.mono_us - earlier.mono_us for earlier, later in pairwise(points))
    return (
        max(stale_us, _MIN_GAP_INTERVALS * intervals_us[len(intervals_us) // 2])
        if intervals_us
        else stale_us
    )


def _with_gaps(points: Sequence[Point], min_gap_us: int) -> list[Point]:
    """Return the points, with a point without a value in every gap."""
    points_with_gaps: list[Point] = []
    for point in points:
        if points_with_gaps and point.mono_us - points_with_gaps[-1].mono_us > min_gap_us:
            points_with_gaps.append(
                Point((point.mono_us + points_with_gaps[-1].mono_us) // 2, None)
            )
        points_with_gaps.append(point)
    return points_with_gaps


class _HistoryWindow:
    """The history of a row's counters over a window of time."""

    def __init__(
        self, history: History, key: RowKey, window_s: int, now_mono_us: int, stale_us: int
    ) -> None:
        self._history, self._key, self.window_s = history, key, window_s
        self._now_us, self._stale_us = now_mono_us, stale_us

    def value_points(self, name: str) -> list[Point]:
        points = self._history.series(self._key, name, self.window_s)
        return _with_gaps(points, _min_gap_us(points, self._stale_us))

    def rate_points(self, name: str) -> list[Point]:
        points = self._history.series(self._key, name, self.window_s)
        return rates_of_series(points, _min_gap_us(points, self._stale_us))

    def with_advisories(
        self, chart: ChartData, view: View, stream: str, consumer: str
    ) -> ChartData:
        """Return a chart with marks at the times of advisories about the row."""
        times_us = advisory_times_us(view.state, stream, consumer)
        at_s = ((at_us - view.now_at_us) / 1e6 for at_us in times_us)
        visible_times_s = tuple(second for second in at_s if -self.window_s <= second <= 0)
        return replace(chart, events_at_s=visible_times_s, events_label=_EVENT_MARKS_LABEL)

    def chart(
        self,
        title: str,
        unit: Unit,
        labels_and_points: Sequence[tuple[str, list[Point]]],
        starts_at_zero: bool = True,
    ) -> ChartData:
        at_us = [point.mono_us for point in labels_and_points[0][1]]
        return ChartData(
            title=title,
            unit=unit,
            at_s=[(mono_us - self._now_us) / 1e6 for mono_us in at_us],
            series=tuple(
                Series(label, [point.value for point in points])
                for label, points in labels_and_points
            ),
            window_s=self.window_s,
            includes_zero=starts_at_zero,
        )


def advisory_times_us(state: State, stream: str, consumer: str) -> list[int]:
    """Return the times of advisories about a stream or consumer, in µs UTC cut to the second.

    The times of naks, terminated and dropped messages come from counts per second; those of other
    advisories from the advisories themselves.
    """
    seconds: set[int] = set()
    evidence = state.evidence.entries.get((stream, consumer))
    if evidence is not None:
        for counts in (evidence.naks, evidence.terms, evidence.give_ups):
            seconds.update(second for second, _ in counts.recent)
        seconds.update(at_us // 1_000_000 for at_us in evidence.elected_at_us)
    for event in state.recent_events:
        if isinstance(event, Advisory) and (event.stream, event.consumer or "") == (
            stream,
            consumer,
        ):
            seconds.add(event.at_us // 1_000_000)
    return [1_000_000 * second for second in sorted(seconds)]


def stream_charts(view: StreamView, row: int, window_s: int) -> list[ChartData]:
    """Return the charts of a stream: rates, messages, bytes."""
    key = view.key(row)
    window = _HistoryWindow(
        view.state.stream_history, key, window_s, view.now_mono_us, view.stale_us
    )
    stored_rate = window.rate_points("last_seq")
    stored_msgs = window.value_points("stored_msgs")
    removed_rate = _removed_rate(stored_rate, stored_msgs)
    rates = window.chart("Rates", "msgs/s", [("in", stored_rate), ("removed", removed_rate)])
    return [
        window.with_advisories(rates, view, view.columns.name[row], ""),
        window.chart("Stored messages", "msgs", [("messages", stored_msgs)], starts_at_zero=False),
        window.chart(
            "Stored bytes",
            "bytes",
            [("bytes", window.value_points("stored_bytes"))],
            starts_at_zero=False,
        ),
    ]


def _removed_rate(stored_rate: Sequence[Point], stored_msgs: Sequence[Point]) -> list[Point]:
    """Return the removed messages per second: the stored rate minus the growth of stored
    messages.
    """
    point_by_time_us = {point.mono_us: point for point in stored_msgs}
    times_us = [point.mono_us for point in stored_msgs]
    previous_time_us = dict(zip(times_us[1:], times_us, strict=False))
    rates = []
    for point in stored_rate:
        current_point, previous_point = (
            point_by_time_us.get(point.mono_us),
            point_by_time_us.get(previous_time_us.get(point.mono_us, -1)),
        )
        if (
            point.value is None
            or current_point is None
            or previous_point is None
            or None in (current_point.value, previous_point.value)
        ):
            rates.append(Point(point.mono_us, None))
            continue
        elapsed_s = (current_point.mono_us - previous_point.mono_us) / 1e6
        growth_per_s = ((current_point.value or 0) - (previous_point.value or 0)) / elapsed_s
        rates.append(Point(point.mono_us, max(0.0, point.value - growth_per_s)))
    return rates


def consumer_charts(view: ConsumerView, row: int, window_s: int) -> list[ChartData]:
    """Return the charts of a consumer: rates, pending, ack pending and redelivered, ack floor."""
    key = view.key(row)
    window = _HistoryWindow(
        view.state.consumer_history, key, window_s, view.now_mono_us, view.stale_us
    )
    rates = window.chart(
        "Delivered and acked",
        "msgs/s",
        [
            ("delivered", window.rate_points("delivered_consumer_seq")),
            ("ack floor", window.rate_points("ack_floor_consumer_seq")),
        ],
    )
    columns = view.columns
    charts = [
        window.with_advisories(rates, view, columns.stream[row], columns.name[row]),
        window.chart("Pending", "msgs", [("pending", window.value_points("pending_msgs"))]),
        window.chart(
            "Outstanding",
            "msgs",
            [
                ("ack pending", window.value_points("ack_pending_msgs")),
                ("redelivered", window.value_points("redelivered_msgs")),
            ],
        ),
    ]
    floor_chart = _floor_and_last_seq_chart(view, row, window)
    return [*charts, floor_chart] if floor_chart else charts


def _floor_and_last_seq_chart(
    view: ConsumerView, row: int, window: _HistoryWindow
) -> ChartData | None:
    """Return the chart of the ack floor and the stream's last sequence; None if one of them is
    unknown.
    """
    key = view.stream_key(view.columns.stream[row])
    floor_points = window.value_points("ack_floor_stream_seq")
    if key is None or not floor_points:
        return None
    last_seq_points = view.state.stream_history.series(key, "last_seq", window.window_s)
    last_seq_index, aligned_points = 0, []
    for point in floor_points:
        while (
            last_seq_index + 1 < len(last_seq_points)
            and last_seq_points[last_seq_index + 1].mono_us <= point.mono_us
        ):
            last_seq_index += 1
        has_last_seq = (
            bool(last_seq_points) and last_seq_points[last_seq_index].mono_us <= point.mono_us
        )
        aligned_points.append(
            Point(point.mono_us, last_seq_points[last_seq_index].value if has_last_seq else None)
        )
    lines = [("last sequence", aligned_points), ("ack floor", floor_points)]
    return window.chart("Ack floor and last sequence", "", lines, starts_at_zero=False)
