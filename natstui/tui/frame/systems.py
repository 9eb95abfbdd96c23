"""Several systems on one screen: their states, and their rows in one table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

from natstui.clean import clean_line
from natstui.model.live.state import State
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.kit.table.rows import Cell

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SystemState:
    """A system and its current state."""

    name: str
    look: str
    """The look of its colour."""
    state: State
    late_us: int
    """How long before the shown moment its newest poll came."""


class SystemKey(NamedTuple):
    """The identity of a row in a table of several systems, which may have equal names."""

    system: str
    key: Hashable


class Joined:
    """The views of several systems as one: a row is a system and a row in its view."""

    def __init__(self, systems: Sequence[SystemState], views: Sequence[Any]) -> None:
        self.systems, self.views = systems, views
        self._ends = list(accumulate(map(len, views)))
        self.roster = tuple(view.roster for view in views)
        """Another one when a row came or went in any of them."""
        # Engines have clocks of their own: only the time of day is the same on all.
        self.now_mono_us = max((view.now_at_us for view in views), default=0)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def at(self, row: int) -> tuple[int, int]:
        """Return the index of a row's system, and the row in that system's view."""
        index = bisect_right(self._ends, row)
        return index, row - (self._ends[index - 1] if index else 0)

    def rows(self) -> Sequence[int]:
        """Return all rows of the views."""
        starts = [0, *self._ends]
        starts_and_views = zip(starts, self.views, strict=False)
        return [start + row for start, view in starts_and_views for row in view.rows()]

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
        """Return the age of a stale row, None for a fresh one."""
        index, system_row = self.at(row)
        age_s: float | None = self.views[index].stale_s(system_row)
        return age_s

    def has_problem(self, row: int) -> bool:
        """Return whether the row has a problem."""
        index, system_row = self.at(row)
        return bool(self.views[index].has_problem(system_row))


def joined(systems: Sequence[SystemState], make: Callable[[SystemState], Any]) -> Any:
    """Return a view over all systems; with a single one, that system's view."""
    views = [make(system) for system in systems]
    return views[0] if len(views) == 1 else Joined(systems, views)


def of_system(view: Any, row: int) -> tuple[Any, int]:
    """Return the view of a row's system, and the row in it."""
    if not isinstance(view, Joined):
        return view, row
    index, system_row = view.at(row)
    return view.views[index], system_row


def own_key(key: object) -> tuple[Any, ...] | None:
    """Return the identity of a row within its system; None without a row."""
    if isinstance(key, SystemKey):
        key = key.key
    return key if isinstance(key, tuple) else None


def system_of(key: object) -> str | None:
    """Return the name of a row's system, in a table of several systems."""
    return key.system if isinstance(key, SystemKey) else None


def systems_of(keys: Iterable[object]) -> list[str]:
    """Return the names of the rows' systems; empty with a single system."""
    return sorted({name for key in keys if (name := system_of(key)) is not None})


def _system(view: Joined, row: int) -> Cell:
    """The name of the row's system, on its colour."""
    system = view.systems[view.at(row)[0]]
    return Cell(clean_line(system.name), system.look)


def _systems(view: Joined) -> Sequence[object]:
    pairs = zip(view.systems, view.views, strict=True)
    return list(
        chain.from_iterable([system.name] * len(system_view) for system, system_view in pairs)
    )


SYSTEM: ColumnSpec[Any] = ColumnSpec(
    "system", "SYSTEM", 8, 0, _system, _systems, align="left", flex=1, max_width=16,
    descends=False,
)  # fmt: skip


def joined_specs(specs: Sequence[ColumnSpec[Any]]) -> list[ColumnSpec[Any]]:
    """Return the columns of a table over several systems: the system is the second column."""
    first, *other_specs = [_of_systems(spec) for spec in specs]
    return [first, SYSTEM, *other_specs]


def _of_systems(spec: ColumnSpec[Any]) -> ColumnSpec[Any]:
    def cell(view: Joined, row: int) -> Cell:
        return spec.cell(*of_system(view, row))

    def values(view: Joined) -> Sequence[object]:
        return list(chain.from_iterable(spec.sort(system_view) for system_view in view.views))

    cell.__doc__ = spec.cell.__doc__
    return replace(spec, cell=cell, sort=values)


class Where:
    """Which of several systems a screen shows, and which is the acting one for its keys."""

    def __init__(self) -> None:
        self.systems: Sequence[SystemState] = ()
        """The states of several systems; empty with a single one, or a recording."""
        self.bound: str | None = None
        """The system the screen was opened on; None: the current one of the app."""
        self.meant: Callable[[], Iterable[object]] | None = None
        """Of a table over all systems: returns the identities of the rows that keys act on."""
        self._current = SystemState("", "", State(), 0)

    @property
    def joins(self) -> bool:
        """Return whether the rows of several systems are shown together."""
        return self.meant is not None and self.bound is None and bool(self.systems)

    @property
    def system(self) -> str | None:
        """Return the acting system's name; None: the current one of the app."""
        meant = systems_of(self.meant()) if self.joins and self.meant is not None else []
        return self.bound or (meant[0] if meant else None)

    @property
    def acting(self) -> SystemState:
        """Return the acting system with its state."""
        system = self.system
        return next(
            (system_state for system_state in self.systems if system_state.name == system),
            self._current,
        )

    @property
    def shown(self) -> Sequence[SystemState]:
        """Return the systems whose rows are shown: all, or the acting one."""
        return self.systems if self.joins else (self.acting,)

    def across(self) -> str:
        """Return why keys cannot act on the marked rows; empty if they can."""
        names = systems_of(self.meant()) if self.joins and self.meant is not None else []
        if len(names) < 2:
            return ""
        names_text = clean_line(" and ".join(names))
        return f"rows of {names_text} are marked: mark rows of one system only"

    def take(self, state: State) -> None:
        """Store the state."""
        self._current = SystemState("", "", state, 0)

    def hear(self, current: SystemState, systems: Sequence[SystemState]) -> None:
        """Store the states of all systems; `current` is the one in view."""
        self.systems = systems
        self._current = next(
            (system for system in systems if system.name == current.name), current
        )


class _HasWhere(Protocol):
    where: Where


class ActingSystemValue(Generic[T]):
    """A screen attribute with a value of the acting system."""

    def __init__(self, get: Callable[[SystemState], T]) -> None:
        self._get = get

    @overload
    def __get__(self, screen: None, owner: object) -> ActingSystemValue[T]: ...
    @overload
    def __get__(self, screen: _HasWhere, owner: object) -> T: ...
    def __get__(self, screen: _HasWhere | None, owner: object) -> T | ActingSystemValue[T]:
        """Return the current value."""
        return self if screen is None else self._get(screen.where.acting)
