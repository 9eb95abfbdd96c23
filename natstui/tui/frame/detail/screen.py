"""A screen with details as text at the left, and live charts at the right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widget import Widget

from natstui.model.live.history import WINDOWS_S
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.messages import Export, Open
from natstui.tui.kit.chart.chart import Chart, ChartData, set_crosshairs
from natstui.tui.kit.chart.frame import EVENT_MARK
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.sections import Section, SectionText
from natstui.tui.kit.text import safe
from natstui.units import duration_text
from natstui.values import replace

LOG_SCALE_BINDING = Binding("L", "part('reading', 'scale')", "Log scale", id="chart.scale")


class ChartControls(ScreenPart):
    """Moves the common cross-hair of all charts, and switches their scale."""

    BINDINGS: ClassVar[list[BindingType]] = [
        LOG_SCALE_BINDING,
        Binding("left", "part('reading', 'move', -1)", "Earlier", id="chart.earlier"),
        Binding("right", "part('reading', 'move', 1)", "Later", id="chart.later"),
    ]

    def __init__(self, screen: Screen[None], redraw: Callable[[], None]) -> None:
        """Create the chart keys of a screen; `redraw` draws its charts again."""
        self._screen, self._redraw = screen, redraw
        self._is_logarithmic = self._has_data = False
        self.is_zoomed = False
        """Whether a single chart is shown: then keys move the cross-hair."""

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: the scale if a chart has data, the cross-hair in a
        zoomed chart.
        """
        return self._has_data and (action != "move" or self.is_zoomed)

    def show(self, charts: Sequence[Chart], data: Sequence[ChartData | None]) -> None:
        """Show data in the charts, with the chosen scale."""
        for chart, chart_data in zip(charts, data, strict=False):
            chart.show(chart_data and replace(chart_data, is_logarithmic=self._is_logarithmic))
        has_data = any(chart_data is not None for chart_data in data)
        if has_data is not self._has_data:
            self._has_data = has_data
            self._screen.refresh_bindings()

    def align(self) -> None:
        """Align the time axes of all charts."""
        visible_charts = [chart for chart in self._screen.query(Chart) if chart.display]
        label_cells = max((chart.label_cells for chart in visible_charts), default=0)
        for chart in visible_charts:
            chart.align(label_cells)

    def set_zoomed(self, is_zoomed: bool) -> None:
        """Set whether a single chart is shown in full size."""
        self.is_zoomed = is_zoomed
        set_crosshairs(self._screen, None)

    def action_scale(self) -> None:
        """Switch between a logarithmic and a linear scale."""
        self._is_logarithmic = not self._is_logarithmic
        self._redraw()

    def action_move(self, columns: int) -> None:
        """Move the cross-hair by `columns` columns, to earlier times if negative."""
        visible_chart = next(chart for chart in self._screen.query(Chart) if chart.display)
        set_crosshairs(self._screen, visible_chart.moved_crosshair_s(columns))


CHART_HELP = (
    (
        "▂▂▂ ⠤⠤⠤",
        "The first series is an area, the others are lines; a series that is always zero has "
        "no line.",
    ),
)
"""Marks on a chart and their meaning."""
_EVENT_MARK_HELP = (
    (EVENT_MARK,
        "An advisory arrived in this second: a nak, a message dropped or terminated, an "
        "election. The events screen (`3`) lists each one."),
)  # fmt: skip
_MIN_CHART_LINES = 8
"""Minimum height of a chart."""


class ChartedScreen(LiveScreen):
    """A screen with text beside live charts; subclasses provide both."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "window", "Window", id="chart.window"),
        Binding("z", "zoom", "Zoom chart", id="chart.zoom"),
        *ChartControls.BINDINGS,
    ]
    CHARTS_COUNT: ClassVar[int] = 3
    CHART_HELP: ClassVar[tuple[tuple[str, str], ...]] = CHART_HELP

    caption = getters.query_one("#caption", FixedText)
    text = getters.query_one(SectionText)

    def __init__(self) -> None:
        super().__init__()
        self.window_s = WINDOWS_S[0]
        self._zoomed_index = -1
        self.reading = ChartControls(self, self.refresh_state)

    def body(self) -> Iterable[Widget]:
        """Yield the caption, then text beside charts."""
        yield FixedText(id="caption", markup=False)
        with Horizontal(id="detail"):
            sections = VerticalScroll(SectionText(), id="sections")
            sections.border_title = "Now"
            yield sections
            yield Vertical(*(Chart() for _ in range(self.CHARTS_COUNT)), id="charts")

    def show_detail(
        self, title: str, sections: Sequence[Section], charts: Sequence[ChartData]
    ) -> None:
        """Show text and charts under a title."""
        self.caption.update(safe(f"{title}  ·  last {duration_text(self.window_s)}"))
        self.text.show(sections)
        self.reading.show(list(self.query(Chart)), charts)
        self.reading.align()

    def on_resize(self) -> None:
        """Show as many charts as fit; zooming shows the others."""
        self._arrange_charts()

    def _arrange_charts(self) -> None:
        charts = list(self.query(Chart))
        fitting_charts_count = max(1, (self.size.height - 4) // _MIN_CHART_LINES)
        for index, chart in enumerate(charts):
            chart.display = (
                index == self._zoomed_index
                if self._zoomed_index >= 0
                else index < fitting_charts_count
            )
        # After the refresh the charts know their new sizes.
        self.call_after_refresh(self.reading.align)

    def action_window(self) -> None:
        """Switch to the next longer window, after the longest to the shortest."""
        index = WINDOWS_S.index(self.window_s)
        self.window_s = WINDOWS_S[(index + 1) % len(WINDOWS_S)]
        self.refresh_state()

    def action_zoom(self) -> None:
        """Zoom into the next chart; after the last one show all."""
        charts = list(self.query(Chart))
        self._zoomed_index = self._zoomed_index + 1 if self._zoomed_index + 1 < len(charts) else -1
        self.reading.set_zoomed(self._zoomed_index >= 0)
        self.set_class(self.reading.is_zoomed, "-zoomed")
        self._arrange_charts()
        self.refresh_bindings()


class DetailScreen(ChartedScreen):
    """Details of a stream or consumer: subclasses find the row and provide its text and charts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "raw", "Raw", id="raw"),
        Binding("E", "export", "Export", show=False, id="export"),
    ]
    CHART_HELP: ClassVar[tuple[tuple[str, str], ...]] = (*_EVENT_MARK_HELP, *CHART_HELP)

    def __init__(self, stream: str, consumer: str | None = None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer

    def tab(self) -> str:
        """Return the mode of the tab that lists the stream or consumer."""
        return "consumers" if self.consumer else "streams"

    def asset(self) -> Target | None:
        """Return the stream or consumer on the screen."""
        return Target(self.stream, self.consumer)

    def content(self) -> tuple[Sequence[Section], Sequence[ChartData]] | None:
        """Return the text and charts of the current state; None if the row does not exist."""
        raise TypeError(f"{type(self).__name__} shows nothing")

    def refresh_state(self) -> None:
        """Show the newest state; after a deletion the last state stays, with a note."""
        title = self.stream + (f"  ›  {self.consumer}" if self.consumer else "")
        text_and_charts = self.content()
        if text_and_charts is None:
            is_polled = self.state.now_mono_us > 0
            note = "  · does not exist (any more)" if is_polled else "  ·  waiting for data"
            self.caption.update(safe(title + note, "error" if is_polled else ""))
            return
        self.show_detail(title, *text_and_charts)

    def action_raw(self) -> None:
        """Show the INFO response as the server sent it."""
        self.app.post_message(Open("raw", self.stream, self.consumer))

    def action_export(self) -> None:
        """Export the stream or consumer as flat tables."""
        if self.consumer is None:
            self.app.post_message(Export((self.stream,), ()))
        else:
            self.app.post_message(Export((), ((self.stream, self.consumer),)))
