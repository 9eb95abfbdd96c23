"""A table's lines as strips: every segment has a style, a run of one style is one segment."""

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
    """All that a row's line depends on; two equal looks are the same line."""

    cells: Sequence[Cell]
    cursor: bool = False
    hover: bool = False
    marked: bool = False

    @property
    def kind(self) -> str:
        """Return the look that gives the row its background."""
        if self.cursor:
            return "cursor"
        return "hover" if self.hover else "marked" if self.marked else "row"


class Sort(NamedTuple):
    """By which column the rows are sorted, so that its title says so."""

    column_id: str
    descending: bool = False


class Painter:
    """Turns cells into strips; remembers styles until the theme or the focus changes."""

    def __init__(self, style_of: Callable[[str], Style]) -> None:
        self._style_of = style_of
        self._styles: dict[tuple[str, str], Style] = {}

    def forget(self) -> None:
        """Drop all styles."""
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
        for placed in layout.placed:
            titles[placed.index] = _title(placed, sort)
        before = Cell("‹" if scroll_x > 0 else " ")
        strip = self._line("header", before, titles, layout, scroll_x, width)
        if layout.total_width - scroll_x > width > 1:
            more = Segment("›", self.style("header", "sorted"))
            strip = Strip([*strip.crop(0, width - 1), more], width)
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
        """Join the gutter, the fixed column and those in view of the others."""
        blank = self.style(kind)
        if not layout.placed:
            return Strip([Segment(" " * width, blank)], width)
        left = layout.fixed_width + scroll_x
        right = scroll_x + width
        first, *others = layout.placed
        seen: list[Placed] = []
        for placed in others:
            if placed.start < right and placed.start + placed.width > left:
                seen.append(placed)
        fixed = self._strip(kind, [first], cells, layout.gap, gutter)
        if not seen:
            return fixed.crop_extend(0, width, blank)
        rest = self._strip(kind, seen, cells, layout.gap)
        skipped = left - seen[0].start
        if skipped < 0:  # the left edge lies in the gap before the first one seen
            gap = Segment(" " * -skipped, blank)
            rest, skipped = Strip([gap, *rest], rest.cell_length - skipped), 0
        room = width - layout.fixed_width
        return Strip.join([fixed, rest.crop_extend(skipped, skipped + room, blank)])

    def _strip(
        self,
        kind: str,
        columns: Sequence[Placed],
        cells: Sequence[Cell],
        gap: int,
        gutter: Cell | None = None,
    ) -> Strip:
        """Write each column's cell fitted to its width, and a gap behind it."""
        line: list[tuple[str, str]] = [] if gutter is None else [(gutter.text, gutter.look)]
        length = 0 if gutter is None else 1
        for placed in columns:
            cell = cells[placed.index]
            text = fit(cell.text, placed.width, placed.column.align)
            if cell.tail_from:
                line.append((text[: cell.tail_from], cell.look))
                line.append((text[cell.tail_from :], cell.tail_look))
            else:
                line.append((text, cell.look))
            line.append((" " * gap, ""))
            length += placed.width + gap
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
    """Return a column's title, with an arrow where the rows are sorted by it."""
    column = placed.column
    if sort is None or column.id != sort.column_id:
        return Cell(column.title)
    arrow = "▼" if sort.descending else "▲"
    room = max(0, placed.width - 1)
    title = fit(column.title, room) if len(column.title) > room else column.title
    return Cell(title + arrow, "sorted")
