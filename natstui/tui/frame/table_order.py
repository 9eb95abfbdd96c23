"""How the rows of a table are sorted and filtered, and how they come into that order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from natstui.errors import UsageError
from natstui.model.live.row_filter import compiled
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.remembered import keep, recall
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.table_text import in_order

IN_A_THREAD_FROM = 5_000
"""Rows from which sorting leaves the event loop: it would block it for tens of milliseconds."""

SORTED_AGAIN_AFTER_US = 20_000_000
"""How long such a table keeps its order while its values change."""


class TableOrder(ScreenPart):
    """The order and the filter that the user chose, and the keys of the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "part('ordering', 'filter')", "Filter", key_display="/", id="filter"),
        Binding(
            "exclamation_mark",
            "part('ordering', 'problems')",
            "Problems",
            key_display="!",
            id="problems",
        ),
    ]

    def __init__(
        self,
        table: str,
        start: Order,
        ask_pattern: Callable[[str], None],
        changed: Callable[[], None],
        has_rows: Callable[[], bool],
    ) -> None:
        """`ask_pattern` lets the user edit the filter, `changed` shows the rows again.

        `has_rows` returns whether there are any, before the filter.
        """
        self.order = recall_order(table, start)
        self.wrong = ""
        """Why the last filter was not taken, until there is another."""
        self._table = table
        self._ask_pattern, self._changed, self._has_rows = ask_pattern, changed, has_rows

    @property
    def hides_rows(self) -> bool:
        """Whether some rows may be hidden, or a filter is wrong."""
        return bool(self.order.pattern or self.order.problems_only or self.wrong)

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer problems where there are rows, and a filter always: it is for those to come too.

        Whoever types it before the rows are there would type into other keys.
        """
        return action == "filter" or self._has_rows() or self.hides_rows

    def change(self, order: Order) -> None:
        """Sort or filter in another way from now on; a bad expression is reported and not used."""
        try:
            compiled(order.pattern)
        except UsageError as error:
            self.wrong = str(error)
        else:
            self.wrong = ""
            before, self.order = self.order, order
            if (order.column, order.reverse) != (before.column, before.reverse):
                keep_order(self._table, order)
        self._changed()

    def sort_by(self, spec: ColumnSpec[Any]) -> None:
        """Sort by a column; by the present one in the other direction."""
        again = spec.id == self.order.column
        reverse = not self.order.reverse if again else spec.descends
        self.change(replace(self.order, column=spec.id, reverse=reverse))

    def filter_by(self, pattern: str) -> None:
        """Keep the rows that match a regular expression; empty keeps all."""
        self.change(replace(self.order, pattern=pattern))

    def show_all(self) -> bool:
        """Show all rows again; return whether some were hidden."""
        if not self.hides_rows:
            return False
        self.change(replace(self.order, pattern="", problems_only=False))
        return True

    def action_filter(self) -> None:
        """Filter by a regular expression; `!` in front keeps what does not match."""
        self._ask_pattern(self.order.pattern)

    def action_problems(self) -> None:
        """Show only rows somebody should look at, or all again."""
        self.change(replace(self.order, problems_only=not self.order.problems_only))


class RowSorter:
    """Brings the rows of a table into order; many of them in a thread."""

    def __init__(
        self,
        screen: DOMNode,
        show: Callable[[Any, Sequence[int]], None],
    ) -> None:
        """`show` is called with a view and its rows in order."""
        self._screen, self._show = screen, show
        self._before: Sequence[int] = ()
        self._made_for: tuple[object, Order, int] | None = None
        """What `_before` was made for in a thread,"""
        self._making_for: tuple[object, Order, int] | None = None
        """and what an order is being made for."""

    def sort(self, view: Any, specs: Sequence[ColumnSpec[Any]], order: Order) -> None:
        """Show a view in order: now, or once its order is made."""
        if len(view) < IN_A_THREAD_FROM:
            self._before = in_order(view, specs, order, self._before)
            self._show(view, self._before)
            return
        wanted = (view.roster, order, view.now_mono_us)
        if _still_serves(self._made_for, wanted):
            self._show(view, self._before)
        elif not _still_serves(self._making_for, wanted):
            self._making_for = wanted
            self._screen.run_worker(
                self._sort_aside(view, specs, wanted), group="sort", exclusive=True
            )

    async def _sort_aside(
        self, view: Any, specs: Sequence[ColumnSpec[Any]], wanted: tuple[object, Order, int]
    ) -> None:
        self._before = await asyncio.to_thread(in_order, view, specs, wanted[1], self._before)
        self._made_for, self._making_for = wanted, None
        self._show(view, self._before)


def _still_serves(
    known: tuple[object, Order, int] | None, wanted: tuple[object, Order, int]
) -> bool:
    """Return whether an order is still good: for the same rows and sorting, and not old."""
    # Rosters are equal to themselves only; over several systems there is one of each.
    if known is None or known[0] != wanted[0] or known[1] != wanted[1]:
        return False
    return wanted[2] - known[2] < SORTED_AGAIN_AFTER_US


def recall_order(table: str, start: Order) -> Order:
    """Return how a table was sorted last time."""
    known = recall(table)
    if not isinstance(known, dict) or not isinstance(known.get("column"), str):
        return start
    return replace(start, column=str(known["column"]), reverse=known.get("reverse") is True)


def keep_order(table: str, order: Order) -> None:
    """Remember how a table is sorted."""
    keep(table, {"column": order.column, "reverse": order.reverse})
