"""A table whose cursor and view stay on their rows when newer data is shown."""

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

from natstui.defects import report_defects
from natstui.tui.kit.table.paint import Painter, RowAppearance, Sort
from natstui.tui.kit.table.rows import Cell, EmptyRowSource, RowSource, find_position
from natstui.tui.kit.table.widths import ColumnLayout, Layout, compute_layout
from natstui.tui.kit.text import fit

_VISIBLE_ROWS_REPORT_DELAY_S = 0.2
_LINE_STYLE_NAMES = {"header", "cursor", "blurred", "hover", "marked"}
"""Styles of entire lines; other styles change only the text colour of a cell."""

_MAX_CACHED_ROWS = 1_000
"""Maximum number of rows whose cells are cached, for scrolling back."""
_DEFECT_REPORT_INTERVAL_S = 60.0
"""Minimum time between two reports of a row that cannot be drawn."""


class TableLines(ScrollView, can_focus=True):
    """Draws the titles and the rows in view."""

    ALLOW_SELECT = False

    def __init__(
        self,
        columns: Sequence[ColumnLayout],
        *,
        empty: str = "nothing to show",
        titles: bool = True,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """Create without rows, with the text `empty` instead; with `titles`, the first line names
        the columns.
        """
        super().__init__(id=id, classes=classes)
        self.title_lines = 1 if titles else 0
        """Number of lines above the first row."""
        self.columns = tuple(columns)
        self._empty = empty
        self.sort: Sort | None = None
        self.source: RowSource = EmptyRowSource()
        self.marks: set[Hashable] = set()
        self.cursor = 0
        """Position of the cursor in the source's order."""
        self._hovered_position: int | None = None
        self._painter = Painter(partial(_style_of, self))
        self._painted_appearances: dict[int, RowAppearance | None] = {}
        self._width_and_layout: tuple[int, Layout] | None = None
        self._cells: dict[int, Sequence[Cell]] = {}
        """The cells of drawn rows by row number, until newer data is shown."""

    @property
    def rows_per_page(self) -> int:
        """Return the number of rows that fit below the titles."""
        return max(1, self.scrollable_content_region.height - self.title_lines)

    @property
    def column_layout(self) -> Layout:
        """Return the layout of the columns at the current width."""
        width = self.scrollable_content_region.width
        if self._width_and_layout is None or self._width_and_layout[0] != width:
            self._width_and_layout = (width, compute_layout(self.columns, width))
        return self._width_and_layout[1]

    def render_line(self, y: int) -> Strip:
        """Return a line of the table: the titles, a row, or the text of an empty table."""
        scroll_x, width = round(self.scroll_x), self.scrollable_content_region.width
        if y < self.title_lines:
            return self._painter.header(self.sort, self.column_layout, scroll_x, width)
        appearance = self._row_appearance(y)
        self._painted_appearances[y] = appearance
        if appearance is not None:
            return self._painter.row(appearance, self.column_layout, scroll_x, width)
        text = ""
        if not self.source.order:
            empty_text = "loading …" if isinstance(self.source, EmptyRowSource) else self.empty
            text_line = min(2 * self.title_lines, self.size.height - 1)
            text = _empty_text_line(empty_text, y - text_line, width)
        return Strip([Segment(fit(text, width), self._painter.style("row", "dim"))], width)

    @property
    def empty(self) -> str:
        """Return the text that is shown instead of rows if the source has none."""
        return self._empty

    @empty.setter
    def empty(self, text: str) -> None:
        if text != self._empty:
            self._empty = text
            # No row has changed, so nothing else would draw it.
            self.refresh()

    def _row_appearance(self, y: int) -> RowAppearance | None:
        """Return the current appearance of the row in line `y`; None below the last row."""
        position = y - self.title_lines + round(self.scroll_y)
        order = self.source.order
        if position >= len(order):
            return None
        row = order[position]
        is_marked = bool(self.marks) and self.source.key(row) in self.marks
        if row not in self._cells:
            self._cells[row] = [Cell("defect", "bad")] * len(self.columns)
            notify_error = partial(self.notify, severity="error", timeout=15)
            with report_defects(
                "showing a row", notify_error, repeat_after_s=_DEFECT_REPORT_INTERVAL_S
            ):
                self._cells[row] = self.source.cells(row)
        return RowAppearance(
            self._cells[row],
            position == self.cursor,
            position == self._hovered_position,
            is_marked,
        )

    def repaint_changed(self) -> None:
        """Repaint only the lines whose appearance has changed."""
        if len(self._cells) > _MAX_CACHED_ROWS:
            self._cells.clear()
        width = self.size.width
        for y in range(self.title_lines, self.size.height):
            if (
                y not in self._painted_appearances
                or self._row_appearance(y) != self._painted_appearances[y]
            ):
                self.refresh(Region(0, y, width, 1))

    def resize_content(self) -> None:
        """Set the size of the scrollable content."""
        size = Size(self.column_layout.total_width, len(self.source.order) + self.title_lines)
        if size != self.virtual_size:
            self.virtual_size = size

    def notify_style_update(self) -> None:
        """Clear the cached styles of the old theme."""
        super().notify_style_update()
        self._painter.clear_cache()


def _empty_text_line(text: str, line: int, width: int) -> str:
    """Return line number `line` of the wrapped text that is shown instead of rows."""
    lines = wrap(text, max(1, width - 3))
    return "  " + lines[line] if 0 <= line < len(lines) else ""


def _style_of(table: Widget, style_name: str) -> Style:
    """Return the Textual style of a style name in a table: a component class, or a colour."""
    if style_name == "cursor" and not table.has_focus:
        style_name = "blurred"
    if style_name.startswith(("#", "on ")):
        return _color_style(style_name)
    name = f"big-table--{style_name}"
    if style_name == "row" or name not in table.COMPONENT_CLASSES:
        return table.rich_style if style_name == "row" else Style()
    style = table.get_component_rich_style(name)
    if style_name in _LINE_STYLE_NAMES:
        return style
    color = None if style_name == "strong" else style.color
    return Style(color=color, bold=style.bold or None, italic=style.italic or None)


def _color_style(style_name: str) -> Style:
    """Return the style of text in a colour, or of readable text on `on` a colour."""
    colour = Color.parse(style_name.removeprefix("on "))
    if not style_name.startswith("on "):
        return Style(color=colour.rich_color)
    return Style(color=colour.get_contrast_text(1.0).rich_color, bgcolor=colour.rich_color)


class TableView(TableLines):
    """Lines with a cursor that follows a row key, not a position."""

    _reported_cursor_key: Hashable | None = None
    _cursor_row = 0
    _is_cursor_moved_by_user = False

    @property
    def cursor_key(self) -> Hashable | None:
        """Return the key of the row under the cursor; None without rows."""
        order = self.source.order
        return self.source.key(order[self.cursor]) if self.cursor < len(order) else None

    def show(
        self, source: RowSource, *, sort: Sort | None = None, columns: Sequence[ColumnLayout] = ()
    ) -> None:
        """Show newer data; marks and cursor stay on their rows, and the cursor's row on its line.

        Marks of rows that do not exist any more are removed. Until the user moves the cursor, it
        stays on the first row. `columns` replaces the columns.
        """
        top = round(self.scroll_y)
        offset = self.cursor - top if 0 <= self.cursor - top < self.rows_per_page else None
        new_position: int | None = 0
        if self._is_cursor_moved_by_user:
            new_position = find_position(
                source, self._reported_cursor_key, self.cursor, self._cursor_row
            )
        # If the row does not exist any more, the cursor keeps its position.
        position = self.cursor if new_position is None else new_position
        self.source = source
        self.marks -= self._marks_without_row()
        self._cells.clear()
        self._set_sort_and_columns(sort, tuple(columns) or self.columns)
        self.resize_content()
        self._set_cursor(position)
        if offset is not None and self._is_cursor_moved_by_user:
            self.scroll_to(y=self.cursor - offset, animate=False, force=True)
        self.repaint_changed()
        self.visible_rows_reporter.schedule_report(restart=False)

    def _marks_without_row(self) -> set[Hashable]:
        """Return the keys of marked rows that do not exist any more."""
        missing_keys = set(self.marks)
        for row in range(len(self.source)):
            if not missing_keys:
                break
            missing_keys.discard(self.source.key(row))
        return missing_keys

    @cached_property
    def visible_rows_reporter(self) -> VisibleRowsReporter:
        """Return the reporter of the visible rows."""
        return VisibleRowsReporter(self)

    def move(self, position: int) -> None:
        """Move the cursor to a position on behalf of the user, and scroll it into view."""
        self._is_cursor_moved_by_user = True
        self._set_cursor(position)
        top = round(self.scroll_y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + self.rows_per_page:
            self.scroll_to(y=self.cursor - self.rows_per_page + 1, animate=False, force=True)
        self.repaint_changed()

    def _set_sort_and_columns(self, sort: Sort | None, columns: tuple[ColumnLayout, ...]) -> None:
        """Set the sort arrow and the columns; repaint if they have changed."""
        if sort != self.sort:
            self.sort = sort
            self.refresh(Region(0, 0, self.size.width, 1))
        if columns != self.columns:
            self.columns = columns
            self._width_and_layout = None
            self.refresh()

    def _set_cursor(self, position: int) -> None:
        """Set the cursor within the rows, and post a message if its row has changed."""
        order = self.source.order
        self.cursor = max(0, min(position, len(order) - 1))
        key = self.cursor_key
        self._cursor_row = order[self.cursor] if key is not None else 0
        if key != self._reported_cursor_key:
            self._reported_cursor_key = key
            self.post_message(RowHighlighted(self, key))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Schedule a report of the visible rows after scrolling."""
        super().watch_scroll_y(old_value, new_value)
        self.visible_rows_reporter.schedule_report()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Repaint the cursor, whose style depends on the focus."""
        super().watch_has_focus(_has_focus)
        self._painter.clear_cache()

    def on_resize(self) -> None:
        """Lay out the columns again and keep the cursor in view."""
        self.resize_content()
        top = round(self.scroll_y)
        if (
            self._is_cursor_moved_by_user
            and top <= self.cursor
            and self.cursor >= top + self.rows_per_page
        ):
            self.scroll_to(y=self.cursor - self.rows_per_page + 1, animate=False, force=True)
        self.visible_rows_reporter.schedule_report()


class VisibleRowsReporter:
    """Reports which rows of a table are visible, when scrolling has stopped for 0.2 s."""

    def __init__(self, table: TableView) -> None:
        self._table = table
        self._reported_keys: tuple[Hashable, ...] = ()
        self._timer: Timer | None = None

    def schedule_report(self, *, restart: bool = True) -> None:
        """Report the visible rows after 0.2 s; with `restart` a planned report is delayed."""
        if not self._table.is_attached or (self._timer is not None and not restart):
            return
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._table.set_timer(
            _VISIBLE_ROWS_REPORT_DELAY_S, self._report_visible_rows
        )

    def report_again(self) -> None:
        """Report the visible rows after 0.2 s, also if they have not changed."""
        self._reported_keys = ()
        self.schedule_report(restart=False)

    def _report_visible_rows(self) -> None:
        self._timer = None
        if not self._table.screen.is_current:
            # The screen calls `report_again` when it is in view.
            return
        keys = self._visible_row_keys()
        if keys != self._reported_keys:
            self._reported_keys = keys
            self._table.post_message(VisibleChanged(self._table, keys))

    def _visible_row_keys(self) -> tuple[Hashable, ...]:
        """Return the keys of the visible rows, from the top."""
        top = round(self._table.scroll_y)
        order, key = self._table.source.order, self._table.source.key
        end = min(len(order), top + self._table.rows_per_page)
        return tuple(key(order[position]) for position in range(top, end))


class TableMessage(Message, bubble=True, namespace="big_table"):
    """A message with its table as `control`, so that `@on(…, "#id")` works."""

    def __init__(self, table: TableView) -> None:
        super().__init__()
        self.table = table

    @property
    def control(self) -> TableView:
        """Return the table that posted the message."""
        return self.table


class RowHighlighted(TableMessage, namespace="big_table"):
    """The cursor is on another row; `key` is None without rows."""

    def __init__(self, table: TableView, key: Hashable | None) -> None:
        super().__init__(table)
        self.key = key


class RowSelected(TableMessage, namespace="big_table"):
    """The user opens a row with enter or a double click."""

    def __init__(self, table: TableView, key: Hashable) -> None:
        super().__init__(table)
        self.key = key


class HeaderSelected(TableMessage, namespace="big_table"):
    """The user sorts by a column; for the sorted column this reverses the direction."""

    def __init__(self, table: TableView, column_id: str) -> None:
        super().__init__(table)
        self.column_id = column_id


class MarksChanged(TableMessage, namespace="big_table"):
    """The user has marked or unmarked rows; `keys` are all marked rows, also filtered out ones."""

    def __init__(self, table: TableView, keys: frozenset[Hashable]) -> None:
        super().__init__(table)
        self.keys = keys


class VisibleChanged(TableMessage, namespace="big_table"):
    """The visible rows have changed, and scrolling has stopped; `keys` are the rows."""

    def __init__(self, table: TableView, keys: tuple[Hashable, ...]) -> None:
        super().__init__(table)
        self.keys = keys
