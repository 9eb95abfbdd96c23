"""The place of a table in a report: its title and columns. Imports no pyspark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """How a report shows one table; a result carries it beside the rows."""

    title: str
    columns: tuple[str, ...]
    empty: str
    """The sentence in place of a table without rows."""
    optional: bool = False
    """Without rows, the section is left out, also its title."""
