"""A screen that is one big table: filter, sort, problems, copy, and where a row leads.

How a table was sorted is remembered between two runs; nothing of the server is."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.errors import UsageError
from natstui.paths import private_folder
from natstui.tui.frame.columns import ColumnSpec, Order, compiled
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.table_text import Rows, empty_text, in_order
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.table.big_table import BigTable, Column, Sort
from natstui.tui.kit.table.view import HeaderSelected
from natstui.tui.kit.text import safe, safe_copy

IN_A_THREAD_FROM = 5_000
"""Rows from which sorting leaves the event loop: it would block it for tens of milliseconds."""

SORTED_AGAIN_AFTER_US = 20_000_000
"""So long such a table keeps its order while its values move on."""


class TableScreen(LiveScreen):
    """One table over a view of the state; subclasses name its columns and where rows lead."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", id="filter"),
        Binding("exclamation_mark", "problems", "Problems", key_display="!", id="problems"),
        Binding("c", "copy_name", "Copy", show=False, id="copy.name"),
        Binding("C", "copy_row", "Copy row", show=False, id="copy.row"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = ()
    NOUN: ClassVar[str] = ""
    START: ClassVar[Order] = Order("name")

    table = getters.query_one(BigTable)
    caption = getters.query_one("#caption", Static)

    def __init__(self) -> None:
        super().__init__()
        self.order = recall_order(self.NOUN, self.START)
        self.rows: Rows[Any] | None = None
        self._wrong = ""
        """Why the last filter was not taken, until there is another."""
        self._before: Sequence[int] = ()
        self._arranged: tuple[object, Order, int] | None = None
        """What `_before` was made for,"""
        self._arranging: tuple[object, Order, int] | None = None
        """and what an order is being made for."""

    def body(self) -> Iterable[Widget]:
        """A caption line and the table."""
        columns = [
            Column(s.id, s.title, s.width, s.align, flex=s.flex, priority=s.priority)
            for s in self.SPECS
        ]
        yield Static(id="caption", markup=False)
        yield BigTable(columns)

    def view(self) -> Any:
        """Return the view of the present state."""
        raise TypeError(f"{type(self).__name__} shows no view")

    def refresh_state(self) -> None:
        """Arrange the newer rows and show them."""
        view = self.view()
        if len(view) >= IN_A_THREAD_FROM:
            wanted = (view.roster, self.order, view.now_mono_us)
            if _still_serves(self._arranged, wanted):
                self._show(view, self._before)
            elif not _still_serves(self._arranging, wanted):
                self._arranging = wanted
                self._arrange_aside(view, wanted)
        else:
            self._show(view, in_order(view, self.SPECS, self.order, self._before))

    @work(exclusive=True, group="arrange")
    async def _arrange_aside(self, view: Any, wanted: tuple[object, Order, int]) -> None:
        order = await asyncio.to_thread(in_order, view, self.SPECS, self.order, self._before)
        self._arranged, self._arranging = wanted, None
        self._show(view, order)

    def _show(self, view: Any, order: Sequence[int]) -> None:
        self._before = order
        self.rows = Rows(view, self.SPECS, order)
        self.table.empty = self.empty_text(len(view.rows()))
        self.table.show(self.rows, sort=Sort(self.order.column, self.order.reverse))
        if self._wrong:
            self.caption.update(safe(self._wrong, "$text-error"))
        else:
            self.caption.update(safe(self.caption_text(len(order), len(view.rows()))))

    def empty_text(self, total: int) -> str:
        """Return why there are no rows, out of so many before the filter."""
        return empty_text(self.state, self.NOUN, total)

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        count = f"{shown} of {total}" if shown != total else str(total)
        spec = next((s for s in self.SPECS if s.id == self.order.column), self.SPECS[0])
        parts = [f"{self.NOUN} {count}", f"by {spec.title} {'▼' if self.order.reverse else '▲'}"]
        if self.order.pattern:
            parts.append(f"/{self.order.pattern}")
        if self.order.problems_only:
            parts.append("! problems only")
        return "  ·  ".join(parts)

    def reorder(self, order: Order) -> None:
        """Sort or filter in another way from now on; a bad expression is told and not taken."""
        try:
            compiled(order.pattern)
        except UsageError as error:
            self._wrong = str(error)
        else:
            self._wrong = ""
            before, self.order = self.order, order
            if (order.column, order.reverse) != (before.column, before.reverse):
                keep_order(self.NOUN, order)
        self.refresh_state()

    @on(HeaderSelected)
    def _sort(self, message: HeaderSelected) -> None:
        spec = next(s for s in self.SPECS if s.id == message.column_id)
        again = spec.id == self.order.column
        reverse = not self.order.reverse if again else spec.descends
        self.reorder(replace(self.order, column=spec.id, reverse=reverse))

    @on(CommandLine.Edited)
    @on(CommandLine.Entered)
    def _filter(self, message: CommandLine.Edited | CommandLine.Entered) -> None:
        if message.prefix == "/":
            self.reorder(replace(self.order, pattern=message.text))

    @on(CommandLine.Cancelled)
    def _unfilter(self, message: CommandLine.Cancelled) -> None:
        if message.prefix == "/":
            self.reorder(replace(self.order, pattern=""))

    def action_filter(self) -> None:
        """Filter by a regular expression; `!` in front keeps what does not match."""
        self.command_line.open("/", self.order.pattern)

    def action_problems(self) -> None:
        """Show only rows somebody should look at, or all again."""
        self.reorder(replace(self.order, problems_only=not self.order.problems_only))

    def action_back(self) -> None:
        """Clear the filter first, then leave."""
        if self.order.pattern or self.order.problems_only or self._wrong:
            self.reorder(replace(self.order, pattern="", problems_only=False))
        else:
            super().action_back()

    def action_copy_name(self) -> None:
        """Copy the name under the cursor to the clipboard (OSC 52)."""
        if (key := self.table.cursor_key) is not None and isinstance(key, tuple):
            name = key[1] if len(key) == 3 else key[0]
            self.app.copy_to_clipboard(safe_copy(str(name)))
            self.notify(f"copied {safe_copy(str(name))}", markup=False, timeout=2)

    def action_copy_row(self) -> None:
        """Copy the row under the cursor as JSON, as it is on the screen."""
        if self.rows is None or not self.rows.order:
            return
        cells = self.rows.cells(self.rows.order[self.table.cursor])
        row = {s.id: c.text for s, c in zip(self.SPECS, cells, strict=True)}
        self.app.copy_to_clipboard(json.dumps(row, ensure_ascii=False))
        self.notify("copied the row as JSON", markup=False, timeout=2)


def _still_serves(
    known: tuple[object, Order, int] | None, wanted: tuple[object, Order, int]
) -> bool:
    """Tell whether an order still serves: same rows, same wish, made not long ago."""
    if known is None or known[0] is not wanted[0] or known[1] != wanted[1]:
        return False
    return wanted[2] - known[2] < SORTED_AGAIN_AFTER_US


def _path() -> Path:
    from platformdirs import user_state_path

    return user_state_path("natstui") / "view.json"


def _load() -> dict[str, dict[str, object]]:
    try:
        known = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        # Nothing remembered, or not by us: start from the defaults.
        return {}
    return known if isinstance(known, dict) else {}


def recall_order(table: str, start: Order) -> Order:
    """Return how a table was sorted last time."""
    known = _load().get(table)
    if not isinstance(known, dict) or not isinstance(known.get("column"), str):
        return start
    return replace(start, column=str(known["column"]), reverse=known.get("reverse") is True)


def keep_order(table: str, order: Order) -> None:
    """Remember how a table is sorted; a folder that cannot be written costs only that."""
    known = _load() | {table: {"column": order.column, "reverse": order.reverse}}
    with contextlib.suppress(OSError):
        private_folder(_path().parent)
        _path().write_text(json.dumps(known), "utf-8")
