"""One stream in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.tui.frame.action_keys import Target, manage_keys
from natstui.tui.frame.action_runner import Managing
from natstui.tui.frame.charts import stream_charts
from natstui.tui.frame.detail_screen import DetailScreen
from natstui.tui.frame.messages import Open
from natstui.tui.frame.view import StreamView
from natstui.tui.kit.chart.chart import ChartData
from natstui.tui.kit.sections import Section
from natstui.tui.streams.detail_text import stream_sections


class StreamDetail(DetailScreen):
    """State, limits, cluster, configuration and charts of one stream."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "consumers", "Consumers", id="stream.consumers"),
        *manage_keys("stream"),
    ]

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.managing = Managing(self, self.targets)

    def content(self) -> tuple[Sequence[Section], Sequence[ChartData]] | None:
        """Return text and charts of the stream with this name, if there is one."""
        view = StreamView(self.state, self.late_us)
        rows = self.state.streams.roster.rows_of_stream.get(self.stream)
        if not rows:
            return None
        return stream_sections(view, rows[-1]), stream_charts(view, rows[-1], self.window_s)

    def targets(self) -> list[Target]:
        """Return the stream shown."""
        table = self.state.streams
        rows = table.roster.rows_of_stream.get(self.stream)
        made = table.columns.created_at_us[rows[-1]] if rows else None
        return [Target(self.stream, None, made)]

    def on_mount(self) -> None:
        """Have it polled first."""
        self.watch_rows((self.stream,), ())

    def action_consumers(self) -> None:
        """Go to the stream's consumers."""
        self.app.post_message(Open("consumers", self.stream))
