"""A screen with one big table: its filters, order, columns, and copying of rows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from natstui.errors import UsageError
from natstui.model.live.row_filter import compile_filter
from natstui.tui.frame.action_keys import SPECS, is_allowed
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.live import DEFECT_REPORT_INTERVAL_S, LiveScreen, ScreenPart
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.row_order import Rows, empty_text, filter_and_sort_rows
from natstui.tui.frame.stored_settings import load_view_setting, store_view_setting
from natstui.tui.frame.systems import JoinedView, joined_specs, key_without_system
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.pick import PickSeveralDialog
from natstui.tui.kit.table.big_table import BigTable, ColumnLayout, Sort
from natstui.tui.kit.table.view import HeaderSelected, RowHighlighted
from natstui.tui.kit.text import safe, safe_copy
from natstui.values import replace

THREAD_SORT_MIN_ROWS = 5_000
"""Number of rows from which sorting runs in a thread: it would block the event loop."""

RESORT_AFTER_US = 20_000_000
"""Time after which a large table is sorted again by its changed values."""

ItemT = TypeVar("ItemT")


class SortRequest(NamedTuple):
    """A request to sort the rows of a table."""

    roster: object
    """The roster of the view: another one if a row was added or removed."""
    order: SortAndFilter
    requested_mono_us: int
    """Time of the request on the view's monotonic clock, in µs."""


class TableOrder(ScreenPart):
    """The order and filter of a table, and the keys of the filter."""

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
        table_name: str,
        default_order: SortAndFilter,
        prompt_pattern: Callable[[str], None],
        on_change: Callable[[], None],
        has_rows: Callable[[], bool],
    ) -> None:
        """Load the stored order of the table `table_name`, by default `default_order`.

        `prompt_pattern` prompts for the filter. `on_change` shows the rows again. `has_rows`
        returns whether there are rows before the filter.
        """
        self.order = load_order(table_name, default_order)
        self.error_text = ""
        """The error of the last filter if it was not valid; empty after a valid one."""
        self._table_name = table_name
        self._prompt_pattern, self._on_change, self._has_rows = prompt_pattern, on_change, has_rows

    @property
    def hides_rows(self) -> bool:
        """Return whether there is a filter, or the last entered filter was not valid."""
        return bool(self.order.pattern or self.order.problems_only or self.error_text)

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: the text filter always, the problems filter with
        rows.

        Otherwise the letters of a filter typed before the rows arrive would execute other keys.
        """
        return action == "filter" or self._has_rows() or self.hides_rows

    def change(self, order: SortAndFilter) -> None:
        """Change the order or filter; a filter that is no valid expression is only reported."""
        try:
            compile_filter(order.pattern)
        except UsageError as error:
            self.error_text = str(error)
        else:
            self.error_text = ""
            previous_order, self.order = self.order, order
            if (order.column, order.reverse) != (previous_order.column, previous_order.reverse):
                store_order(self._table_name, order)
        self._on_change()

    def sort_by(self, spec: ColumnSpec[Any]) -> None:
        """Sort by a column; if the table is sorted by it, reverse the direction."""
        is_sort_column = spec.id == self.order.column
        reverse = not self.order.reverse if is_sort_column else spec.descends
        self.change(replace(self.order, column=spec.id, reverse=reverse))

    def filter_by(self, pattern: str) -> None:
        """Show only rows that match a regular expression; all rows for an empty one."""
        self.change(replace(self.order, pattern=pattern))

    def show_all(self) -> bool:
        """Remove the filter; return whether there was one."""
        if not self.hides_rows:
            return False
        self.change(replace(self.order, pattern="", problems_only=False))
        return True

    def action_filter(self) -> None:
        """Prompt for a filter, a regular expression; `!` in front inverts it."""
        self._prompt_pattern(self.order.pattern)

    def action_problems(self) -> None:
        """Switch between rows with problems and all rows."""
        self.change(replace(self.order, problems_only=not self.order.problems_only))


class RowSorter:
    """Sorts the rows of a table; many rows in a thread."""

    def __init__(
        self,
        screen: LiveScreen,
        show: Callable[[Any, Sequence[int]], None],
    ) -> None:
        """Create the sorter of a screen; `show` is called with a view and its sorted rows."""
        self._screen, self._show = screen, show
        self._row_order: Sequence[int] = ()
        """The rows as they were last sorted."""
        self._finished_sort_request: SortRequest | None = None
        """The request whose result is `_row_order`, if it was sorted in a thread."""
        self._running_sort_request: SortRequest | None = None
        """The request whose rows are being sorted."""
        self._next_sort: tuple[Any, Sequence[ColumnSpec[Any]], SortAndFilter] | None = None
        """The newest arguments of `sort`, to sort after the running request; None without any."""
        self._newest_order: SortAndFilter | None = None
        """The order of the newest call of `sort`; None if its view was sorted at once."""

    def sort(self, view: Any, specs: Sequence[ColumnSpec[Any]], order: SortAndFilter) -> None:
        """Sort a view and show it: at once, or when the thread has sorted it.

        A running sort ends first and is shown, even if it has other rows: rows that come and go
        faster than they are sorted would never be shown.
        """
        self._next_sort, self._newest_order = None, order
        if len(view) < THREAD_SORT_MIN_ROWS:
            self._finished_sort_request = self._newest_order = None
            self._row_order = filter_and_sort_rows(view, specs, order, self._row_order)
            self._show(view, self._row_order)
            return
        request = SortRequest(view.roster, order, view.now_mono_us)
        if _is_row_order_still_valid(self._finished_sort_request, request):
            self._show(view, self._row_order)
        elif self._running_sort_request is None:
            self._running_sort_request = request
            run_task(
                self._screen,
                self._sort_in_thread,
                view,
                specs,
                request,
                repeat_defect_after_s=DEFECT_REPORT_INTERVAL_S,
            )
        elif not _is_row_order_still_valid(self._running_sort_request, request):
            self._next_sort = view, specs, order

    async def _sort_in_thread(
        self, view: Any, specs: Sequence[ColumnSpec[Any]], request: SortRequest
    ) -> None:
        try:
            row_order = await asyncio.to_thread(
                filter_and_sort_rows, view, specs, request.order, self._row_order
            )
            if request.order == self._newest_order:
                self._row_order, self._finished_sort_request = row_order, request
                if self._screen.is_open:
                    self._show(view, row_order)
        except asyncio.CancelledError:
            # The screen is closed: nothing more is shown.
            self._next_sort = None
            raise
        finally:
            self._running_sort_request = None
            # Also after an error: it may be one of these rows only.
            if self._next_sort is not None:
                self.sort(*self._next_sort)


def _is_row_order_still_valid(last_request: SortRequest | None, request: SortRequest) -> bool:
    """Return whether the row order of `last_request` is valid for a request: both have the same
    rows and order, and less than 20 s passed between them.
    """
    # A roster equals only itself; over several systems there is a tuple of rosters.
    if last_request is None or (last_request.roster, last_request.order) != (
        request.roster,
        request.order,
    ):
        return False
    return request.requested_mono_us - last_request.requested_mono_us < RESORT_AFTER_US


def load_order(table_name: str, default_order: SortAndFilter) -> SortAndFilter:
    """Return the stored order of a table, else `default_order`."""
    stored_order = load_view_setting(table_name)
    if not isinstance(stored_order, dict) or not isinstance(stored_order.get("column"), str):
        return default_order
    return replace(
        default_order,
        column=str(stored_order["column"]),
        reverse=stored_order.get("reverse") is True,
    )


def store_order(table_name: str, order: SortAndFilter) -> None:
    """Store the order of a table."""
    store_view_setting(table_name, {"column": order.column, "reverse": order.reverse})


class CopyKeys(ScreenPart):
    """Copies the row under the cursor, or its name, to the clipboard (OSC 52)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "part('copying', 'copy_name')", "Copy", show=False, id="copy.name"),
        Binding("C", "part('copying', 'copy_row')", "Copy row", show=False, id="copy.row"),
    ]

    def __init__(self, screen: TableScreen) -> None:
        self._screen = screen

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether copying is offered: while the table has a row."""
        return self._screen.has_row

    def action_copy_name(self) -> None:
        """Copy the name under the cursor."""
        if (key := key_without_system(self._screen.table.cursor_key)) is not None:
            name = key[1] if len(key) == 3 else key[0]
            self._screen.app.copy_to_clipboard(safe_copy(str(name)))
            self._screen.notify(f"copied {safe_copy(str(name))}", markup=False, timeout=2)

    def action_copy_row(self) -> None:
        """Copy the row under the cursor as JSON, with the texts on the screen."""
        rows = self._screen.rows
        if rows is None or not rows.order:
            return
        cells = rows.cells(rows.order[self._screen.table.cursor])
        row = {spec.id: cell.text for spec, cell in zip(rows.specs, cells, strict=True)}
        self._screen.app.copy_to_clipboard(json.dumps(row, ensure_ascii=False))
        self._screen.notify("copied the row as JSON", markup=False, timeout=2)


class ColumnChoice(ScreenPart):
    """The key to choose the columns of a table, and the columns that the user chose."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+k", "part('choice', 'columns')", "Columns", show=False, id="columns"),
    ]

    def __init__(self, screen: TableScreen) -> None:
        self._screen = screen
        self._storage_key = f"columns of {screen.NOUN}"
        stored_ids = load_view_setting(self._storage_key)
        spec_ids = {spec.id for spec in screen.SPECS}
        chosen_ids = (
            [spec_id for spec_id in stored_ids if spec_id in spec_ids]
            if isinstance(stored_ids, list)
            else []
        )
        self.chosen_ids: list[str] | None = chosen_ids or None

    def filter_specs(self, specs: Sequence[ColumnSpec[Any]]) -> Sequence[ColumnSpec[Any]]:
        """Return the chosen columns among `specs`; the first column is always included."""
        if self.chosen_ids is None:
            return specs
        spec_ids = {spec.id for spec in self._screen.SPECS[1:]}
        return [
            replace(spec, min_table_width=0)
            for spec in specs
            if spec.id in self.chosen_ids or spec.id not in spec_ids
        ]

    async def action_columns(self) -> None:
        """Prompt for the columns to show; a choice of none or all means the default columns."""
        run_task(self._screen, self._prompt_columns)

    async def _prompt_columns(self) -> None:
        specs = self._screen.SPECS[1:]
        shown_ids = self.chosen_ids
        if shown_ids is None:
            layout = self._screen.table.column_layout
            visible_columns = layout.columns[: len(layout.columns) - layout.hidden_count]
            shown_ids = [column.column.id for column in visible_columns]
        title = f"Columns of {self._screen.NOUN}: space marks, enter shows the marked ones"
        options = [(spec.id, spec.title, spec.help) for spec in specs]
        marked_ids = await self._screen.app.push_screen_wait(
            PickSeveralDialog(title, options, shown_ids)
        )
        if marked_ids is not None:
            self.chosen_ids = marked_ids if 0 < len(marked_ids) < len(specs) else None
            store_view_setting(self._storage_key, self.chosen_ids)
            self._screen.refresh_state()


class TableScreen(LiveScreen):
    """A screen with one table; subclasses provide the columns, and the view: the rows of the
    state.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *TableOrder.BINDINGS,
        *CopyKeys.BINDINGS,
        *ColumnChoice.BINDINGS,
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = ()
    NOUN: ClassVar[str] = ""
    DEFAULT_ORDER: ClassVar[SortAndFilter] = SortAndFilter("name")
    ROW_ACTIONS: ClassVar[frozenset[str]] = frozenset()
    """Actions on the row under the cursor: offered only while the table has a row."""

    table = getters.query_one(BigTable)
    caption = getters.query_one("#caption", FixedText)

    def __init__(self) -> None:
        super().__init__()
        self.rows: Rows[Any] | None = None
        self._total_rows = 0
        """Number of rows before the filter."""
        self.ordering = TableOrder(
            self.NOUN,
            self.DEFAULT_ORDER,
            lambda pattern: self.command_line.open("/", pattern),
            self.refresh_state,
            lambda: self._total_rows > 0,
        )
        self.copying = CopyKeys(self)
        self.choice = ColumnChoice(self)
        self._sorter = RowSorter(self, self._show)
        self._joined_specs = joined_specs(self.SPECS)

    def body(self) -> Iterable[Widget]:
        """Yield the caption line and the table."""
        yield FixedText(id="caption", markup=False)
        yield BigTable(table_columns(self.SPECS))

    @property
    def has_row(self) -> bool:
        """Return whether the table has a row, so that one is under the cursor."""
        return self.rows is not None and len(self.rows.order) > 0

    def item_under_cursor(self, item_class: type[ItemT]) -> ItemT | None:
        """Return the item in the row under the cursor; None in an empty table.

        Only for a table of items, all of which are of `item_class`.
        """
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return None
        item = rows.view.items[rows.order[position]]
        assert isinstance(item, item_class)
        return item

    def is_action_offered(self, name: str) -> bool | None:
        """Return True for an allowed action, None without permission, False in a replay or
        without a row to act on.
        """
        if self.state.replay is not None or (
            SPECS[name].target_rows != "none" and not self.has_row
        ):
            return False
        return True if is_allowed(self.state, name) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: row actions only while the table has a row."""
        if action in self.ROW_ACTIONS and not self.has_row:
            return False
        return super().check_action(action, parameters)

    def view(self) -> Any:
        """Return the view of the current state."""
        raise TypeError(f"{type(self).__name__} shows no view")

    def refresh_state(self) -> None:
        """Sort the rows of the newest state and show them."""
        view = self.view()
        specs = self._joined_specs if isinstance(view, JoinedView) else self.SPECS
        self._sorter.sort(view, specs, self.ordering.order)

    def _show(self, view: Any, row_order: Sequence[int]) -> None:
        order = self.ordering.order
        specs = self._joined_specs if isinstance(view, JoinedView) else self.SPECS
        specs = (
            self.choice.filter_specs(specs)
            if self.choice.chosen_ids
            else self.default_specs(view, specs)
        )
        total, previous_key_conditions = len(view.rows()), (self.has_row, self._total_rows > 0)
        self.rows, self._total_rows = Rows(view, specs, row_order), total
        if previous_key_conditions != (self.has_row, total > 0):
            self.refresh_bindings()
        self.table.empty = self.empty_text(total)
        self.table.show(
            self.rows, sort=Sort(order.column, order.reverse), columns=table_columns(specs)
        )
        if self.ordering.error_text:
            self.caption.update(safe(self.ordering.error_text, "error"))
        else:
            self.caption.update(safe(self.caption_text(len(row_order), total)))

    def default_specs(
        self, view: Any, specs: Sequence[ColumnSpec[Any]]
    ) -> Sequence[ColumnSpec[Any]]:
        """Return the columns to show while the user has not chosen columns."""
        return specs

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table; `total` is the number of rows before the
        filter.
        """
        return empty_text(self.state, self.NOUN, total, "" if total else self.empty_hint())

    def empty_hint(self) -> str:
        """Return the text with the key that creates a row, or the reason for having no row; may be
        empty.
        """
        return ""

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: `shown` of `total` rows, the sort column and the filters."""
        order = self.ordering.order
        count = f"{shown} of {total}" if shown != total else str(total)
        spec = next(
            (spec for spec in self._joined_specs if spec.id == order.column), self.SPECS[0]
        )
        parts = [f"{self.NOUN} {count}", f"by {spec.title} {'▼' if order.reverse else '▲'}"]
        if order.pattern:
            parts.append(f"/{order.pattern}")
        if order.problems_only:
            parts.append("! problems only")
        return "  ·  ".join(parts)

    @on(HeaderSelected)
    def _sort(self, message: HeaderSelected) -> None:
        specs = self._joined_specs
        self.ordering.sort_by(next(spec for spec in specs if spec.id == message.column_id))

    @on(RowHighlighted)
    def _update_keys(self) -> None:
        """Update the offered keys for the system of the row under the cursor."""
        if self.scope.is_joined:
            self.refresh_bindings()
            self.strip.show(self.scope, paused=self.paused)

    @on(CommandLine.FilterChanged)
    def _apply_filter(self, message: CommandLine.FilterChanged) -> None:
        self.ordering.filter_by(message.text)

    def action_back(self) -> None:
        """Remove the filter; without a filter leave the screen."""
        if not self.ordering.show_all():
            super().action_back()


def table_columns(specs: Sequence[ColumnSpec[Any]]) -> list[ColumnLayout]:
    """Return the specs as columns of a table widget."""
    return [
        ColumnLayout(
            spec.id,
            spec.title,
            spec.width,
            spec.align,
            spec.flex,
            spec.max_width,
            spec.priority,
            min_table_width=spec.min_table_width,
        )
        for spec in specs
    ]
