"""Tables of streams or consumers: their marked rows, panel and export."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.widget import Widget

from natstui.tui.frame.detail.peek import Peek, PeekContent, TableWithPeek
from natstui.tui.frame.live import LiveScreen, poll_rows_first
from natstui.tui.frame.messages import Export, Open
from natstui.tui.frame.systems import key_without_system, system_of, systems_of
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.big_table import BigTable

_MAX_UNREACHABLE_NAMES = 5
"""Maximum number of names of unreachable streams or consumers that are shown."""


def find_target_assets(screen: TableScreen, *, only_cursor: bool = False) -> list[tuple[Any, ...]]:
    """Return the keys of the marked rows, else of the row under the cursor, without systems.

    With `only_cursor`, marks are ignored.
    """
    keys = find_target_keys(screen, only_cursor=only_cursor)
    return [key for key in map(key_without_system, keys) if key is not None]


def find_target_keys(screen: TableScreen, *, only_cursor: bool = False) -> Iterable[object]:
    """Return the keys of the marked rows, else of the row under the cursor.

    With `only_cursor`, marks are ignored.
    """
    # The table's panel creates the table a moment after the screen.
    table = next(iter(screen.query(BigTable)), None)
    if table is None:
        return ()
    return {table.cursor_key} if only_cursor or not table.marks else table.marks


def post_for_row(screen: TableScreen, message: Open) -> None:
    """Post a message for the row under the cursor, not for marked rows, with the row's system."""
    message.system = system_of(screen.table.cursor_key)
    screen.app.post_message(message)


def poll_visible_rows_first(screen: LiveScreen, keys: Iterable[Hashable]) -> None:
    """Request that the engine of each system polls first the system's rows among `keys`."""
    names = screen.scope.systems if screen.scope.is_joined else {}
    keys_by_system: dict[str | None, list[object]] = {name: [] for name in names}
    for key in keys:
        keys_by_system.setdefault(system_of(key), []).append(key_without_system(key))
    for system, system_keys in keys_by_system.items():
        poll_rows_first(screen, *select_assets(system_keys, ()), system=system)


def unreachable_text(names: Collection[str]) -> str:
    """Return the suffix of a table's caption with the count of unreachable names and some of
    them, else an empty text.
    """
    if not names:
        return ""
    names_text = ", ".join(sorted(names)[:_MAX_UNREACHABLE_NAMES]) + (
        ", …" if len(names) > _MAX_UNREACHABLE_NAMES else ""
    )
    return f"  ·  {len(names)} not reachable: {names_text}"


class CreatedRow(NamedTuple):
    """A stream or consumer that was just created, and the key under the cursor at that time."""

    names: tuple[str, ...]
    system: str
    cursor_key_before: Hashable

    def move_cursor(self, table: BigTable, view: Any, row_order: Sequence[int]) -> bool:
        """Move the cursor to the new row if the row exists.

        Returns True if the row exists or the user has moved the cursor: nothing is left to do.
        """
        if table.cursor_key != self.cursor_key_before:
            return True
        positions = (
            index for index, row in enumerate(row_order) if self._is_created_row(view.key(row))
        )
        position = next(positions, None)
        if position is not None:
            table.move(position)
        return position is not None

    def _is_created_row(self, key: Hashable) -> bool:
        row_key = key_without_system(key)
        is_same_system = system_of(key) in (None, self.system)
        return is_same_system and row_key is not None and row_key[:-1] == self.names


class SelectionScreen(TableScreen):
    """A table with a panel for the row under the cursor; exports marked rows, else all in view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "part('panel', 'next')", "Panel", show=False, id="peek"),
        Binding("E", "export", "Export", show=False, id="export"),
    ]
    ROW_ACTIONS: ClassVar[frozenset[str]] = frozenset({"open", "export"})

    panel: TableWithPeek

    def __init__(self) -> None:
        super().__init__()
        self.scope.get_target_keys = lambda: find_target_keys(self)
        self.row_to_find: CreatedRow | None = None

    def body(self) -> Iterable[Widget]:
        """Yield a caption line, the table, and the panel below or beside it."""
        caption, table = super().body()
        assert isinstance(table, BigTable)
        self.panel = TableWithPeek(table, Peek(), self.peek_content)
        yield caption
        yield self.panel

    def peek_content(self, view: Any, row: int) -> PeekContent:
        """Return the content of the panel beside the table for a row."""
        raise TypeError(f"{type(self).__name__} has no panel content")

    def _show(self, view: Any, row_order: Sequence[int]) -> None:
        super()._show(view, row_order)
        if self.row_to_find is not None and self.row_to_find.move_cursor(
            self.table, view, row_order
        ):
            self.row_to_find = None
        self.panel.update_peek()

    def action_export(self) -> None:
        """Export the marked rows, else all in view, as flat tables."""
        rows = self.rows
        row_keys = [rows.key(row) for row in rows.order] if rows is not None else []
        if len(names := systems_of(self.table.marks or row_keys)) > 1:
            text = f"rows of {' and '.join(names)} are marked: mark rows of one system only"
            self.notify(text, severity="warning", markup=False)
            return
        streams, consumers = select_assets(row_keys, self.table.marks)
        if streams or consumers:
            self.app.post_message(Export(streams, consumers))
        else:
            self.notify("there is nothing in view to export", severity="warning", timeout=2)


def select_assets(
    visible_keys: Iterable[object], marked_keys: Iterable[object]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the streams, and the consumers, of the marked rows, else of the rows in view."""
    keys = [
        key for key in map(key_without_system, set(marked_keys) or visible_keys) if key is not None
    ]
    streams = sorted(str(key[0]) for key in keys if len(key) == 2)
    consumers = sorted((str(key[0]), str(key[1])) for key in keys if len(key) == 3)
    return tuple(streams), tuple(consumers)
