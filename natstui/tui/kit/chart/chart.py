"""A chart with axes and units: drawn by plotext, shown line by line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from time import monotonic
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from natstui.clean import clean_line
from natstui.tui.kit.chart.frame import (
    CROSSHAIR_PALETTE_NUMBER,
    EVENT_PALETTE_NUMBER,
    PALETTE_BACKGROUND_FACTOR,
    PALETTE_NUMBER_BY_TONE,
    SERIES_COLOR_COUNT,
    ChartData,
    PlotFrame,
    Series,
    choose_value_axis,
    plot_frame,
    series_and_shade,
)
from natstui.tui.kit.chart.legend import Run, Runs, chart_title, legend_runs, width_of_runs
from natstui.tui.kit.chart.plot import draw
from natstui.tui.kit.chart.ticks import label_width
from natstui.tui.kit.styles import series_colors
from natstui.tui.kit.text import fit

__all__ = ["Chart", "ChartData", "Series"]

_MIN_COLUMNS, _MIN_LINES = 20, 3
_MIN_LINES_WITH_LEGEND = 7
"""Minimum height, in lines, for a separate line of the legend."""
_FRAME_INTERVAL_S = 0.5
_COMPONENT_BY_PALETTE_NUMBER = {
    EVENT_PALETTE_NUMBER: "chart--event",
    CROSSHAIR_PALETTE_NUMBER: "chart--cross",
    **{
        palette_number: f"chart--{tone}-mark"
        for tone, palette_number in PALETTE_NUMBER_BY_TONE.items()
    },
}
CROSSHAIR = "│"
_EMPTY_CHARACTERS = {" ", "\u2800"}


def set_crosshairs(screen: Screen[Any], at_s: float | None) -> None:
    """Set the cross-hair of every chart on a screen; None shows the newest values."""
    for chart in screen.query(Chart):
        chart.set_crosshair(at_s)


def is_too_small(size: Size) -> bool:
    """Return whether a size is below 20 columns or 3 lines, too small for a chart."""
    return size.width < _MIN_COLUMNS or size.height < _MIN_LINES


class Chart(Widget):
    """Lines over time with a title, a legend with the newest values, axes and units.

    A frame is one drawing of the chart: at most two a second, one chart per callback, and only in
    view.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "chart--title",
        "chart--axes",
        "chart--note",
        "chart--event",
        "chart--cross",
        "chart--note-mark",
        "chart--good-mark",
        "chart--bad-mark",
    }
    DEFAULT_CSS = """
    Chart {
        width: 1fr;
        height: 1fr;
        background: $background;
        color: $foreground;
        & > .chart--title { text-style: bold; }
        & > .chart--axes { color: $text-muted; }
        & > .chart--note { color: $text-muted; }
        & > .chart--event { color: $text-warning; text-style: bold; }
        & > .chart--cross { color: $text-accent; text-style: bold; }
        & > .chart--note-mark { color: $foreground 70%; }
        & > .chart--good-mark { color: $text-success; text-style: bold; }
        & > .chart--bad-mark { color: $text-error; text-style: bold; }
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._data: ChartData | None = None
        self._frame_lines: list[Runs] = []
        self._is_frame_outdated = False
        """Whether data or size are newer than the frame; drawn when the chart is in view."""
        self._frame: PlotFrame | None = None
        self._min_label_cells = 0
        self._crosshair_at_s: float | None = None
        self._failure_text = ""
        self._is_scheduled = False
        """Whether a frame will be drawn by a callback or by the timer."""
        self._drawn_at_s = 0.0
        self._timer: Timer | None = None
        self._styles_by_palette_number: dict[int, Style] = {}
        self._data_size_and_head_lines: tuple[ChartData | None, Size, int] | None = None
        """Data and size with the number of lines above the axes computed for them."""

    def show(self, data: ChartData | None) -> None:
        """Show newer data when the chart is drawn next; None shows an empty chart at once."""
        self._data = data
        if data is None and self._frame_lines:
            self._frame_lines = []
            self.refresh()
        self._request_frame()

    def show_another_row(self, data: ChartData | None) -> None:
        """Show the data of another table row: the chart of the old row is removed at once."""
        self.show(None)
        if self._timer is not None:
            self._timer.stop()
            self._is_scheduled, self._timer = False, None
        self._drawn_at_s = 0.0
        self.show(data)

    @property
    def label_cells(self) -> int:
        """Return the width of the value axis' labels in cells."""
        if self._data is None or is_too_small(self.size):
            return 0
        return label_width(
            choose_value_axis(self._data, self.size.height - self._head_lines).ticks
        )

    def align(self, label_cells: int) -> None:
        """Set the minimum label width in cells, so that charts have the same time axis."""
        if label_cells != self._min_label_cells:
            self._min_label_cells = label_cells
            self._request_frame()

    def set_crosshair(self, at_s: float | None) -> None:
        """Show the values at a moment, in seconds from the right edge; None for the newest."""
        if at_s != self._crosshair_at_s:
            self._crosshair_at_s = at_s
            self.refresh()

    def moved_crosshair_s(self, columns: int) -> float | None:
        """Return the moment `columns` columns after the cross-hair, in seconds from the right
        edge; None before the chart is drawn.
        """
        return (
            None
            if self._frame is None
            else moved_moment_s(self._frame, self._crosshair_at_s, columns)
        )

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Set the cross-hair of every chart of the screen to the pointer."""
        if self._frame is not None and self._frame_lines:
            set_crosshairs(self.screen, moment_s_of(self._frame, event.x))

    def on_leave(self) -> None:
        """Show the newest values again."""
        set_crosshairs(self.screen, None)

    def on_resize(self) -> None:
        """Request a drawing of the new size; until then the old drawing is cut or padded."""
        self._request_frame()

    def notify_style_update(self) -> None:
        """Clear the cached styles of the old theme."""
        super().notify_style_update()
        self._styles_by_palette_number.clear()

    def _request_frame(self) -> None:
        """Request that the newest data is drawn as soon as the chart is in view."""
        self._is_frame_outdated = self._data is not None
        # Textual renders only lines in view: rendering the first one schedules the frame.
        self.refresh(Region(0, 0, max(1, self.size.width), 1))

    def _schedule_frame(self) -> None:
        """Schedule the next drawing, at the earliest half a second after the last one."""
        if self._is_scheduled:
            return
        self._is_scheduled = True
        wait_s = self._drawn_at_s + _FRAME_INTERVAL_S - monotonic()
        if wait_s > 0:
            self._timer = self.set_timer(wait_s, self._draw)
        else:
            self.call_later(self._draw)

    @property
    def is_frame_pending(self) -> bool:
        """Return whether newer data is not drawn yet; False while the chart is out of view."""
        if self._is_scheduled or not self._is_frame_outdated or is_too_small(self.size):
            return self._is_scheduled
        return self.is_on_screen and bool(self.screen.find_widget(self).visible_region)

    def _draw(self) -> None:
        """Draw the chart with the newest data."""
        self._is_scheduled, self._timer = False, None
        if self._data is None or is_too_small(self.size):
            return
        self._is_frame_outdated, self._drawn_at_s = False, monotonic()
        height = self.size.height - self._head_lines
        frame = plot_frame(self._data, self.size.width, height, self._min_label_cells)
        try:
            self._frame_lines, self._frame = draw(frame), frame
        except ImportError as error:
            self._failure_text = f"cannot draw: {str(error).splitlines()[0]}"
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line of the widget: title and legend, or a line of the last drawing."""
        size, head_lines = self.size, self._head_lines
        width = size.width
        if is_too_small(size):
            return self._note_line("chart: too small", y)
        if self._is_frame_outdated:
            self._schedule_frame()
        if y < head_lines:
            return self._head_line(y)
        if not self._frame_lines:
            waiting_text = "" if self._data is None else "…"
            return self._note_line(self._failure_text or waiting_text, y - size.height // 2)
        if y - head_lines >= len(self._frame_lines):
            return Strip([Segment(" " * width, self._palette_style(0))], width)
        segments = [
            Segment(clean_line(text), self._palette_style(palette_number))
            for text, palette_number in self._plot_line(y)
        ]
        return Strip(segments).crop_extend(0, width, self._palette_style(0))

    def _plot_line(self, y: int) -> Runs:
        """Return a line of the last drawing, with the cross-hair."""
        runs, frame, at_s = (
            self._frame_lines[y - self._head_lines],
            self._frame,
            self._crosshair_at_s,
        )
        if (
            frame is None
            or at_s is None
            or y - self._head_lines >= len(self._frame_lines) - frame.time_axis_lines
        ):
            return runs
        column = column_of(frame, at_s)
        return runs if column is None else draw_crosshair(runs, column, CROSSHAIR_PALETTE_NUMBER)

    def _note_line(self, text: str, y: int) -> Strip:
        """Return a line of a chart that shows only a text: the text if `y` is 0, else blank."""
        width = self.size.width
        style = self._palette_style(0) + self._component_style("chart--note")
        return Strip([Segment(fit(text if y == 0 else "", width), style)], width)

    @property
    def _head_lines(self) -> int:
        """Return the number of lines above the axes: 2 if the legend does not fit beside the
        title.
        """
        size, cached_head = self.size, self._data_size_and_head_lines
        # Every line of the chart needs the number.
        if cached_head is not None and cached_head[0] is self._data and cached_head[1] == size:
            return cached_head[2]
        head_cells = cell_len(chart_title(self._data)) + width_of_runs(
            legend_runs(self._data, size.width)
        )
        # Without the moment of the cross-hair: the plot would jump while the mouse moves.
        lines = 2 if head_cells > size.width and size.height >= _MIN_LINES_WITH_LEGEND else 1
        self._data_size_and_head_lines = (self._data, size, lines)
        return lines

    def _head_line(self, y: int) -> Strip:
        """Return a line above the axes: title at the left, legend at the right or below."""
        width, at_s, values = self.size.width, self._crosshair_at_s, None
        if self._data is not None and at_s is not None:
            values = values_at(self._data, at_s)
        title_line = chart_title(self._data, at_s)
        legend = legend_runs(self._data, width, values) if y == self._head_lines - 1 else []
        if self._head_lines == 1 and width_of_runs(legend) + cell_len(title_line) > width:
            legend = legend_runs(self._data, max(width // 2, width - cell_len(title_line)), values)
        title = fit("" if y else title_line, max(0, width - width_of_runs(legend)))
        segments = [Segment(title, self._palette_style(0) + self._component_style("chart--title"))]
        segments += [
            Segment(text, self._palette_style(palette_number)) for text, palette_number in legend
        ]
        return Strip(segments).crop_extend(0, width, self._palette_style(0))

    def _palette_color(self, number: int) -> str:
        """Return the colour of a palette number: of a series, or of its area, which is that
        colour blended with the background.
        """
        palette = series_colors(dark=self.app.current_theme.dark)
        series_shade = series_and_shade(number)
        if series_shade is None:
            return palette[number - 1]
        series_number, color_share = series_shade
        series_color = Color.parse(palette[series_number - 1])
        return self.background_colors[1].blend(series_color, color_share).hex

    def _component_style(self, name: str) -> Style:
        """Return the style of a component without its background."""
        style = self.get_component_rich_style(name)
        return Style(color=style.color, bold=style.bold)

    def _palette_style(self, palette_number: int) -> Style:
        """Return the style of a palette number, which combines foreground and background."""
        if palette_number not in self._styles_by_palette_number:
            base_style = self.rich_style
            background_number, number = divmod(palette_number, PALETTE_BACKGROUND_FACTOR)
            if background_number:
                style = self._palette_style(number) + Style(
                    bgcolor=self._palette_color(background_number)
                )
            elif number == 0:
                style = base_style
            elif number <= SERIES_COLOR_COUNT or series_and_shade(number):
                style = base_style + Style(color=self._palette_color(number))
            else:
                style = base_style + self._component_style(
                    _COMPONENT_BY_PALETTE_NUMBER.get(number, "chart--axes")
                )
            self._styles_by_palette_number[palette_number] = style
        return self._styles_by_palette_number[palette_number]


def column_of(frame: PlotFrame, at_s: float) -> int | None:
    """Return the column of a moment, given in seconds from the right edge; None if the moment is
    outside the time axis.
    """
    if not -frame.window_s <= at_s <= 0:
        return None
    return frame.left + frame.column_of(at_s)


def moment_s_of(frame: PlotFrame, column: int) -> float | None:
    """Return the moment of a column, in seconds from the right edge; None outside the plot."""
    plot_column = column - frame.left
    if not 0 <= plot_column < frame.columns or frame.columns < 2:
        return None
    return (plot_column / (frame.columns - 1) - 1) * frame.window_s


def moved_moment_s(frame: PlotFrame, at_s: float | None, columns: int) -> float:
    """Return the moment `columns` columns after `at_s` within the window, in seconds from the
    right edge.

    Returns 0 if `at_s` is None.
    """
    if at_s is None:
        return 0.0
    step_s = frame.window_s / max(1, frame.columns - 1)
    return max(-frame.window_s, min(0.0, at_s + columns * step_s))


def values_at(data: ChartData, at_s: float) -> list[float | None]:
    """Return the value of each series at the sample nearest to a moment in seconds from the right
    edge; None where a series has no value.
    """
    if not data.at_s:
        return [None] * len(data.series)
    after_index = min(bisect_left(data.at_s, at_s), len(data.at_s) - 1)
    before_index = max(0, after_index - 1)
    nearest_index = (
        before_index
        if at_s - data.at_s[before_index] < data.at_s[after_index] - at_s
        else after_index
    )
    return [
        series.values[nearest_index] if nearest_index < len(series.values) else None
        for series in data.series
    ]


def draw_crosshair(runs: Sequence[tuple[str, int]], column: int, crosshair_number: int) -> Runs:
    """Return the texts of a chart's line with the cross-hair in a column, if the cell there is
    empty.

    `crosshair_number` is the palette number of the cross-hair.
    """
    runs_with_crosshair: Runs = []
    position = 0
    for text, number in runs:
        offset_in_text = column - position
        if 0 <= offset_in_text < len(text) and text[offset_in_text] in _EMPTY_CHARACTERS:
            parts = [
                Run(text[:offset_in_text], number),
                Run(
                    CROSSHAIR,
                    crosshair_number
                    + number // PALETTE_BACKGROUND_FACTOR * PALETTE_BACKGROUND_FACTOR,
                ),
                Run(text[offset_in_text + 1 :], number),
            ]
            runs_with_crosshair += [run for run in parts if run.text]
        else:
            runs_with_crosshair.append(Run(text, number))
        position += len(text)
    if position <= column:
        runs_with_crosshair += [
            Run(" " * (column - position), 0),
            Run(CROSSHAIR, crosshair_number),
        ]
    return runs_with_crosshair
