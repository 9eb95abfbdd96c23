"""Filters and sorts the rows of a table; their cells are created only when they are drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from natstui.clean import clean_line
from natstui.model.live.row_filter import compile_filter
from natstui.model.live.state import State
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter, natural_sort_key, sort_rows
from natstui.tui.kit.table.rows import Cell
from natstui.units import duration_text


class TableView(Protocol):
    """A view: numbered rows with keys and search texts, which a table filters, sorts and shows."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def rows(self) -> Sequence[int]:
        """Return all rows of the view."""

    def key(self, row: int) -> Hashable:
        """Return the identity of a row."""

    def search_text(self, row: int) -> str:
        """Return the text that a filter searches."""

    def stale_s(self, row: int) -> float | None:
        """Return the age of a stale row in seconds; None for a fresh row."""

    def has_problem(self, row: int) -> bool:
        """Return whether the row has a problem."""


ViewT = TypeVar("ViewT", bound=TableView)


class Rows(Generic[ViewT]):
    """The row source of a big table; a stale row has the style `stale` in every cell."""

    def __init__(
        self, view: ViewT, specs: Sequence[ColumnSpec[ViewT]], order: Sequence[int]
    ) -> None:
        self.view = view
        self.specs = specs
        self.order = order
        # The first such column shows the age of a stale row instead of its own content.
        self._stale_text_column_id = next(
            (spec.id for spec in specs if spec.id in ("status", "trend")), ""
        )

    def __len__(self) -> int:
        return len(self.view)

    def key(self, row: int) -> Hashable:
        """Return the key that identifies a row."""
        return self.view.key(row)

    def cells(self, row: int) -> Sequence[Cell]:
        """Return one cell per column."""
        cells = [spec.cell(self.view, row) for spec in self.specs]
        age_s = self.view.stale_s(row)
        if age_s is None:
            return cells
        note = f"stale {duration_text(age_s)}"
        return [
            Cell(note if spec.id == self._stale_text_column_id else cell.text, "stale")
            for spec, cell in zip(self.specs, cells, strict=True)
        ]


def filter_and_sort_rows(
    view: ViewT,
    specs: Sequence[ColumnSpec[ViewT]],
    order: SortAndFilter,
    previous_rows: Sequence[int] = (),
) -> list[int]:
    """Return the filtered rows, sorted; raises UsageError for a filter that is no valid
    expression.

    `previous_rows`, the previous result, makes sorting faster.
    """
    rows = list(view.rows())
    if order.pattern:
        is_match = compile_filter(order.pattern)
        rows = [row for row in rows if is_match(view.search_text(row))]
    if order.problems_only:
        rows = [row for row in rows if view.has_problem(row)]
    if len(previous_rows) == len(rows) > 1000 and set(previous_rows) == set(rows):
        rows = list(previous_rows)
    else:
        # Equal values stay in the order of their names.
        rows.sort(key=lambda row: natural_sort_key(str(view.key(row))))
    spec = next((spec for spec in specs if spec.id == order.column), specs[0])
    return sort_rows(spec.sort(view), rows, order.reverse)


def empty_text(state: State, noun: str, total: int, hint: str = "") -> str:
    """Return the text that explains an empty table.

    `total` is the number of rows before the filter; `hint` is how to create a row, or why there
    is none.
    """
    if total:
        return f"none of {total} {noun} matches; escape clears the filter"
    link = state.link
    if link is not None and link.state != "connected":
        return clean_line(link.reason or link.state)
    verb = noun.removesuffix("s").upper()
    denied_reason = next(
        (reason for api, reason in state.unavailable.items() if api.startswith(verb)), None
    )
    if denied_reason is not None:
        return clean_line(denied_reason.reason)
    if not state.costs:
        return "waiting for the first poll"
    return f"no {noun}: {hint}" if hint else f"no {noun}"
