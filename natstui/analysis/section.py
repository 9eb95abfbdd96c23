"""The place of a table in a report: its title and columns. Imports no pyspark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """The title and columns of a table in a report; a result has it beside the rows."""

    title: str
    columns: tuple[str, ...]
    empty: str
    """The sentence that replaces a table without rows."""
    optional: bool = False
    """Whether the section is left out without rows, with its title."""
