"""A session as flat tables in CSV or JSON lines, one file per table, with a list of columns."""

from __future__ import annotations

import csv
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Literal, Protocol

import msgspec

from natstui.errors import SessionError
from natstui.session.recording import Recording, readable, starts_anew
from natstui.session.rows import Value, rows
from natstui.session.tables import TABLES, Table

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
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise SessionError(f"{target} is not empty: an export goes into a folder of its own")
        (target / "columns.csv").write_text(columns_text(), encoding="utf-8")
        with ExitStack() as files:
            return _written(recording, target, kind, progress, files)
    except OSError as error:
        raise SessionError(f"cannot export to {target}: {error.strerror}") from error


def _written(
    recording: Recording, target: Path, kind: Format, progress: Progress, files: ExitStack
) -> dict[str, int]:
    writers: dict[str, _Writer] = {}
    make = _Csv if kind == "csv" else _JsonLines
    counts = {table.name: 0 for table in TABLES}
    for table in TABLES:
        path = target / f"{table.name}.{kind}"
        # csv ends its own lines.
        opened = files.enter_context(path.open("w", encoding="utf-8", newline=""))
        writers[table.name] = make(opened, table)
    for number, span in enumerate(recording.spans):
        progress(number, len(recording.spans))
        content = recording.content(span)
        known = content.keyframe
        if known is not None and (number == 0 or starts_anew(content)):
            _write(writers, counts, known.configured)
        for entry in content.entries:
            record = readable(entry)
            if record is not None:
                _write(writers, counts, record)
    progress(len(recording.spans), len(recording.spans))
    return counts


def _write(writers: dict[str, _Writer], counts: dict[str, int], record: object) -> None:
    for table, values in rows(record):  # type: ignore[arg-type]
        writers[table.name].write(values)
        counts[table.name] += 1


def columns_text() -> str:
    """Return the list of all columns as CSV: table, column, unit, meaning."""
    lines = ["table,column,unit,meaning"]
    for table in TABLES:
        lines += [
            f'{table.name},{column.name},"{column.unit}","{column.text}"'
            for column in table.columns
        ]
    return "\n".join(lines) + "\n"
