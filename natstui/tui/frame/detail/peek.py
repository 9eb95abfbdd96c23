"""A panel with details of the row under the cursor, shown where its table leaves space for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.geometry import Size

from natstui.model.live.history import WINDOWS_S
from natstui.tui.frame.live import ScreenPart
from natstui.tui.frame.remembered import keep, recall
from natstui.tui.frame.table_text import Rows
from natstui.tui.kit.chart.chart import Chart, ChartData
from natstui.tui.kit.sections import Section, SectionText
from natstui.tui.kit.table.big_table import BigTable
from natstui.tui.kit.table.view import RowHighlighted
from natstui.tui.kit.text import safe

Place = Literal["none", "below", "beside"]
PEEK_WINDOW_S = WINDOWS_S[0]
"""Window of its charts: the shortest one."""
ANNOUNCED_COUNT = 4
"""Number of advisories in the panel."""
_BESIDE_FROM_COLUMNS = 160
_BESIDE_AT_LEAST_COLUMNS = 110
"""Minimum width for the panel beside the table: in a narrower one the table would lose too many
columns.
"""
_LEAST_LINES, _MOST_LINES = 10, 36
_ROOMY_LINES = 22
"""Free lines below the rows from which the panel is shown below instead of beside."""
_ROWS_AT_LEAST = 4
"""Minimum of table rows that stay in view above the panel."""
_CHART_LINES = 8
_TWO_CHARTS_FROM_COLUMNS = 120
KEPT_AS = "peek"


@dataclass(frozen=True, slots=True)
class Brief:
    """The content of the panel for a row; `key` is the row's identity."""

    key: Hashable
    sections: Sequence[Section]
    charts: Sequence[ChartData]


def place_for(user_choice: Place | None, size: Size, rows_count: int) -> Place:
    """Return the panel's position: the user's choice, or the one that fits the free space."""
    if user_choice == "none":
        return "none"
    if user_choice is None and size.height - rows_count - 1 >= _ROOMY_LINES:
        return "below"
    widest = size.width >= (
        _BESIDE_FROM_COLUMNS if user_choice is None else _BESIDE_AT_LEAST_COLUMNS
    )
    if user_choice != "below" and widest:
        return "beside"
    visible_count = rows_count if user_choice is None else min(rows_count, _ROWS_AT_LEAST)
    return "below" if size.height - visible_count - 1 >= _LEAST_LINES else "none"


class Peek(Container):
    """The panel with findings, advisories and two charts of a row; it knows its position."""

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
        # Not by queries: a row may be told while the screen closes and has no widgets any more.
        self.text = SectionText()
        self._scroll = VerticalScroll(self.text, can_focus=False)
        self._charts = (Chart(), Chart())
        self._key: Hashable = None
        stored_choice = recall(KEPT_AS)
        self.chosen: Place | None = (
            cast("Place", stored_choice) if stored_choice in get_args(Place) else None
        )
        self.place: Place = "none"

    def compose(self) -> ComposeResult:
        """Yield the widgets of the panel: text, then charts."""
        yield self._scroll
        yield Container(*self._charts)

    def choose_next(self) -> None:
        """Change to the next position and remember it: off, below, beside."""
        positions = get_args(Place)
        self.chosen = positions[(positions.index(self.chosen or self.place) + 1) % len(positions)]
        keep(KEPT_AS, self.chosen)

    def settle(self, room: Size, rows_count: int) -> Place:
        """Set and return the position that fits the space of table and panel."""
        self.place = place_for(self.chosen, room, rows_count) if rows_count else "none"
        is_beside, below = self.place == "beside", self.place == "below"
        self.display = is_beside or below
        self.set_class(is_beside, "-beside")
        self.set_class(below and room.width >= _TWO_CHARTS_FROM_COLUMNS, "-two")
        if below:
            free_lines = room.height - min(rows_count, max(_ROWS_AT_LEAST, room.height // 2)) - 1
            self.styles.height = max(_LEAST_LINES, min(_MOST_LINES, free_lines))
        else:
            self.styles.height = None
        lines = room.height // 2 if is_beside else 0 if not below else _lines(self)
        self._show_charts(2 if self.has_class("-two") else lines // _CHART_LINES)
        return self.place

    def _show_charts(self, fitting: int) -> None:
        for index, chart in enumerate(self._charts):
            chart.display = index < max(1, fitting)

    def tell(self, brief: Brief) -> None:
        """Show a row, or the newer state of the same one."""
        is_other, self._key = brief.key != self._key, brief.key
        # The first title is that of the frame.
        first, *other_sections = brief.sections
        self._scroll.border_title = safe(first.title)
        self.text.show([*([replace(first, title="")] if first.lines else ()), *other_sections])
        if is_other:
            self._scroll.scroll_home(animate=False)
        for widget, data in zip(self._charts, brief.charts, strict=False):
            if widget.display:
                (widget.show_other if is_other else widget.show)(data)


class WithPeek(Container, ScreenPart):
    """A table with the panel below or beside it."""

    DEFAULT_CSS = """
    WithPeek { height: 1fr; layout: vertical; }
    WithPeek.-beside { layout: horizontal; }
    WithPeek > BigTable { width: 1fr; height: 1fr; }
    """

    def __init__(self, table: BigTable, peek: Peek, brief: Callable[[Any, int], Brief]) -> None:
        """Create with a table and its panel; `brief` returns the panel's content for a row of the
        view.
        """
        super().__init__(table, peek)
        self.table, self.peek, self._brief = table, peek, brief

    def on_resize(self) -> None:
        """Move the panel when the space has changed."""
        self.tell()

    @on(RowHighlighted)
    def tell(self) -> None:
        """Update the panel for the row under the cursor, if there is space."""
        rows = self.table.source
        position = self.peek.settle(self.size, len(rows.order))
        self.set_class(position == "beside", "-beside")
        if position != "none" and isinstance(rows, Rows):
            row = rows.order[min(self.table.cursor, len(rows.order) - 1)]
            self.peek.tell(self._brief(rows.view, row))

    def action_next(self) -> None:
        """Move the panel to the next position: off, below, beside."""
        self.peek.choose_next()
        self.tell()
        if self.peek.chosen != self.peek.place:
            self.notify(f"no room for the panel {self.peek.chosen} the table", timeout=3)


def _lines(peek: Peek) -> int:
    """Return the lines of the panel below a table, without its border."""
    height = peek.styles.height
    return int(height.value) - 1 if height is not None else 0
