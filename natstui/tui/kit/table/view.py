"""A big table that stays in place: newer data moves neither the cursor off its row nor the
view.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property, partial
from textwrap import wrap

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from natstui.defects import contained
from natstui.tui.kit.table.paint import Look, Painter, Sort
from natstui.tui.kit.table.rows import Cell, NoRows, RowSource, position_of
from natstui.tui.kit.table.widths import Column, Layout, place
from natstui.tui.kit.text import fit

_SETTLED_S = 0.2
_WHOLE = {"header", "cursor", "blurred", "hover", "marked"}
"""Looks of entire lines; other looks change only the text colour of a cell."""

_KEPT_ROWS = 1_000
"""Limit of cached rows: a user scrolls back to no more than these."""
_TOLD_AGAIN_S = 60.0
"""How long the error of a row that cannot be drawn is not reported again."""


class TableLines(ScrollView, can_focus=True):
    """Draws the titles and the rows in view."""

    ALLOW_SELECT = False

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        empty: str = "nothing to show",
        titles: bool = True,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """Create empty; with `titles`, the first line names the columns."""
        super().__init__(id=id, classes=classes)
        self.titles_lines = 1 if titles else 0
        """Lines above the first row."""
        self.columns = tuple(columns)
        self._empty = empty
        self.sort: Sort | None = None
        self.source: RowSource = NoRows()
        self.marks: set[Hashable] = set()
        self.cursor = 0
        """Position in the source's order."""
        self._hover: int | None = None
        self._painter = Painter(partial(_style_of, self))
        self._painted: dict[int, Look | None] = {}
        self._layout: tuple[int, Layout] | None = None
        self._cells: dict[int, Sequence[Cell]] = {}
        """The cells of the last drawn rows, until newer data comes."""

    @property
    def page(self) -> int:
        """Return how many rows fit below the titles."""
        return max(1, self.scrollable_content_region.height - self.titles_lines)

    @property
    def columns_now(self) -> Layout:
        """Return the layout of the columns at the current width."""
        width = self.scrollable_content_region.width
        if self._layout is None or self._layout[0] != width:
            self._layout = (width, place(self.columns, width))
        return self._layout[1]

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen: the titles, a row, or nothing."""
        scroll_x, width = round(self.scroll_x), self.scrollable_content_region.width
        if y < self.titles_lines:
            return self._painter.header(self.sort, self.columns_now, scroll_x, width)
        look = self._look(y)
        self._painted[y] = look
        if look is not None:
            return self._painter.row(look, self.columns_now, scroll_x, width)
        text = ""
        if not self.source.order:
            said = "loading …" if isinstance(self.source, NoRows) else self.empty
            first = min(2 * self.titles_lines, self.size.height - 1)
            text = _line_of(said, y - first, width)
        return Strip([Segment(fit(text, width), self._painter.style("row", "dim"))], width)

    @property
    def empty(self) -> str:
        """Return the text without rows; before the first source, that they are loading."""
        return self._empty

    @empty.setter
    def empty(self, text: str) -> None:
        if text != self._empty:
            self._empty = text
            # No row has changed, so nothing else would draw it.
            self.refresh()

    def _look(self, y: int) -> Look | None:
        """Return what line `y` shows now; None below the last row."""
        position = y - self.titles_lines + round(self.scroll_y)
        order = self.source.order
        if position >= len(order):
            return None
        row = order[position]
        is_marked = bool(self.marks) and self.source.key(row) in self.marks
        if row not in self._cells:
            self._cells[row] = [Cell("defect", "bad")] * len(self.columns)
            report = partial(self.notify, severity="error", timeout=15)
            with contained("showing a row", report, again_s=_TOLD_AGAIN_S):
                self._cells[row] = self.source.cells(row)
        return Look(self._cells[row], position == self.cursor, position == self._hover, is_marked)

    def repaint_changed(self) -> None:
        """Repaint only the lines that look different."""
        if len(self._cells) > _KEPT_ROWS:
            self._cells.clear()
        width = self.size.width
        for y in range(self.titles_lines, self.size.height):
            if y not in self._painted or self._look(y) != self._painted[y]:
                self.refresh(Region(0, y, width, 1))

    def resize_content(self) -> None:
        """Set the size of the scrollable content."""
        size = Size(self.columns_now.total_width, len(self.source.order) + self.titles_lines)
        if size != self.virtual_size:
            self.virtual_size = size

    def notify_style_update(self) -> None:
        """Clear the cached styles of the old theme."""
        super().notify_style_update()
        self._painter.forget()


def _line_of(text: str, line: int, width: int) -> str:
    """Return a line of the wrapped text that is shown without rows."""
    lines = wrap(text, max(1, width - 3))
    return "  " + lines[line] if 0 <= line < len(lines) else ""


def _style_of(table: Widget, look: str) -> Style:
    """Return the style of a component class of the table."""
    if look == "cursor" and not table.has_focus:
        look = "blurred"
    if look.startswith(("#", "on ")):
        return _coloured(look)
    name = f"big-table--{look}"
    if look == "row" or name not in table.COMPONENT_CLASSES:
        return table.rich_style if look == "row" else Style()
    style = table.get_component_rich_style(name)
    if look in _WHOLE:
        return style
    ink = None if look == "strong" else style.color
    return Style(color=ink, bold=style.bold or None, italic=style.italic or None)


def _coloured(look: str) -> Style:
    """Return the style of text in a colour, or of readable text on it."""
    colour = Color.parse(look.removeprefix("on "))
    if not look.startswith("on "):
        return Style(color=colour.rich_color)
    return Style(color=colour.get_contrast_text(1.0).rich_color, bgcolor=colour.rich_color)


class TableView(TableLines):
    """Lines with a cursor that follows a row key, not a position."""

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

        Marks of rows that are gone go with them. Until the user moves it, the cursor stays on the
        first row. `columns` replaces the columns.
        """
        top = round(self.scroll_y)
        offset = self.cursor - top if 0 <= self.cursor - top < self.page else None
        found: int | None = 0
        if self._moved_by_user:
            found = position_of(source, self._reported_key, self.cursor, self._row)
        # The row is gone: the cursor keeps its place.
        position = self.cursor if found is None else found
        self.source = source
        self.marks -= self._gone_marks()
        self._cells.clear()
        self._adopt(sort, tuple(columns) or self.columns)
        self.resize_content()
        self._put(position)
        if offset is not None and self._moved_by_user:
            self.scroll_to(y=self.cursor - offset, animate=False, force=True)
        self.repaint_changed()
        self.visible_rows.look_soon(restart=False)

    def _gone_marks(self) -> set[Hashable]:
        """Return the marks of rows that do not exist any more: nothing would show them."""
        gone = set(self.marks)
        for row in range(len(self.source)):
            if not gone:
                break
            gone.discard(self.source.key(row))
        return gone

    @cached_property
    def visible_rows(self) -> VisibleRows:
        """Return the part that reports which rows are visible."""
        return VisibleRows(self)

    def move(self, position: int) -> None:
        """Move the cursor to a position, as the user requests, and scroll it into view."""
        self._moved_by_user = True
        self._put(position)
        top = round(self.scroll_y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + self.page:
            self.scroll_to(y=self.cursor - self.page + 1, animate=False, force=True)
        self.repaint_changed()

    def _adopt(self, sort: Sort | None, columns: tuple[Column, ...]) -> None:
        """Set the sort arrow and other columns, and repaint what shows them."""
        if sort != self.sort:
            self.sort = sort
            self.refresh(Region(0, 0, self.size.width, 1))
        if columns != self.columns:
            self.columns = columns
            self._layout = None
            self.refresh()

    def _put(self, position: int) -> None:
        """Set the cursor within the rows, and post a message when its row has changed."""
        order = self.source.order
        self.cursor = max(0, min(position, len(order) - 1))
        key = self.cursor_key
        self._row = order[self.cursor] if key is not None else 0
        if key != self._reported_key:
            self._reported_key = key
            self.post_message(RowHighlighted(self, key))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that other rows come into view."""
        super().watch_scroll_y(old_value, new_value)
        self.visible_rows.look_soon()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Repaint the cursor, which looks different with the focus."""
        super().watch_has_focus(_has_focus)
        self._painter.forget()

    def on_resize(self) -> None:
        """Lay out the columns again and keep the cursor in view."""
        self.resize_content()
        top = round(self.scroll_y)
        if self._moved_by_user and top <= self.cursor and self.cursor >= top + self.page:
            self.scroll_to(y=self.cursor - self.page + 1, animate=False, force=True)
        self.visible_rows.look_soon()


class VisibleRows:
    """Reports which rows of a table are visible, after a moment without movement."""

    def __init__(self, table: TableView) -> None:
        self._table = table
        self._reported: tuple[Hashable, ...] = ()
        self._timer: Timer | None = None

    def look_soon(self, *, restart: bool = True) -> None:
        """Check the visible rows after a moment; `restart` delays a planned check."""
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
        """Return the keys of the visible rows, from the top."""
        top = round(self._table.scroll_y)
        order, key = self._table.source.order, self._table.source.key
        end = min(len(order), top + self._table.page)
        return tuple(key(order[position]) for position in range(top, end))


class TableMessage(Message, bubble=True, namespace="big_table"):
    """A message that has its table as `control`, so that `@on(…, "#id")` works."""

    def __init__(self, table: TableView) -> None:
        super().__init__()
        self.table = table

    @property
    def control(self) -> TableView:
        """Return the table."""
        return self.table


class RowHighlighted(TableMessage, namespace="big_table"):
    """The cursor moved to another row; `key` is None when there are no rows."""

    def __init__(self, table: TableView, key: Hashable | None) -> None:
        super().__init__(table)
        self.key = key


class RowSelected(TableMessage, namespace="big_table"):
    """The user opens a row: enter or a double click."""

    def __init__(self, table: TableView, key: Hashable) -> None:
        super().__init__(table)
        self.key = key


class HeaderSelected(TableMessage, namespace="big_table"):
    """The user sorts by a column; the same column again reverses the direction."""

    def __init__(self, table: TableView, column_id: str) -> None:
        super().__init__(table)
        self.column_id = column_id


class MarksChanged(TableMessage, namespace="big_table"):
    """The user has changed marks; a key may belong to a row that is filtered out."""

    def __init__(self, table: TableView, keys: frozenset[Hashable]) -> None:
        super().__init__(table)
        self.keys = keys


class VisibleChanged(TableMessage, namespace="big_table"):
    """Other rows are visible than before, and scrolling has stopped."""

    def __init__(self, table: TableView, keys: tuple[Hashable, ...]) -> None:
        super().__init__(table)
        self.keys = keys
