"""The section of a table in a report: its title and columns. Imports no pyspark."""

from __future__ import annotations

from msgspec import Struct


class Section(Struct, frozen=True):
    """The title and columns of a table in a report; part of a result."""

    title: str
    columns: tuple[str, ...]
    empty: str
    """The sentence that is shown instead of a table without rows."""
    optional: bool = False
    """Whether the section, with its title, is left out if the table has no rows."""
