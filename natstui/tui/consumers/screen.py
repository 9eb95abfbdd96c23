"""Every consumer across all streams, or of one stream, live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.tui.consumers.cells import CONSUMER_COLUMNS
from natstui.tui.consumers.detail import consumer_brief
from natstui.tui.frame.action_keys import Target, manage_keys
from natstui.tui.frame.action_runner import Managing
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.detail.peek import Brief
from natstui.tui.frame.messages import Open
from natstui.tui.frame.selection import SelectionScreen
from natstui.tui.frame.view import ConsumerView
from natstui.tui.kit.table.view import RowSelected, VisibleChanged


class ConsumersScreen(SelectionScreen):
    """The consumers table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "open('consumer')", "Describe", id="describe"),
        Binding("y", "open('raw')", "Raw", id="raw"),
        *manage_keys("consumer"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = CONSUMER_COLUMNS
    NOUN = "consumers"
    START = Order("status", reverse=True)

    def __init__(self, stream: str | None = None) -> None:
        super().__init__()
        self.stream = stream
        self.managing = Managing(self, self.targets)

    def asset(self) -> Target | None:
        """Return the stream whose consumers are shown, if it is one."""
        return Target(self.stream) if self.stream is not None else None

    def view(self) -> ConsumerView:
        """Return the consumers of the present state."""
        return ConsumerView(self.state, self.late_us, self.stream)

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        text = super().caption_text(shown, total)
        return text if self.stream is None else f"{self.stream}  ›  {text}"

    @on(RowSelected)
    def _drill_down(self) -> None:
        self.action_open("consumer")

    def brief(self, view: ConsumerView, row: int) -> Brief:
        """Return what the panel tells of a row."""
        return consumer_brief(view, row)

    def targets(self) -> list[Target]:
        """Return the consumers that are marked, else the one under the cursor, else the stream."""
        keys = self.table.marks or {self.table.cursor_key}
        found = sorted(
            Target(str(key[0]), str(key[1]), int(key[2])) for key in keys if isinstance(key, tuple)
        )
        return found or ([Target(self.stream)] if self.stream else [])

    def action_open(self, what: str) -> None:
        """Go to what belongs to the consumer under the cursor."""
        if isinstance(key := self.table.cursor_key, tuple):
            self.app.post_message(Open(what, str(key[0]), str(key[1])))

    @on(VisibleChanged)
    def _watch(self, message: VisibleChanged) -> None:
        keys = [key for key in message.keys if isinstance(key, tuple)]
        self.watch_rows((), tuple((str(key[0]), str(key[1])) for key in keys))
