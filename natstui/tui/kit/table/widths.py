"""Where a table's columns go in a given width: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natstui.tui.kit.text import Align

GUTTER = 1
"""Cells at the left of every row, for the mark and the cursor."""

_MORE = 2
"""Cells kept free at the right when there is more, for the sign that says so."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, its least width in cells, and who gives way when space is short."""

    id: str
    title: str
    width: int
    align: Align = "left"
    flex: int = 0
    """Its share of spare width; 0 keeps `width`."""
    max_width: int = 60
    """Where a flexible column stops growing, in cells."""
    priority: int = 0
    """What does not fit goes behind the right edge: the highest number first."""
    sortable: bool = True
    from_width: int = 0
    """It goes behind the right edge of a table with fewer cells, though it might fit."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A column at its place; `start` counts cells from the left end of the whole row."""

    index: int
    column: Column
    start: int
    width: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All columns at their places. The first never scrolls away."""

    placed: tuple[Placed, ...]
    gap: int
    fixed_width: int
    """Cells of the gutter, the first column and the gap after it."""
    total_width: int
    hidden_count: int
    """Columns behind the right edge when nothing is scrolled."""

    def at(self, x: int, scroll_x: int) -> Column | None:
        """Return the column under cell `x` of the viewport."""
        if x >= self.fixed_width:
            x += scroll_x
        for placed in self.placed:
            if placed.start <= x < placed.start + placed.width:
                return placed.column
        return None


def place(columns: Sequence[Column], viewport_width: int) -> Layout:
    """Choose who is seen at once, share the spare width, and line everything up."""
    widths = [column.width for column in columns]
    if widths:
        widths[0] = min(widths[0], max(4, viewport_width // 2))
    gap = 1 if viewport_width < 100 else 2
    room = viewport_width
    seen = _seen_at_once(columns, widths, room, gap)
    if len(seen) < len(columns):
        room -= _MORE
        seen = _seen_at_once(columns, widths, room, gap)
    spare = room - GUTTER - sum(widths[i] for i in seen) - gap * (len(seen) - 1)
    spare = _share(columns, widths, seen, spare)
    if len(seen) == len(columns) > 1:
        gap += min(2, max(0, spare // len(columns)))
    hidden = [i for i in range(len(columns)) if i not in seen]
    placed = []
    start = GUTTER
    for index in [*sorted(seen), *hidden]:
        if hidden and index == hidden[0]:
            start = max(start, viewport_width)  # no half column at the edge
        placed.append(Placed(index, columns[index], start, widths[index]))
        start += widths[index] + gap
    fixed = GUTTER + widths[0] + gap if widths else GUTTER
    return Layout(tuple(placed), gap, fixed, max(start - gap, fixed), len(hidden))


def _seen_at_once(
    columns: Sequence[Column], widths: Sequence[int], viewport_width: int, gap: int
) -> set[int]:
    """Return the indexes that fit, taken by priority; the first column always does."""
    seen: set[int] = set()
    used = GUTTER
    for index in sorted(range(len(columns)), key=lambda i: (i != 0, columns[i].priority)):
        fits = used + widths[index] <= viewport_width >= columns[index].from_width
        if not seen or fits:
            seen.add(index)
            used += widths[index] + gap
    return seen


def _share(columns: Sequence[Column], widths: list[int], seen: set[int], spare: int) -> int:
    """Widen flexible columns by their shares; return what nobody wanted."""
    while spare > 0:
        growing = [i for i in seen if columns[i].flex and widths[i] < columns[i].max_width]
        if not growing:
            break
        shares = sum(columns[i].flex for i in growing)
        before = spare
        for i in sorted(growing):
            wanted = max(1, before * columns[i].flex // shares)
            step = min(spare, wanted, columns[i].max_width - widths[i])
            widths[i] += step
            spare -= step
    return max(0, spare)
