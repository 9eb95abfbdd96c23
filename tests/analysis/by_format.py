"""Recordings read as FORMAT.md says, as plain objects: what the oracles know of a session.

Knows nothing of natstui but its documents.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.session.by_document.sessions import Reader
from tests.session.by_document.tables import Field, fields_named, inner, tables_of

REPOSITORY = Path(__file__).parents[2]
TABLES = tables_of((REPOSITORY / "natstui/session/share/FORMAT.md").read_text(encoding="utf-8"))

Record = SimpleNamespace
"""A line with its kind, or an object in it: the fields of the document as attributes."""
Series = dict[tuple[Any, ...], list[dict[str, Any]]]
"""By identity, the samples of a stream or consumer in order of time."""


def read(folder: Path) -> list[Record]:
    """Return every record of a session, as it happened."""
    reader = Reader(folder, TABLES)
    assert not any(reader.faults), [*filter(None, reader.faults)]
    return [_record(line) for line in reader.records]


def read_segments(folder: Path) -> list[tuple[Record, list[Record]]]:
    """Return the keyframe and the records of each segment."""
    reader = Reader(folder, TABLES)
    ends = [*reader.starts[1:], len(reader.records)]
    return [
        (_record(keyframe), [_record(line) for line in reader.records[start:end]])
        for keyframe, start, end in zip(reader.keyframes, reader.starts, ends, strict=True)
    ]


def of_kind(records: list[Record], *kinds: str) -> list[Record]:
    """Return the records of some kinds, in order."""
    return [record for record in records if record.kind in kinds]


def polls_of(records: list[Record]) -> list[Record]:
    """Return the polls in order."""
    return sorted(of_kind(records, "snapshot"), key=lambda poll: poll.taken_mono_us)


def consumer_series(polls: list[Record]) -> Series:
    """Return every consumer's samples by identity, in order of time."""
    return _series(polls, "consumers", ("stream", "name", "created_at_us"))


def stream_series(polls: list[Record]) -> Series:
    """Return every stream's samples by identity, in order of time."""
    return _series(polls, "streams", ("name", "created_at_us"))


def _series(polls: list[Record], where: str, key: tuple[str, ...]) -> Series:
    found: Series = {}
    for poll in polls:
        columns = vars(getattr(poll, where))
        for place in range(len(columns["name"])):
            # A column that a writer did not have is empty, and what it would say unknown.
            row = {name: values[place] if values else None for name, values in columns.items()}
            row["at_us"] = poll.taken_at_us + row["sampled_mono_us"] - poll.taken_mono_us
            found.setdefault(tuple(row[name] for name in key), []).append(row)
    return found


def _record(line: dict[str, Any]) -> Record:
    fields = TABLES[f"kind {line['kind']}"]
    return SimpleNamespace(kind=line["kind"], **_fields(line, fields))


def _fields(value: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    return {field.name: _plain(value[field.name], field.type) for field in fields}


def _plain(value: Any, type_text: str) -> Any:
    """Return a JSON value: lists as tuples, objects of the document as records."""
    type_text = type_text.removesuffix(" | null")
    if isinstance(value, list):
        of = inner(type_text)
        return tuple(_plain(one, of) for one in value)
    if isinstance(value, dict) and not type_text.startswith(("dict[", "Mapping[")):
        return SimpleNamespace(**_fields(value, fields_named(TABLES, type_text)))
    # What is beyond 64 bits is written as digits.
    return int(value) if type_text == "int" and isinstance(value, str) else value
