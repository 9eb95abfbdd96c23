"""Several systems on one screen: the shown systems, their states, and their rows in one table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

from msgspec import Struct

from natstui.clean import clean_line
from natstui.model.live.state import State
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.kit.table.rows import Cell
from natstui.values import replace


class SystemState(Struct, frozen=True):
    """A watched NATS system (one engine, connected to one account) and its current state."""

    name: str
    style_name: str
    """The style of the system's name: its colour."""
    state: State
    poll_age_us: int
    """The age in µs of the newest poll at the shown moment; 0 if it is small."""


class SystemKey(NamedTuple):
    """The key of a row in a table of several systems, whose rows may have equal names."""

    system: str
    key: Hashable


class JoinedView:
    """The rows of several systems' views as one view, one system after the other."""

    def __init__(self, systems: Sequence[SystemState], views: Sequence[Any]) -> None:
        self.systems, self.views = systems, views
        self._end_rows = list(accumulate(map(len, views)))
        self.roster = tuple(view.roster for view in views)
        """The rosters of all views; another tuple if a row was added or removed in any view."""
        # Each engine has its own monotonic clock: only the time of day is common.
        self.now_mono_us = max((view.now_at_us for view in views), default=0)

    def __len__(self) -> int:
        return self._end_rows[-1] if self._end_rows else 0

    def at(self, row: int) -> tuple[int, int]:
        """Return the index of a row's system, and the row's number in that system's view."""
        index = bisect_right(self._end_rows, row)
        return index, row - (self._end_rows[index - 1] if index else 0)

    def rows(self) -> Sequence[int]:
        """Return all rows of the views."""
        start_rows = [0, *self._end_rows]
        start_rows_and_views = zip(start_rows, self.views, strict=False)
        return [start + row for start, view in start_rows_and_views for row in view.rows()]

    def key(self, row: int) -> SystemKey:
        """Return the identity of a row."""
        index, system_row = self.at(row)
        return SystemKey(self.systems[index].name, self.views[index].key(system_row))

    def search_text(self, row: int) -> str:
        """Return the text that a filter searches, with the system's name."""
        index, system_row = self.at(row)
        return (
            f"{clean_line(self.systems[index].name)} {self.views[index].search_text(system_row)}"
        )

    def stale_s(self, row: int) -> float | None:
        """Return the age of a stale row in seconds; None for a fresh row."""
        index, system_row = self.at(row)
        age_s: float | None = self.views[index].stale_s(system_row)
        return age_s

    def has_problem(self, row: int) -> bool:
        """Return whether the row has a problem."""
        index, system_row = self.at(row)
        return bool(self.views[index].has_problem(system_row))


def join_views(systems: Sequence[SystemState], views: Sequence[Any]) -> Any:
    """Return the views of several systems as one view; of a single system its own view."""
    return views[0] if len(views) == 1 else JoinedView(systems, views)


def find_system_row(view: Any, row: int) -> tuple[Any, int]:
    """Return the view of a row's system, and the row's number in that view."""
    if not isinstance(view, JoinedView):
        return view, row
    index, system_row = view.at(row)
    return view.views[index], system_row


def key_without_system(key: object) -> tuple[Any, ...] | None:
    """Return the key of a row without its system; None if `key` is no key of a row."""
    if isinstance(key, SystemKey):
        key = key.key
    return key if isinstance(key, tuple) else None


def system_of(key: object) -> str | None:
    """Return the name of a row's system; None in a table of a single system."""
    return key.system if isinstance(key, SystemKey) else None


def systems_of(keys: Iterable[object]) -> list[str]:
    """Return the names of the rows' systems; empty with a single system."""
    return sorted({name for key in keys if (name := system_of(key)) is not None})


def _system_name(view: JoinedView, row: int) -> Cell:
    """The name of the row's system, on its colour."""
    system = view.systems[view.at(row)[0]]
    return Cell(clean_line(system.name), system.style_name)


def _system_names(view: JoinedView) -> Sequence[object]:
    systems_and_views = zip(view.systems, view.views, strict=True)
    return list(
        chain.from_iterable(
            [system.name] * len(system_view) for system, system_view in systems_and_views
        )
    )


SYSTEM_COLUMN: ColumnSpec[Any] = ColumnSpec(
    "system", "SYSTEM", 8, 0, _system_name, _system_names, align="left", flex=1, max_width=16,
    descends=False,
)  # fmt: skip


def joined_specs(specs: Sequence[ColumnSpec[Any]]) -> list[ColumnSpec[Any]]:
    """Return the columns of a table over several systems; the second one is the system."""
    first_spec, *other_specs = [_join_spec(spec) for spec in specs]
    return [first_spec, SYSTEM_COLUMN, *other_specs]


def _join_spec(spec: ColumnSpec[Any]) -> ColumnSpec[Any]:
    def cell(view: JoinedView, row: int) -> Cell:
        return spec.cell(*find_system_row(view, row))

    def values(view: JoinedView) -> Sequence[object]:
        return list(chain.from_iterable(spec.sort(system_view) for system_view in view.views))

    cell.__doc__ = spec.cell.__doc__
    return replace(spec, cell=cell, sort=values)


class SystemScope:
    """The systems that a screen shows, and the acting system: the one on which its keys act."""

    def __init__(self) -> None:
        self.systems: Mapping[str, SystemState] = {}
        """The states of several systems by name; empty with a single one, or a recording."""
        self.bound_system: str | None = None
        """The name of the system that the screen was opened on; None for the app's current one."""
        self.get_target_keys: Callable[[], Iterable[object]] | None = None
        """In a table over all systems, returns the keys of the rows to act on; else None."""
        self._acting = SystemState("", "", State(), 0)
        """The acting system of the app's last message."""

    @property
    def is_joined(self) -> bool:
        """Return whether the rows of several systems are shown together."""
        return (
            self.get_target_keys is not None and self.bound_system is None and bool(self.systems)
        )

    @property
    def system(self) -> str | None:
        """Return the name of the system on which keys act; None for the app's current one."""
        names = self._target_systems()
        return self.bound_system or (names[0] if names else None)

    def _target_systems(self) -> list[str]:
        """Return the names of the systems of the rows to act on; empty with a single system."""
        if self.get_target_keys is None or not self.is_joined:
            return []
        return systems_of(self.get_target_keys())

    @property
    def shown_system(self) -> str | None:
        """Return the name of the system on which keys act, also with a single system; None before
        the first state. Another system may become the current one while a prompt is open.
        """
        return self.system or self.acting.name or None

    @property
    def acting(self) -> SystemState:
        """Return the system on which keys act, with its state."""
        system = self.system
        return self._acting if system is None else self.systems.get(system, self._acting)

    @property
    def shown_systems(self) -> Sequence[SystemState]:
        """Return the systems whose rows are shown: all, or the one on which keys act."""
        return tuple(self.systems.values()) if self.is_joined else (self.acting,)

    def mixed_systems_text(self) -> str:
        """Return the reason why no key can act if rows of several systems are marked; else an
        empty text.
        """
        names = self._target_systems()
        if len(names) < 2:
            return ""
        names_text = clean_line(" and ".join(names))
        return f"rows of {names_text} are marked: mark rows of one system only"

    def set_states(self, acting: SystemState, systems: Mapping[str, SystemState]) -> None:
        """Store the state of the acting system, and those of several systems by name."""
        self._acting, self.systems = acting, systems
