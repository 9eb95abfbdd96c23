"""What a table shows: rows behind a protocol, and how a cursor follows its row. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol


class Cell(NamedTuple):
    """A cell's text and the name of its look: "", ok, warn, bad, dim, stale, accent, strong."""

    text: str
    look: str = ""
    tail_from: int = 0
    """The character from where the text has another look; 0: it has one."""
    tail_look: str = ""


class RowSource(Protocol):
    """Rows by number. A refresh brings a new source; an old one is never changed."""

    @property
    def order(self) -> Sequence[int]:
        """Row numbers after filter and sort: a list, a tuple or a range."""

    def __len__(self) -> int:
        """Return how many rows there are before the filter."""

    def key(self, row: int) -> Hashable:
        """Return what identifies the row in every later source."""

    def cells(self, row: int) -> Sequence[Cell]:
        """Return one cell per column; asked only for rows on the screen."""


class NoRows:
    """The source of a table that was given nothing yet."""

    order: Sequence[int] = ()

    def __len__(self) -> int:
        """Return 0."""
        return 0

    def key(self, row: int) -> Hashable:
        """Return the number itself; nobody asks."""
        return row

    def cells(self, row: int) -> Sequence[Cell]:
        """Return nothing; nobody asks."""
        return ()


def position_of(source: RowSource, key: Hashable, position: int, row: int) -> int | None:
    """Return where `key` is in the source's order, or None when it is not in view.

    `position` and `row` are where it was before: the usual answer, found without a search.
    """
    order = source.order
    if position < len(order) and source.key(order[position]) == key:
        return position
    if not (row < len(source) and source.key(row) == key):
        found = next((row for row in range(len(source)) if source.key(row) == key), None)
        if found is None:
            return None
        row = found
    try:
        return order.index(row)
    except ValueError:
        return None
