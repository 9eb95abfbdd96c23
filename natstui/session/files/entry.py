"""A line of a segment: the line of a record, plus its number in the segment.

The lines of a sealed segment are not in the order of time, because similar neighbours compress
three times better; `line` restores the order. A poll of many rows is split into parts, so that the
same rows of the next poll are within the window of gzip (32 KiB).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from natstui.decoding import decoder_of
from natstui.lines import (
    BadLine,
    Codec,
    check_histograms,
    complete_snapshot,
    decode_record,
    encode_record,
)
from natstui.model.live.column_differences import (
    ConsumersAsDifferences,
    SnapshotAsDifferences,
    as_differences,
)
from natstui.model.live.snapshot import ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.model.records.record import Record
from natstui.parsing import describe_parse_error
from natstui.session.files.keyframe import Keyframe
from natstui.values import replace

_TARGET_PART_BYTES = 26_000
"""Target length of a part of a poll; the window of gzip is 32,768."""

_MIN_ROWS_PER_PART = 16
"""Minimum of rows in a part: a poll with hardly any rows must not set the size for large ones."""

_KEYFRAME_CODEC: Codec[Keyframe | Snapshot] = Codec(Keyframe | Snapshot)
_LINE_NUMBER_PATTERN = re.compile(
    rb',"line":(\d{1,9})(?:,"part":(\d{1,6}),"parts_count":(\d{1,6}))?\}$'
)
_KIND_AND_TIME_PATTERN = re.compile(
    rb'\{"kind":"([a-z_]{1,40})",(?:"taken_mono_us":(-?\d{1,19}),)?"(?:taken_)?at_us":(-?\d{1,19})'
)
_COMPLETE_POLL_TEXT = (
    b'"streams_complete":true,"consumers_complete":true,"swept_streams":[],'
    b'"unreachable_streams":[],"unreachable_consumers":[]'
)  # fmt: skip

_COLUMN_NAMES_BY_TABLE: dict[type, tuple[str, ...]] = {
    table: table.__struct_fields__
    for table in (StreamColumns, ConsumerColumns, ConsumersAsDifferences)
}
WrittenPoll = Snapshot | SnapshotAsDifferences
ColumnsT = TypeVar("ColumnsT", bound=StreamColumns | ConsumerColumns | ConsumersAsDifferences)


class EntryPart(Struct, frozen=True):
    """A line of a segment: an entry, or a part of an entry."""

    line_number: int
    """The number of the entry in the segment, from 0."""
    part_number: int
    parts_count: int
    numbered_line: bytes
    """The line in the file, with its number, without its line feed."""
    number_text_bytes: int
    """Length of the text at the end of the line: the numbers of entry and part, and `}`."""

    @property
    def line(self) -> bytes:
        """Return the line of the record, without the numbers of entry and part."""
        return self.numbered_line[: len(self.numbered_line) - self.number_text_bytes] + b"}\n"

    @property
    def is_numbered(self) -> bool:
        """Return whether the line contains its number: a truncated line has none."""
        return self.number_text_bytes > 1

    @property
    def sort_key(self) -> tuple[int, bool, int]:
        """Return the key that sorts parts into the order of time."""
        return (self.line_number, self.is_numbered, self.part_number)


class Entry(Struct, frozen=True):
    """A record in a segment: its lines, and its kind and times, which are read without
    decoding.
    """

    kind: str
    at_us: int
    mono_us: int | None
    """The steady clock of a poll; None for other records."""
    parts: tuple[EntryPart, ...]
    """All parts of the entry, in order."""

    @property
    def line_number(self) -> int:
        """Return the number of the entry in the segment, from 0."""
        return self.parts[0].line_number

    @property
    def line(self) -> bytes:
        """Return the line of the record, as `natstui.lines` writes it; raises BadLine if its parts
        do not match.
        """
        if len(self.parts) == 1:
            return self.parts[0].line
        return _join_lines([part.line for part in self.parts])

    @property
    def is_poll(self) -> bool:
        """Return whether the record is a poll (a snapshot)."""
        return self.mono_us is not None

    @property
    def is_complete(self) -> bool:
        """Return whether the record is a poll with every row: no older row is valid after it."""
        return _COMPLETE_POLL_TEXT in self.parts[0].numbered_line

    def record(self) -> Record:
        """Return the decoded record; raises BadLine if the line is damaged."""
        return decode_record(self.line)


def encode_keyframe(keyframe: Keyframe) -> bytes:
    """Return the line of a keyframe, which is the first line of a segment."""
    return _add_number(_KEYFRAME_CODEC.encode(keyframe), 0)


def decode_keyframe(line: bytes) -> Keyframe:
    """Return the keyframe in a line; raises BadLine for any other line."""
    keyframe = _KEYFRAME_CODEC.decode(line)
    if not isinstance(keyframe, Keyframe):
        raise BadLine("a segment does not begin with a keyframe")
    if keyframe.snapshot is not None:
        snapshot = complete_snapshot(keyframe.snapshot, "keyframe")
        keyframe = replace(keyframe, snapshot=snapshot)
    if keyframe.evidence is not None:
        check_histograms(keyframe.evidence, "keyframe")
    return keyframe


def _add_number(
    line: bytes, line_number: int, part_number_and_count: tuple[int, int] | None = None
) -> bytes:
    number_text = b',"line":%d' % line_number
    if part_number_and_count:
        number_text += b',"part":%d,"parts_count":%d' % part_number_and_count
    return line[:-2] + number_text + b"}\n"


class RecordSplitter:
    """Encodes the records of a segment as lines; all its polls have the same rows per part."""

    def __init__(self) -> None:
        self._stream_and_consumer_rows_per_part: tuple[int, int] | None = None

    def lines(self, record: Record, line_number: int) -> list[bytes]:
        """Return the line of a record, or a line per part of a large poll; `line_number` is the
        number of the record in the segment.
        """
        if not isinstance(record, Snapshot):
            return [_add_number(encode_record(record), line_number)]
        poll = as_differences(record)
        if self._stream_and_consumer_rows_per_part is None:
            line = encode_record(poll)
            if len(line) <= _TARGET_PART_BYTES:
                return [_add_number(line, line_number)]
            self._stream_and_consumer_rows_per_part = _count_rows_per_part(poll, len(line))
        parts = _split_poll(poll, *self._stream_and_consumer_rows_per_part)
        parts_count = len(parts)
        return [
            _add_number(encode_record(part), line_number, (number, parts_count))
            for number, part in enumerate(parts)
        ]


def _count_rows_per_part(snapshot: WrittenPoll, size_bytes: int) -> tuple[int, int]:
    """Return how many streams and how many consumers fit into a part of a poll.

    `size_bytes` is the length of the line of the complete poll.
    """
    parts_count = -(-size_bytes // _TARGET_PART_BYTES)
    streams_count = -(-len(snapshot.streams.name) // parts_count)
    consumers_count = -(-len(snapshot.consumers.name) // parts_count)
    return max(_MIN_ROWS_PER_PART, streams_count), max(_MIN_ROWS_PER_PART, consumers_count)


def _slice_rows(columns: ColumnsT, start_row: int, stop_row: int) -> ColumnsT:
    names = _COLUMN_NAMES_BY_TABLE[type(columns)]
    return type(columns)(*[getattr(columns, name)[start_row:stop_row] for name in names])


def _split_poll(snapshot: WrittenPoll, stream_rows: int, consumer_rows: int) -> list[WrittenPoll]:
    """Return the parts of a poll, each with at most `stream_rows` streams and `consumer_rows`
    consumers; only the first part has the fields that are not rows.
    """
    parts_count = max(
        1,
        -(-len(snapshot.streams.name) // stream_rows),
        -(-len(snapshot.consumers.name) // consumer_rows),
    )
    poll_without_rows = replace(
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
            poll_without_rows if number else snapshot,
            streams=_slice_rows(
                snapshot.streams, number * stream_rows, (number + 1) * stream_rows
            ),
            consumers=_slice_rows(  # type: ignore[arg-type]
                snapshot.consumers, number * consumer_rows, (number + 1) * consumer_rows
            ),
        )
        for number in range(parts_count)
    ]


def parse_part(line: bytes, default_line_number: int) -> EntryPart:
    """Return the part in a line without its line feed.

    `default_line_number` is the number of the entry if the line contains none.
    """
    match = _LINE_NUMBER_PATTERN.search(line, max(0, len(line) - 60))
    if match is None:
        return EntryPart(default_line_number, 0, 1, line, 1)
    number_text_bytes = len(line) - match.start()
    if match[2] is None:
        return EntryPart(int(match[1]), 0, 1, line, number_text_bytes)
    return EntryPart(int(match[1]), int(match[2]), int(match[3]), line, number_text_bytes)


def join_parts(parts: Sequence[EntryPart]) -> Entry | None:
    """Return the entry that consists of `parts`, which are in order; None if a part is missing.

    Raises BadLine if the first line is not a record.
    """
    first_part = parts[0]
    if [part.part_number for part in parts] != list(range(first_part.parts_count)):
        return None
    match = _KIND_AND_TIME_PATTERN.match(first_part.numbered_line)
    if match is None:
        raise BadLine(f"a line is not a record: {first_part.numbered_line[:60]!r}")
    mono_us = None if match[2] is None else int(match[2])
    return Entry(match[1].decode(), int(match[3]), mono_us, tuple(parts))


_OBJECT_DECODER = decoder_of(dict[str, msgspec.Raw])


def _join_lines(lines: list[bytes]) -> bytes:
    """Join the parts of a poll column by column as text, without decoding the values.

    Raises BadLine if the parts do not match each other.
    """
    try:
        parts = [_OBJECT_DECODER.decode(line) for line in lines]
        joined_part = dict(parts[0])
        for table in ("streams", "consumers"):
            tables = [_OBJECT_DECODER.decode(part[table]) for part in parts]
            joined_part[table] = _join_columns(tables)
        return msgspec.json.encode(joined_part) + b"\n"
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError) as error:
        raise BadLine(
            f"the parts of a poll do not match each other: {describe_parse_error(error)}"
        ) from error


def _join_columns(tables: list[dict[str, msgspec.Raw]]) -> msgspec.Raw:
    columns = []
    for name in tables[0]:
        part_texts = (bytes(table[name]).strip()[1:-1] for table in tables)
        column = b",".join(part_text for part_text in part_texts if part_text)
        columns.append(msgspec.json.encode(name) + b":[" + column + b"]")
    return msgspec.Raw(b"{" + b",".join(columns) + b"}")
