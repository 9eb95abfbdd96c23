"""A screen that is one big table: filter, sort, problems, copy, and where a row leads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.tui.frame.action_keys import SPECS
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.remembered import keep, recall
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.systems import Joined, joined_specs, own_key
from natstui.tui.frame.table_order import RowSorter, TableOrder
from natstui.tui.frame.table_text import Rows, empty_text
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import PickSeveral
from natstui.tui.kit.table.big_table import BigTable, Column, Sort
from natstui.tui.kit.table.view import HeaderSelected, RowHighlighted
from natstui.tui.kit.text import safe, safe_copy


class CopyKeys(ScreenPart):
    """Copies what is under the cursor of a table to the clipboard (OSC 52)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "part('copying', 'name')", "Copy", show=False, id="copy.name"),
        Binding("C", "part('copying', 'row')", "Copy row", show=False, id="copy.row"),
    ]

    def __init__(self, screen: TableScreen) -> None:
        self._screen = screen

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer to copy while there is a row."""
        return self._screen.has_row

    def action_name(self) -> None:
        """Copy the name under the cursor."""
        if (key := own_key(self._screen.table.cursor_key)) is not None:
            name = key[1] if len(key) == 3 else key[0]
            self._screen.app.copy_to_clipboard(safe_copy(str(name)))
            self._screen.notify(f"copied {safe_copy(str(name))}", markup=False, timeout=2)

    def action_row(self) -> None:
        """Copy the row under the cursor as JSON, as it is on the screen."""
        rows = self._screen.rows
        if rows is None or not rows.order:
            return
        cells = rows.cells(rows.order[self._screen.table.cursor])
        row = {s.id: c.text for s, c in zip(rows.specs, cells, strict=True)}
        self._screen.app.copy_to_clipboard(json.dumps(row, ensure_ascii=False))
        self._screen.notify("copied the row as JSON", markup=False, timeout=2)


class ColumnChoice(ScreenPart):
    """The columns that the user wants of a table; else those with the most to say that fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+k", "part('choice', 'columns')", "Columns", show=False, id="columns"),
    ]

    def __init__(self, screen: TableScreen) -> None:
        self._screen = screen
        self._kept_as = f"columns of {screen.NOUN}"
        kept = recall(self._kept_as)
        known = {spec.id for spec in screen.SPECS}
        found = [one for one in kept if one in known] if isinstance(kept, list) else []
        self.chosen: list[str] | None = found or None

    def of(self, specs: Sequence[ColumnSpec[Any]]) -> Sequence[ColumnSpec[Any]]:
        """Return the columns to show; the first names the rows, and one is not of the screen."""
        if self.chosen is None:
            return specs
        own = {spec.id for spec in self._screen.SPECS[1:]}
        return [
            replace(spec, from_width=0)
            for spec in specs
            if spec.id in self.chosen or spec.id not in own
        ]

    async def action_columns(self) -> None:
        """Mark the columns to show; none or all of them is the choice of natstui again."""
        run_task(self._screen, self._choose)

    async def _choose(self) -> None:
        specs = self._screen.SPECS[1:]
        shown = self.chosen
        if shown is None:
            layout = self._screen.table.columns_now
            seen = layout.placed[: len(layout.placed) - layout.hidden_count]
            shown = [placed.column.id for placed in seen]
        title = f"Columns of {self._screen.NOUN}: space marks, enter shows the marked ones"
        words = [(spec.id, spec.title, spec.help) for spec in specs]
        marked = await self._screen.app.push_screen_wait(PickSeveral(title, words, shown))
        if marked is not None:
            self.chosen = marked if 0 < len(marked) < len(specs) else None
            keep(self._kept_as, self.chosen)
            self._screen.refresh_state()


class TableScreen(LiveScreen):
    """One table over a view of the state; subclasses name its columns and where rows lead."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *TableOrder.BINDINGS,
        *CopyKeys.BINDINGS,
        *ColumnChoice.BINDINGS,
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = ()
    NOUN: ClassVar[str] = ""
    START: ClassVar[Order] = Order("name")
    OF_A_ROW: ClassVar[frozenset[str]] = frozenset()
    """Actions on the row under the cursor: offered while there is one."""

    table = getters.query_one(BigTable)
    caption = getters.query_one("#caption", Static)

    def __init__(self) -> None:
        super().__init__()
        self.rows: Rows[Any] | None = None
        self._total = 0
        """How many rows there are before the filter."""
        self.ordering = TableOrder(
            self.NOUN,
            self.START,
            lambda pattern: self.command_line.open("/", pattern),
            self.refresh_state,
            lambda: self._total > 0,
        )
        self.copying = CopyKeys(self)
        self.choice = ColumnChoice(self)
        self._sorter = RowSorter(self, self._show)
        self._joined_specs = joined_specs(self.SPECS)

    def body(self) -> Iterable[Widget]:
        """A caption line and the table."""
        yield Static(id="caption", markup=False)
        yield BigTable(table_columns(self.SPECS))

    @property
    def has_row(self) -> bool:
        """Whether a row is under the cursor."""
        return self.rows is not None and len(self.rows.order) > 0

    def may_do(self, name: str) -> bool | None:
        """Return whether an action is offered: only live, and on a row; None where not allowed."""
        if self.state.replay is not None or (SPECS[name].takes != "none" and not self.has_row):
            return False
        return True if allowed(self.state, name) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what is done to a row only while there is one."""
        if action in self.OF_A_ROW and not self.has_row:
            return False
        return super().check_action(action, parameters)

    def view(self) -> Any:
        """Return the view of the present state."""
        raise TypeError(f"{type(self).__name__} shows no view")

    def refresh_state(self) -> None:
        """Bring the newer rows into order and show them."""
        view = self.view()
        specs = self._joined_specs if isinstance(view, Joined) else self.SPECS
        self._sorter.sort(view, specs, self.ordering.order)

    def _show(self, view: Any, in_order: Sequence[int]) -> None:
        order = self.ordering.order
        specs = self._joined_specs if isinstance(view, Joined) else self.SPECS
        specs = self.choice.of(specs) if self.choice.chosen else self.offered(view, specs)
        total, before = len(view.rows()), (self.has_row, self._total > 0)
        self.rows, self._total = Rows(view, specs, in_order), total
        if before != (self.has_row, total > 0):
            self.refresh_bindings()
        self.table.empty = self.empty_text(total)
        self.table.show(
            self.rows, sort=Sort(order.column, order.reverse), columns=table_columns(specs)
        )
        if self.ordering.wrong:
            self.caption.update(safe(self.ordering.wrong, "error"))
        else:
            self.caption.update(safe(self.caption_text(len(in_order), total)))

    def offered(self, view: Any, specs: Sequence[ColumnSpec[Any]]) -> Sequence[ColumnSpec[Any]]:
        """Return the columns that are worth their room while the user chose none."""
        return specs

    def empty_text(self, total: int) -> str:
        """Return why there are no rows, out of so many before the filter."""
        return empty_text(self.state, self.NOUN, total, "" if total else self.empty_hint())

    def empty_hint(self) -> str:
        """Return which key makes a row, or why there is none; empty where nothing is to say."""
        return ""

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        order = self.ordering.order
        count = f"{shown} of {total}" if shown != total else str(total)
        spec = next((s for s in self._joined_specs if s.id == order.column), self.SPECS[0])
        parts = [f"{self.NOUN} {count}", f"by {spec.title} {'▼' if order.reverse else '▲'}"]
        if order.pattern:
            parts.append(f"/{order.pattern}")
        if order.problems_only:
            parts.append("! problems only")
        return "  ·  ".join(parts)

    @on(HeaderSelected)
    def _sort(self, message: HeaderSelected) -> None:
        specs = self._joined_specs
        self.ordering.sort_by(next(s for s in specs if s.id == message.column_id))

    @on(RowHighlighted)
    def _on_another_row(self) -> None:
        """Another system may allow other things."""
        if self.where.joins:
            self.refresh_bindings()
            self.strip.show(self.where, paused=self.paused)

    @on(CommandLine.LookedFor)
    def _filter(self, message: CommandLine.LookedFor) -> None:
        self.ordering.filter_by(message.text)

    def action_back(self) -> None:
        """Clear the filter first, then leave."""
        if not self.ordering.show_all():
            super().action_back()


def table_columns(specs: Sequence[ColumnSpec[Any]]) -> list[Column]:
    """Return what a table needs of its columns."""
    return [
        Column(
            s.id,
            s.title,
            s.width,
            s.align,
            s.flex,
            s.max_width,
            s.priority,
            from_width=s.from_width,
        )
        for s in specs
    ]
