"""Computes the layout of a table's columns for a width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natstui.tui.kit.text import Align

GUTTER = 1
"""Cells at the left of every row, for the mark and the cursor."""

_MORE_SIGN_CELLS = 2
"""Cells at the right for the sign that more columns exist."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, minimum width in cells, and priority when space is short."""

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
    sortable: bool = True
    from_width: int = 0
    """Minimum width of a table that shows the column, even if it fits into a narrower table."""


@dataclass(frozen=True, slots=True)
class PositionedColumn:
    """A column with its position; `start` is in cells from the left end of the unscrolled row."""

    index: int
    column: Column
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of all columns; the first column is never scrolled."""

    columns: tuple[PositionedColumn, ...]
    gap: int
    fixed_width: int
    """Cells of the gutter, the first column and the gap after it."""
    total_width: int
    hidden_count: int
    """Number of columns beyond the right edge of an unscrolled table."""

    def at(self, x: int, scroll_x: int) -> Column | None:
        """Return the column under cell `x` of the viewport; None if there is none."""
        if x >= self.fixed_width:
            x += scroll_x
        for column in self.columns:
            if column.start <= x < column.start + column.width:
                return column.column
        return None


def compute_layout(columns: Sequence[Column], viewport_width: int) -> Layout:
    """Return the layout of columns: the visible columns come first and share the spare width."""
    widths = [column.width for column in columns]
    if widths:
        widths[0] = min(widths[0], max(4, viewport_width // 2))
    gap = 1 if viewport_width < 100 else 2
    available_cells = viewport_width
    visible = _choose_columns(columns, widths, available_cells, gap)
    if len(visible) < len(columns):
        available_cells -= _MORE_SIGN_CELLS
        visible = _choose_columns(columns, widths, available_cells, gap)
    spare = available_cells - GUTTER - sum(widths[i] for i in visible) - gap * (len(visible) - 1)
    spare = _widen_columns(columns, widths, visible, spare)
    if len(visible) == len(columns) > 1:
        gap += min(2, max(0, spare // len(columns)))
    hidden = [i for i in range(len(columns)) if i not in visible]
    positioned_columns = []
    start = GUTTER
    for index in [*sorted(visible), *hidden]:
        if hidden and index == hidden[0]:
            start = max(start, viewport_width)  # no half column at the edge
        positioned_columns.append(PositionedColumn(index, columns[index], start, widths[index]))
        start += widths[index] + gap
    fixed_cells = GUTTER + widths[0] + gap if widths else GUTTER
    return Layout(
        tuple(positioned_columns), gap, fixed_cells, max(start - gap, fixed_cells), len(hidden)
    )


def _choose_columns(
    columns: Sequence[Column], widths: Sequence[int], viewport_width: int, gap: int
) -> set[int]:
    """Return the indexes of the columns that fit, chosen by priority, and of the first column."""
    visible: set[int] = set()
    used = GUTTER
    for index in sorted(range(len(columns)), key=lambda i: (i != 0, columns[i].priority)):
        fits = used + widths[index] <= viewport_width >= columns[index].from_width
        if not visible or fits:
            visible.add(index)
            used += widths[index] + gap
    return visible


def _widen_columns(
    columns: Sequence[Column], widths: list[int], visible: set[int], spare: int
) -> int:
    """Widen flexible columns in `widths` by their shares of `spare`; return the rest of it."""
    while spare > 0:
        growing = [i for i in visible if columns[i].flex and widths[i] < columns[i].max_width]
        if not growing:
            break
        shares = sum(columns[i].flex for i in growing)
        before = spare
        for i in sorted(growing):
            added_cells = max(1, before * columns[i].flex // shares)
            step = min(spare, added_cells, columns[i].max_width - widths[i])
            widths[i] += step
            spare -= step
    return max(0, spare)
