"""The first line of every screen: the tabs with key and count; the current one is highlighted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content

from natstui.clean import clean_line
from natstui.model.keys import DEFAULT_KEYS
from natstui.model.live.state import State
from natstui.tui.frame.head.status_text import findings_cell
from natstui.tui.frame.systems import SystemScope
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe_cell
from natstui.units import count_text


class Tab(NamedTuple):
    """A tab: the app mode that it opens, its key and its title."""

    mode: str
    key: str
    title: str

    @property
    def binding_id(self) -> str:
        """Return the id of the tab's binding, for the user's keymap."""
        return f"screen.{self.mode}"


TABS = (
    Tab("overview", "0", "Overview"),
    Tab("streams", DEFAULT_KEYS["screen.streams"], "Streams"),
    Tab("consumers", DEFAULT_KEYS["screen.consumers"], "Consumers"),
    Tab("events", DEFAULT_KEYS["screen.events"], "Events"),
    Tab("server", "4", "Servers"),
    Tab("findings", "5", "Findings"),
    Tab("connections", DEFAULT_KEYS["screen.connections"], "Connections"),
    Tab("buckets", "7", "Buckets"),
    Tab("benchmark", "b", "Bench"),
)


def _connections_count(state: State) -> int:
    if state.clients is not None:
        return state.clients.connections_count
    connections = state.connections
    return (
        0
        if connections is None
        else len(connections.newest.rows) + connections.newest.left_out_count
    )


def tab_count_cells(states: Sequence[State]) -> dict[str, Cell]:
    """Return the cells with the counts to show in the tabs, by app mode; a mode without a count is
    absent.
    """
    count_by_mode = {
        "streams": sum(len(state.streams) for state in states),
        "consumers": sum(len(state.consumers) for state in states),
        "server": sum(len(state.servers.known) for state in states),
        "connections": sum(map(_connections_count, states)),
        "buckets": sum(
            config.kind != "stream"
            for state in states
            for config in state.stream_configurations.values()
        ),
    }
    cells = {
        mode: Cell(count_text(count), "dim") for mode, count in count_by_mode.items() if count
    }
    findings_count_cell = findings_cell(states)
    if findings_count_cell.style_name != "ok":
        cells["findings"] = findings_count_cell
    if any(state.benchmark and not state.benchmark.finished for state in states):
        cells["benchmark"] = Cell("●", "ok")
    return cells


_CURRENT_TAB_BACKGROUND = "on $primary 30%"
"""Background of the current tab, the same as in the style `lit`."""


def tab_cells(
    current_mode: str, count_cell_by_mode: Mapping[str, Cell], keys: Mapping[str, str], width: int
) -> list[tuple[str, list[Cell]]]:
    """Return the mode and the cells of each tab; if not all names fit into `width`, only the
    current tab has its name.
    """
    tabs_with_names = [
        (tab.mode, _cells_of_tab(tab, count_cell_by_mode, keys, current_mode, shows_name=True))
        for tab in TABS
    ]
    if _total_tab_cells(tabs_with_names) <= width:
        return tabs_with_names
    # Without the space after each tab all names may fit.
    tabs_without_gaps = [(mode, cells[:-1]) for mode, cells in tabs_with_names]
    if _total_tab_cells(tabs_without_gaps) <= width:
        return tabs_without_gaps
    return [
        (tab.mode, _cells_of_tab(tab, count_cell_by_mode, keys, current_mode, shows_name=False))
        for tab in TABS
    ]


def _cells_of_tab(
    tab: Tab,
    count_cell_by_mode: Mapping[str, Cell],
    keys: Mapping[str, str],
    current_mode: str,
    *,
    shows_name: bool,
) -> list[Cell]:
    is_current, count = tab.mode == current_mode, count_cell_by_mode.get(tab.mode)
    key = clean_line(keys.get(tab.binding_id, tab.key))
    if shows_name or is_current:
        cells = [
            Cell(f" {key} ", "lit" if is_current else "primary"),
            Cell(tab.title, "lit" if is_current else ""),
        ]
        cells += (
            [Cell(" ", "lit" if is_current else ""), _highlight_count(count, is_current)]
            if count
            else []
        )
        return [*cells, Cell(" ", "lit" if is_current else "")]
    cells = [Cell(f" {key}", "primary")]
    cells += [Cell("·", "dim"), count] if count else []
    return [*cells, Cell(" ")]


def _highlight_count(count_cell: Cell, is_current: bool) -> Cell:
    is_highlighted = is_current and count_cell.style_name == "dim"
    return Cell(count_cell.text, "lit") if is_highlighted else count_cell


def _total_tab_cells(tabs: Sequence[tuple[str, Sequence[Cell]]]) -> int:
    return sum(len(cell.text) for _, cells in tabs for cell in cells)


class TabBar(FixedText):
    """The tabs; a click opens one."""

    DEFAULT_CSS = """
    TabBar { dock: top; width: 100%; height: 1; background: $panel; color: $foreground; }
    """

    def __init__(self, get_current_mode: Callable[[], str]) -> None:
        """Create the tabs; `get_current_mode` returns the app mode of the current tab."""
        super().__init__(markup=False)
        self._get_current_mode = get_current_mode
        self._states: Sequence[State] = ()
        self._keys: dict[str, str] = {}
        self._end_columns_and_modes: list[tuple[int, str]] = []
        """The end column and the mode of each tab."""

    def show(self, scope: SystemScope) -> None:
        """Show the total counts of all systems."""
        self._states = [system.state for system in scope.systems.values() or (scope.acting,)]
        self._draw()

    def on_mount(self) -> None:
        """Show the tabs before the first state arrives."""
        self._draw()

    def on_resize(self) -> None:
        """Draw the tabs for the new width."""
        self._draw()

    def _draw(self) -> None:
        tabs = tab_cells(
            self._get_current_mode(),
            tab_count_cells(self._states),
            self._tab_keys(),
            self.size.width,
        )
        line, self._end_columns_and_modes, end_column = Content(), [], 0
        current_mode = self._get_current_mode()
        for mode, cells in tabs:
            start_column = end_column
            for cell in cells:
                line = Content.assemble(line, safe_cell(cell))
                end_column += len(cell.text)
            if mode == current_mode:
                # Counts keep their colour on the background of their tab.
                line = line.stylize(_CURRENT_TAB_BACKGROUND, start_column, end_column)
            self._end_columns_and_modes.append((end_column, mode))
        self.update(line)

    def _tab_keys(self) -> Mapping[str, str]:
        """Return the key of each tab by binding id, as in the user's keymap."""
        # From Python 3.12 on, the tabs of the first screen are mounted before it is on the stack.
        if not self._keys and self.app.screen_stack:
            binding_ids = {tab.binding_id for tab in TABS}
            for _node, binding, _enabled, _tooltip in self.screen.active_bindings.values():
                if binding.id in binding_ids:
                    self._keys.setdefault(binding.id, binding.key_display or binding.key)
        return self._keys

    def on_click(self, event: events.Click) -> None:
        """Open the mode whose tab was clicked."""
        mode = next((mode for end, mode in self._end_columns_and_modes if event.x < end), None)
        if mode is not None:
            # Awaited here, a closing screen and this handler would wait for each other.
            self.app.call_later(self.app.run_action, f"app.switch_mode('{mode}')")
