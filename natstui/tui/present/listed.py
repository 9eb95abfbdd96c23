"""A table over a list of things that do not grow stale."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from natstui.clean import clean_line
from natstui.model.table import Roster

T = TypeVar("T")


class Listed(Generic[T]):
    """Rows are the things themselves; `keys` names them, and a filter looks at `texts`."""

    now_mono_us = 0

    def __init__(
        self, things: Sequence[T], keys: Sequence[Hashable], texts: Sequence[str]
    ) -> None:
        self.things = things
        self._keys = keys
        self._texts = texts
        self.roster = Roster()

    def __len__(self) -> int:
        return len(self.things)

    def rows(self) -> Sequence[int]:
        """Return all rows."""
        return range(len(self.things))

    def key(self, row: int) -> Hashable:
        """Return the identity of a row."""
        return self._keys[row]

    def search_text(self, row: int) -> str:
        """Return what a filter looks at."""
        return clean_line(self._texts[row])

    def stale_s(self, row: int) -> float | None:
        """Return None: nothing here is polled."""
        return None

    def problem(self, row: int) -> bool:
        """Tell whether somebody should look at the row."""
        return False
