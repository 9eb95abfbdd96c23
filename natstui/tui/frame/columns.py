"""Columns of tables: one entry defines a column's text, order and help."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from natstui.clean import clean_line
from natstui.model.columns.column import Column
from natstui.model.live.known_rows import Roster
from natstui.tui.kit.sparkline import bar
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN

ViewT = TypeVar("ViewT", bound=Sized)
RowT = TypeVar("RowT")
DEFAULT_BAR_CELLS = 4
"""Width in cells of the bar that shows a share beside its number."""


class ColumnSpec(Struct, Generic[ViewT], frozen=True):
    """One column of a table over a view `ViewT`."""

    id: str
    title: str
    width: int
    priority: int
    """Columns with the highest number are hidden first in a narrow terminal."""
    cell: Callable[[ViewT, int], Cell]
    """Returns a cell; its docstring is the column's help: the meaning, and the field or rule."""
    sort: Callable[[ViewT], Sequence[object]]
    """Returns a sort value per row; None sorts last in both directions."""
    align: Literal["left", "right"] = "right"
    flex: int = 0
    """Share of the spare width that the column gets."""
    max_width: int = 60
    """Maximum width, in cells."""
    min_table_width: int = 0
    """Minimum width of a table that shows the column, in cells."""
    descends: bool = True
    """Whether the first press on the column sorts the largest value to the top."""

    @property
    def help(self) -> str:
        """Return the column's help: the docstring of its cell function on one line."""
        return " ".join((self.cell.__doc__ or "").split())


def column_spec(
    column: Column[RowT],
    row_of: Callable[[ViewT, int], RowT],
    width: int,
    *,
    number_width: int = 0,
    bar_cells: int = DEFAULT_BAR_CELLS,
    draw: Callable[[ViewT, int], Cell] | None = None,
    sort: Callable[[ViewT], Sequence[object]] | None = None,
    **layout: Any,
) -> ColumnSpec[ViewT]:
    """Return a table column over the rows that `row_of` returns.

    A column with a share has a bar before its number of `number_width` cells. `draw` replaces the
    cell; `sort` returns the sort values of all rows instead of the column's values.
    """
    values = sort or column.values

    def cell(view: ViewT, row: int) -> Cell:
        if draw is not None:
            return draw(view, row)
        column_row = row_of(view, row)
        text = column.text(column_row)
        is_unknown = column.value(column_row) is None
        if is_unknown and column.dims_unknown:
            return Cell(text, "dim")
        if column.used_ratio is not None and not is_unknown:
            text = f"{bar(column.used_ratio(column_row), bar_cells)} {text:>{number_width}}"
        return Cell(text, column.level(column_row))

    cell.__doc__ = column.help
    align = "right" if column.numeric else "left"
    options: dict[str, Any] = {"align": align, "descends": column.numeric} | layout
    return ColumnSpec(
        column.key,
        column.title,
        width,
        column.priority,
        cell,
        values or (lambda view: [column.value(row_of(view, row)) for row in range(len(view))]),
        **options,
    )


def complete_specs(
    columns: Iterable[Column[RowT]],
    row_of: Callable[[ViewT, int], RowT],
    specs: Sequence[ColumnSpec[ViewT]],
) -> tuple[ColumnSpec[ViewT], ...]:
    """Return `specs`, then a spec for each other column that has a title."""
    spec_keys = {spec.id for spec in specs}
    other_columns = [column for column in columns if column.title and column.key not in spec_keys]
    added_specs = (
        column_spec(column, row_of, max(7, len(column.title))) for column in other_columns
    )
    return (*specs, *added_specs)


def find_filled_specs(
    view: ViewT, specs: Sequence[ColumnSpec[ViewT]], rows: Sequence[int]
) -> list[ColumnSpec[ViewT]]:
    """Return the specs of columns with a value in at least one row; all specs without rows."""
    return [
        spec
        for spec in specs
        if not rows or any(spec.cell(view, row).text.strip() != UNKNOWN for row in rows)
    ]


class SortAndFilter(Struct, frozen=True):
    """Sort column, direction and filter of a table."""

    column: str
    reverse: bool = False
    pattern: str = ""
    """A regular expression; with a leading `!`, rows that do not match are shown."""
    problems_only: bool = False


_DIGITS = re.compile(r"(\d+)")


def natural_sort_key(text: str) -> tuple[str | tuple[int, str], ...]:
    """Return a sort key that orders names by their numbers: `customer.2` before `customer.10`."""
    parts: list[str] = _DIGITS.split(text)
    # Texts and numbers alternate, so they are never compared; a longer number is larger.
    return tuple(
        part if index % 2 == 0 else (len(number := part.lstrip("0")), number)
        for index, part in enumerate(parts)
    )


def sort_rows(values: Sequence[object], rows: Sequence[int], reverse: bool) -> list[int]:
    """Return `rows` sorted by their values; equal rows keep their order, rows without a value
    come last.
    """
    rows_with_value = [row for row in rows if values[row] is not None]
    # Starting from the order of last time makes this nearly linear.
    rows_with_value.sort(key=values.__getitem__, reverse=reverse)  # type: ignore[arg-type]
    if len(rows_with_value) == len(rows):
        return rows_with_value
    return rows_with_value + [row for row in rows if values[row] is None]


ItemT = TypeVar("ItemT")


class ItemsView(Generic[ItemT]):
    """A table view over a sequence of items; `keys` identify them, a filter searches `texts`."""

    now_mono_us = now_at_us = 0

    def __init__(
        self, items: Sequence[ItemT], keys: Sequence[Hashable], texts: Sequence[str]
    ) -> None:
        self.items = items
        self._keys = keys
        self._texts = texts
        self.roster = Roster()

    @classmethod
    def sort_by(
        cls, get_value: Callable[[ItemT], object]
    ) -> Callable[[ItemsView[ItemT]], list[object]]:
        """Return a function that returns the sort values of a column: `get_value` of each item."""
        return lambda view: [get_value(item) for item in view.items]

    def __len__(self) -> int:
        return len(self.items)

    def rows(self) -> Sequence[int]:
        """Return all rows."""
        return range(len(self.items))

    def key(self, row: int) -> Hashable:
        """Return the identity of a row."""
        return self._keys[row]

    def search_text(self, row: int) -> str:
        """Return the text that a filter searches."""
        return clean_line(self._texts[row])

    def stale_s(self, row: int) -> float | None:
        """Return None: these rows are not polled."""
        return None

    def has_problem(self, row: int) -> bool:
        """Return False; a subclass whose rows can have problems overrides this."""
        return False
