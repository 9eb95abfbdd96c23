"""The newest known row of every stream and consumer, as columns across partial polls."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Generic, TypeVar

from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns

Key = tuple[str | int, ...]
"""An identity: (stream, created) or (stream, consumer, created); a recreated asset has another
one.
"""

C = TypeVar("C", StreamColumns, ConsumerColumns)


def stream_keys(columns: StreamColumns) -> tuple[Key, ...]:
    """Return the identity of each row."""
    return tuple(zip(columns.name, columns.created_at_us, strict=True))


def consumer_keys(columns: ConsumerColumns) -> tuple[Key, ...]:
    """Return the identity of each row."""
    return tuple(zip(columns.stream, columns.name, columns.created_at_us, strict=True))


class Roster:
    """The identities of rows; one object is shared while no row is added or removed."""

    def __init__(self, keys: tuple[Key, ...] = ()) -> None:
        self.keys = keys

    def with_more(self, keys: tuple[Key, ...]) -> Roster:
        """Return the roster with rows appended, reusing the existing indexes."""
        extended = Roster(self.keys + keys)
        first = len(self.keys)
        row_of = self.row_of.copy()
        row_of.update(zip(keys, range(first, len(extended.keys)), strict=True))
        added_rows: dict[str, list[int]] = {}
        for row, key in enumerate(keys, first):
            added_rows.setdefault(str(key[0]), []).append(row)
        rows_of_stream = self.rows_of_stream.copy()
        for stream, rows in added_rows.items():
            rows_of_stream[stream] = [*rows_of_stream.get(stream, ()), *rows]
        extended.row_of, extended.rows_of_stream = row_of, rows_of_stream
        return extended

    @cached_property
    def row_of(self) -> dict[Key, int]:
        """Return the row of each identity."""
        return {key: row for row, key in enumerate(self.keys)}

    @cached_property
    def rows_of_stream(self) -> dict[str, list[int]]:
        """Return the ascending rows of each stream, by its name."""
        rows: dict[str, list[int]] = {}
        for row, key in enumerate(self.keys):
            rows.setdefault(str(key[0]), []).append(row)
        return rows


@dataclass(frozen=True, slots=True)
class Table(Generic[C]):
    """Columns with the roster of their rows."""

    columns: C
    roster: Roster = field(default_factory=Roster)

    def __len__(self) -> int:
        return len(self.roster.keys)


def _rebuilt(old: Table[C], keep: Iterable[int], new: C, keys: tuple[Key, ...]) -> Table[C]:
    """Return the kept old rows, then the new rows."""
    rows: list[int] = list(keep)
    columns: dict[str, tuple[object, ...]] = {}
    for name in (column.name for column in fields(new)):
        values: tuple[object, ...] = getattr(old.columns, name)
        columns[name] = tuple(map(values.__getitem__, rows)) + getattr(new, name)
    roster = Roster(tuple(map(old.roster.keys.__getitem__, rows)) + keys)
    return Table(type(new)(**columns), roster)  # type: ignore[arg-type]


def _appended(old: Table[C], new: C, keys: tuple[Key, ...]) -> Table[C]:
    """Return the table with the new rows appended, as in the first polls of a big server."""
    columns = {column.name: getattr(old.columns, column.name) + getattr(new, column.name)
               for column in fields(new)}  # fmt: skip
    return Table(type(new)(**columns), old.roster.with_more(keys))


def _overwritten(old: Table[C], new: C, rows: Sequence[int]) -> Table[C]:
    """Return the old table with the new rows written at `rows`."""
    columns: dict[str, tuple[object, ...]] = {}
    for column in fields(new):
        values = list(getattr(old.columns, column.name))
        for row, value in zip(rows, getattr(new, column.name), strict=True):
            values[row] = value
        columns[column.name] = tuple(values)
    return Table(type(new)(**columns), old.roster)  # type: ignore[arg-type]


def _merged(
    old: Table[C], new: C, keys: tuple[Key, ...], suspects: Iterable[int] | None
) -> Table[C]:
    """Merge new rows; old rows at `suspects` (None: all) that are not among them are deleted."""
    present = set(keys)
    candidates = range(len(old)) if suspects is None else suspects
    deleted_rows = {row for row in candidates if old.roster.keys[row] not in present}
    rows = [old.roster.row_of.get(key) for key in keys]
    if not deleted_rows and not any(row is not None for row in rows):
        return _appended(old, new, keys)
    if not deleted_rows and None not in rows:
        return _overwritten(old, new, [row for row in rows if row is not None])
    remaining_rows = (
        row
        for row, key in enumerate(old.roster.keys)
        if row not in deleted_rows and key not in present
    )
    return _rebuilt(old, remaining_rows, new, keys)


def merge_streams(old: Table[StreamColumns], snapshot: Snapshot) -> Table[StreamColumns]:
    """Return the table after a poll; unreachable streams keep their last row."""
    new = snapshot.streams
    if new.name == old.columns.name and new.created_at_us == old.columns.created_at_us:
        return Table(new, old.roster)
    keys = stream_keys(new)
    if not snapshot.streams_complete:
        return _merged(old, new, keys, _recreated(old.roster, keys))
    if not snapshot.unreachable_streams:
        return _merged(old, new, keys, None)
    unreachable = set(snapshot.unreachable_streams)
    suspects = (row for row, key in enumerate(old.roster.keys) if key[0] not in unreachable)
    return _merged(old, new, keys, suspects)


def _recreated(roster: Roster, keys: Iterable[Key]) -> list[int]:
    """Return old rows whose name now belongs to another identity."""
    return [row for key in keys for row in roster.rows_of_stream.get(str(key[0]), ())]


def without_leader(
    table: Table[C], names_without_leader: Container[object], width_count: int
) -> Table[C]:
    """Return the table without the leaders that do not reply any more.

    `names_without_leader` has the first `width_count` parts of keys: names of streams, or pairs of
    names.
    """
    leaders = tuple(
        None
        if (key[0] if width_count == 1 else key[:width_count]) in names_without_leader
        else leader
        for key, leader in zip(table.roster.keys, table.columns.leader, strict=True)
    )
    return Table(replace(table.columns, leader=leaders), table.roster)


def merge_consumers(
    old: Table[ConsumerColumns], snapshot: Snapshot, streams: Table[StreamColumns]
) -> Table[ConsumerColumns]:
    """Return the table after a poll; consumers of deleted streams are deleted with them."""
    new, known = snapshot.consumers, old.columns
    # Comparing columns is ten times cheaper than building 100,000 keys to compare.
    if (new.created_at_us, new.name, new.stream) == (
        known.created_at_us,
        known.name,
        known.stream,
    ):
        return Table(new, old.roster)
    keys = consumer_keys(new)
    unreachable = set(snapshot.unreachable_consumers)
    if snapshot.consumers_complete and not unreachable:
        return _merged(old, new, keys, None)
    by_stream = old.roster.rows_of_stream
    swept: Iterable[str] = snapshot.swept_streams
    if snapshot.consumers_complete:
        swept = list(by_stream)
    elif snapshot.streams_complete:
        alive = set(streams.columns.name)
        swept = {*swept, *(name for name in by_stream if name not in alive)}
    suspects = [
        row
        for name in swept
        for row in by_stream.get(name, ())
        if old.roster.keys[row][:2] not in unreachable
    ]
    if not suspects and not keys:
        return old
    return _merged(old, new, keys, suspects)
