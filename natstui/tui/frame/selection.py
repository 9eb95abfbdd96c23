"""A table whose rows are streams or consumers: what is in view can be written to files."""

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
"""So many names of which there is no row are shown."""


def acted_on(screen: TableScreen) -> list[tuple[Any, ...]]:
    """Return the identities of the rows that are marked, else of the one under the cursor."""
    return [key for key in map(own_key, meant_rows(screen)) if key is not None]


def meant_rows(screen: TableScreen) -> Iterable[object]:
    """Return the keys of the rows that are marked, else of the one under the cursor."""
    # The panel that holds the table makes it a moment after the screen is there.
    table = next(iter(screen.query(BigTable)), None)
    if table is None:
        return ()
    return table.marks or {table.cursor_key}


def open_of_row(screen: TableScreen, message: Open) -> None:
    """Go where the row under the cursor leads, on its own system, whatever is marked."""
    message.system = system_of(screen.table.cursor_key)
    screen.app.post_message(message)


def watch_shown(screen: LiveScreen, keys: Iterable[Hashable]) -> None:
    """Ask each engine to poll first what is in view of its system."""
    names = [one.name for one in screen.where.systems] if screen.where.joins else []
    by_system: dict[str | None, list[object]] = {name: [] for name in names}
    for key in keys:
        by_system.setdefault(system_of(key), []).append(own_key(key))
    for system, own in by_system.items():
        watch_rows(screen, *selected(own, ()), system=system)


def away_text(names: Collection[str]) -> str:
    """Return what follows the caption of a table: some names without a row, and how many."""
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:_AWAY_COUNT]) + (", …" if len(names) > _AWAY_COUNT else "")
    return f"  ·  {len(names)} not reachable: {shown}"


class CreatedRow(NamedTuple):
    """What was just made, and where the cursor was then."""

    names: tuple[str, ...]
    system: str
    from_key: Hashable

    def is_over(self, table: BigTable, view: Any, in_order: Sequence[int]) -> bool:
        """Put the cursor on it when it is there; tell whether it was, or the user went on."""
        if table.cursor_key != self.from_key:
            return True
        found = (at for at, row in enumerate(in_order) if self._fits(view.key(row)))
        position = next(found, None)
        if position is not None:
            table.move(position)
        return position is not None

    def _fits(self, key: Hashable) -> bool:
        own = own_key(key)
        is_there = system_of(key) in (None, self.system)
        return is_there and own is not None and own[:-1] == self.names


class SelectionScreen(TableScreen):
    """Tells of the row under the cursor; exports what is marked, else every row in view."""

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
        """A caption line, the table, and the row under the cursor below or beside it."""
        caption, table = super().body()
        assert isinstance(table, BigTable)
        self.panel = WithPeek(table, Peek(), self.brief)
        yield caption
        yield self.panel

    def brief(self, view: Any, row: int) -> Brief:
        """Return what the panel tells of a row."""
        raise TypeError(f"{type(self).__name__} tells of no row")

    def _show(self, view: Any, in_order: Sequence[int]) -> None:
        super()._show(view, in_order)
        if self.sought is not None and self.sought.is_over(self.table, view, in_order):
            self.sought = None
        self.panel.tell()

    def action_export(self) -> None:
        """Write what is marked, else every row in view, as flat tables."""
        rows = self.rows
        every = [rows.key(row) for row in rows.order] if rows is not None else []
        if len(names := systems_of(self.table.marks or every)) > 1:
            text = f"rows of {' and '.join(names)} are marked: mark rows of one system only"
            self.notify(text, severity="warning", markup=False)
            return
        streams, consumers = selected(every, self.table.marks)
        if streams or consumers:
            self.app.post_message(Export(streams, consumers))
        else:
            self.notify("there is nothing in view to export", severity="warning", timeout=2)


def selected(
    in_view: Iterable[object], marks: Iterable[object]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return streams and consumers among keys of rows: those marked, else all in view."""
    keys = [key for key in map(own_key, set(marks) or in_view) if key is not None]
    streams = sorted(str(key[0]) for key in keys if len(key) == 2)
    consumers = sorted((str(key[0]), str(key[1])) for key in keys if len(key) == 3)
    return tuple(streams), tuple(consumers)
