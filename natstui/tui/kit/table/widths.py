"""Computes the layout of a table's columns for a width."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from natstui.tui.kit.text import Align

GUTTER_CELLS = 1
"""Cells at the left of every row, for the mark and the cursor."""

_MORE_SIGN_CELLS = 2
"""Cells at the right for the sign that more columns exist."""


class ColumnLayout(Struct, frozen=True):
    """A column of a table: its title, minimum width in cells, and priority when space is short."""

    id: str
    title: str
    width: int
    align: Align = "left"
    flex: int = 0
    """The column's share of spare width; 0 keeps `width`."""
    max_width: int = 60
    """Maximum width of a flexible column, in cells."""
    priority: int = 0
    """Columns that do not fit are hidden: the highest number first."""
    is_sortable: bool = True
    min_table_width: int = 0
    """Minimum width of a table that shows the column, even if it fits into a narrower table."""


class PositionedColumn(Struct, frozen=True):
    """A column with its position; `start` is in cells from the left end of the unscrolled row."""

    index: int
    column: ColumnLayout
    start: int
    width: int


class Layout(Struct, frozen=True):
    """The positions of all columns; the first column is never scrolled."""

    columns: tuple[PositionedColumn, ...]
    gap: int
    unscrolled_cells: int
    """Cells of the gutter, the first column and the gap after it."""
    total_width: int
    hidden_count: int
    """Number of columns beyond the right edge of an unscrolled table."""

    def at(self, x: int, scroll_x: int) -> ColumnLayout | None:
        """Return the column under cell `x` of the viewport; None if there is none."""
        if x >= self.unscrolled_cells:
            x += scroll_x
        for column in self.columns:
            if column.start <= x < column.start + column.width:
                return column.column
        return None


def compute_layout(columns: Sequence[ColumnLayout], viewport_width: int) -> Layout:
    """Return the layout of columns: the visible columns come first and share the spare width."""
    widths = [column.width for column in columns]
    if widths:
        widths[0] = min(widths[0], max(4, viewport_width // 2))
    gap = 1 if viewport_width < 100 else 2
    available_cells = viewport_width
    visible_indexes = _choose_columns(columns, widths, available_cells, gap)
    if len(visible_indexes) < len(columns):
        available_cells -= _MORE_SIGN_CELLS
        visible_indexes = _choose_columns(columns, widths, available_cells, gap)
    spare_cells = (
        available_cells
        - GUTTER_CELLS
        - sum(widths[index] for index in visible_indexes)
        - gap * (len(visible_indexes) - 1)
    )
    spare_cells = _widen_columns(columns, widths, visible_indexes, spare_cells)
    if len(visible_indexes) == len(columns) > 1:
        gap += min(2, max(0, spare_cells // len(columns)))
    hidden_indexes = [index for index in range(len(columns)) if index not in visible_indexes]
    positioned_columns = []
    start = GUTTER_CELLS
    for index in [*sorted(visible_indexes), *hidden_indexes]:
        if hidden_indexes and index == hidden_indexes[0]:
            start = max(start, viewport_width)  # no half column at the edge
        positioned_columns.append(PositionedColumn(index, columns[index], start, widths[index]))
        start += widths[index] + gap
    unscrolled_cells = GUTTER_CELLS + widths[0] + gap if widths else GUTTER_CELLS
    return Layout(
        tuple(positioned_columns),
        gap,
        unscrolled_cells,
        max(start - gap, unscrolled_cells),
        len(hidden_indexes),
    )


def _choose_columns(
    columns: Sequence[ColumnLayout], widths: Sequence[int], viewport_width: int, gap: int
) -> set[int]:
    """Return the indexes of the columns that fit, chosen by priority, and of the first column."""
    visible_indexes: set[int] = set()
    used_cells = GUTTER_CELLS
    for index in sorted(range(len(columns)), key=lambda i: (i != 0, columns[i].priority)):
        fits = used_cells + widths[index] <= viewport_width >= columns[index].min_table_width
        if not visible_indexes or fits:
            visible_indexes.add(index)
            used_cells += widths[index] + gap
    return visible_indexes


def _widen_columns(
    columns: Sequence[ColumnLayout], widths: list[int], visible_indexes: set[int], spare_cells: int
) -> int:
    """Widen flexible columns in `widths` by their shares of `spare_cells`; return the unused
    cells.
    """
    while spare_cells > 0:
        growing_indexes = [
            index
            for index in visible_indexes
            if columns[index].flex and widths[index] < columns[index].max_width
        ]
        if not growing_indexes:
            break
        flex_sum = sum(columns[index].flex for index in growing_indexes)
        cells_to_share = spare_cells
        for index in sorted(growing_indexes):
            added_cells = max(1, cells_to_share * columns[index].flex // flex_sum)
            step = min(spare_cells, added_cells, columns[index].max_width - widths[index])
            widths[index] += step
            spare_cells -= step
    return max(0, spare_cells)
