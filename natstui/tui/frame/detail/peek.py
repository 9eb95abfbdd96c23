"""A panel with details of the row under the cursor, in the space that the table leaves free."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, cast, get_args

from msgspec import Struct
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.geometry import Size

from natstui.model.live.history import WINDOWS_S
from natstui.tui.frame.live import ScreenPart
from natstui.tui.frame.row_order import Rows
from natstui.tui.frame.stored_settings import load_view_setting, store_view_setting
from natstui.tui.kit.chart.chart import Chart, ChartData
from natstui.tui.kit.sections import Section, SectionText
from natstui.tui.kit.table.big_table import BigTable
from natstui.tui.kit.table.view import RowHighlighted
from natstui.tui.kit.text import safe
from natstui.values import replace

PanelPosition = Literal["none", "below", "beside"]
PEEK_WINDOW_S = WINDOWS_S[0]
"""Time window of the panel's charts: the shortest one."""
PEEK_ADVISORY_COUNT = 4
"""Number of advisories in the panel."""
_MIN_BESIDE_COLUMNS = 160
_MIN_CHOSEN_BESIDE_COLUMNS = 110
"""Minimum widths for the panel beside the table, by default and if the user chose it: a narrower
table would lose too many columns.
"""
_MIN_PANEL_LINES, _MAX_PANEL_LINES = 10, 36
_MIN_FREE_LINES_BELOW_ROWS = 22
"""Minimum of free lines below the rows to show the panel below instead of beside the table."""
_MIN_TABLE_ROWS_IN_VIEW = 4
"""Minimum of table rows that stay in view above the panel."""
_MIN_CHART_LINES = 8
_MIN_TWO_CHARTS_COLUMNS = 120
PEEK_STATE_KEY = "peek"


class PeekContent(Struct, frozen=True):
    """The content of the panel for a row; `key` identifies the row."""

    key: Hashable
    sections: Sequence[Section]
    charts: Sequence[ChartData]


def choose_position(
    user_choice: PanelPosition | None, size: Size, rows_count: int
) -> PanelPosition:
    """Return the panel's position: the user's choice, or the one that fits the free space."""
    if user_choice == "none":
        return "none"
    if user_choice is None and size.height - rows_count - 1 >= _MIN_FREE_LINES_BELOW_ROWS:
        return "below"
    is_wide_enough = size.width >= (
        _MIN_BESIDE_COLUMNS if user_choice is None else _MIN_CHOSEN_BESIDE_COLUMNS
    )
    if user_choice != "below" and is_wide_enough:
        return "beside"
    visible_rows_count = (
        rows_count if user_choice is None else min(rows_count, _MIN_TABLE_ROWS_IN_VIEW)
    )
    return "below" if size.height - visible_rows_count - 1 >= _MIN_PANEL_LINES else "none"


class Peek(Container):
    """The panel with findings, advisories and two charts of a row, and its position."""

    DEFAULT_CSS = """
    Peek {
        layout: horizontal; display: none;
        & > VerticalScroll { width: 1fr; scrollbar-size: 1 1; }
        & > Container { width: 1fr; padding: 0 1; layout: vertical; }
        &.-two > Container { width: 2fr; layout: horizontal; }
    }
    Peek.-beside {
        layout: vertical; width: 40%; min-width: 50; height: 1fr;
        & > VerticalScroll { height: 1fr; }
        & > Container { width: 1fr; height: 1fr; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        # Not by queries: a row may be shown while the screen closes and has no widgets.
        self.text = SectionText()
        self._scroll = VerticalScroll(self.text, can_focus=False)
        self._charts = (Chart(), Chart())
        self._key: Hashable = None
        stored_position = load_view_setting(PEEK_STATE_KEY)
        self.chosen_position: PanelPosition | None = (
            cast("PanelPosition", stored_position)
            if stored_position in get_args(PanelPosition)
            else None
        )
        self.position: PanelPosition = "none"

    def compose(self) -> ComposeResult:
        """Yield the widgets of the panel: text, then charts."""
        yield self._scroll
        yield Container(*self._charts)

    def select_next_position(self) -> None:
        """Choose the next position (off, below, beside), and store it for the next start."""
        positions = get_args(PanelPosition)
        self.chosen_position = positions[
            (positions.index(self.chosen_position or self.position) + 1) % len(positions)
        ]
        store_view_setting(PEEK_STATE_KEY, self.chosen_position)

    def update_position(self, available_size: Size, rows_count: int) -> PanelPosition:
        """Set and return the position that fits the size of table and panel together."""
        self.position = (
            choose_position(self.chosen_position, available_size, rows_count)
            if rows_count
            else "none"
        )
        is_beside, is_below = self.position == "beside", self.position == "below"
        self.display = is_beside or is_below
        self.set_class(is_beside, "-beside")
        self.set_class(is_below and available_size.width >= _MIN_TWO_CHARTS_COLUMNS, "-two")
        if is_below:
            free_lines = (
                available_size.height
                - min(rows_count, max(_MIN_TABLE_ROWS_IN_VIEW, available_size.height // 2))
                - 1
            )
            self.styles.height = max(_MIN_PANEL_LINES, min(_MAX_PANEL_LINES, free_lines))
        else:
            self.styles.height = None
        lines = (
            available_size.height // 2 if is_beside else 0 if not is_below else _panel_lines(self)
        )
        self._show_charts(2 if self.has_class("-two") else lines // _MIN_CHART_LINES)
        return self.position

    def _show_charts(self, max_count: int) -> None:
        for index, chart in enumerate(self._charts):
            chart.display = index < max(1, max_count)

    def show_row(self, content: PeekContent) -> None:
        """Show a row, or the newer state of the shown row."""
        is_new_row, self._key = content.key != self._key, content.key
        # The first title is shown in the border.
        first_section, *other_sections = content.sections
        self._scroll.border_title = safe(first_section.title)
        self.text.show(
            [*([replace(first_section, title="")] if first_section.lines else ()), *other_sections]
        )
        if is_new_row:
            self._scroll.scroll_home(animate=False)
        for widget, data in zip(self._charts, content.charts, strict=False):
            if widget.display:
                (widget.show_another_row if is_new_row else widget.show)(data)


class TableWithPeek(Container, ScreenPart):
    """A table, and below or beside it the panel with the details of the row under the cursor."""

    DEFAULT_CSS = """
    TableWithPeek { height: 1fr; layout: vertical; }
    TableWithPeek.-beside { layout: horizontal; }
    TableWithPeek > BigTable { width: 1fr; height: 1fr; }
    """

    def __init__(
        self, table: BigTable, peek: Peek, build_content: Callable[[Any, int], PeekContent]
    ) -> None:
        """Create the container of a table and its panel.

        `build_content` returns the panel's content for a row of a view.
        """
        super().__init__(table, peek)
        self.table, self.peek, self._build_content = table, peek, build_content

    def on_resize(self) -> None:
        """Move the panel for the new size."""
        self.update_peek()

    @on(RowHighlighted)
    def update_peek(self) -> None:
        """Show the row under the cursor in the panel, if there is space."""
        rows = self.table.source
        position = self.peek.update_position(self.size, len(rows.order))
        self.set_class(position == "beside", "-beside")
        if position != "none" and isinstance(rows, Rows):
            row = rows.order[min(self.table.cursor, len(rows.order) - 1)]
            self.peek.show_row(self._build_content(rows.view, row))

    def action_next(self) -> None:
        """Move the panel to the next position: off, below, beside."""
        self.peek.select_next_position()
        self.update_peek()
        if self.peek.chosen_position != self.peek.position:
            self.notify(f"no room for the panel {self.peek.chosen_position} the table", timeout=3)


def _panel_lines(peek: Peek) -> int:
    """Return the number of lines of the panel below a table, without its border."""
    height = peek.styles.height
    return int(height.value) - 1 if height is not None else 0
