"""The data of a chart, and the frame computed from it: one value per column, and the ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from natstui.tui.kit.chart.ticks import (
    Tick,
    Unit,
    ValueAxis,
    age_ticks,
    clock_ticks,
    label_width,
    log_axis,
    value_axis,
)
from natstui.values import replace

ColumnValues = tuple[float | None, ...]
"""One value for each column of the plot; None is a gap."""


def column_values(
    at_s: Sequence[float], values: Sequence[float | None], window_s: float, columns: int
) -> ColumnValues:
    """Return one value per column: the mean of its samples.

    A column without samples gets an interpolated value. A column with only unknown samples, and
    the columns beside it without samples, are gaps.
    """
    sum_and_count_by_column: dict[int, tuple[float, int]] = {}
    for x, value in zip(at_s, values, strict=False):
        if not -window_s <= x <= 0:
            continue
        column = round((x / window_s + 1) * (columns - 1))
        y_sum, count = sum_and_count_by_column.get(column, (0.0, 0))
        if value is not None and math.isfinite(value):
            y_sum, count = y_sum + value, count + 1
        sum_and_count_by_column[column] = (y_sum, count)
    means: list[float | None] = [None] * columns
    previous_column: int | None = None
    for column in sorted(sum_and_count_by_column):
        y_sum, count = sum_and_count_by_column[column]
        if not count:
            previous_column = None
            continue
        means[column] = y_sum / count
        if previous_column is not None and (previous_mean := means[previous_column]) is not None:
            slope = (y_sum / count - previous_mean) / (column - previous_column)
            for gap_column in range(previous_column + 1, column):
                means[gap_column] = previous_mean + slope * (gap_column - previous_column)
        previous_column = column
    return tuple(means)


SERIES_COLOR_COUNT = 6
"""Number of different colours of series; further series repeat the colours."""

EVENT_MARK = "!"
"""Mark at the top of a chart at the time of an event."""

EVENT_PALETTE_NUMBER, CROSSHAIR_PALETTE_NUMBER = 17, 18
"""Palette numbers of the mark of an event, and of the cross-hair."""
AXES_PALETTE_NUMBER = 16
"""Palette number of axes and labels; a series has its index + 1."""
Tone = Literal["note", "good", "bad"]
PALETTE_NUMBER_BY_TONE: dict[Tone, int] = {"note": 19, "good": 20, "bad": 21}
"""Palette numbers of marks by tone."""
AREA_SHADES = (0.85, 0.58, 0.44, 0.34, 0.12)
"""Shares of a series' colour in its area: at its edge, in the upper, middle and lower rows of the
plot, and below a band.
"""
FAINT_SHADE_INDEX = len(AREA_SHADES) - 1
_FIRST_AREA_PALETTE_NUMBER = 32
PALETTE_BACKGROUND_FACTOR = 64
"""Factor of the background's palette number, which is added to the foreground's."""

Fill = Literal["below", "between", "band"]
"""Kind of area: `below` the first series; below the first two series, with the part `between` them
in the colour of the higher one; or a `band` between the first two.
"""


def area_shade_number(palette_number: int, shade_index: int = 0) -> int:
    """Return the palette number of the area of a series in one of `AREA_SHADES`.

    `palette_number` is that of the series.
    """
    return _FIRST_AREA_PALETTE_NUMBER + (palette_number - 1) * len(AREA_SHADES) + shade_index


def series_and_shade(number: int) -> tuple[int, float] | None:
    """Return the palette number of an area's series and the share of its colour; None for a
    palette number of no area.
    """
    if number < _FIRST_AREA_PALETTE_NUMBER:
        return None
    series_index, shade_index = divmod(number - _FIRST_AREA_PALETTE_NUMBER, len(AREA_SHADES))
    return series_index + 1, AREA_SHADES[shade_index]


class Mark(NamedTuple):
    """An event, drawn as a sign on the time axis with its name at the top."""

    at_s: float
    """Time of the event, in seconds from the right edge (negative)."""
    sign: str
    text: str
    tone: Tone = "note"


class Series(Struct, frozen=True):
    """A line of a chart; a value that is None or not a number is a gap."""

    label: str
    values: Sequence[float | None]


class ChartData(Struct, frozen=True):
    """The data of a chart; every series has one value per `at_s`."""

    title: str
    unit: Unit
    at_s: Sequence[float]
    """Times of the values, in seconds from the right edge (negative), rising."""
    series: tuple[Series, ...]
    window_s: float
    """Width of the time axis, in seconds."""
    includes_zero: bool = True
    """Whether the value axis includes 0 even if all values are far above it."""
    ends_at_unix_s: float | None = None
    """Unix time of the right edge, for clock times at the axis; None for ages up to now."""
    events_at_s: tuple[float, ...] = ()
    """Times of events that are marked at the top, in seconds from the right edge."""
    events_label: str = ""
    """Short label of the event marks."""
    is_logarithmic: bool = False
    """Whether the value axis is logarithmic; values up to 0 are gaps then."""
    fill: Fill = "below"
    marks: tuple[Mark, ...] = ()
    color_offset: int = 0
    """Index of the first series' colour, so that neighbouring charts can differ."""
    overall: tuple[float | None, ...] = ()
    """Values for the entire time, shown in the legend instead of the newest values."""
    overall_label: str = ""
    """Label of the overall values, such as mean or total."""

    def palette_number(self, index: int) -> int:
        """Return the palette number of a series; both series of a band have the same one."""
        if self.fill == "band" and index == 1:
            index = 0
        return (index + self.color_offset) % SERIES_COLOR_COUNT + 1


class Zone(NamedTuple):
    """A part of one column of the areas: its top in eighths of a row from the bottom of the plot,
    and the palette number of its series.
    """

    top_eighths: int
    palette_number: int
    edge_palette_number: int = 0
    """Palette number of the series at the top edge; 0 for the same series."""
    is_faint: bool = False


class PlotFrame(Struct, frozen=True):
    """What is drawn of a chart at one size: the values per column, and the axes."""

    width: int
    height: int
    lines: tuple[tuple[int, ColumnValues], ...]
    """Palette number and values of each drawn series; areas come first."""
    x_ticks: tuple[Tick, ...]
    axis: ValueAxis
    window_s: float
    events_at_s: tuple[float, ...] = ()
    fill: Fill = "below"
    marks: tuple[Mark, ...] = ()

    @property
    def y_ticks(self) -> tuple[Tick, ...]:
        """Return the ticks of the value axis."""
        return self.axis.ticks

    @property
    def time_axis_lines(self) -> int:
        """Return the number of lines of the time axis."""
        return time_axis_lines(self.height)

    @property
    def left(self) -> int:
        """Return the first column of the plot, after labels and axis."""
        return label_width(self.y_ticks) + 1

    @property
    def columns(self) -> int:
        """Return the number of columns of the plot."""
        return max(2, self.width - self.left)

    def column_of(self, at_s: float) -> int:
        """Return the plot's column of a moment within the window."""
        return round((at_s / self.window_s + 1) * (self.columns - 1))

    @property
    def areas_count(self) -> int:
        """Return the number of series that are areas; the other series are lines."""
        return min(len(self.lines), 1 if self.fill == "below" else 2)

    def zones(self) -> list[list[Zone]]:
        """Return the zones of the areas in each column of the plot, from the bottom up."""
        rows = self.height - self.time_axis_lines
        value_per_row = (self.axis.high - self.axis.low) / max(1, rows - 1)

        def top_eighths_of(value: float | None) -> int:
            return (
                0 if value is None else _top_eighths((value - self.axis.low) / value_per_row, rows)
            )

        areas = self.lines[: self.areas_count]
        if not areas:
            return [[] for _ in range(self.columns)]
        if len(areas) == 1:
            ((palette_number, values),) = areas
            return [[Zone(top_eighths_of(value), palette_number)] for value in values]
        (first_number, first_values), (second_number, second_values) = areas
        zones_by_column: list[list[Zone]] = []
        for column, (first_value, second_value) in enumerate(
            zip(first_values, second_values, strict=True)
        ):
            first_eighths, second_eighths = (
                top_eighths_of(first_value),
                top_eighths_of(second_value),
            )
            if self.fill == "band":
                has_both_values = first_value is not None and second_value is not None
                band_zones = [
                    Zone(first_eighths, first_number, is_faint=True),
                    Zone(second_eighths, first_number),
                ]
                zones_by_column.append(band_zones if has_both_values else [])
            elif abs(first_eighths - second_eighths) < _MIN_EDGE_DISTANCE_EIGHTHS:
                # Both edges are in one row: they alternate.
                edge_palette_number = (
                    first_number if column // _DASH_COLUMNS % 2 else second_number
                )
                zones_by_column.append(
                    [Zone(max(first_eighths, second_eighths), second_number, edge_palette_number)]
                )
            elif first_eighths > second_eighths:
                zones_by_column.append(
                    [Zone(second_eighths, second_number), Zone(first_eighths, first_number)]
                )
            else:
                zones_by_column.append(
                    [
                        Zone(first_eighths, second_number, first_number),
                        Zone(second_eighths, second_number),
                    ]
                )
        return zones_by_column

    @property
    def event_columns(self) -> tuple[int, ...]:
        """Return the columns of the plot with an event."""
        return tuple(sorted({self.column_of(at_s) for at_s in self.events_at_s}))


_MIN_EDGE_DISTANCE_EIGHTHS = 4
"""Distance in eighths below which the edges of two areas are not distinguishable."""


def _top_eighths(above_low_rows: float, rows: int) -> int:
    """Return the height of an area in eighths of a row, given its value in rows above the low end
    of the axis.

    A value is drawn in the middle of a row, so half of the lowest row is below the low end.
    """
    if above_low_rows < 0.5:
        return max(1, round(above_low_rows * 16))
    return min(8 * rows, round((above_low_rows + 0.5) * 8))


def time_axis_lines(height: int) -> int:
    """Return how many of `height` lines the time axis uses: none if there are few lines."""
    return 2 if height >= 5 else 0


def choose_value_axis(data: ChartData, height: int) -> ValueAxis:
    """Return the value axis of a chart whose plot and time axis have `height` lines together."""
    create_axis = log_axis if data.is_logarithmic else value_axis
    return create_axis(*_value_range(data), height - time_axis_lines(height), data.unit)


def plot_frame(data: ChartData, width: int, height: int, min_label_cells: int = 0) -> PlotFrame:
    """Return what is drawn of a chart at a size: one value per column, and the chosen axes.

    Charts with the same `min_label_cells` have the same time axis.
    """
    axis = choose_value_axis(data, height)
    ticks = tuple(Tick(y, label.rjust(min_label_cells)) for y, label in axis.ticks)
    columns = max(2, width - label_width(ticks) - 1)
    if data.ends_at_unix_s is None:
        x_ticks = age_ticks(data.window_s, columns)
    else:
        x_ticks = clock_ticks(data.ends_at_unix_s, data.window_s, columns)
    lines = [
        (
            data.palette_number(index),
            column_values(data.at_s, _scaled_values(data, series), data.window_s, columns),
        )
        for index, series in enumerate(data.series)
        if is_drawn(series)
    ]
    events = tuple(at_s for at_s in data.events_at_s if -data.window_s <= at_s <= 0)
    rows = height - time_axis_lines(height)
    dashed_lines = _dash_shared_cells(lines, axis, rows) if data.fill == "below" else tuple(lines)
    axis = replace(axis, ticks=ticks)
    marks = tuple(mark for mark in data.marks if -data.window_s <= mark.at_s <= 0)
    return PlotFrame(
        width, height, dashed_lines, x_ticks, axis, data.window_s, events, data.fill, marks
    )


def is_drawn(series: Series) -> bool:
    """Return whether a series is drawn: a series that is always zero is only in the legend."""
    return any(series.values)


_DASH_COLUMNS = 3
"""Length of a dash in columns, for lines that share cells."""


def _dash_shared_cells(
    lines: Sequence[tuple[int, ColumnValues]], axis: ValueAxis, rows: int
) -> tuple[tuple[int, ColumnValues], ...]:
    """Return the lines, dashed where they share cells with an earlier line.

    A cell has one colour: without dashes, the later line would hide the earlier one.
    """
    value_per_row = (axis.high - axis.low) / max(1, rows - 1)
    cells = [
        [None if value is None else round((value - axis.low) / value_per_row) for value in values]
        for _, values in lines
    ]
    dashed_lines: list[tuple[int, ColumnValues]] = []
    for number, (palette_number, values) in enumerate(lines):
        dashed_values = list(values)
        for column, cell in enumerate(cells[number]):
            if cell is None or number == 0:
                continue
            sharing_line_indexes = [
                index for index, other_cells in enumerate(cells) if other_cells[column] == cell
            ]
            if (
                sharing_line_indexes[column // _DASH_COLUMNS % len(sharing_line_indexes)]
                != number
                != sharing_line_indexes[0]
            ):
                dashed_values[column] = None
        dashed_lines.append((palette_number, tuple(dashed_values)))
    return tuple(dashed_lines)


def _scaled_values(data: ChartData, series: Series) -> Sequence[float | None]:
    """Return the values to draw: on a logarithmic axis their decimal logarithms."""
    if not data.is_logarithmic:
        return series.values
    return [
        math.log10(value) if value is not None and 0 < value < math.inf else None
        for value in series.values
    ]


def _value_range(data: ChartData) -> tuple[float, float]:
    """Return the minimum and maximum value within the window; 0 and 1 without values.

    For a logarithmic axis only values above 0 count.
    """
    values = [
        value
        for series in data.series
        for at_s, value in zip(data.at_s, series.values, strict=False)
        if value is not None and -data.window_s <= at_s <= 0 and math.isfinite(value)
    ]
    if data.is_logarithmic:
        values = [value for value in values if value > 0]
    if not values:
        return 0.0, 1.0
    lowest, highest = min(values), max(values)
    includes_zero = data.includes_zero and not data.is_logarithmic
    return (min(0.0, lowest), max(0.0, highest)) if includes_zero else (lowest, highest)
