"""A table for a hundred thousand rows: adds keys and mouse to `TableView`."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from natstui.tui.kit.table import view as messages
from natstui.tui.kit.table.paint import Sort
from natstui.tui.kit.table.rows import Cell, RowSource
from natstui.tui.kit.table.view import TableView
from natstui.tui.kit.table.widths import ColumnLayout

__all__ = ["BigTable", "Cell", "ColumnLayout", "RowSource", "Sort"]


class BigTable(TableView):
    """A table of a `RowSource` with cursor, marked rows, sort arrows and sideways scrolling."""

    RowHighlighted = messages.RowHighlighted
    RowSelected = messages.RowSelected
    HeaderSelected = messages.HeaderSelected
    MarksChanged = messages.MarksChanged
    VisibleChanged = messages.VisibleChanged

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "step(1)", "Down", show=False, id="table.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="table.page_up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="table.page_down"),
        Binding("home,g", "move_to_edge(0)", "First row", show=False, id="table.first"),
        Binding("end,G", "move_to_edge(-1)", "Last row", show=False, id="table.last"),
        Binding("left,h", "scroll_columns(-1)", "Columns left", show=False, id="table.left"),
        Binding("right,l", "scroll_columns(1)", "Columns right", show=False, id="table.right"),
        Binding("enter", "select", "Open", show=False, key_display="enter", id="table.open"),
        Binding("space", "mark", "Mark", show=False, id="table.mark"),
        Binding(
            "ctrl+@",
            "mark_range",
            "Mark range",
            show=False,
            key_display="ctrl+space",
            id="table.mark_range",
        ),
        Binding(
            "ctrl+backslash",
            "unmark",
            "Clear marks",
            show=False,
            key_display="ctrl+\\",
            id="table.unmark",
        ),
        Binding("less_than_sign", "sort(-1)", "Sort left", show=False, id="table.sort_left"),
        Binding("greater_than_sign", "sort(1)", "Sort right", show=False, id="table.sort_right"),
        Binding("r", "sort(0)", "Reverse sort", show=False, id="table.reverse"),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "big-table--header",
        "big-table--cursor",
        "big-table--blurred",
        "big-table--hover",
        "big-table--marked",
        "big-table--sorted",
        "big-table--mark",
        "big-table--ok",
        "big-table--warn",
        "big-table--bad",
        "big-table--dim",
        "big-table--stale",
        "big-table--accent",
        "big-table--strong",
    }

    DEFAULT_CSS = """
    BigTable {
        height: 1fr;
        background: $background;
        color: $foreground;
        overflow-y: scroll;
        scrollbar-size: 0 1;
        & > .big-table--header { background: $panel; color: $foreground; text-style: bold; }
        & > .big-table--cursor { background: $primary 25%; color: $foreground; text-style: bold; }
        & > .big-table--blurred { background: $primary 12%; color: $foreground; }
        & > .big-table--hover { background: $foreground 8%; color: $foreground; }
        & > .big-table--marked { background: $accent 15%; color: $foreground; }
        & > .big-table--sorted { color: $text-accent; }
        & > .big-table--mark { color: $text-accent; text-style: bold; }
        & > .big-table--ok { color: $text-success; }
        & > .big-table--warn { color: $text-warning; }
        & > .big-table--bad { color: $text-error; text-style: bold; }
        & > .big-table--dim { color: $text-muted; }
        & > .big-table--stale { color: $text-muted; text-style: italic; }
        & > .big-table--accent { color: $text-primary; }
        & > .big-table--strong { text-style: bold; }
    }
    """

    def action_step(self, rows: int) -> None:
        """Move the cursor by `rows` rows."""
        self.move(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by `pages` pages."""
        self.move(self.cursor + pages * self.rows_per_page)

    def action_move_to_edge(self, edge: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        self.move(0 if edge == 0 else len(self.source.order) - 1)

    def action_scroll_columns(self, step: int) -> None:
        """Scroll sideways to the next column that is cut off; to the left if `step` < 0."""
        layout = self.column_layout
        column_starts = [column.start - layout.unscrolled_cells for column in layout.columns[1:]]
        now = round(self.scroll_x)
        if step > 0:
            target = next((x for x in column_starts if x > now), now)
        else:
            target = next((x for x in reversed(column_starts) if x < now), 0)
        self.scroll_to(x=target, animate=False, force=True)

    def action_select(self) -> None:
        """Open the row under the cursor."""
        if (key := self.cursor_key) is not None:
            self.post_message(messages.RowSelected(self, key))

    def action_mark(self) -> None:
        """Mark the row under the cursor, or remove its mark."""
        if (key := self.cursor_key) is not None:
            self.marks ^= {key}
            self._post_marks()

    def action_mark_range(self) -> None:
        """Mark the rows from the nearest mark above the cursor, else below, to the cursor."""
        order, key = self.source.order, self.source.key
        marked_positions = [
            position for position in range(len(order)) if key(order[position]) in self.marks
        ]
        if not marked_positions:
            return self.action_mark()
        anchor_position = max(
            (position for position in marked_positions if position < self.cursor),
            default=min(marked_positions),
        )
        low_position, high_position = sorted((anchor_position, self.cursor))
        self.marks |= {key(order[position]) for position in range(low_position, high_position + 1)}
        return self._post_marks()

    def action_unmark(self) -> None:
        """Remove the marks of all rows."""
        self.marks.clear()
        self._post_marks()

    def action_sort(self, step: int) -> None:
        """Request sorting by the column `step` columns to the right; 0 reverses the direction."""
        columns = [
            positioned.column.id
            for positioned in self.column_layout.columns
            if positioned.column.is_sortable
        ]
        if not columns:
            return
        sort_column_id = self.sort.column_id if self.sort else None
        index = (
            columns.index(sort_column_id)
            if sort_column_id in columns
            else -step
            if step > 0
            else 0
        )
        self.post_message(messages.HeaderSelected(self, columns[(index + step) % len(columns)]))

    def _post_marks(self) -> None:
        """Draw the marked rows again, and post their keys."""
        self.repaint_changed()
        self.post_message(messages.MarksChanged(self, frozenset(self.marks)))

    def on_click(self, event: events.Click) -> None:
        """Sort by a clicked title, move to a clicked row, and open a double-clicked row."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y < self.title_lines:
            column = self.column_layout.at(offset.x, round(self.scroll_x))
            if column is not None and column.is_sortable:
                self.post_message(messages.HeaderSelected(self, column.id))
            return
        position = offset.y - self.title_lines + round(self.scroll_y)
        if position < len(self.source.order):
            self.move(position)
            if event.chain >= 2:
                self.action_select()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Highlight the row under the pointer."""
        offset = event.get_content_offset(self)
        row = None if offset is None else offset.y - self.title_lines
        position = None if row is None or row < 0 else row + round(self.scroll_y)
        if position != self._hovered_position:
            self._hovered_position = position
            self.repaint_changed()

    def on_leave(self) -> None:
        """Remove the highlight when the pointer leaves the table."""
        self._hovered_position = None
        self.repaint_changed()
