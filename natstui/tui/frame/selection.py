"""A table whose rows are streams or consumers: what is in view can be written to files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.tui.frame.messages import Export
from natstui.tui.frame.table_screen import TableScreen


class SelectionScreen(TableScreen):
    """Exports what is marked, else every row that the filter leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("E", "export", "Export", show=False, id="export"),
    ]

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
