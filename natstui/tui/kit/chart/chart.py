"""A chart with axes and units: drawn by plotext, shown line by line."""

from __future__ import annotations

from bisect import bisect_left
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
    CROSS_ROLE,
    EVENT_ROLE,
    MARK_ROLES,
    MOST_SERIES,
    ON,
    ChartData,
    PlotFrame,
    Series,
    axis_of,
    plot_frame,
    series_and_shade,
)
from natstui.tui.kit.chart.legend import Runs, cells_of, legend_runs, title_text
from natstui.tui.kit.chart.plot import draw
from natstui.tui.kit.chart.ticks import label_width
from natstui.tui.kit.looks import series_colors
from natstui.tui.kit.text import fit

__all__ = ["Chart", "ChartData", "Series"]

_LEAST_WIDTH, _LEAST_HEIGHT = 20, 3
_ROOMY_HEIGHT = 7
"""Minimum height with a line for the legend alone."""
_BETWEEN_FRAMES_S = 0.5
_INKS = {
    EVENT_ROLE: "chart--event",
    CROSS_ROLE: "chart--cross",
    **{role: f"chart--{tone}-mark" for tone, role in MARK_ROLES.items()},
}
CROSS = "│"
_EMPTY = {" ", "\u2800"}


def cross_all(screen: Screen[Any], at_s: float | None) -> None:
    """Set the cross-hair of every chart on a screen; None: show the newest values."""
    for chart in screen.query(Chart):
        chart.cross(at_s)


def too_small(size: Size) -> bool:
    """Return whether a size is too small for a chart."""
    return size.width < _LEAST_WIDTH or size.height < _LEAST_HEIGHT


class Chart(Widget):
    """Lines over time with a title, a legend with the newest values, axes and units.

    Frames are drawn at most twice a second, one chart in each callback, and only in view.
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
        self._lines: list[Runs] = []
        self._stale = False
        """Data or size are newer than the frame; it is drawn when the chart is in view."""
        self._frame: PlotFrame | None = None
        self._least_label_cells = 0
        self._cross_at_s: float | None = None
        self._failure = ""
        self._has_begun = False
        """A frame is about to be drawn, now or by the timer."""
        self._drawn_at_s = 0.0
        self._timer: Timer | None = None
        self._styles_by_role: dict[int, Style] = {}
        self._head_for: tuple[ChartData | None, Size, int] | None = None
        """The lines above the axes, and of which data and size they are."""

    def show(self, data: ChartData | None) -> None:
        """Show newer data when its frame is drawn; None shows an empty chart at once."""
        self._data = data
        if data is None and self._lines:
            self._lines = []
            self.refresh()
        self._want()

    def show_other(self, data: ChartData | None) -> None:
        """Show data of another subject: the old frame is removed at once."""
        self.show(None)
        if self._timer is not None:
            self._timer.stop()
            self._has_begun, self._timer = False, None
        self._drawn_at_s = 0.0
        self.show(data)

    @property
    def label_cells(self) -> int:
        """Return the width of the labels of the value axis."""
        if self._data is None or too_small(self.size):
            return 0
        return label_width(axis_of(self._data, self.size.height - self._head).ticks)

    def align(self, label_cells: int) -> None:
        """Set the label width to that of the chart above or below, for the same time axis."""
        if label_cells != self._least_label_cells:
            self._least_label_cells = label_cells
            self._want()

    def cross(self, at_s: float | None) -> None:
        """Show the values at a moment, in seconds from the right edge; None: the newest."""
        if at_s != self._cross_at_s:
            self._cross_at_s = at_s
            self.refresh()

    def crossed_further(self, columns: int) -> float | None:
        """Return the moment `columns` from the cross-hair; None without a frame."""
        return None if self._frame is None else moved(self._frame, self._cross_at_s, columns)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Set the cross-hair of every chart of the screen to the pointer."""
        if self._frame is not None and self._lines:
            cross_all(self.screen, moment_of(self._frame, event.x))

    def on_leave(self) -> None:
        """Show the newest values again."""
        cross_all(self.screen, None)

    def on_resize(self) -> None:
        """Draw for the new size; until then the old frame is cut or padded."""
        self._want()

    def notify_style_update(self) -> None:
        """Clear the cached styles of the old theme."""
        super().notify_style_update()
        self._styles_by_role.clear()

    def _want(self) -> None:
        """Request that the newest data is drawn when the chart is in view."""
        self._stale = self._data is not None
        # Textual renders what is in view only, and the first line is where that is noticed.
        self.refresh(Region(0, 0, max(1, self.size.width), 1))

    def _begin(self) -> None:
        """Draw in a callback, at the earliest half a second after the last frame."""
        if self._has_begun:
            return
        self._has_begun = True
        wait_s = self._drawn_at_s + _BETWEEN_FRAMES_S - monotonic()
        if wait_s > 0:
            self._timer = self.set_timer(wait_s, self._draw)
        else:
            self.call_later(self._draw)

    @property
    def is_waiting(self) -> bool:
        """Return whether a newer frame is pending; none is while the chart is out of view."""
        if self._has_begun or not self._stale or too_small(self.size):
            return self._has_begun
        return self.is_on_screen and bool(self.screen.find_widget(self).visible_region)

    def _draw(self) -> None:
        """Draw the newest data."""
        self._has_begun, self._timer = False, None
        if self._data is None or too_small(self.size):
            return
        self._stale, self._drawn_at_s = False, monotonic()
        height = self.size.height - self._head
        frame = plot_frame(self._data, self.size.width, height, self._least_label_cells)
        try:
            self._lines, self._frame = draw(frame), frame
        except ImportError as error:
            self._failure = f"cannot draw: {str(error).splitlines()[0]}"
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the title with the legend, or a line of the last frame."""
        size, head = self.size, self._head
        width = size.width
        if too_small(size):
            return self._note("chart: too small", y)
        if self._stale:
            self._begin()
        if y < head:
            return self._heading(y)
        if not self._lines:
            waiting = "" if self._data is None else "…"
            return self._note(self._failure or waiting, y - size.height // 2)
        if y - head >= len(self._lines):
            return Strip([Segment(" " * width, self._style(0))], width)
        segments = [Segment(clean_line(text), self._style(role)) for text, role in self._drawn(y)]
        return Strip(segments).crop_extend(0, width, self._style(0))

    def _drawn(self, y: int) -> Runs:
        """Return a line of the last frame, with the cross-hair."""
        runs, frame, at_s = self._lines[y - self._head], self._frame, self._cross_at_s
        if frame is None or at_s is None or y - self._head >= len(self._lines) - frame.axis_lines:
            return runs
        column = column_of(frame, at_s)
        return runs if column is None else crossed(runs, column, CROSS_ROLE)

    def _note(self, text: str, y: int) -> Strip:
        """Draw a remark on line 0."""
        width = self.size.width
        style = self._style(0) + self._ink("chart--note")
        return Strip([Segment(fit(text if y == 0 else "", width), style)], width)

    @property
    def _head(self) -> int:
        """Return the number of lines above the axes: the legend gets its own when it does not fit
        beside the title.
        """
        size, known = self.size, self._head_for
        # Every line of the chart asks for it.
        if known is not None and known[0] is self._data and known[1] == size:
            return known[2]
        wide = cell_len(title_text(self._data)) + cells_of(legend_runs(self._data, size.width))
        # Not of the cross-hair's title: the plot would jump while the mouse moves.
        lines = 2 if wide > size.width and size.height >= _ROOMY_HEIGHT else 1
        self._head_for = (self._data, size, lines)
        return lines

    def _heading(self, y: int) -> Strip:
        """Draw the title at the left and the legend at the right, or below it."""
        width, at_s, values = self.size.width, self._cross_at_s, None
        if self._data is not None and at_s is not None:
            values = values_at(self._data, at_s)
        told = title_text(self._data, at_s)
        legend = legend_runs(self._data, width, values) if y == self._head - 1 else []
        if self._head == 1 and cells_of(legend) + cell_len(told) > width:
            legend = legend_runs(self._data, max(width // 2, width - cell_len(told)), values)
        title = fit("" if y else told, max(0, width - cells_of(legend)))
        segments = [Segment(title, self._style(0) + self._ink("chart--title"))]
        segments += [Segment(text, self._style(role)) for text, role in legend]
        return Strip(segments).crop_extend(0, width, self._style(0))

    def _color(self, number: int) -> str:
        """Return the colour of a series, or of its area: the background blended with that
        colour.
        """
        palette, area = series_colors(dark=self.app.current_theme.dark), series_and_shade(number)
        if area is None:
            return palette[number - 1]
        role, share = area
        return self.background_colors[1].blend(Color.parse(palette[role - 1]), share).hex

    def _ink(self, name: str) -> Style:
        """Return the colour and weight of a component without its background."""
        style = self.get_component_rich_style(name)
        return Style(color=style.color, bold=style.bold)

    def _style(self, role: int) -> Style:
        """Return the style of a palette number, which contains foreground and background."""
        if role not in self._styles_by_role:
            ground = self.rich_style
            below, number = divmod(role, ON)
            if below:
                style = self._style(number) + Style(bgcolor=self._color(below))
            elif number == 0:
                style = ground
            elif number <= MOST_SERIES or series_and_shade(number):
                style = ground + Style(color=self._color(number))
            else:
                style = ground + self._ink(_INKS.get(number, "chart--axes"))
            self._styles_by_role[role] = style
        return self._styles_by_role[role]


def column_of(frame: PlotFrame, at_s: float) -> int | None:
    """Return the column of a moment in the frame; None when it is not in view."""
    if not -frame.window_s <= at_s <= 0:
        return None
    return frame.left + frame.column_of(at_s)


def moment_of(frame: PlotFrame, column: int) -> float | None:
    """Return the moment of a column, in seconds from the right edge; None beside the axes."""
    plot_column = column - frame.left
    if not 0 <= plot_column < frame.columns or frame.columns < 2:
        return None
    return (plot_column / (frame.columns - 1) - 1) * frame.window_s


def moved(frame: PlotFrame, at_s: float | None, columns: int) -> float:
    """Return the moment `columns` further; the first move sets it to the newest values."""
    if at_s is None:
        return 0.0
    step_s = frame.window_s / max(1, frame.columns - 1)
    return max(-frame.window_s, min(0.0, at_s + columns * step_s))


def values_at(data: ChartData, at_s: float) -> list[float | None]:
    """Return each series' value nearest to a moment; no value is interpolated."""
    if not data.at_s:
        return [None] * len(data.series)
    after_index = min(bisect_left(data.at_s, at_s), len(data.at_s) - 1)
    before_index = max(0, after_index - 1)
    nearest = (
        before_index
        if at_s - data.at_s[before_index] < data.at_s[after_index] - at_s
        else after_index
    )
    return [
        series.values[nearest] if nearest < len(series.values) else None for series in data.series
    ]


def crossed(runs: Runs, column: int, role: int) -> Runs:
    """Return a line of a chart with the cross-hair in a column, if that cell is empty."""
    crossed_runs: Runs = []
    position = 0
    for text, palette in runs:
        inside = column - position
        if 0 <= inside < len(text) and text[inside] in _EMPTY:
            parts = [
                (text[:inside], palette),
                (CROSS, role + palette // ON * ON),
                (text[inside + 1 :], palette),
            ]
            crossed_runs += [part for part in parts if part[0]]
        else:
            crossed_runs.append((text, palette))
        position += len(text)
    if position <= column:
        crossed_runs += [(" " * (column - position), 0), (CROSS, role)]
    return crossed_runs
