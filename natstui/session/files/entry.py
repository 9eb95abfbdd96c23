"""A recorded line: the record's own line, plus its number in the segment.

A sealed segment is not in the order of time, because neighbours that resemble each other compress
three times better; `line` restores the order. A poll of many rows is cut into parts of fewer, so
that the same rows of the next poll still lie within the window of gzip (32 KiB).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import msgspec

from natstui.decoding import decoder_of
from natstui.lines import (
    BadLine,
    Codec,
    check_sound,
    decode_record,
    encode_record,
    with_later_columns,
)
from natstui.model.live.column_differences import (
    ConsumersAsDifferences,
    SnapshotAsDifferences,
    as_differences,
)
from natstui.model.live.snapshot import ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.model.records.record import Record
from natstui.parsing import reason
from natstui.session.files.keyframe import Keyframe

PART_BYTES = 26_000
"""Target length of a part of a poll; the window of gzip is 32,768."""

_LEAST_ROWS = 16
"""Minimum of rows in a part: a poll with hardly any rows must not set the size for large ones."""

_KEYFRAMES: Codec[Keyframe | Snapshot] = Codec(Keyframe | Snapshot)
_TAIL = re.compile(rb',"line":(\d{1,9})(?:,"part":(\d{1,6}),"parts_count":(\d{1,6}))?\}$')
_TIME = re.compile(
    rb'\{"kind":"([a-z_]{1,40})",(?:"taken_mono_us":(-?\d{1,19}),)?"(?:taken_)?at_us":(-?\d{1,19})'
)
_COMPLETE = (
    b'"streams_complete":true,"consumers_complete":true,"swept_streams":[],'
    b'"unreachable_streams":[],"unreachable_consumers":[]'
)  # fmt: skip

_COLUMNS: dict[type, tuple[str, ...]] = {
    table: tuple(column.name for column in fields(table))
    for table in (StreamColumns, ConsumerColumns, ConsumersAsDifferences)
}
Poll = Snapshot | SnapshotAsDifferences
C = TypeVar("C", bound=StreamColumns | ConsumerColumns | ConsumersAsDifferences)


@dataclass(frozen=True, slots=True)
class Piece:
    """One line of a file: an entry, or one part of an entry."""

    line_count: int
    """The number of its entry in the segment, from 0."""
    part_count: int
    parts_count: int
    numbered: bytes
    """The line as it is in the file, with its number, without its newline."""
    tail_bytes: int
    """Length of the number and part at the end of the line."""

    @property
    def line(self) -> bytes:
        """Return the record's own line, without number and part."""
        return self.numbered[: len(self.numbered) - self.tail_bytes] + b"}\n"

    @property
    def is_numbered(self) -> bool:
        """Return whether the line contains its number: a truncated line has none."""
        return self.tail_bytes > 1

    @property
    def order(self) -> tuple[int, bool, int]:
        """Return the key that sorts pieces into the order of time."""
        return (self.line_count, self.is_numbered, self.part_count)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record in a segment: its line, and the values that need no decoding."""

    kind: str
    at_us: int
    mono_us: int | None
    """The steady clock of a poll; None for other records."""
    pieces: tuple[Piece, ...]
    """All of its parts, in order."""

    @property
    def line_count(self) -> int:
        """Return its number in the segment."""
        return self.pieces[0].line_count

    @property
    def line(self) -> bytes:
        """Return the record's own line, as `natstui.lines` writes it; raises BadLine for damaged
        parts.
        """
        if len(self.pieces) == 1:
            return self.pieces[0].line
        return _joined([piece.line for piece in self.pieces])

    @property
    def is_poll(self) -> bool:
        """Return whether it is a snapshot."""
        return self.mono_us is not None

    @property
    def complete(self) -> bool:
        """Return whether a poll has every row, so that no older row is still valid."""
        return _COMPLETE in self.pieces[0].numbered

    def record(self) -> Record:
        """Decode the record; raises BadLine when the line is damaged."""
        return decode_record(self.line)


def encode_keyframe(keyframe: Keyframe) -> bytes:
    """Return the first line of a segment."""
    return _numbered(_KEYFRAMES.encode(keyframe), 0)


def decode_keyframe(line: bytes) -> Keyframe:
    """Return the keyframe in a line; raise BadLine for anything else."""
    value = _KEYFRAMES.decode(line)
    if not isinstance(value, Keyframe):
        raise BadLine("a segment does not begin with a keyframe")
    if value.snapshot is not None:
        value = replace(value, snapshot=with_later_columns(value.snapshot))
        check_sound(value.snapshot, "keyframe")
    if value.evidence is not None:
        check_sound(value.evidence, "keyframe")
    return value


def _numbered(line: bytes, line_count: int, part: tuple[int, int] | None = None) -> bytes:
    tail = b',"line":%d' % line_count
    if part:
        tail += b',"part":%d,"parts_count":%d' % part
    return line[:-2] + tail + b"}\n"


class Splitter:
    """Writes the records of one segment as lines; the size of parts stays the same within it."""

    def __init__(self) -> None:
        self._rows: tuple[int, int] | None = None

    def lines(self, record: Record, line_count: int) -> list[bytes]:
        """Return one line, or one per part of a large poll."""
        if not isinstance(record, Snapshot):
            return [_numbered(encode_record(record), line_count)]
        poll = as_differences(record)
        if self._rows is None:
            line = encode_record(poll)
            if len(line) <= PART_BYTES:
                return [_numbered(line, line_count)]
            self._rows = _rows_per_part(poll, len(line))
        parts = _split(poll, *self._rows)
        total_count = len(parts)
        return [
            _numbered(encode_record(part), line_count, (number, total_count))
            for number, part in enumerate(parts)
        ]


def _rows_per_part(snapshot: Poll, size_bytes: int) -> tuple[int, int]:
    """Return how many streams and consumers fit into one part."""
    parts_count = -(-size_bytes // PART_BYTES)
    streams_count = -(-len(snapshot.streams.name) // parts_count)
    consumers_count = -(-len(snapshot.consumers.name) // parts_count)
    return max(_LEAST_ROWS, streams_count), max(_LEAST_ROWS, consumers_count)


def _rows(columns: C, start: int, stop: int) -> C:
    names = _COLUMNS[type(columns)]
    return type(columns)(*[getattr(columns, name)[start:stop] for name in names])


def _split(snapshot: Poll, stream_rows: int, consumer_rows: int) -> list[Poll]:
    """Split a poll into parts; fields that are no rows are in the first."""
    parts_count = max(
        1,
        -(-len(snapshot.streams.name) // stream_rows),
        -(-len(snapshot.consumers.name) // consumer_rows),
    )
    row_free = replace(
        snapshot,
        swept_streams=(),
        unreachable_streams=(),
        unreachable_consumers=(),
        offline=(),
        unlisted=(),
        account=None,
        cost=PollCost(0, 0, 0, None, snapshot.cost.interval_us, None, snapshot.cost.round_us),
    )
    return [
        replace(
            row_free if number else snapshot,
            streams=_rows(snapshot.streams, number * stream_rows, (number + 1) * stream_rows),
            consumers=_rows(  # type: ignore[arg-type]
                snapshot.consumers, number * consumer_rows, (number + 1) * consumer_rows
            ),
        )
        for number in range(parts_count)
    ]


def piece_of(line: bytes, otherwise_count: int) -> Piece:
    """Return the piece of a line without its newline; `otherwise_count` when it has no number."""
    tail = _TAIL.search(line, max(0, len(line) - 60))
    if tail is None:
        return Piece(otherwise_count, 0, 1, line, 1)
    tail_bytes = len(line) - tail.start()
    if tail[2] is None:
        return Piece(int(tail[1]), 0, 1, line, tail_bytes)
    return Piece(int(tail[1]), int(tail[2]), int(tail[3]), line, tail_bytes)


def entry_of(pieces: Sequence[Piece]) -> Entry | None:
    """Return the entry of all its parts, in order; None when a part is missing.

    Raises BadLine when it is no record.
    """
    first = pieces[0]
    if [piece.part_count for piece in pieces] != list(range(first.parts_count)):
        return None
    head = _TIME.match(first.numbered)
    if head is None:
        raise BadLine(f"a line is not a record: {first.numbered[:60]!r}")
    mono_us = None if head[2] is None else int(head[2])
    return Entry(head[1].decode(), int(head[3]), mono_us, tuple(pieces))


_WHOLE = decoder_of(dict[str, msgspec.Raw])


def _joined(lines: list[bytes]) -> bytes:
    """Join the columns of parts as text, without decoding the values."""
    try:
        parts = [_WHOLE.decode(line) for line in lines]
        joined_part = dict(parts[0])
        for table in ("streams", "consumers"):
            tables = [_WHOLE.decode(part[table]) for part in parts]
            joined_part[table] = _joined_columns(tables)
        return msgspec.json.encode(joined_part) + b"\n"
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError) as error:
        raise BadLine(f"the parts of a poll do not match each other: {reason(error)}") from error


def _joined_columns(tables: list[dict[str, msgspec.Raw]]) -> msgspec.Raw:
    columns = []
    for name in tables[0]:
        values = (bytes(table[name]).strip()[1:-1] for table in tables)
        column = b",".join(value for value in values if value)
        columns.append(msgspec.json.encode(name) + b":[" + column + b"]")
    return msgspec.Raw(b"{" + b",".join(columns) + b"}")
