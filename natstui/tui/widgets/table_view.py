"""A big table that stays put: newer data moves neither the cursor off its row nor the view."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from textual.geometry import Region
from textual.timer import Timer

from natstui.tui.widgets import table_messages as messages
from natstui.tui.widgets.columns import Column
from natstui.tui.widgets.rows import RowSource, position_of
from natstui.tui.widgets.table_lines import TableLines
from natstui.tui.widgets.table_paint import Sort

_SETTLED_S = 0.2


class TableView(TableLines):
    """Lines with a cursor that belongs to a row key, not to a place."""

    _told_key: Hashable | None = None
    _told_visible: tuple[Hashable, ...] = ()
    _row = 0
    _moved_by_user = False
    _settling: Timer | None = None

    @property
    def cursor_key(self) -> Hashable | None:
        """Return the key of the row under the cursor; None without rows."""
        order = self.source.order
        return self.source.key(order[self.cursor]) if self.cursor < len(order) else None

    @property
    def visible_keys(self) -> tuple[Hashable, ...]:
        """Return the keys of the rows on the screen, from the top."""
        top = round(self.scroll_y)
        order, key = self.source.order, self.source.key
        return tuple(key(order[at]) for at in range(top, min(len(order), top + self.page)))

    def show(
        self, source: RowSource, *, sort: Sort | None = None, columns: Sequence[Column] = ()
    ) -> None:
        """Show newer data; marks and cursor stay with their rows, and the cursor on its line.

        Until the user moves it, the cursor stays on the first row. `columns` replaces them.
        """
        top = round(self.scroll_y)
        offset = self.cursor - top if 0 <= self.cursor - top < self.page else None
        position = self._next_position(source)
        self.source = source
        self._cells.clear()
        self._adopt(sort, tuple(columns) or self.columns)
        self.resize_content()
        self._put(position)
        if offset is not None and self._moved_by_user:
            self.scroll_to(y=self.cursor - offset, animate=False, force=True)
        self.repaint_changed()
        if self._settling is None:
            self._settle()

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

    def _next_position(self, source: RowSource) -> int:
        """Return where the cursor's row is in a newer source; its old place if it is gone."""
        if not self._moved_by_user:
            return 0
        found = position_of(source, self._told_key, self.cursor, self._row)
        return self.cursor if found is None else found

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
        """Set the cursor within the rows, and tell when it is on another row than before."""
        order = self.source.order
        self.cursor = max(0, min(position, len(order) - 1))
        key = self.cursor_key
        self._row = order[self.cursor] if key is not None else 0
        if key != self._told_key:
            self._told_key = key
            self.post_message(messages.RowHighlighted(self, key))

    def _settle(self) -> None:
        """Tell which rows are visible once nothing has moved for a moment."""
        if self.is_attached:
            if self._settling is not None:
                self._settling.stop()
            self._settling = self.set_timer(_SETTLED_S, self._tell_visible)

    def _tell_visible(self) -> None:
        """Post the visible keys if they are others than those told last."""
        self._settling = None
        keys = self.visible_keys
        if keys != self._told_visible:
            self._told_visible = keys
            self.post_message(messages.VisibleChanged(self, keys))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows come into view."""
        super().watch_scroll_y(old_value, new_value)
        self._settle()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """The cursor looks different in the table that has the keys."""
        super().watch_has_focus(_has_focus)
        self._painter.forget()

    def on_resize(self) -> None:
        """Place the columns anew and keep the cursor in view."""
        self.resize_content()
        top = round(self.scroll_y)
        if self._moved_by_user and top <= self.cursor and self.cursor >= top + self.page:
            self.scroll_to(y=self.cursor - self.page + 1, animate=False, force=True)
        self._settle()
