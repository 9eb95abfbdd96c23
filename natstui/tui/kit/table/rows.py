"""The protocol of a table's rows, and the search for the row of a cursor."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol


class Cell(NamedTuple):
    """A cell's text and the name of its style: "", ok, warn, bad, dim, stale, accent, strong.

    From the character `second_style_start` on, the text has another style.
    """

    text: str
    style_name: str = ""
    second_style_start: int = 0
    """The character from which the text has the style `second_style_name`; 0: one style."""
    second_style_name: str = ""


class RowSource(Protocol):
    """The rows of a table by number; newer data is a new source, and a source never changes."""

    @property
    def order(self) -> Sequence[int]:
        """Return the row numbers after filter and sort: a list, a tuple or a range."""

    def __len__(self) -> int:
        """Return the number of rows before the filter."""

    def key(self, row: int) -> Hashable:
        """Return the key that identifies a row, also in later sources."""

    def cells(self, row: int) -> Sequence[Cell]:
        """Return one cell per column; called only for visible rows."""


class EmptyRowSource:
    """The source of a table that has not received rows yet."""

    order: Sequence[int] = ()

    def __len__(self) -> int:
        """Return 0."""
        return 0

    def key(self, row: int) -> Hashable:
        """Return the row number; never called."""
        return row

    def cells(self, row: int) -> Sequence[Cell]:
        """Return no cells; never called."""
        return ()


def find_position(source: RowSource, key: Hashable, position: int, row: int) -> int | None:
    """Return the position of `key` in the source's order; None if the key is not there.

    `position` and `row` are where the key was in the previous source: they are checked before the
    source is searched.
    """
    order = source.order
    if position < len(order) and source.key(order[position]) == key:
        return position
    if not (row < len(source) and source.key(row) == key):
        row_of_key = next((row for row in range(len(source)) if source.key(row) == key), None)
        if row_of_key is None:
            return None
        row = row_of_key
    try:
        return order.index(row)
    except ValueError:
        return None
