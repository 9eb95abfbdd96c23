"""Every stream, live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.tui.frame.action_keys import Target, manage_keys
from natstui.tui.frame.action_runner import Managing
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.detail.peek import Brief
from natstui.tui.frame.messages import Open
from natstui.tui.frame.selection import SelectionScreen
from natstui.tui.frame.view import StreamView
from natstui.tui.kit.table.view import RowSelected, VisibleChanged
from natstui.tui.streams.cells import STREAM_COLUMNS
from natstui.tui.streams.detail import stream_brief


class StreamsScreen(SelectionScreen):
    """The streams table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "open('stream')", "Describe", id="describe"),
        Binding("y", "open('raw')", "Raw", id="raw"),
        Binding("B", "open('bucket')", "Bucket", show=False, id="stream.bucket"),
        *manage_keys("stream"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = STREAM_COLUMNS
    NOUN = "streams"
    START = Order("name")

    def __init__(self) -> None:
        super().__init__()
        self.managing = Managing(self, self.targets)

    def view(self) -> StreamView:
        """Return the streams of the present state."""
        return StreamView(self.state, self.late_us)

    @on(RowSelected)
    def _drill_down(self) -> None:
        self.action_open("consumers")

    def brief(self, view: StreamView, row: int) -> Brief:
        """Return what the panel tells of a row."""
        return stream_brief(view, row)

    def targets(self) -> list[Target]:
        """Return the streams that are marked, else the one under the cursor."""
        keys = self.table.marks or {self.table.cursor_key}
        made = sorted((str(key[0]), int(key[1])) for key in keys if isinstance(key, tuple))
        return [Target(stream, None, created_at_us) for stream, created_at_us in made]

    def action_open(self, what: str) -> None:
        """Go to what belongs to the stream under the cursor."""
        if isinstance(key := self.table.cursor_key, tuple):
            self.app.post_message(Open(what, str(key[0])))

    @on(VisibleChanged)
    def _watch(self, message: VisibleChanged) -> None:
        self.watch_rows(tuple(str(key[0]) for key in message.keys if isinstance(key, tuple)), ())
