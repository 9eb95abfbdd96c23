"""One consumer in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from natstui.tui.consumers.detail_text import consumer_sections
from natstui.tui.frame.action_keys import Target, manage_keys
from natstui.tui.frame.action_runner import Managing
from natstui.tui.frame.charts import consumer_charts
from natstui.tui.frame.detail_screen import DetailScreen
from natstui.tui.frame.view import ConsumerView
from natstui.tui.kit.chart.chart import ChartData
from natstui.tui.kit.sections import Section


class ConsumerDetail(DetailScreen):
    """Status with evidence, state, cluster, configuration and charts of one consumer."""

    BINDINGS: ClassVar[list[BindingType]] = manage_keys("consumer")
    CHARTS: ClassVar[int] = 4

    def __init__(self, stream: str, consumer: str) -> None:
        super().__init__(stream, consumer)
        self.managing = Managing(self, self.targets)

    def content(self) -> tuple[Sequence[Section], Sequence[ChartData]] | None:
        """Return text and charts of the consumer with this name, if there is one."""
        view = ConsumerView(self.state, self.late_us, self.stream)
        for row in reversed(view.rows()):
            if view.columns.name[row] == self.consumer:
                sections = consumer_sections(view, row)
                return sections, consumer_charts(view, row, self.window_s)
        return None

    def targets(self) -> list[Target]:
        """Return the consumer shown."""
        view = ConsumerView(self.state, self.late_us, self.stream)
        rows = (row for row in reversed(view.rows()) if view.columns.name[row] == self.consumer)
        row = next(iter(rows), None)
        made = None if row is None else view.columns.created_at_us[row]
        return [Target(self.stream, self.consumer, made)]

    def on_mount(self) -> None:
        """Have it polled first."""
        self.watch_rows((self.stream,), ((self.stream, self.consumer or ""),))
