"""A screen about one thing: text at the left, live charts at the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.live.history import WINDOWS_S
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.detail.reading import ChartReading
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Export, Open
from natstui.tui.kit.chart.chart import Chart, ChartData
from natstui.tui.kit.chart.frame import EVENT_MARK
from natstui.tui.kit.sections import Section, SectionText
from natstui.tui.kit.text import safe
from natstui.units import duration_text

CHART_HELP = (
    (
        "▂▂▂ ⠤⠤⠤",
        "The first series is an area, the others are lines; a series that is always zero has "
        "no line.",
    ),
)
"""What the marks on a chart mean: mark, explanation."""
_EVENT_HELP = (
    (EVENT_MARK,
        "An advisory arrived in this second: a nak, a message dropped or terminated, an "
        "election. The events screen (`3`) lists each one."),
)  # fmt: skip
_CHART_LINES = 8
"""Lines a chart needs to say something."""


class ChartedScreen(LiveScreen):
    """Text beside live charts of one thing; subclasses give both."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "window", "Window", id="chart.window"),
        Binding("z", "zoom", "Zoom chart", id="chart.zoom"),
        *ChartReading.BINDINGS,
    ]
    CHARTS: ClassVar[int] = 3
    CHART_HELP: ClassVar[tuple[tuple[str, str], ...]] = CHART_HELP

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def __init__(self) -> None:
        super().__init__()
        self.window_s = WINDOWS_S[0]
        self._zoomed = -1
        self.reading = ChartReading(self, self.refresh_state)

    def body(self) -> Iterable[Widget]:
        """Caption, then text beside charts."""
        yield Static(id="caption", markup=False)
        with Horizontal(id="detail"):
            sections = VerticalScroll(SectionText(), id="sections")
            sections.border_title = "Now"
            yield sections
            yield Vertical(*(Chart() for _ in range(self.CHARTS)), id="charts")

    def show_detail(
        self, title: str, sections: Sequence[Section], charts: Sequence[ChartData]
    ) -> None:
        """Show text and charts under a title."""
        self.caption.update(safe(f"{title}  ·  last {duration_text(self.window_s)}"))
        self.text.show(sections)
        self.reading.show(list(self.query(Chart)), charts)
        self.reading.align()

    def on_resize(self) -> None:
        """Show as many charts as have room for their axes; zooming reaches the others."""
        self._arrange_charts()

    def _arrange_charts(self) -> None:
        charts = list(self.query(Chart))
        fitting = max(1, (self.size.height - 4) // _CHART_LINES)
        for at, chart in enumerate(charts):
            chart.display = at == self._zoomed if self._zoomed >= 0 else at < fitting
        # They know their new sizes then.
        self.call_after_refresh(self.reading.align)

    def action_window(self) -> None:
        """Show the next longer window, then the shortest again."""
        at = WINDOWS_S.index(self.window_s)
        self.window_s = WINDOWS_S[(at + 1) % len(WINDOWS_S)]
        self.refresh_state()

    def action_zoom(self) -> None:
        """Show one chart after the other in full size, then all again."""
        charts = list(self.query(Chart))
        self._zoomed = self._zoomed + 1 if self._zoomed + 1 < len(charts) else -1
        self.reading.zoom(self._zoomed >= 0)
        self.set_class(self.reading.is_zoomed, "-zoomed")
        self._arrange_charts()
        self.refresh_bindings()


class DetailScreen(ChartedScreen):
    """A stream or consumer: subclasses find the row and give its text and charts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "raw", "Raw", id="raw"),
        Binding("E", "export", "Export", show=False, id="export"),
    ]
    CHART_HELP: ClassVar[tuple[tuple[str, str], ...]] = (*_EVENT_HELP, *CHART_HELP)

    def __init__(self, stream: str, consumer: str | None = None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer

    def tab(self) -> str:
        """Return the list that has the stream or consumer shown."""
        return "consumers" if self.consumer else "streams"

    def asset(self) -> Target | None:
        """Return the stream or consumer shown."""
        return Target(self.stream, self.consumer)

    def content(self) -> tuple[Sequence[Section], Sequence[ChartData]] | None:
        """Return text and charts of the present state; None when it is gone."""
        raise TypeError(f"{type(self).__name__} shows nothing")

    def refresh_state(self) -> None:
        """Show the newer state; what is gone keeps its last text and says so."""
        title = self.stream + (f"  ›  {self.consumer}" if self.consumer else "")
        found = self.content()
        if found is None:
            known = self.state.now_mono_us > 0
            gone = "  · does not exist (any more)" if known else "  ·  waiting for data"
            self.caption.update(safe(title + gone, "error" if known else ""))
            return
        self.show_detail(title, *found)

    def action_raw(self) -> None:
        """Show the INFO as the server writes it."""
        self.app.post_message(Open("raw", self.stream, self.consumer))

    def action_export(self) -> None:
        """Write the one shown as flat tables."""
        if self.consumer is None:
            self.app.post_message(Export((self.stream,), ()))
        else:
            self.app.post_message(Export((), ((self.stream, self.consumer),)))
