"""A table's lines as strips: each run of one style is one segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.widths import Layout, Placed
from natstui.tui.kit.text import fit

_NO_CELL = Cell("")


class Look(NamedTuple):
    """The inputs of a row's line; equal values give the same line."""

    cells: Sequence[Cell]
    cursor: bool = False
    hover: bool = False
    marked: bool = False

    @property
    def kind(self) -> str:
        """Return the name of the row's background look."""
        if self.cursor:
            return "cursor"
        return "hover" if self.hover else "marked" if self.marked else "row"


class Sort(NamedTuple):
    """The column by which the rows are sorted, and the direction."""

    column_id: str
    descending: bool = False


class Painter:
    """Turns cells into strips; caches styles until the theme or the focus changes."""

    def __init__(self, style_of: Callable[[str], Style]) -> None:
        self._style_of = style_of
        self._styles: dict[tuple[str, str], Style] = {}

    def forget(self) -> None:
        """Clear the cached styles."""
        self._styles.clear()

    def style(self, kind: str, look: str = "") -> Style:
        """Return the style of a cell with `look` in a row of `kind`."""
        style = self._styles.get((kind, look))
        if style is None:
            style = self._style_of(kind)
            if look:
                style += self._style_of(look)
            self._styles[kind, look] = style
        return style

    def row(self, look: Look, layout: Layout, scroll_x: int, width: int) -> Strip:
        """Return a row's line, `width` cells wide."""
        gutter = Cell(" ")
        if look.marked:
            gutter = Cell("✓", "mark")
        elif look.cursor:
            gutter = Cell("▌", "mark")
        # A row drawn right after its columns changed may have fewer cells.
        cells = [*look.cells, *[_NO_CELL] * (len(layout.placed) - len(look.cells))]
        return self._line(look.kind, gutter, cells, layout, scroll_x, width)

    def header(self, sort: Sort | None, layout: Layout, scroll_x: int, width: int) -> Strip:
        """Return the titles, with an arrow at the sorted column."""
        titles = [_NO_CELL] * len(layout.placed)
        for column in layout.placed:
            titles[column.index] = _title(column, sort)
        before = Cell("‹" if scroll_x > 0 else " ")
        strip = self._line("header", before, titles, layout, scroll_x, width)
        if layout.total_width - scroll_x > width > 1:
            more_sign = Segment("›", self.style("header", "sorted"))
            strip = Strip([*strip.crop(0, width - 1), more_sign], width)
        return strip

    def _line(
        self,
        kind: str,
        gutter: Cell,
        cells: Sequence[Cell],
        layout: Layout,
        scroll_x: int,
        width: int,
    ) -> Strip:
        """Join the gutter, the fixed column and the scrolled columns in view."""
        blank = self.style(kind)
        if not layout.placed:
            return Strip([Segment(" " * width, blank)], width)
        left_cell = layout.fixed_width + scroll_x
        right_cell = scroll_x + width
        first, *other_columns = layout.placed
        visible: list[Placed] = []
        for column in other_columns:
            if column.start < right_cell and column.start + column.width > left_cell:
                visible.append(column)
        fixed_strip = self._strip(kind, [first], cells, layout.gap, gutter)
        if not visible:
            return fixed_strip.crop_extend(0, width, blank)
        scrolled_strip = self._strip(kind, visible, cells, layout.gap)
        skipped_cells = left_cell - visible[0].start
        if skipped_cells < 0:  # the left edge lies in the gap before the first one seen
            gap = Segment(" " * -skipped_cells, blank)
            scrolled_strip, skipped_cells = (
                Strip([gap, *scrolled_strip], scrolled_strip.cell_length - skipped_cells),
                0,
            )
        room = width - layout.fixed_width
        return Strip.join(
            [fixed_strip, scrolled_strip.crop_extend(skipped_cells, skipped_cells + room, blank)]
        )

    def _strip(
        self,
        kind: str,
        columns: Sequence[Placed],
        cells: Sequence[Cell],
        gap: int,
        gutter: Cell | None = None,
    ) -> Strip:
        """Return each column's cell fitted to its width, with a gap behind it."""
        line: list[tuple[str, str]] = [] if gutter is None else [(gutter.text, gutter.look)]
        length = 0 if gutter is None else 1
        for column in columns:
            cell = cells[column.index]
            text = fit(cell.text, column.width, column.column.align)
            if cell.tail_from:
                line.append((text[: cell.tail_from], cell.look))
                line.append((text[cell.tail_from :], cell.tail_look))
            else:
                line.append((text, cell.look))
            line.append((" " * gap, ""))
            length += column.width + gap
        segments: list[Segment] = []
        style, text = self.style(kind), ""
        for part, look in line:
            new = self.style(kind, look)
            # Neighbours of one style are one segment.
            if new is not style and text:
                segments.append(Segment(text, style))
                text = ""
            style = new
            text += part
        segments.append(Segment(text, style))
        return Strip(segments, length)


def _title(placed: Placed, sort: Sort | None) -> Cell:
    """Return a column's title, with an arrow if the rows are sorted by it."""
    column = placed.column
    if sort is None or column.id != sort.column_id:
        return Cell(column.title)
    arrow = "▼" if sort.descending else "▲"
    room = max(0, placed.width - 1)
    title = fit(column.title, room) if len(column.title) > room else column.title
    return Cell(title + arrow, "sorted")
