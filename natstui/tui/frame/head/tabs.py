"""The first line of every screen: the tabs with key and count; the current one is lit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content

from natstui.clean import clean_line
from natstui.model.live.state import State
from natstui.tui.frame.head.status_text import wrong_cell
from natstui.tui.frame.systems import Where
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe_cell
from natstui.units import count_text


class Tab(NamedTuple):
    """A list: the app mode that shows it, its key, its name."""

    mode: str
    key: str
    title: str

    @property
    def binding_id(self) -> str:
        """Return the id of its binding, for the user's keymap."""
        return f"screen.{self.mode}"


TABS = (
    Tab("overview", "0", "Overview"),
    Tab("streams", "1", "Streams"),
    Tab("consumers", "2", "Consumers"),
    Tab("events", "3", "Events"),
    Tab("server", "4", "Servers"),
    Tab("findings", "5", "Findings"),
    Tab("connections", "6", "Connections"),
    Tab("buckets", "7", "Buckets"),
    Tab("benchmark", "b", "Bench"),
)


def _connections_count(state: State) -> int:
    if state.clients is not None:
        return state.clients.connections_count
    connections_read = state.connections
    return (
        0
        if connections_read is None
        else len(connections_read.newest.rows) + connections_read.newest.left_out_count
    )


def counts(states: Sequence[State]) -> dict[str, Cell]:
    """Return the count behind the name of each tab; absent where unknown."""
    numbers = {
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
    cells = {mode: Cell(count_text(count), "dim") for mode, count in numbers.items() if count}
    open_findings = wrong_cell(states)
    if open_findings.look != "ok":
        cells["findings"] = open_findings
    if any(state.benchmark and not state.benchmark.finished for state in states):
        cells["benchmark"] = Cell("●", "ok")
    return cells


_GROUND = "on $primary 30%"
"""Background of the current tab, as of the look `lit`."""


def tab_cells(
    current: str, cells_by_mode: Mapping[str, Cell], keys: Mapping[str, str], width: int
) -> list[tuple[str, list[Cell]]]:
    """Return mode → its cells; where names do not fit, only the current tab has its name."""
    full = [(tab.mode, _cells(tab, cells_by_mode, keys, current, has_name=True)) for tab in TABS]
    if _width(full) <= width:
        return full
    # Without the space behind each there may be room for every name.
    tight = [(mode, cells[:-1]) for mode, cells in full]
    if _width(tight) <= width:
        return tight
    return [(tab.mode, _cells(tab, cells_by_mode, keys, current, has_name=False)) for tab in TABS]


def _cells(
    tab: Tab,
    cells_by_mode: Mapping[str, Cell],
    keys: Mapping[str, str],
    current: str,
    *,
    has_name: bool,
) -> list[Cell]:
    lit, count = tab.mode == current, cells_by_mode.get(tab.mode)
    key = clean_line(keys.get(tab.binding_id, tab.key))
    if has_name or lit:
        cells = [
            Cell(f" {key} ", "lit" if lit else "primary"),
            Cell(tab.title, "lit" if lit else ""),
        ]
        cells += [Cell(" ", "lit" if lit else ""), _on(count, lit)] if count else []
        return [*cells, Cell(" ", "lit" if lit else "")]
    cells = [Cell(f" {key}", "primary")]
    cells += [Cell("·", "dim"), count] if count else []
    return [*cells, Cell(" ")]


def _on(count: Cell, lit: bool) -> Cell:
    return Cell(count.text, "lit") if lit and count.look == "dim" else count


def _width(tabs: Sequence[tuple[str, Sequence[Cell]]]) -> int:
    return sum(len(cell.text) for _, cells in tabs for cell in cells)


class TabBar(FixedText):
    """The tabs; a click opens one."""

    DEFAULT_CSS = """
    TabBar { dock: top; width: 100%; height: 1; background: $panel; color: $foreground; }
    """

    def __init__(self, current: Callable[[], str]) -> None:
        """`current` returns the mode whose tab is lit."""
        super().__init__(markup=False)
        self._current = current
        self._states: Sequence[State] = ()
        self._keys: dict[str, str] = {}
        self._ends: list[tuple[int, str]] = []
        """Columns where the tabs end, with their modes."""

    def show(self, where: Where) -> None:
        """Show the counts of all systems together."""
        self._states = [system.state for system in where.systems or (where.acting,)]
        self._draw()

    def on_mount(self) -> None:
        """Show the tabs before there is a state."""
        self._draw()

    def on_resize(self) -> None:
        """Choose again which names fit."""
        self._draw()

    def _draw(self) -> None:
        tabs = tab_cells(
            self._current(), counts(self._states), self._known_keys(), self.size.width
        )
        line, self._ends, end = Content(), [], 0
        current = self._current()
        for mode, cells in tabs:
            start = end
            for cell in cells:
                line = Content.assemble(line, safe_cell(cell))
                end += len(cell.text)
            if mode == current:
                # Counts keep their colour, and stand on the ground of their tab.
                line = line.stylize(_GROUND, start, end)
            self._ends.append((end, mode))
        self.update(line)

    def _known_keys(self) -> Mapping[str, str]:
        """Return the user's key of each tab, by binding id; it never changes."""
        # From Python 3.12 on, the tabs of the first screen are mounted before it is on the stack.
        if not self._keys and self.app.screen_stack:
            ids = {tab.binding_id for tab in TABS}
            for _node, binding, _enabled, _tooltip in self.screen.active_bindings.values():
                if binding.id in ids:
                    self._keys.setdefault(binding.id, binding.key_display or binding.key)
        return self._keys

    def on_click(self, event: events.Click) -> None:
        """Open the list whose tab was clicked."""
        mode = next((mode for end, mode in self._ends if event.x < end), None)
        if mode is not None:
            # Awaited here, a screen that is closed would wait for this very line, and it for that.
            self.app.call_later(self.app.run_action, f"app.switch_mode('{mode}')")
