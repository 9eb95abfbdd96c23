"""The export of a session: flat tables in CSV or JSON lines, a file per table, with a list of
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Literal, Protocol

import msgspec
from msgspec import Struct

from natstui.clean import clean_json, escape_line
from natstui.errors import ActionRefusal, SessionError
from natstui.files import create_atomic_folder
from natstui.model.records.record import Record
from natstui.model.records.recording import ExportSelection
from natstui.paths import create_private_folder, expand_user_path
from natstui.session.files.folder import list_segments
from natstui.session.files.info import read_info
from natstui.session.read.recording import begins_after_loss
from natstui.session.share.tables import (
    ACK_SAMPLE,
    ACK_TIME,
    ADVISORY,
    CONFIGURATION,
    CONSUMER_SAMPLE,
    STREAM_SAMPLE,
    TABLES,
    CellValue,
    Table,
    rows,
)
from natstui.session.share.verify import read_readable_segments

ExportFormat = Literal["csv", "jsonl"]


class ProgressCallback(Protocol):
    """A callback that shows progress."""

    def __call__(self, finished_count: int, all_count: int, /) -> None:
        """Show how many of all segments are finished."""


class _RowWriter(Protocol):
    def write(self, values: tuple[CellValue, ...]) -> None: ...


class _CsvWriter:
    def __init__(self, file: IO[str], table: Table) -> None:
        self._file = file
        self.write(table.names)

    def write(self, values: tuple[CellValue, ...]) -> None:
        self._file.write(",".join(map(csv_cell, values)) + "\r\n")


def csv_cell(value: CellValue) -> str:
    """Return a value as a CSV cell that cannot be a terminal command or a spreadsheet formula.

    None is empty, an empty text is two quotes. Escapes are those of JSON, so a backslash becomes
    two. A text that could be a formula, or begins with `'`, gets a `'` before it.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    text = escape_line(value)
    if text[:1] in ("=", "+", "-", "@", "'"):
        text = "'" + text
    if text and not any(character in text for character in ',"'):
        return text
    escaped_text = text.replace('"', '""')
    return f'"{escaped_text}"'


class _JsonLinesWriter:
    def __init__(self, file: IO[str], table: Table) -> None:
        self._file = file
        self._column_names = table.names
        self._encode_json = msgspec.json.Encoder().encode

    def write(self, values: tuple[CellValue, ...]) -> None:
        row = dict(zip(self._column_names, values, strict=True))
        self._file.write(clean_json(self._encode_json(row).decode()) + "\n")


def export(
    folder: Path,
    target: Path,
    file_format: ExportFormat,
    progress: ProgressCallback,
    report_damage: Callable[[str], None],
) -> dict[str, int]:
    """Write the tables of a session into a new folder, and return the row count of each table.

    Unreadable parts are left out and passed to `report_damage`. Raises SessionError if the folder
    is no session, or the new folder is not empty or cannot be written.
    """
    return _export_records(
        _all_records(folder, progress, report_damage), target, file_format, TABLES
    )


class Selection(Struct, frozen=True):
    """The streams and consumers that a screen exports."""

    streams: frozenset[str]
    consumers: frozenset[tuple[str, str]]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables that can have rows of the selection."""
        if not self.consumers:
            return (STREAM_SAMPLE, ADVISORY, CONFIGURATION)
        return (CONSUMER_SAMPLE, ACK_SAMPLE, ACK_TIME, ADVISORY, CONFIGURATION)

    def is_selected(self, table: Table, values: tuple[CellValue, ...]) -> bool:
        """Return whether a row is of a selected stream or consumer."""
        row = dict(zip(table.names, values, strict=True))
        if table is STREAM_SAMPLE:
            return row["name"] in self.streams
        if self.consumers:
            name = row["name"] if table is CONSUMER_SAMPLE else row["consumer"]
            return (row["stream"], name) in self.consumers
        return row["stream"] in self.streams


def export_selection(
    records: Iterable[Record], target: Path, file_format: ExportFormat, selection: Selection
) -> dict[str, int]:
    """Write the rows of a selection into a new folder, and return the row count of each table.

    Raises SessionError if the folder is not empty or cannot be written.
    """
    return _export_records(records, target, file_format, selection.tables, selection.is_selected)


def _export_records(
    records: Iterable[Record],
    target: Path,
    file_format: ExportFormat,
    tables: Sequence[Table],
    is_selected: Callable[[Table, tuple[CellValue, ...]], bool] | None = None,
) -> dict[str, int]:
    rows_count_by_table = {table.name: 0 for table in tables}
    try:
        create_private_folder(target.absolute().parent)
        with create_atomic_folder(target) as folder, ExitStack() as files:
            (folder / "columns.csv").write_text(columns_text(tables), encoding="utf-8")
            writer_by_table = {
                table.name: _open_writer(files, folder, file_format, table) for table in tables
            }
            for record in records:
                for table, values in rows(record):
                    if table.name in rows_count_by_table and (
                        is_selected is None or is_selected(table, values)
                    ):
                        writer_by_table[table.name].write(values)
                        rows_count_by_table[table.name] += 1
    except OSError as error:
        raise SessionError(f"cannot export to {target}: {error.strerror}") from error
    return rows_count_by_table


def _open_writer(
    files: ExitStack, folder: Path, file_format: ExportFormat, table: Table
) -> _RowWriter:
    # csv ends its own lines.
    path = folder / f"{table.name}.{file_format}"
    file = files.enter_context(path.open("w", encoding="utf-8", newline=""))
    return _CsvWriter(file, table) if file_format == "csv" else _JsonLinesWriter(file, table)


def _all_records(
    folder: Path, progress: ProgressCallback, report_damage: Callable[[str], None]
) -> Iterator[Record]:
    """Yield the records of a session, with the configurations in keyframes at its start and after
    gaps.
    """
    segments_count, previous_segment_number = len(list_segments(folder)), None
    progress(0, segments_count)
    for done_count, segment in enumerate(
        read_readable_segments(folder, read_info(folder), report_damage)
    ):
        keyframe, is_first_or_after_missing = (
            segment.content.keyframe,
            previous_segment_number is None or segment.number > previous_segment_number + 1,
        )
        if keyframe is not None and (
            is_first_or_after_missing or begins_after_loss(segment.content)
        ):
            yield keyframe.configured
        yield from segment.records
        previous_segment_number = segment.number
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
    """Export the selection of a screen; return a sentence with the row count of each table and the
    folder.

    Raises ActionRefusal without a selection, UsageError or SessionError if the folder cannot be
    used.
    """
    if not command.streams and not command.consumers:
        raise ActionRefusal("there is nothing to export: no stream or consumer is in view")
    selection = Selection(frozenset(command.streams), frozenset(command.consumers))
    target = expand_user_path(command.folder).absolute()
    rows_count_by_table = export_selection(records(), target, command.format, selection)
    row_counts_text = ", ".join(
        f"{count:,} of {name}" for name, count in rows_count_by_table.items() if count
    )
    return f"exported {row_counts_text or 'no rows'} to {target}"
