"""One column of an entity: what it is, its value, its text and how bad that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from natstui.clean import clean_line
from natstui.units import UNKNOWN

R = TypeVar("R")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column over rows of one kind."""

    key: str
    title: str
    help: str
    """One sentence for people."""
    value: Callable[[R], object]
    """Sorts the rows; None is not known."""
    text: Callable[[R], str]
    """Returns the value for people, on one harmless line; also where it is not known."""
    level: Callable[[R], str]
    """Returns how bad the value is: ok, warn, bad; empty where nothing is to say of it."""
    used_ratio: Callable[[R], float] | None
    """Returns how much of what it may have the row uses; None where there is no limit."""
    dims_unknown: bool
    """A value that is not known is shown dim."""
    numeric: bool
    """Numbers are aligned to the right, and the largest is the first that is looked for."""


def column(
    key: str,
    title: str,
    help: str,
    value: Callable[[R], V],
    format: Callable[[V], str],
    level: Callable[[R], str] = lambda _: "",
    used_ratio: Callable[[R], float] | None = None,
    *,
    dims_unknown: bool = True,
    numeric: bool = True,
) -> Column[R]:
    """Return a column whose text is its value as `format` has it."""

    def text(row: R) -> str:
        return clean_line(format(value(row)))

    return Column(key, title, help, value, text, level, used_ratio, dims_unknown, numeric)


def plain(value: str | None) -> str:
    """Return a text as it is; a dash where it is not known."""
    return value or UNKNOWN
