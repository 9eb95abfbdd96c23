"""Rows of a table: filtered, sorted, and formatted only when they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from natstui.clean import clean_line
from natstui.model.live.row_filter import compiled
from natstui.model.live.state import State
from natstui.tui.frame.columns import ColumnSpec, Order, arranged, natural
from natstui.tui.kit.table.rows import Cell
from natstui.units import duration_text


class TableView(Protocol):
    """The interface between a table and its view."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def rows(self) -> Sequence[int]:
        """Return all rows of the view."""

    def key(self, row: int) -> Hashable:
        """Return the identity of a row."""

    def search_text(self, row: int) -> str:
        """Return the text that a filter searches."""

    def stale_s(self, row: int) -> float | None:
        """Return the age of a stale row, None for a fresh one."""

    def has_problem(self, row: int) -> bool:
        """Return whether the row has a problem."""


V = TypeVar("V", bound=TableView)


class Rows(Generic[V]):
    """The row source of a big table. A stale row is marked in every cell."""

    def __init__(self, view: V, specs: Sequence[ColumnSpec[V]], order: Sequence[int]) -> None:
        self.view = view
        self.specs = specs
        self.order = order
        # Where a stale row says its age: a column whose own content means nothing then.
        self._said_in = next((s.id for s in specs if s.id in ("status", "trend")), "")

    def __len__(self) -> int:
        return len(self.view)

    def key(self, row: int) -> Hashable:
        """Return the identity of a row."""
        return self.view.key(row)

    def cells(self, row: int) -> Sequence[Cell]:
        """Return one cell per column."""
        cells = [spec.cell(self.view, row) for spec in self.specs]
        age_s = self.view.stale_s(row)
        if age_s is None:
            return cells
        note = f"stale {duration_text(age_s)}"
        return [
            Cell(note if spec.id == self._said_in else cell.text, "stale")
            for spec, cell in zip(self.specs, cells, strict=True)
        ]


def matching(view: TableView, order: Order) -> list[int]:
    """Return the rows that match the filter; raises UsageError for a wrong expression."""
    rows = view.rows()
    if order.pattern:
        keeps: Callable[[str], bool] = compiled(order.pattern)
        rows = [row for row in rows if keeps(view.search_text(row))]
    if order.problems_only:
        rows = [row for row in rows if view.has_problem(row)]
    return list(rows)


def in_order(
    view: V, specs: Sequence[ColumnSpec[V]], order: Order, before: Sequence[int] = ()
) -> list[int]:
    """Return the filtered, sorted rows; `before` is the previous result, which makes sorting
    faster.
    """
    rows = matching(view, order)
    if len(before) == len(rows) > 1000 and set(before) == set(rows):
        rows = list(before)
    else:
        # Equal values stay in the order of their names.
        rows.sort(key=lambda row: natural(str(view.key(row))))
    spec = next((spec for spec in specs if spec.id == order.column), specs[0])
    return arranged(spec.sort(view), rows, order.reverse)


def empty_text(state: State, noun: str, total: int, hint: str = "") -> str:
    """Return why a table has no rows; `hint` is how to create one, or why there is none."""
    if total:
        return f"none of {total} {noun} matches; escape clears the filter"
    link = state.link
    if link is not None and link.state != "connected":
        return clean_line(link.reason or link.state)
    verb = noun.removesuffix("s").upper()
    denied_reason = next(
        (reason for what, reason in state.unavailable.items() if what.startswith(verb)), None
    )
    if denied_reason is not None:
        return clean_line(denied_reason.reason)
    if not state.costs:
        return "waiting for the first poll"
    return f"no {noun}: {hint}" if hint else f"no {noun}"
