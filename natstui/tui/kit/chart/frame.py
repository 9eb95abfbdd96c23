"""What a chart shows, and the frame that is sent to be drawn: thinned, cleaned, with its ticks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from natstui.tui.kit.chart.ticks import (
    Tick,
    Unit,
    age_ticks,
    clock_ticks,
    label_width,
    log_ticks,
    value_ticks,
)

Run = tuple[list[float], list[float]]
"""A part of a line without a gap: x and y."""


def runs(
    at_s: Sequence[float], values: Sequence[float | None], window_s: float, columns: int
) -> Iterator[Run]:
    """Yield the gapless parts of a line: the mean of each column, at most one point in each.

    A column that holds only gaps ends a part; one without any sample does not.
    """
    sums: dict[int, tuple[float, float, int]] = {}
    for x, value in zip(at_s, values, strict=False):
        if not -window_s <= x <= 0:
            continue
        column = int((x + window_s) / window_s * columns)
        x_sum, y_sum, count = sums.get(column, (0.0, 0.0, 0))
        if value is not None and math.isfinite(value):
            sums[column] = (x_sum + x, y_sum + value, count + 1)
        else:
            sums[column] = (x_sum, y_sum, count)
    xs: list[float] = []
    ys: list[float] = []
    for column in sorted(sums):
        x_sum, y_sum, count = sums[column]
        if count:
            xs.append(x_sum / count)
            ys.append(y_sum / count)
        elif xs:
            yield xs, ys
            xs, ys = [], []
    if xs:
        yield xs, ys


MARKERS = ("", "●", "◆", "▲", "■", "+")
"""The mark drawn on each line at intervals, so that lines differ without colour too."""

EVENT_MARK = "!"
"""Stands at the top where something happened."""

EVENT_ROLE, CROSS_ROLE = 17, 18
"""Palette numbers of such a mark, and of the cross-hair."""
AXES_ROLE = 16
"""Palette number of axes and labels; a series' is its index + 1. The chart gives them colours."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line. A value that is None, or not a number, is a gap."""

    label: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class ChartData:
    """All that a chart shows; every series has one value per `at_s`."""

    title: str
    unit: Unit
    at_s: Sequence[float]
    """When, in seconds from the right edge (negative), rising."""
    series: tuple[Series, ...]
    window_s: float
    """From the left edge to the right one."""
    from_zero: bool = True
    """The value axis starts at 0 even if all values are far above."""
    ends_at_s: float | None = None
    """Unix time of the right edge: clock times at the axis; None writes ages up to now."""
    events_at_s: tuple[float, ...] = ()
    """When something happened that is marked at the top, in seconds from the right edge."""
    events_label: str = ""
    """What the marks are, in a word or two."""
    logarithmic: bool = False
    """The value axis goes by powers of ten; what is not above 0 is a gap on it."""


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """One frame to draw, ready for the drawing process."""

    width: int
    height: int
    lines: tuple[tuple[Run, ...], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    window_s: float
    events_at_s: tuple[float, ...] = ()

    @property
    def left(self) -> int:
        """The first column of the plot: what is before it are labels and the axis."""
        return label_width(self.y_ticks) + 1

    @property
    def columns(self) -> int:
        """How many columns the plot has."""
        return max(1, self.width - self.left - 1)


def axis_of(data: ChartData, height: int) -> tuple[Tick, ...]:
    """Return the ticks of the value axis for a plot and its time axis of `height` lines."""
    choose = log_ticks if data.logarithmic else value_ticks
    return choose(*_extent(data), height - 2, data.unit)


def plot_frame(data: ChartData, width: int, height: int, least_label_cells: int = 0) -> PlotFrame:
    """Thin the series to a point per column, and choose the axes.

    With labels of at least as many cells as those of the chart above, both have one time axis.
    """
    y_ticks = tuple((at, label.rjust(least_label_cells)) for at, label in axis_of(data, height))
    columns = max(1, width - label_width(y_ticks) - 2)
    if data.ends_at_s is None:
        x_ticks = age_ticks(data.window_s, columns)
    else:
        x_ticks = clock_ticks(data.ends_at_s, data.window_s, columns)
    lines = tuple(
        tuple(runs(data.at_s, _scaled(data, series), data.window_s, columns))
        for series in data.series
    )
    events = tuple(at_s for at_s in data.events_at_s if -data.window_s <= at_s <= 0)
    return PlotFrame(width, height, lines, x_ticks, y_ticks, data.window_s, events)


def _scaled(data: ChartData, series: Series) -> Sequence[float | None]:
    """Return the values as they are drawn: on a logarithmic axis, their powers of ten."""
    if not data.logarithmic:
        return series.values
    return [
        math.log10(value) if value is not None and 0 < value < math.inf else None
        for value in series.values
    ]


def _extent(data: ChartData) -> tuple[float, float]:
    """Return the least and the greatest value within the window; 0 and 1 without any.

    On a logarithmic axis, those above 0.
    """
    values = [
        value
        for series in data.series
        for at_s, value in zip(data.at_s, series.values, strict=False)
        if value is not None and -data.window_s <= at_s <= 0 and math.isfinite(value)
    ]
    if data.logarithmic:
        values = [value for value in values if value > 0]
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    from_zero = data.from_zero and not data.logarithmic
    return (min(0.0, low), max(0.0, high)) if from_zero else (low, high)
