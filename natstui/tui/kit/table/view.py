"""A big table that stays put: newer data moves neither the cursor off its row nor the view."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

from textual.geometry import Region
from textual.message import Message
from textual.timer import Timer

from natstui.tui.kit.table.lines import TableLines
from natstui.tui.kit.table.paint import Sort
from natstui.tui.kit.table.rows import RowSource, position_of
from natstui.tui.kit.table.widths import Column

_SETTLED_S = 0.2


class TableView(TableLines):
    """Lines with a cursor that belongs to a row key, not to a place."""

    _reported_key: Hashable | None = None
    _row = 0
    _moved_by_user = False

    @property
    def cursor_key(self) -> Hashable | None:
        """Return the key of the row under the cursor; None without rows."""
        order = self.source.order
        return self.source.key(order[self.cursor]) if self.cursor < len(order) else None

    def show(
        self, source: RowSource, *, sort: Sort | None = None, columns: Sequence[Column] = ()
    ) -> None:
        """Show newer data; marks and cursor stay with their rows, and the cursor on its line.

        Until the user moves it, the cursor stays on the first row. `columns` replaces them.
        """
        top = round(self.scroll_y)
        offset = self.cursor - top if 0 <= self.cursor - top < self.page else None
        found: int | None = 0
        if self._moved_by_user:
            found = position_of(source, self._reported_key, self.cursor, self._row)
        # The row is gone: the cursor keeps its place.
        position = self.cursor if found is None else found
        self.source = source
        self._cells.forget()
        self._adopt(sort, tuple(columns) or self.columns)
        self.resize_content()
        self._put(position)
        if offset is not None and self._moved_by_user:
            self.scroll_to(y=self.cursor - offset, animate=False, force=True)
        self.repaint_changed()
        self.visible_rows.look_soon(restart=False)

    @cached_property
    def visible_rows(self) -> VisibleRows:
        """The part that reports which rows are on the screen."""
        return VisibleRows(self)

    def move(self, position: int) -> None:
        """Put the cursor on a row of the order, as the user asks, and bring it into view."""
        self._moved_by_user = True
        self._put(position)
        top = round(self.scroll_y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + self.page:
            self.scroll_to(y=self.cursor - self.page + 1, animate=False, force=True)
        self.repaint_changed()

    def _adopt(self, sort: Sort | None, columns: tuple[Column, ...]) -> None:
        """Take over the sort arrow and other columns, and repaint what shows them."""
        if sort != self.sort:
            self.sort = sort
            self.refresh(Region(0, 0, self.size.width, 1))
        if columns != self.columns:
            self.columns = columns
            self._layout = None
            self.refresh()

    def _put(self, position: int) -> None:
        """Set the cursor within the rows, and report when it is on another row than before."""
        order = self.source.order
        self.cursor = max(0, min(position, len(order) - 1))
        key = self.cursor_key
        self._row = order[self.cursor] if key is not None else 0
        if key != self._reported_key:
            self._reported_key = key
            self.post_message(RowHighlighted(self, key))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows come into view."""
        super().watch_scroll_y(old_value, new_value)
        self.visible_rows.look_soon()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """The cursor looks different in the table that has the keys."""
        super().watch_has_focus(_has_focus)
        self._painter.forget()

    def on_resize(self) -> None:
        """Place the columns again and keep the cursor in view."""
        self.resize_content()
        top = round(self.scroll_y)
        if self._moved_by_user and top <= self.cursor and self.cursor >= top + self.page:
            self.scroll_to(y=self.cursor - self.page + 1, animate=False, force=True)
        self.visible_rows.look_soon()


class VisibleRows:
    """Reports which rows of a table are on the screen, once nothing has moved for a moment."""

    def __init__(self, table: TableView) -> None:
        self._table = table
        self._reported: tuple[Hashable, ...] = ()
        self._timer: Timer | None = None

    def look_soon(self, *, restart: bool = True) -> None:
        """Look after a moment; `restart` delays one that is planned already."""
        if not self._table.is_attached or (self._timer is not None and not restart):
            return
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._table.set_timer(_SETTLED_S, self._look)

    def _look(self) -> None:
        self._timer = None
        keys = self._keys()
        if keys != self._reported:
            self._reported = keys
            self._table.post_message(VisibleChanged(self._table, keys))

    def _keys(self) -> tuple[Hashable, ...]:
        """Return the keys of the rows on the screen, from the top."""
        top = round(self._table.scroll_y)
        order, key = self._table.source.order, self._table.source.key
        end = min(len(order), top + self._table.page)
        return tuple(key(order[at]) for at in range(top, end))


class TableMessage(Message, bubble=True, namespace="big_table"):
    """A message that knows its table, so that `@on(…, "#id")` works."""

    def __init__(self, table: TableView) -> None:
        super().__init__()
        self.table = table

    @property
    def control(self) -> TableView:
        """Return the table."""
        return self.table


class RowHighlighted(TableMessage, namespace="big_table"):
    """The cursor is on another row; `key` is None when there are no rows."""

    def __init__(self, table: TableView, key: Hashable | None) -> None:
        super().__init__(table)
        self.key = key


class RowSelected(TableMessage, namespace="big_table"):
    """The user opens a row: enter or a double click."""

    def __init__(self, table: TableView, key: Hashable) -> None:
        super().__init__(table)
        self.key = key


class HeaderSelected(TableMessage, namespace="big_table"):
    """The user wants the rows sorted by a column; again by the same one: the other way round."""

    def __init__(self, table: TableView, column_id: str) -> None:
        super().__init__(table)
        self.column_id = column_id


class MarksChanged(TableMessage, namespace="big_table"):
    """Rows were marked or unmarked; a key may belong to a row that is filtered out or gone."""

    def __init__(self, table: TableView, keys: frozenset[Hashable]) -> None:
        super().__init__(table)
        self.keys = keys


class VisibleChanged(TableMessage, namespace="big_table"):
    """Other rows are on the screen than before, and scrolling came to rest."""

    def __init__(self, table: TableView, keys: tuple[Hashable, ...]) -> None:
        super().__init__(table)
        self.keys = keys
