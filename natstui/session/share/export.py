"""A session as flat tables in CSV or JSON lines, one file per table, with a list of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Protocol

import msgspec

from natstui.clean import clean_json, escaped
from natstui.errors import Refused, SessionError
from natstui.files import complete_folder
from natstui.model.records.record import Record
from natstui.model.records.recording import ExportSelection
from natstui.paths import private_folder, user_path
from natstui.session.files.folder import segments
from natstui.session.files.info import read_info
from natstui.session.read.recording import follows_a_loss
from natstui.session.share.tables import (
    ACK_SAMPLE,
    ADVISORY,
    CONFIGURATION,
    CONSUMER_SAMPLE,
    STREAM_SAMPLE,
    TABLES,
    Table,
    Value,
    rows,
)
from natstui.session.share.verify import salvaged

Format = Literal["csv", "jsonl"]
Progress = Callable[[int, int], None]
"""Called with segments done and segments in all."""


class _Writer(Protocol):
    def write(self, values: tuple[Value, ...]) -> None: ...


class _Csv:
    def __init__(self, file: IO[str], table: Table) -> None:
        self._file = file
        self.write(table.names)

    def write(self, values: tuple[Value, ...]) -> None:
        self._file.write(",".join(map(csv_cell, values)) + "\r\n")


def csv_cell(value: Value) -> str:
    """Return a cell without terminal commands or spreadsheet formulas; nothing is lost.

    Unknown is empty, an empty text is two quotes. Escapes are those of JSON, a backslash two of
    them. Text that would become a formula has a `'` before it, and so has text that begins so.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    text = escaped(value)
    if text[:1] in ("=", "+", "-", "@", "'"):
        text = "'" + text
    if text and not any(letter in text for letter in ',"'):
        return text
    escaped_text = text.replace('"', '""')
    return f'"{escaped_text}"'


class _JsonLines:
    def __init__(self, file: IO[str], table: Table) -> None:
        self._file = file
        self._names = table.names
        self._encode = msgspec.json.Encoder().encode

    def write(self, values: tuple[Value, ...]) -> None:
        row = dict(zip(self._names, values, strict=True))
        self._file.write(clean_json(self._encode(row).decode()) + "\n")


def export(
    folder: Path,
    target: Path,
    kind: Format,
    progress: Progress,
    report_damage: Callable[[str], None],
) -> dict[str, int]:
    """Write the tables of a session into a new folder, and return the rows of each.

    Unreadable parts are left out and passed to `report_damage`. Raises SessionError when it is no
    session, or the new folder is not empty or cannot be written.
    """
    return _exported(_all_records(folder, progress, report_damage), target, kind, TABLES)


@dataclass(frozen=True, slots=True)
class Selection:
    """The streams, consumers and tables that a screen exports."""

    streams: frozenset[str]
    consumers: frozenset[tuple[str, str]]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables that contain selected rows."""
        samples = (CONSUMER_SAMPLE, ACK_SAMPLE) if self.consumers else (STREAM_SAMPLE,)
        return (*samples, ADVISORY, CONFIGURATION)

    def holds(self, table: Table, values: tuple[Value, ...]) -> bool:
        """Return whether a row is about a selected stream or consumer."""
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
    """Write the rows of a selection into a new folder, and return how many of each table.

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
    counts = {table.name: 0 for table in tables}
    try:
        private_folder(target.absolute().parent)
        with complete_folder(target) as folder, ExitStack() as files:
            (folder / "columns.csv").write_text(columns_text(tables), encoding="utf-8")
            writers = {table.name: _opened(files, folder, kind, table) for table in tables}
            for record in records:
                for table, values in rows(record):
                    if table.name in counts and (holds is None or holds(table, values)):
                        writers[table.name].write(values)
                        counts[table.name] += 1
    except OSError as error:
        raise SessionError(f"cannot export to {target}: {error.strerror}") from error
    return counts


def _opened(files: ExitStack, folder: Path, kind: Format, table: Table) -> _Writer:
    # csv ends its own lines.
    path = folder / f"{table.name}.{kind}"
    file = files.enter_context(path.open("w", encoding="utf-8", newline=""))
    return _Csv(file, table) if kind == "csv" else _JsonLines(file, table)


def _all_records(
    folder: Path, progress: Progress, report_damage: Callable[[str], None]
) -> Iterator[Record]:
    """Yield the recorded records, and the configurations of keyframes at the start and after
    gaps.
    """
    segments_count, before = len(segments(folder)), None
    progress(0, segments_count)
    for done_count, part in enumerate(salvaged(folder, read_info(folder), report_damage)):
        keyframe, first = part.content.keyframe, before is None or part.number > before + 1
        if keyframe is not None and (first or follows_a_loss(part.content)):
            yield keyframe.configured
        yield from part.records
        before = part.number
        progress(done_count + 1, segments_count)
    progress(segments_count, segments_count)


def columns_text(tables: Sequence[Table] = TABLES) -> str:
    """Return the list of columns as CSV: table, column, unit, meaning."""
    lines = ["table,column,unit,meaning"]
    for table in tables:
        lines += [
            f'{table.name},{column.name},"{column.unit}","{column.text}"'
            for column in table.columns
        ]
    return "\n".join(lines) + "\n"


def execute_export(command: ExportSelection, records: Callable[[], Iterable[Record]]) -> str:
    """Export the selection of a screen; return a sentence with the rows of each table and the
    folder.

    Raises Refused without a selection, UsageError or SessionError when the folder cannot be used.
    """
    if not command.streams and not command.consumers:
        raise Refused("there is nothing to export: no stream or consumer is in view")
    selection = Selection(frozenset(command.streams), frozenset(command.consumers))
    target = user_path(command.folder).absolute()
    counts = export_selection(records(), target, command.format, selection)
    counts_text = ", ".join(f"{count:,} of {name}" for name, count in counts.items() if count)
    return f"exported {counts_text or 'no rows'} to {target}"
