"""The layout of a table's columns in a given width: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natstui.tui.kit.text import Align

GUTTER = 1
"""Cells at the left of every row, for the mark and the cursor."""

_MORE = 2
"""Cells that are reserved at the right for the sign that there are more columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, minimum width in cells, and priority when space is short."""

    id: str
    title: str
    width: int
    align: Align = "left"
    flex: int = 0
    """Its share of spare width; 0 keeps `width`."""
    max_width: int = 60
    """Maximum width of a flexible column, in cells."""
    priority: int = 0
    """Columns that do not fit are hidden: the highest number first."""
    sortable: bool = True
    from_width: int = 0
    """Minimum width of a table that shows the column, though it might fit in a narrower one."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A column with its position; `start` counts cells from the left end of the entire row."""

    index: int
    column: Column
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of all columns. The first never scrolls away."""

    placed: tuple[Placed, ...]
    gap: int
    fixed_width: int
    """Cells of the gutter, the first column and the gap after it."""
    total_width: int
    hidden_count: int
    """Columns beyond the right edge when nothing is scrolled."""

    def at(self, x: int, scroll_x: int) -> Column | None:
        """Return the column under cell `x` of the viewport."""
        if x >= self.fixed_width:
            x += scroll_x
        for column in self.placed:
            if column.start <= x < column.start + column.width:
                return column.column
        return None


def place(columns: Sequence[Column], viewport_width: int) -> Layout:
    """Choose the visible columns, share the spare width, and compute all positions."""
    widths = [column.width for column in columns]
    if widths:
        widths[0] = min(widths[0], max(4, viewport_width // 2))
    gap = 1 if viewport_width < 100 else 2
    room = viewport_width
    visible = _seen_at_once(columns, widths, room, gap)
    if len(visible) < len(columns):
        room -= _MORE
        visible = _seen_at_once(columns, widths, room, gap)
    spare = room - GUTTER - sum(widths[i] for i in visible) - gap * (len(visible) - 1)
    spare = _share(columns, widths, visible, spare)
    if len(visible) == len(columns) > 1:
        gap += min(2, max(0, spare // len(columns)))
    hidden = [i for i in range(len(columns)) if i not in visible]
    columns_placed = []
    start = GUTTER
    for index in [*sorted(visible), *hidden]:
        if hidden and index == hidden[0]:
            start = max(start, viewport_width)  # no half column at the edge
        columns_placed.append(Placed(index, columns[index], start, widths[index]))
        start += widths[index] + gap
    fixed_cells = GUTTER + widths[0] + gap if widths else GUTTER
    return Layout(
        tuple(columns_placed), gap, fixed_cells, max(start - gap, fixed_cells), len(hidden)
    )


def _seen_at_once(
    columns: Sequence[Column], widths: Sequence[int], viewport_width: int, gap: int
) -> set[int]:
    """Return the indexes of the columns that fit, by priority; the first column always fits."""
    visible: set[int] = set()
    used = GUTTER
    for index in sorted(range(len(columns)), key=lambda i: (i != 0, columns[i].priority)):
        fits = used + widths[index] <= viewport_width >= columns[index].from_width
        if not visible or fits:
            visible.add(index)
            used += widths[index] + gap
    return visible


def _share(columns: Sequence[Column], widths: list[int], visible: set[int], spare: int) -> int:
    """Widen flexible columns by their shares; return the remaining width."""
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
