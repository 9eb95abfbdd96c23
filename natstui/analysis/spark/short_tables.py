"""The tables that a run for little has made: held for what reads them, and written from here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, Row

from natstui.analysis.spark.little import held, one_piece
from natstui.analysis.spark.parquet import write_table
from natstui.analysis.spark.places import place_of
from natstui.analysis.tables import Table

_MOST_ROWS_COUNT = 20_000
"""More rows are written by Spark itself, sooner than Python has got them."""
_NOTE = "org.apache.spark.sql.parquet.row.metadata"


class ShortTables:
    """The tables of one layer, by name. `folder` is where they go, None where no path leads."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._frames: dict[str, DataFrame] = {}
        self._counts: dict[str, int] = {}
        self.rows: dict[str, list[Row]] = {}
        """All rows of those that were written from here whole."""

    def hold(self, table: Table, rows: DataFrame) -> DataFrame:
        """Compute rows and hold them beside those that the table has; return the new ones."""
        new, count = held(table.contract(rows))
        before = self._frames.get(table.name)
        self._frames[table.name] = new if before is None else before.unionAll(new)
        self._counts[table.name] = self._counts.get(table.name, 0) + count
        return new

    def forget(self, table: Table) -> None:
        """Hold no rows of a table any more."""
        self._frames.pop(table.name, None)
        self._counts.pop(table.name, None)
        self.rows.pop(table.name, None)

    def frame(self, table: Table) -> DataFrame | None:
        """Return the rows that are held as one partition; None where there are none."""
        found = self._frames.get(table.name)
        return None if found is None else one_piece(found)

    def is_empty(self, table: Table) -> bool:
        """Return whether the table was made, and has no row."""
        return self._counts.get(table.name) == 0

    def known_rows(self, table: Table, rows: DataFrame) -> list[Row]:
        """Return the rows of a table that are held; where there are none, nothing is asked."""
        return [] if self.is_empty(table) else rows.collect()

    def can_write(self, table: Table) -> bool:
        """Return whether the rows that are held can be written from here."""
        return self._folder is not None and self._counts[table.name] <= _MOST_ROWS_COUNT

    def can_write_nothing(self) -> bool:
        """Return whether a table can be written from here when it has no rows."""
        return self._folder is not None

    def write(self, table: Table, rows: list[Row], servers: Mapping[str, str]) -> None:
        """Write a table whole; `servers` are those of the sessions."""
        assert self._folder is not None
        self.rows[table.name] = rows
        folder = self._folder / table.name
        parts: dict[Path, list[Row]] = {} if rows else {folder: []}
        for row in rows:
            place = place_of(table, row, servers) if table.day_of else ()
            parts.setdefault(folder.joinpath(*place), []).append(row)
        notes = {_NOTE: table.stored_schema()}
        shutil.rmtree(folder, ignore_errors=True)
        for part, part_rows in parts.items():
            stored = [table.stored_row(row) for row in part_rows]
            write_table(part, table.stored_columns(), stored, notes)
        (folder / "_SUCCESS").touch()

    def write_parts(
        self, table: Table, rows: DataFrame, part_of: Callable[[str], str], aside: str
    ) -> None:
        """Write the rows of each session into the folder that `part_of` names.

        They are written `aside` first, below a name that no reader looks at.
        """
        assert self._folder is not None
        folder = self._folder / table.name
        columns = [(column.name, column.type) for column in table.columns]
        place = [column.name for column in table.columns].index("session")
        parts: dict[str, list[Row]] = {}
        for row in self.known_rows(table, rows):
            parts.setdefault(part_of(row[place]), []).append(row)
        for part, its in parts.items():
            write_table(folder / aside, columns, its, {})
            shutil.rmtree(folder / part, ignore_errors=True)
            (folder / aside).rename(folder / part)
