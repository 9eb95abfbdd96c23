"""The charts of a detail screen: their counters, kind and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from natstui.model.columns.view import ConsumerView, StreamView, View
from natstui.model.live.history import History, Point
from natstui.model.live.rates import rates_of_series
from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.model.records.record import Advisory
from natstui.tui.kit.chart.frame import ChartData, Series
from natstui.tui.kit.chart.ticks import Unit

_EVENTS_LABEL = "event"
_GAP_FACTOR = 4
"""A pause that is this many times the median sample interval is a gap."""


def _gap_us(points: Sequence[Point], stale_us: int) -> int:
    """Return the minimum interval of two samples that is a gap, in µs."""
    steps = sorted(b.mono_us - a.mono_us for a, b in pairwise(points))
    return max(stale_us, _GAP_FACTOR * steps[len(steps) // 2]) if steps else stale_us


def _with_gaps(points: Sequence[Point], gap_us: int) -> list[Point]:
    """Return the points with an unknown point in every gap."""
    with_gaps: list[Point] = []
    for point in points:
        if with_gaps and point.mono_us - with_gaps[-1].mono_us > gap_us:
            with_gaps.append(Point((point.mono_us + with_gaps[-1].mono_us) // 2, None))
        with_gaps.append(point)
    return with_gaps


class _Window:
    """The history of a row's counters over a window of time."""

    def __init__(
        self, history: History, key: Key, window_s: int, now_mono_us: int, stale_us: int
    ) -> None:
        self._history, self._key, self.window_s = history, key, window_s
        self._now_us, self._stale_us = now_mono_us, stale_us

    def level(self, name: str) -> list[Point]:
        points = self._history.series(self._key, name, self.window_s)
        return _with_gaps(points, _gap_us(points, self._stale_us))

    def rate(self, name: str) -> list[Point]:
        points = self._history.series(self._key, name, self.window_s)
        return rates_of_series(points, _gap_us(points, self._stale_us))

    def with_advisories(
        self, chart: ChartData, view: View, stream: str, consumer: str
    ) -> ChartData:
        """Return a chart with marks at the times of advisories about the row."""
        times_us = advisory_times_us(view.state, stream, consumer)
        at_s = ((at_us - view.now_at_us) / 1e6 for at_us in times_us)
        visible_s = tuple(second for second in at_s if -self.window_s <= second <= 0)
        return replace(chart, events_at_s=visible_s, events_label=_EVENTS_LABEL)

    def chart(
        self, title: str, unit: Unit, lines: Sequence[tuple[str, list[Point]]], zero: bool = True
    ) -> ChartData:
        at_us = [point.mono_us for point in lines[0][1]]
        return ChartData(
            title=title,
            unit=unit,
            at_s=[(mono_us - self._now_us) / 1e6 for mono_us in at_us],
            series=tuple(Series(label, [p.value for p in points]) for label, points in lines),
            window_s=self.window_s,
            from_zero=zero,
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
    for event in state.happenings:
        if isinstance(event, Advisory) and (event.stream, event.consumer or "") == (
            stream,
            consumer,
        ):
            seconds.add(event.at_us // 1_000_000)
    return [1_000_000 * second for second in sorted(seconds)]


def stream_charts(view: StreamView, row: int, window_s: int) -> list[ChartData]:
    """Return the charts of a stream: rates, messages, bytes."""
    key = view.key(row)
    window = _Window(view.state.stream_history, key, window_s, view.now_mono_us, view.stale_us)
    stored_rate = window.rate("last_seq")
    growth = window.level("stored_msgs")
    removed_rate = _removed_rate(stored_rate, growth)
    rates = window.chart("Rates", "msgs/s", [("in", stored_rate), ("removed", removed_rate)])
    return [
        window.with_advisories(rates, view, view.columns.name[row], ""),
        window.chart("Stored messages", "msgs", [("messages", growth)], zero=False),
        window.chart(
            "Stored bytes", "bytes", [("bytes", window.level("stored_bytes"))], zero=False
        ),
    ]


def _removed_rate(stored_rate: Sequence[Point], level: Sequence[Point]) -> list[Point]:
    """Return the removed messages per second: the stored rate minus the growth of `level`."""
    level_at = {point.mono_us: point for point in level}
    times = [point.mono_us for point in level]
    before = dict(zip(times[1:], times, strict=False))
    rates = []
    for point in stored_rate:
        now, earlier = level_at.get(point.mono_us), level_at.get(before.get(point.mono_us, -1))
        if (
            point.value is None
            or now is None
            or earlier is None
            or None in (now.value, earlier.value)
        ):
            rates.append(Point(point.mono_us, None))
            continue
        elapsed_s = (now.mono_us - earlier.mono_us) / 1e6
        growth = ((now.value or 0) - (earlier.value or 0)) / elapsed_s
        rates.append(Point(point.mono_us, max(0.0, point.value - growth)))
    return rates


def consumer_charts(view: ConsumerView, row: int, window_s: int) -> list[ChartData]:
    """Return the charts of a consumer: rates, pending, ack pending and redelivered, ack floor."""
    key = view.key(row)
    window = _Window(view.state.consumer_history, key, window_s, view.now_mono_us, view.stale_us)
    rates = window.chart(
        "Delivered and acked",
        "msgs/s",
        [
            ("delivered", window.rate("delivered_consumer_seq")),
            ("ack floor", window.rate("ack_floor_consumer_seq")),
        ],
    )
    columns = view.columns
    charts = [
        window.with_advisories(rates, view, columns.stream[row], columns.name[row]),
        window.chart("Pending", "msgs", [("pending", window.level("pending_msgs"))]),
        window.chart(
            "Outstanding",
            "msgs",
            [
                ("ack pending", window.level("ack_pending_msgs")),
                ("redelivered", window.level("redelivered_msgs")),
            ],
        ),
    ]
    distance = _floor_and_last(view, row, window)
    return [*charts, distance] if distance else charts


def _floor_and_last(view: ConsumerView, row: int, window: _Window) -> ChartData | None:
    """Return a chart of the ack floor and the stream's last sequence; None without either."""
    key = view.stream_key(view.columns.stream[row])
    floor = window.level("ack_floor_stream_seq")
    if key is None or not floor:
        return None
    last = view.state.stream_history.series(key, "last_seq", window.window_s)
    at, points_in_step = 0, []
    for point in floor:
        while at + 1 < len(last) and last[at + 1].mono_us <= point.mono_us:
            at += 1
        is_same_poll = bool(last) and last[at].mono_us <= point.mono_us
        points_in_step.append(Point(point.mono_us, last[at].value if is_same_poll else None))
    lines = [("last sequence", points_in_step), ("ack floor", floor)]
    return window.chart("Ack floor and last sequence", "", lines, zero=False)
