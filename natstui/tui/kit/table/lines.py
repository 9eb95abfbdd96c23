"""The lines of a big table: only rows in view are asked for, only changed lines are repainted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from textwrap import wrap

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from natstui.defects import contained
from natstui.tui.kit.table.paint import Look, Painter, Sort
from natstui.tui.kit.table.rows import Cell, NoRows, RowSource
from natstui.tui.kit.table.widths import Column, Layout, place
from natstui.tui.kit.text import fit

_WHOLE = {"header", "cursor", "blurred", "hover", "marked"}
"""Looks of whole lines; the others lend a cell their ink only."""

_KEPT_ROWS = 1_000
_TOLD_AGAIN_S = 60.0
"""A row that cannot be shown is said this often."""


class DrawnCells:
    """The cells of the rows drawn last; each row is asked for once until newer data comes."""

    def __init__(self, report: Callable[[str], None]) -> None:
        """`report` says a sentence about a row that cannot be shown."""
        self._report = report
        self._known: dict[int, Sequence[Cell]] = {}

    def of(self, source: RowSource, row: int, columns_count: int) -> Sequence[Cell]:
        """Return the cells of a row; one that cannot be shown says so in every cell."""
        if row not in self._known:
            cells: Sequence[Cell] = [Cell("defect", "bad")] * columns_count
            with contained("showing a row", self._report, again_s=_TOLD_AGAIN_S):
                cells = source.cells(row)
            self._known[row] = cells
        return self._known[row]

    def forget(self) -> None:
        """Ask for every row again."""
        self._known.clear()

    def forget_if_many(self) -> None:
        """Keep no more rows than a user soon comes back to."""
        if len(self._known) > _KEPT_ROWS:
            self._known.clear()


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
        """`titles`: the first line names the columns."""
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
        self._cells = DrawnCells(partial(self.notify, severity="error", timeout=15))

    @property
    def page(self) -> int:
        """Return how many rows fit below the titles."""
        return max(1, self.scrollable_content_region.height - self.titles_lines)

    @property
    def columns_now(self) -> Layout:
        """Return where the columns are at the present width."""
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
        """What is said when there are no rows; before the first ones come, that they load."""
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
        marked = bool(self.marks) and self.source.key(row) in self.marks
        cells = self._cells.of(self.source, row, len(self.columns))
        return Look(cells, position == self.cursor, position == self._hover, marked)

    def repaint_changed(self) -> None:
        """Repaint the lines that would not look as they did; the rest costs no output."""
        self._cells.forget_if_many()
        width = self.size.width
        for y in range(self.titles_lines, self.size.height):
            if y not in self._painted or self._look(y) != self._painted[y]:
                self.refresh(Region(0, y, width, 1))

    def resize_content(self) -> None:
        """Tell the scroll bar how many rows and cells there are."""
        size = Size(self.columns_now.total_width, len(self.source.order) + self.titles_lines)
        if size != self.virtual_size:
            self.virtual_size = size

    def notify_style_update(self) -> None:
        """Forget the styles of the old theme."""
        super().notify_style_update()
        self._painter.forget()


def _line_of(said: str, line: int, width: int) -> str:
    """Return a line of what is said where there are no rows: the whole of it is to be read."""
    lines = wrap(said, max(1, width - 3))
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
