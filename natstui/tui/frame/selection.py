"""A table whose rows are streams or consumers: what is in view can be written to files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from natstui.tui.frame.detail.charts import plotter_of
from natstui.tui.frame.detail.peek import Brief, Peek, WithPeek
from natstui.tui.frame.messages import Export
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.big_table import BigTable


class SelectionScreen(TableScreen):
    """Tells of the row under the cursor; exports what is marked, else every row in view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "part('panel', 'next')", "Panel", show=False, id="peek"),
        Binding("E", "export", "Export", show=False, id="export"),
    ]

    panel: WithPeek

    def body(self) -> Iterable[Widget]:
        """A caption line, the table, and the row under the cursor below or beside it."""
        caption, table = super().body()
        assert isinstance(table, BigTable)
        self.panel = WithPeek(table, Peek(plotter_of(self)), self.brief)
        yield caption
        yield self.panel

    def brief(self, view: Any, row: int) -> Brief:
        """Return what the panel tells of a row."""
        raise TypeError(f"{type(self).__name__} tells of no row")

    def _show(self, view: Any, in_order: Sequence[int]) -> None:
        super()._show(view, in_order)
        self.panel.tell()

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
