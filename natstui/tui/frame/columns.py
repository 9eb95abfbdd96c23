"""How a table's column is described: one entry gives its text, its order and its help."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from natstui.clean import clean_line
from natstui.model.columns.column import Column
from natstui.model.live.table import Roster
from natstui.tui.kit.sparkline import bar
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN

V = TypeVar("V", bound=Sized)
R = TypeVar("R")
BAR_CELLS = 4
"""Of a share, beside its number."""


@dataclass(frozen=True, slots=True)
class ColumnSpec(Generic[V]):
    """One column of a table over a view `V`."""

    id: str
    title: str
    width: int
    priority: int
    """What gives way first in a narrow terminal: the highest number."""
    cell: Callable[[V, int], Cell]
    """Its docstring is the column's help: what it is, from which field or by which rule."""
    sort: Callable[[V], Sequence[object]]
    """A value per row; None sorts last both ways."""
    align: Literal["left", "right"] = "right"
    flex: int = 0
    """Share of spare width it takes."""
    max_width: int = 60
    """Where it stops growing, in cells."""
    from_width: int = 0
    """How many cells a table has that shows it: in a narrower one others take its room."""
    descends: bool = True
    """The first press sorts the largest to the top."""

    @property
    def help(self) -> str:
        """One sentence for people."""
        return " ".join((self.cell.__doc__ or "").split())


def column_spec(
    column: Column[R],
    row_of: Callable[[V, int], R],
    width: int,
    priority: int,
    *,
    number_width: int = 0,
    bar_cells: int = BAR_CELLS,
    drawn: Callable[[V, int], Cell] | None = None,
    sort: Callable[[V], Sequence[object]] | None = None,
    **layout: Any,
) -> ColumnSpec[V]:
    """Return a column of a table over the rows that `row_of` returns.

    A bar of what it uses is drawn before a number of `number_width`. `drawn` returns a cell
    that is more than text, `sort` what the rows are sorted by where that is not their value, or
    is quicker for all of them at once.
    """
    values = sort or column.values

    def cell(view: V, row: int) -> Cell:
        if drawn is not None:
            return drawn(view, row)
        shown = row_of(view, row)
        text = column.text(shown)
        is_unknown = column.value(shown) is None
        if is_unknown and column.dims_unknown:
            return Cell(text, "dim")
        if column.used_ratio is not None and not is_unknown:
            text = f"{bar(column.used_ratio(shown), bar_cells)} {text:>{number_width}}"
        return Cell(text, column.level(shown))

    cell.__doc__ = column.help
    align = "right" if column.numeric else "left"
    placed: dict[str, Any] = {"align": align, "descends": column.numeric} | layout
    return ColumnSpec(
        column.key,
        column.title,
        width,
        priority,
        cell,
        values or (lambda view: [column.value(row_of(view, row)) for row in range(len(view))]),
        **placed,
    )


def every_spec(
    columns: Iterable[Column[R]],
    row_of: Callable[[V, int], R],
    specs: Sequence[ColumnSpec[V]],
) -> tuple[ColumnSpec[V], ...]:
    """Return these columns of a table, then those that have a title and no layout yet."""
    placed = {spec.id for spec in specs}
    rest = [column for column in columns if column.title and column.key not in placed]
    last = max(spec.priority for spec in specs) + 1
    more = [column_spec(column, row_of, max(7, len(column.title)), last) for column in rest]
    return (*specs, *more)


def with_values(
    view: V, specs: Sequence[ColumnSpec[V]], rows: Sequence[int]
) -> list[ColumnSpec[V]]:
    """Return the columns that have a value in any of these rows: all of them without rows."""
    return [
        spec
        for spec in specs
        if not rows or any(spec.cell(view, row).text.strip() != UNKNOWN for row in rows)
    ]


@dataclass(frozen=True, slots=True)
class Order:
    """How a table is sorted and filtered."""

    column: str
    reverse: bool = False
    pattern: str = ""
    """A regular expression; a leading `!` keeps what does not match."""
    problems_only: bool = False


_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> tuple[str | tuple[int, str], ...]:
    """Return what sorts a name as people do: `customer.2` before `customer.10`."""
    parts: list[str] = _DIGITS.split(text)
    # Words and numbers alternate, so only like is compared with like; a longer number is larger.
    return tuple(
        part if at % 2 == 0 else (len(number := part.lstrip("0")), number)
        for at, part in enumerate(parts)
    )


def arranged(values: Sequence[object], rows: Sequence[int], reverse: bool) -> list[int]:
    """Return `rows` by their values; equal ones keep their order, unknown ones come last."""
    known = [row for row in rows if values[row] is not None]
    # Starting from the order of last time makes this nearly linear.
    known.sort(key=values.__getitem__, reverse=reverse)  # type: ignore[arg-type]
    if len(known) == len(rows):
        return known
    return known + [row for row in rows if values[row] is None]


T = TypeVar("T")


class Listed(Generic[T]):
    """Rows are the things themselves; `keys` names them, and a filter looks at `texts`."""

    now_mono_us = now_at_us = 0

    def __init__(
        self, things: Sequence[T], keys: Sequence[Hashable], texts: Sequence[str]
    ) -> None:
        self.things = things
        self._keys = keys
        self._texts = texts
        self.roster = Roster()

    def __len__(self) -> int:
        return len(self.things)

    def rows(self) -> Sequence[int]:
        """Return all rows."""
        return range(len(self.things))

    def key(self, row: int) -> Hashable:
        """Return the identity of a row."""
        return self._keys[row]

    def search_text(self, row: int) -> str:
        """Return what a filter looks at."""
        return clean_line(self._texts[row])

    def stale_s(self, row: int) -> float | None:
        """Return None: nothing here is polled."""
        return None

    def problem(self, row: int) -> bool:
        """Return whether somebody should look at the row."""
        return False
