"""One column of an entity: what it is, its value, its text and how bad that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from natstui.clean import clean_line
from natstui.units import UNKNOWN

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column over rows of one kind."""

    key: str
    title: str
    help: str
    """One sentence for people."""
    value: Callable[[R], Any]
    """Sorts the rows; None is not known."""
    format: Callable[[Any], str]
    """Returns the value for people, also of None."""
    level: Callable[[R], str] = lambda _: ""
    """Returns how bad the value is: ok, warn, bad; empty where nothing is to say of it."""
    used_ratio: Callable[[R], float] | None = None
    """Returns how much of what it may have the row uses; None where there is no limit."""
    dims_unknown: bool = True
    """A value that is not known is shown dim."""
    numeric: bool = True
    """Numbers are aligned to the right, and the largest is the first that is looked for."""

    def text(self, row: R) -> str:
        """Return the cell's text, on one harmless line."""
        return clean_line(self.format(self.value(row)))


def plain(value: str | None) -> str:
    """Return a text as it is; a dash where it is not known."""
    return value or UNKNOWN
