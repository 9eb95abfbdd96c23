"""The row under the cursor in brief, where its table leaves room for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.geometry import Size

from natstui.model.live.history import WINDOWS_S
from natstui.tui.frame.remembered import keep, recall
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.table_text import Rows
from natstui.tui.kit.chart.chart import Chart, ChartData
from natstui.tui.kit.sections import Section, SectionText
from natstui.tui.kit.table.big_table import BigTable
from natstui.tui.kit.table.view import RowHighlighted
from natstui.tui.kit.text import safe

Place = Literal["none", "below", "beside"]
PEEK_WINDOW_S = WINDOWS_S[0]
"""What its charts show: the shortest window."""
ANNOUNCED_COUNT = 4
"""Announcements of the server that it repeats."""
_BESIDE_FROM_COLUMNS = 160
_BESIDE_AT_LEAST_COLUMNS = 110
"""With fewer the table would lose more columns than the panel tells."""
_LEAST_LINES, _MOST_LINES = 10, 36
_ROOMY_LINES = 22
"""With so many below its rows, the panel leaves a table its width."""
_ROWS_AT_LEAST = 4
"""Rows of the table that stay in view above it."""
_CHART_LINES = 8
_TWO_CHARTS_FROM_COLUMNS = 120
KEPT_AS = "peek"


@dataclass(frozen=True, slots=True)
class Brief:
    """What the panel tells of a row: `key` is its identity."""

    key: Hashable
    sections: Sequence[Section]
    charts: Sequence[ChartData]


def place_for(chosen: Place | None, size: Size, rows_count: int) -> Place:
    """Return where the panel stands: as the user chose, or where the rows leave room."""
    if chosen == "none":
        return "none"
    if chosen is None and size.height - rows_count - 1 >= _ROOMY_LINES:
        return "below"
    widest = size.width >= (_BESIDE_FROM_COLUMNS if chosen is None else _BESIDE_AT_LEAST_COLUMNS)
    if chosen != "below" and widest:
        return "beside"
    shown = rows_count if chosen is None else min(rows_count, _ROWS_AT_LEAST)
    return "below" if size.height - shown - 1 >= _LEAST_LINES else "none"


class Peek(Container):
    """Findings, announcements and two charts of one row; where it stands belongs to it."""

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
        kept = recall(KEPT_AS)
        self.chosen: Place | None = cast("Place", kept) if kept in get_args(Place) else None
        self.place: Place = "none"

    def compose(self) -> ComposeResult:
        """Text, then charts."""
        yield self._scroll
        yield Container(*self._charts)

    def choose_next(self) -> None:
        """Stand elsewhere from now on, also in the next run: nowhere, below, beside."""
        places = get_args(Place)
        self.chosen = places[(places.index(self.chosen or self.place) + 1) % len(places)]
        keep(KEPT_AS, self.chosen)

    def settle(self, room: Size, rows_count: int) -> Place:
        """Take its place within the room that table and panel have, and return it."""
        self.place = place_for(self.chosen, room, rows_count) if rows_count else "none"
        beside, below = self.place == "beside", self.place == "below"
        self.display = beside or below
        self.set_class(beside, "-beside")
        self.set_class(below and room.width >= _TWO_CHARTS_FROM_COLUMNS, "-two")
        if below:
            left = room.height - min(rows_count, max(_ROWS_AT_LEAST, room.height // 2)) - 1
            self.styles.height = max(_LEAST_LINES, min(_MOST_LINES, left))
        else:
            self.styles.height = None
        lines = room.height // 2 if beside else 0 if not below else _lines(self)
        self._show_charts(2 if self.has_class("-two") else lines // _CHART_LINES)
        return self.place

    def _show_charts(self, fitting: int) -> None:
        for at, chart in enumerate(self._charts):
            chart.display = at < max(1, fitting)

    def tell(self, brief: Brief) -> None:
        """Show a row, or the newer state of the same one."""
        other, self._key = brief.key != self._key, brief.key
        # The first title is that of the frame.
        first, *rest = brief.sections
        self._scroll.border_title = safe(first.title)
        self.text.show([*([replace(first, title="")] if first.lines else ()), *rest])
        if other:
            self._scroll.scroll_home(animate=False)
        for widget, data in zip(self._charts, brief.charts, strict=False):
            if widget.display:
                (widget.show_other if other else widget.show)(data)


class WithPeek(Container, ScreenPart):
    """A table, and the panel below or beside it."""

    DEFAULT_CSS = """
    WithPeek { height: 1fr; layout: vertical; }
    WithPeek.-beside { layout: horizontal; }
    WithPeek > BigTable { width: 1fr; height: 1fr; }
    """

    def __init__(self, table: BigTable, peek: Peek, brief: Callable[[Any, int], Brief]) -> None:
        """`brief` returns what is told of a row of the table's view."""
        super().__init__(table, peek)
        self.table, self.peek, self._brief = table, peek, brief

    def on_resize(self) -> None:
        """Give the panel another place where there is other room."""
        self.tell()

    @on(RowHighlighted)
    def tell(self) -> None:
        """Tell of the row under the cursor, where there is room."""
        rows = self.table.source
        place = self.peek.settle(self.size, len(rows.order))
        self.set_class(place == "beside", "-beside")
        if place != "none" and isinstance(rows, Rows):
            row = rows.order[min(self.table.cursor, len(rows.order) - 1)]
            self.peek.tell(self._brief(rows.view, row))

    def action_next(self) -> None:
        """Put the panel elsewhere: off, below, beside."""
        self.peek.choose_next()
        self.tell()
        if self.peek.chosen != self.peek.place:
            self.notify(f"no room for the panel {self.peek.chosen} the table", timeout=3)


def _lines(peek: Peek) -> int:
    """Return how many lines the panel has below a table, without its border."""
    height = peek.styles.height
    return int(height.value) - 1 if height is not None else 0
