"""A session as flat tables in CSV or JSON lines, one file per table, with a list of columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Protocol

import msgspec

from natstui.errors import Refused, SessionError
from natstui.model.record import Record
from natstui.model.recording import ExportSelection
from natstui.paths import user_path
from natstui.session.recording import Recording, starts_anew
from natstui.session.rows import Value, rows
from natstui.session.segment import readable
from natstui.session.tables import (
    ACK_SAMPLE,
    ADVISORY,
    CONFIGURATION,
    CONSUMER_SAMPLE,
    STREAM_SAMPLE,
    TABLES,
    Table,
)

Format = Literal["csv", "jsonl"]
Progress = Callable[[int, int], None]
"""Called with segments done and segments in all."""


class _Writer(Protocol):
    def write(self, values: tuple[Value, ...]) -> None: ...


class _Csv:
    def __init__(self, file: IO[str], table: Table) -> None:
        self._rows = csv.writer(file)
        self._rows.writerow(table.names)

    def write(self, values: tuple[Value, ...]) -> None:
        self._rows.writerow([_plain(value) for value in values])


def _plain(value: Value) -> Value:
    """Return what a spreadsheet may open: text that would become a formula is quoted."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


class _JsonLines:
    def __init__(self, file: IO[str], table: Table) -> None:
        self._file = file
        self._names = table.names
        self._encode = msgspec.json.Encoder().encode

    def write(self, values: tuple[Value, ...]) -> None:
        row = dict(zip(self._names, values, strict=True))
        self._file.write(self._encode(row).decode() + "\n")


def export(recording: Recording, target: Path, kind: Format, progress: Progress) -> dict[str, int]:
    """Write the tables into a new folder, and return the rows of each.

    Raises SessionError when the folder is not empty or cannot be written.
    """
    return _exported(_all_records(recording, progress), target, kind, TABLES)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is exported from a screen."""

    streams: frozenset[str]
    consumers: frozenset[tuple[str, str]]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables with rows of it."""
        samples = (CONSUMER_SAMPLE, ACK_SAMPLE) if self.consumers else (STREAM_SAMPLE,)
        return (*samples, ADVISORY, CONFIGURATION)

    def holds(self, table: Table, values: tuple[Value, ...]) -> bool:
        """Tell whether a row is about something selected."""
        row = dict(zip(table.names, values, strict=True))
        if table is STREAM_SAMPLE:
            return row["name"] in self.streams
        if self.consumers:
            name = row["name"] if table is CONSUMER_SAMPLE else row["consumer"]
            return (row["stream"], name) in self.consumers
        return row["stream"] in self.streams


def export_selection(
    records: Iterable[Record], target: Path, kind: Format, selection: Selection
) -> dict[str, int]:
    """Write the rows about a selection into a new folder, and return how many of each table.

    Raises SessionError when the folder is not empty or cannot be written.
    """
    return _exported(records, target, kind, selection.tables, selection.holds)


def _exported(
    records: Iterable[Record],
    target: Path,
    kind: Format,
    tables: Sequence[Table],
    holds: Callable[[Table, tuple[Value, ...]], bool] | None = None,
) -> dict[str, int]:
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise SessionError(f"{target} is not empty: an export goes into a folder of its own")
        (target / "columns.csv").write_text(columns_text(tables), encoding="utf-8")
        counts = {table.name: 0 for table in tables}
        with ExitStack() as files:
            writers = {table.name: _opened(files, target, kind, table) for table in tables}
            for record in records:
                for table, values in rows(record):
                    if table.name in counts and (holds is None or holds(table, values)):
                        writers[table.name].write(values)
                        counts[table.name] += 1
        return counts
    except OSError as error:
        raise SessionError(f"cannot export to {target}: {error.strerror}") from error


def _opened(files: ExitStack, target: Path, kind: Format, table: Table) -> _Writer:
    # csv ends its own lines.
    path = target / f"{table.name}.{kind}"
    file = files.enter_context(path.open("w", encoding="utf-8", newline=""))
    return _Csv(file, table) if kind == "csv" else _JsonLines(file, table)


def _all_records(recording: Recording, progress: Progress) -> Iterator[Record]:
    """Yield what was recorded, and the configurations known before it."""
    for number, span in enumerate(recording.spans):
        progress(number, len(recording.spans))
        content = recording.content(span)
        known = content.keyframe
        if known is not None and (number == 0 or starts_anew(content)):
            yield known.configured
        for entry in content.entries:
            record = readable(entry)
            if record is not None:
                yield record
    progress(len(recording.spans), len(recording.spans))


def columns_text(tables: Sequence[Table] = TABLES) -> str:
    """Return the list of columns as CSV: table, column, unit, meaning."""
    lines = ["table,column,unit,meaning"]
    for table in tables:
        lines += [
            f'{table.name},{column.name},"{column.unit}","{column.text}"'
            for column in table.columns
        ]
    return "\n".join(lines) + "\n"


def obey_export(command: ExportSelection, records: Callable[[], Iterable[Record]]) -> str:
    """Export what a screen asks for, and say how much of what lies where.

    Raises Refused without a selection, UsageError or SessionError when the folder cannot be.
    """
    if not command.streams and not command.consumers:
        raise Refused("there is nothing to export: no stream or consumer is in view")
    selection = Selection(frozenset(command.streams), frozenset(command.consumers))
    target = user_path(command.folder).absolute()
    counts = export_selection(records(), target, command.format, selection)
    told = ", ".join(f"{count:,} of {name}" for name, count in counts.items() if count)
    return f"exported {told or 'no rows'} to {target}"
