"""A small live picture of one number, cheap enough for ten frames a second."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from natstui.tui.kit.chart.ticks import Unit, value_text
from natstui.tui.kit.sparkline import braille_strip
from natstui.tui.kit.text import fit


class StripChart(Widget):
    """A title with the newest and the greatest value, and a braille line below it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"strip-chart--line", "strip-chart--note"}
    DEFAULT_CSS = """
    StripChart {
        height: 4;
        background: $background;
        color: $foreground;
        & > .strip-chart--line { color: $text-primary; }
        & > .strip-chart--note { color: $text-muted; }
    }
    """

    def __init__(
        self,
        title: str,
        unit: Unit,
        *,
        kept: int = 1200,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._title = title
        self._unit = unit
        self._values: deque[float | None] = deque(maxlen=kept)
        self._drawn: list[str] = []
        self._drawn_for: tuple[int, int] | None = None

    def add(self, value: float | None) -> None:
        """Append the newest value, None for a gap."""
        self._values.append(value)
        self._changed()

    def show(self, values: Sequence[float | None]) -> None:
        """Replace the whole series, oldest first."""
        self._values = deque(values, maxlen=self._values.maxlen)
        self._changed()

    def _changed(self) -> None:
        """Draw again when the screen next does."""
        self._drawn_for = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the title or a line of braille."""
        width, height = self.size
        if y == 0:
            return self._heading(width)
        if self._drawn_for != (width, height):
            self._drawn = braille_strip(list(self._values), width, height - 1)
            self._drawn_for = (width, height)
        text = self._drawn[y - 1] if y <= len(self._drawn) else ""
        return Strip([Segment(fit(text, width), self._style("strip-chart--line"))], width)

    def _heading(self, width: int) -> Strip:
        """Write the title, and the newest and the greatest value at the right."""
        newest = self._values[-1] if self._values else None
        known = [value for value in self._values if value is not None]
        now = "–" if newest is None else value_text(newest, self._unit)
        peak = f"  max {value_text(max(known), self._unit)}" if known else ""
        room = max(0, width - cell_len(now) - cell_len(peak))
        segments = [
            Segment(fit(self._title, room), self._style("strip-chart--note")),
            Segment(now, self._style("strip-chart--line") + Style(bold=True)),
            Segment(peak, self._style("strip-chart--note")),
        ]
        return Strip(segments).crop_extend(0, width, self.rich_style)

    def _style(self, name: str) -> Style:
        """Return the ground with a component's ink."""
        return self.rich_style + Style(color=self.get_component_rich_style(name).color)
