"""The rows of a table behind a protocol, and how a cursor follows its row. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol


class Cell(NamedTuple):
    """A cell's text and the name of its look: "", ok, warn, bad, dim, stale, accent, strong."""

    text: str
    look: str = ""
    tail_from: int = 0
    """The character from which the text has another look; 0: a single look."""
    tail_look: str = ""


class RowSource(Protocol):
    """Rows by number. A refresh brings a new source; an old one is never changed."""

    @property
    def order(self) -> Sequence[int]:
        """Return the row numbers after filter and sort: a list, a tuple or a range."""

    def __len__(self) -> int:
        """Return how many rows there are before the filter."""

    def key(self, row: int) -> Hashable:
        """Return the identity of the row in every later source."""

    def cells(self, row: int) -> Sequence[Cell]:
        """Return one cell per column; called only for visible rows."""


class NoRows:
    """The source of a table before it gets one."""

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


def position_of(source: RowSource, key: Hashable, position: int, row: int) -> int | None:
    """Return the position of `key` in the source's order, or None when it is not in view.

    `position` and `row` are the previous ones: the usual result, found without a search.
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
