"""A table of streams or consumers, whose rows can be exported."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.widget import Widget

from natstui.tui.frame.detail.peek import Brief, Peek, WithPeek
from natstui.tui.frame.live import LiveScreen, watch_rows
from natstui.tui.frame.messages import Export, Open
from natstui.tui.frame.systems import own_key, system_of, systems_of
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.big_table import BigTable

_AWAY_COUNT = 5
"""Limit of names without a row that are shown."""


def acted_on(screen: TableScreen) -> list[tuple[Any, ...]]:
    """Return the identities of the marked rows, else of the one under the cursor."""
    return [key for key in map(own_key, meant_rows(screen)) if key is not None]


def meant_rows(screen: TableScreen) -> Iterable[object]:
    """Return the keys of the marked rows, else of the one under the cursor."""
    # The panel that holds the table makes it a moment after the screen is there.
    table = next(iter(screen.query(BigTable)), None)
    if table is None:
        return ()
    return table.marks or {table.cursor_key}


def open_of_row(screen: TableScreen, message: Open) -> None:
    """Post a message that opens the row under the cursor, on its own system, ignoring marks."""
    message.system = system_of(screen.table.cursor_key)
    screen.app.post_message(message)


def watch_shown(screen: LiveScreen, keys: Iterable[Hashable]) -> None:
    """Request that each engine polls the rows in view of its system first."""
    names = [system.name for system in screen.where.systems] if screen.where.joins else []
    by_system: dict[str | None, list[object]] = {name: [] for name in names}
    for key in keys:
        by_system.setdefault(system_of(key), []).append(own_key(key))
    for system, system_keys in by_system.items():
        watch_rows(screen, *selected(system_keys, ()), system=system)


def away_text(names: Collection[str]) -> str:
    """Return the suffix of a table's caption: some names without a row, and their count."""
    if not names:
        return ""
    names_text = ", ".join(sorted(names)[:_AWAY_COUNT]) + (
        ", …" if len(names) > _AWAY_COUNT else ""
    )
    return f"  ·  {len(names)} not reachable: {names_text}"


class CreatedRow(NamedTuple):
    """A stream or consumer that was just created, and the row of the cursor then."""

    names: tuple[str, ...]
    system: str
    from_key: Hashable

    def is_over(self, table: BigTable, view: Any, in_order: Sequence[int]) -> bool:
        """Move the cursor to the new row if it exists; return whether it did, or the user moved
        on.
        """
        if table.cursor_key != self.from_key:
            return True
        positions = (index for index, row in enumerate(in_order) if self._fits(view.key(row)))
        position = next(positions, None)
        if position is not None:
            table.move(position)
        return position is not None

    def _fits(self, key: Hashable) -> bool:
        row_key = own_key(key)
        is_same_system = system_of(key) in (None, self.system)
        return is_same_system and row_key is not None and row_key[:-1] == self.names


class SelectionScreen(TableScreen):
    """A table with a panel for the row under the cursor; exports marked rows, else all in view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "part('panel', 'next')", "Panel", show=False, id="peek"),
        Binding("E", "export", "Export", show=False, id="export"),
    ]
    OF_A_ROW: ClassVar[frozenset[str]] = frozenset({"open", "export"})

    panel: WithPeek

    def __init__(self) -> None:
        super().__init__()
        self.where.meant = lambda: meant_rows(self)
        self.sought: CreatedRow | None = None

    def body(self) -> Iterable[Widget]:
        """Yield a caption line, the table, and the panel below or beside it."""
        caption, table = super().body()
        assert isinstance(table, BigTable)
        self.panel = WithPeek(table, Peek(), self.brief)
        yield caption
        yield self.panel

    def brief(self, view: Any, row: int) -> Brief:
        """Return the content of the panel for a row."""
        raise TypeError(f"{type(self).__name__} tells of no row")

    def _show(self, view: Any, in_order: Sequence[int]) -> None:
        super()._show(view, in_order)
        if self.sought is not None and self.sought.is_over(self.table, view, in_order):
            self.sought = None
        self.panel.tell()

    def action_export(self) -> None:
        """Export the marked rows, else all in view, as flat tables."""
        rows = self.rows
        row_keys = [rows.key(row) for row in rows.order] if rows is not None else []
        if len(names := systems_of(self.table.marks or row_keys)) > 1:
            text = f"rows of {' and '.join(names)} are marked: mark rows of one system only"
            self.notify(text, severity="warning", markup=False)
            return
        streams, consumers = selected(row_keys, self.table.marks)
        if streams or consumers:
            self.app.post_message(Export(streams, consumers))
        else:
            self.notify("there is nothing in view to export", severity="warning", timeout=2)


def selected(
    in_view: Iterable[object], marks: Iterable[object]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the streams and consumers among keys of rows: the marked ones, else all in view."""
    keys = [key for key in map(own_key, set(marks) or in_view) if key is not None]
    streams = sorted(str(key[0]) for key in keys if len(key) == 2)
    consumers = sorted((str(key[0]), str(key[1])) for key in keys if len(key) == 3)
    return tuple(streams), tuple(consumers)
