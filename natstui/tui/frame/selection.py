"""A table whose rows are streams or consumers: what is in view can be written to files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from natstui.tui.frame.detail.charts import plotter_of
from natstui.tui.frame.detail.peek import Brief, Peek
from natstui.tui.frame.messages import Export
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.view import RowHighlighted


class SelectionScreen(TableScreen):
    """Tells of the row under the cursor; exports what is marked, else every row in view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "peek", "Panel: off, below, beside", show=False, id="peek"),
        Binding("E", "export", "Export", show=False, id="export"),
    ]
    DEFAULT_CSS = """
    SelectionScreen #rows { height: 1fr; layout: vertical; }
    SelectionScreen #rows.-beside { layout: horizontal; }
    SelectionScreen #rows > BigTable { width: 1fr; height: 1fr; }
    """

    around = getters.query_one("#rows", Container)
    peek = getters.query_one(Peek)

    def body(self) -> Iterable[Widget]:
        """A caption line, the table, and the row under the cursor below or beside it."""
        caption, table = super().body()
        yield caption
        yield Container(table, Peek(plotter_of(self)), id="rows")

    def brief(self, view: Any, row: int) -> Brief:
        """Return what the panel tells of a row."""
        raise TypeError(f"{type(self).__name__} tells of no row")

    def on_resize(self) -> None:
        """Give the panel another place where there is other room."""
        # The room is known once everything has its size.
        self.call_after_refresh(self._tell)

    def _show(self, view: Any, in_order: Sequence[int]) -> None:
        super()._show(view, in_order)
        self._tell()

    @on(RowHighlighted)
    def _tell(self) -> None:
        """Tell of the row under the cursor, where there is room."""
        rows, at = self.rows, self.table.cursor
        count = len(rows.order) if rows is not None else 0
        place = self.peek.settle(self.around.size, count)
        self.around.set_class(place == "beside", "-beside")
        if rows is not None and place != "none":
            self.peek.tell(self.brief(rows.view, rows.order[min(at, count - 1)]))

    def action_peek(self) -> None:
        """Put the panel elsewhere: off, below, beside."""
        self.peek.choose_next()
        self._tell()
        if self.peek.chosen not in (None, self.peek.place):
            self.notify(f"no room for the panel {self.peek.chosen} the table", timeout=3)

    def action_export(self) -> None:
        """Write what is marked, else every row in view, as flat tables."""
        rows = self.rows
        in_view = [rows.key(row) for row in rows.order] if rows is not None else []
        streams, consumers = selected(in_view, self.table.marks)
        if streams or consumers:
            self.app.post_message(Export(streams, consumers))
        else:
            self.notify("there is nothing in view to export", severity="warning", timeout=2)


def selected(
    in_view: Iterable[object], marks: Iterable[object]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return streams and consumers among keys of rows: those marked, else all in view."""
    keys = [key for key in (set(marks) or in_view) if isinstance(key, tuple)]
    streams = sorted(str(key[0]) for key in keys if len(key) == 2)
    consumers = sorted((str(key[0]), str(key[1])) for key in keys if len(key) == 3)
    return tuple(streams), tuple(consumers)
