"""Several systems on one screen: what is known of each, and their rows in one table."""

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
    """One system, as it is known now."""

    name: str
    look: str
    """Its colour."""
    state: State
    late_us: int
    """How long before the moment shown its newest poll came."""


class SystemKey(NamedTuple):
    """The identity of a row where rows are of several systems: the same name is in many."""

    system: str
    key: Hashable


class Joined:
    """The views of several systems as one: a row is one of them and a row of its view."""

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
        """Return which system a row is of, by its place, and the row in that system's view."""
        which = bisect_right(self._ends, row)
        return which, row - (self._ends[which - 1] if which else 0)

    def rows(self) -> Sequence[int]:
        """Return the rows that the views are about."""
        starts = [0, *self._ends]
        found = zip(starts, self.views, strict=False)
        return [start + row for start, view in found for row in view.rows()]

    def key(self, row: int) -> SystemKey:
        """Return the identity of a row."""
        which, own = self.at(row)
        return SystemKey(self.systems[which].name, self.views[which].key(own))

    def search_text(self, row: int) -> str:
        """Return what a filter looks at: the name of the system as well."""
        which, own = self.at(row)
        return f"{clean_line(self.systems[which].name)} {self.views[which].search_text(own)}"

    def stale_s(self, row: int) -> float | None:
        """Return the age of a stale row, None for a fresh one."""
        which, own = self.at(row)
        found: float | None = self.views[which].stale_s(own)
        return found

    def problem(self, row: int) -> bool:
        """Return whether somebody should look at the row."""
        which, own = self.at(row)
        return bool(self.views[which].problem(own))


def joined(systems: Sequence[SystemState], make: Callable[[SystemState], Any]) -> Any:
    """Return one view over all systems; that of a single one is its own."""
    views = [make(system) for system in systems]
    return views[0] if len(views) == 1 else Joined(systems, views)


def of_system(view: Any, row: int) -> tuple[Any, int]:
    """Return the view of the one system that a row is of, and its row there."""
    if not isinstance(view, Joined):
        return view, row
    which, own = view.at(row)
    return view.views[which], own


def own_key(key: object) -> tuple[Any, ...] | None:
    """Return the identity of a row within its system; None where there is no row."""
    if isinstance(key, SystemKey):
        key = key.key
    return key if isinstance(key, tuple) else None


def system_of(key: object) -> str | None:
    """Return the system that a row is of, where rows are of several."""
    return key.system if isinstance(key, SystemKey) else None


def systems_of(keys: Iterable[object]) -> list[str]:
    """Return the systems that rows are of, by name; none where there is one system."""
    return sorted({name for key in keys if (name := system_of(key)) is not None})


def _system(view: Joined, row: int) -> Cell:
    """The system that the row is of: its name, on its colour."""
    one = view.systems[view.at(row)[0]]
    return Cell(clean_line(one.name), one.look)


def _systems(view: Joined) -> Sequence[object]:
    found = zip(view.systems, view.views, strict=True)
    return list(chain.from_iterable([one.name] * len(own) for one, own in found))


SYSTEM: ColumnSpec[Any] = ColumnSpec(
    "system", "SYSTEM", 8, 0, _system, _systems, align="left", flex=1, max_width=16,
    descends=False,
)  # fmt: skip


def joined_specs(specs: Sequence[ColumnSpec[Any]]) -> list[ColumnSpec[Any]]:
    """Return the columns of a table over several systems: the system stands behind the name."""
    first, *others = [_of_systems(spec) for spec in specs]
    return [first, SYSTEM, *others]


def _of_systems(spec: ColumnSpec[Any]) -> ColumnSpec[Any]:
    def cell(view: Joined, row: int) -> Cell:
        return spec.cell(*of_system(view, row))

    def values(view: Joined) -> Sequence[object]:
        return list(chain.from_iterable(spec.sort(own) for own in view.views))

    cell.__doc__ = spec.cell.__doc__
    return replace(spec, cell=cell, sort=values)


class Where:
    """Which of several systems a screen shows, and on which its keys act."""

    def __init__(self) -> None:
        self.systems: Sequence[SystemState] = ()
        """Each of several systems; none where there is one, or a recording."""
        self.bound: str | None = None
        """The system the screen was opened on; None: it shows whichever is the current one."""
        self.meant: Callable[[], Iterable[object]] | None = None
        """Of a table over all systems: the identities of the rows that keys mean now."""
        self._current = SystemState("", "", State(), 0)

    @property
    def joins(self) -> bool:
        """Whether the rows of several systems are shown together."""
        return self.meant is not None and self.bound is None and bool(self.systems)

    @property
    def system(self) -> str | None:
        """The system that keys act on; None: the current one of the app."""
        meant = systems_of(self.meant()) if self.joins and self.meant is not None else []
        return self.bound or (meant[0] if meant else None)

    @property
    def acting(self) -> SystemState:
        """What is known of the system that keys act on."""
        system = self.system
        return next((one for one in self.systems if one.name == system), self._current)

    @property
    def shown(self) -> Sequence[SystemState]:
        """The systems whose rows are shown: all, or the one that keys act on."""
        return self.systems if self.joins else (self.acting,)

    def across(self) -> str:
        """Return why keys cannot act on what is marked; empty where they can."""
        names = systems_of(self.meant()) if self.joins and self.meant is not None else []
        if len(names) < 2:
            return ""
        named = clean_line(" and ".join(names))
        return f"rows of {named} are marked: mark rows of one system only"

    def take(self, state: State) -> None:
        """Know this from now on."""
        self._current = SystemState("", "", state, 0)

    def hear(self, current: SystemState, systems: Sequence[SystemState]) -> None:
        """Know all systems as they are now; `current` is the one in view."""
        self.systems = systems
        self._current = next(
            (system for system in systems if system.name == current.name), current
        )


class _HasWhere(Protocol):
    where: Where


class ActingSystemValue(Generic[T]):
    """An attribute of a screen that is what is known where its keys act."""

    def __init__(self, get: Callable[[SystemState], T]) -> None:
        self._get = get

    @overload
    def __get__(self, screen: None, of: object) -> ActingSystemValue[T]: ...
    @overload
    def __get__(self, screen: _HasWhere, of: object) -> T: ...
    def __get__(self, screen: _HasWhere | None, of: object) -> T | ActingSystemValue[T]:
        """Return it as it is now."""
        return self if screen is None else self._get(screen.where.acting)
