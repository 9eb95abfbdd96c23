"""Draws a table's lines as strips: neighbouring text of one style is one segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.widths import Layout, PositionedColumn
from natstui.tui.kit.text import fit

_EMPTY_CELL = Cell("")


class RowAppearance(NamedTuple):
    """Everything that determines how a row is drawn; equal values give equal lines."""

    cells: Sequence[Cell]
    has_cursor: bool = False
    is_hovered: bool = False
    is_marked: bool = False

    @property
    def kind(self) -> str:
        """Return the name of the row's background style."""
        if self.has_cursor:
            return "cursor"
        return "hover" if self.is_hovered else "marked" if self.is_marked else "row"


class Sort(NamedTuple):
    """The column by which the rows are sorted, and the direction."""

    column_id: str
    descending: bool = False


class Painter:
    """Draws cells as strips; caches the styles, which depend on theme and focus."""

    def __init__(self, style_of: Callable[[str], Style]) -> None:
        self._style_of = style_of
        self._styles: dict[tuple[str, str], Style] = {}

    def clear_cache(self) -> None:
        """Clear the cached styles."""
        self._styles.clear()

    def style(self, kind: str, style_name: str = "") -> Style:
        """Return the style of a cell with `style_name` in a row of `kind`."""
        style = self._styles.get((kind, style_name))
        if style is None:
            style = self._style_of(kind)
            if style_name:
                style += self._style_of(style_name)
            self._styles[kind, style_name] = style
        return style

    def row(self, appearance: RowAppearance, layout: Layout, scroll_x: int, width: int) -> Strip:
        """Return a row's line, `width` cells wide."""
        gutter = Cell(" ")
        if appearance.is_marked:
            gutter = Cell("✓", "mark")
        elif appearance.has_cursor:
            gutter = Cell("▌", "mark")
        # A row drawn right after its columns changed may have fewer cells.
        cells = [*appearance.cells, *[_EMPTY_CELL] * (len(layout.columns) - len(appearance.cells))]
        return self._line(appearance.kind, gutter, cells, layout, scroll_x, width)

    def header(self, sort: Sort | None, layout: Layout, scroll_x: int, width: int) -> Strip:
        """Return the line of titles, with an arrow at the sorted column."""
        titles = [_EMPTY_CELL] * len(layout.columns)
        for column in layout.columns:
            titles[column.index] = _title(column, sort)
        gutter = Cell("‹" if scroll_x > 0 else " ")
        strip = self._line("header", gutter, titles, layout, scroll_x, width)
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
        """Return a line: the gutter, the fixed first column, and the visible other columns."""
        blank_style = self.style(kind)
        if not layout.columns:
            return Strip([Segment(" " * width, blank_style)], width)
        left_cell = layout.unscrolled_cells + scroll_x
        right_cell = scroll_x + width
        first_column, *other_columns = layout.columns
        visible_columns: list[PositionedColumn] = []
        for column in other_columns:
            if column.start < right_cell and column.start + column.width > left_cell:
                visible_columns.append(column)
        unscrolled_strip = self._strip(kind, [first_column], cells, layout.gap, gutter)
        if not visible_columns:
            return unscrolled_strip.crop_extend(0, width, blank_style)
        scrolled_strip = self._strip(kind, visible_columns, cells, layout.gap)
        skipped_cells = left_cell - visible_columns[0].start
        if skipped_cells < 0:  # the left edge is in the gap before the first visible column
            gap = Segment(" " * -skipped_cells, blank_style)
            scrolled_strip, skipped_cells = (
                Strip([gap, *scrolled_strip], scrolled_strip.cell_length - skipped_cells),
                0,
            )
        available_cells = width - layout.unscrolled_cells
        return Strip.join(
            [
                unscrolled_strip,
                scrolled_strip.crop_extend(
                    skipped_cells, skipped_cells + available_cells, blank_style
                ),
            ]
        )

    def _strip(
        self,
        kind: str,
        columns: Sequence[PositionedColumn],
        cells: Sequence[Cell],
        gap: int,
        gutter: Cell | None = None,
    ) -> Strip:
        """Return the cells of columns, each fitted to its width and followed by a gap."""
        line: list[tuple[str, str]] = [] if gutter is None else [(gutter.text, gutter.style_name)]
        length = 0 if gutter is None else 1
        for column in columns:
            cell = cells[column.index]
            text = fit(cell.text, column.width, column.column.align)
            if cell.second_style_start:
                line.append((text[: cell.second_style_start], cell.style_name))
                line.append((text[cell.second_style_start :], cell.second_style_name))
            else:
                line.append((text, cell.style_name))
            line.append((" " * gap, ""))
            length += column.width + gap
        segments: list[Segment] = []
        style, text = self.style(kind), ""
        for part, style_name in line:
            new_style = self.style(kind, style_name)
            # Neighbouring text of one style is one segment.
            if new_style is not style and text:
                segments.append(Segment(text, style))
                text = ""
            style = new_style
            text += part
        segments.append(Segment(text, style))
        return Strip(segments, length)


def _title(positioned: PositionedColumn, sort: Sort | None) -> Cell:
    """Return a column's title, with an arrow if the rows are sorted by it."""
    column = positioned.column
    if sort is None or column.id != sort.column_id:
        return Cell(column.title)
    arrow = "▼" if sort.descending else "▲"
    available_cells = max(0, positioned.width - 1)
    title = (
        fit(column.title, available_cells) if len(column.title) > available_cells else column.title
    )
    return Cell(title + arrow, "sorted")
