"""How charts of a screen are read: a cross-hair through all of them, and the scale of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.chart.chart import Chart, ChartData, cross_all

LOG_KEY = Binding("L", "part('reading', 'scale')", "Log scale", id="chart.scale")


class ChartReading(ScreenPart):
    """The moment and the scale that all charts of a screen have in common."""

    BINDINGS: ClassVar[list[BindingType]] = [
        LOG_KEY,
        Binding("left", "part('reading', 'move', -1)", "Earlier", id="chart.earlier"),
        Binding("right", "part('reading', 'move', 1)", "Later", id="chart.later"),
    ]

    def __init__(self, screen: Screen[None], again: Callable[[], None]) -> None:
        """`again` shows the charts anew."""
        self._screen, self._again = screen, again
        self._logarithmic = self._has_data = False
        self.is_zoomed = False
        """Whether one chart is shown alone: then keys move the cross-hair."""

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer a scale where there are values, and a cross-hair in a chart shown alone."""
        return self._has_data and (action != "move" or self.is_zoomed)

    def show(self, charts: Sequence[Chart], data: Sequence[ChartData | None]) -> None:
        """Show data in charts, by the scale that was chosen."""
        for chart, one in zip(charts, data, strict=False):
            chart.show(one and replace(one, logarithmic=self._logarithmic))
        has_data = any(one is not None for one in data)
        if has_data is not self._has_data:
            self._has_data = has_data
            self._screen.refresh_bindings()

    def align(self) -> None:
        """Give the charts, one above the other, one time axis."""
        shown = [chart for chart in self._screen.query(Chart) if chart.display]
        label_cells = max((chart.label_cells for chart in shown), default=0)
        for chart in shown:
            chart.align(label_cells)

    def zoom(self, alone: bool) -> None:
        """Take note that one chart is shown alone, or that all are again."""
        self.is_zoomed = alone
        cross_all(self._screen, None)

    def action_scale(self) -> None:
        """Show values by powers of ten, or evenly again."""
        self._logarithmic = not self._logarithmic
        self._again()

    def action_move(self, columns: int) -> None:
        """Move the cross-hair."""
        shown = next(chart for chart in self._screen.query(Chart) if chart.display)
        cross_all(self._screen, shown.crossed_further(columns))
