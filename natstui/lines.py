"""Record or command ⇄ one line of JSON: the text of the recording and of the engine's pipes.

A line is an object whose first key is `kind`, then the fields of the record. Integers beyond
a signed 64-bit number are written as strings, because JSON readers elsewhere lose their digits.
"""

from __future__ import annotations

import re
from array import array
from typing import Any, Generic, TypeVar, get_args

import msgspec
from msgspec import to_builtins

from natstui.decoding import decoder_of
from natstui.errors import NatstuiError
from natstui.model.bench.counts import LATENCY_FIELDS
from natstui.model.bench.latency import BUCKETS_COUNT, LatencyCounts
from natstui.model.live.column_differences import SnapshotAsDifferences, from_differences
from natstui.model.live.history import CONSUMER_COLUMNS, STREAM_COLUMNS
from natstui.model.live.past_polls import PastPolls
from natstui.model.live.snapshot import (
    ConsumerColumns,
    Snapshot,
    StreamColumns,
    added_columns,
)
from natstui.model.records.benchmark import BenchmarkFinished, BenchmarkReport
from natstui.model.records.evidence import AcksCounted, EvidenceSoFar
from natstui.model.records.record import Command, Record, kind_of
from natstui.parsing import describe_parse_error
from natstui.values import replace

SCHEMA_VERSION = 3
"""Version of the record format; a reader checks it before it reads.

Version 1 had no polls with differences; version 2 no names without rows and no servers.
"""

_MAX_INT64 = 2**63 - 1
_MAX_UINT64 = 2**64 - 1
_UNKNOWN_VALUE_BY_ADDED_COLUMN: dict[str, Any] = {
    name: ()
    if table.__annotations__[name].startswith("tuple[tuple[")
    else None
    if "None" in table.__annotations__[name]
    else False
    for table in (StreamColumns, ConsumerColumns)
    for name in added_columns(table)
}
"""Column that older recordings lack → its unknown value; counters and names are never absent."""
_STREAM_COLUMN_NAMES = StreamColumns.__struct_fields__
_CONSUMER_COLUMN_NAMES = ConsumerColumns.__struct_fields__
_DIFFERENCES_KEY = b'"ack_floor_stream_behind_seq":'
"""Text that is in every poll with differences, and in no string: there its quotes would be
escaped.
"""
_STRING_OR_INTEGER_PATTERN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d{19,}')


TableT = TypeVar("TableT", StreamColumns, ConsumerColumns)


class BadLine(NatstuiError):
    """A line is not a record of this schema version."""


_DIGITS_TO_ZEROS = bytes(ord("0") if 0x30 <= code <= 0x39 else 0x20 for code in range(256))
_HUGE_INTEGER_AS_ZEROS = b"0" * 19
"""Minimum of digits of a number from 2**63 on; a search for them is ten times faster than a regex.
"""


def _may_contain_huge_integer(value: Any) -> bool:
    """Return whether a value may contain an integer beyond 64 signed bits, by checking few
    columns.
    """
    if isinstance(value, PastPolls):
        return False
    if not isinstance(value, Snapshot | SnapshotAsDifferences):
        return True
    columns = [value.streams.last_seq]
    if isinstance(value, Snapshot):
        columns += [value.consumers.delivered_stream_seq, value.consumers.ack_floor_stream_seq]
    return any(max(column, default=0) > _MAX_INT64 for column in columns)


def _contains_impossible_integer(value: Any) -> bool:
    """Return whether a value of built-in types contains an integer beyond 64 bits."""
    match value:
        case int():
            return abs(value) > _MAX_UINT64
        case dict():
            return any(map(_contains_impossible_integer, value.values()))
        case list() | tuple():
            return any(map(_contains_impossible_integer, value))
        case _:
            return False


def complete_snapshot(snapshot: Snapshot, kind: str) -> Snapshot:
    """Return a decoded snapshot with the unknown value in each column that an older recording
    lacks.

    Raises BadLine for columns of different lengths, or a counter that does not fit in 64 bits.
    """
    streams = _complete_table(snapshot.streams, _STREAM_COLUMN_NAMES, STREAM_COLUMNS, kind)
    consumers = _complete_table(snapshot.consumers, _CONSUMER_COLUMN_NAMES, CONSUMER_COLUMNS, kind)
    if streams is snapshot.streams and consumers is snapshot.consumers:
        return snapshot
    return replace(snapshot, streams=streams, consumers=consumers)


def _complete_table(
    table: TableT, column_names: tuple[str, ...], counter_names: tuple[str, ...], kind: str
) -> TableT:
    rows_count, unknown_columns = len(table.name), dict[str, tuple[Any, ...]]()
    for name in column_names:
        values = getattr(table, name)
        if not values and name in _UNKNOWN_VALUE_BY_ADDED_COLUMN:
            unknown_columns[name] = (_UNKNOWN_VALUE_BY_ADDED_COLUMN[name],) * rows_count
        elif len(values) != rows_count:
            raise BadLine(f"a {kind} line has columns of different lengths")
    try:
        for name in counter_names:
            array("Q", getattr(table, name))
    except OverflowError:
        raise BadLine(f"a {kind} line has impossible counters") from None
    return replace(table, **unknown_columns) if unknown_columns and rows_count else table


def _find_histograms(value: Any) -> list[LatencyCounts]:
    """Return the latency histograms in a record; empty for a kind of record that has none."""
    match value:
        case BenchmarkReport(latencies=latencies):
            return [getattr(latencies, name) for name in LATENCY_FIELDS]
        case BenchmarkFinished(result=result):
            return [getattr(result.latencies, name) for name in LATENCY_FIELDS]
        case AcksCounted(times=times):
            return [times]
        case EvidenceSoFar(troubles=troubles):
            return [minute.times for evidence in troubles for minute in evidence.acks.minutes]
        case _:
            return []


def check_histograms(value: Any, kind: str) -> None:
    """Raise BadLine for a decoded value with a latency histogram that is inconsistent or has
    impossible latencies.
    """
    for histogram in _find_histograms(value):
        if len(histogram.buckets) != len(histogram.counts):
            raise BadLine(f"a {kind} line has columns of different lengths")
        if any(not 0 <= bucket < BUCKETS_COUNT for bucket in histogram.buckets):
            # No 64-bit number has such a latency.
            raise BadLine(f"a {kind} line has impossible latencies")


def _quote_huge_integer(match: re.Match[bytes]) -> bytes:
    string_or_integer = match[0]
    if string_or_integer.startswith(b'"') or int(string_or_integer) <= _MAX_INT64:
        return string_or_integer
    return b'"%s"' % string_or_integer


T = TypeVar("T")


class Codec(Generic[T]):
    """Encodes values of a union of classes as lines of JSON, and decodes them."""

    def __init__(self, record_types: Any) -> None:
        self._line_start_by_class = {
            cls: b'{"kind":"%s",' % kind_of(cls).encode() for cls in get_args(record_types)
        }
        self._line_start_by_class[SnapshotAsDifferences] = (
            b'{"kind":"%s",' % kind_of(Snapshot).encode()
        )
        self._class_by_kind = {kind_of(cls).encode(): cls for cls in get_args(record_types)}
        # Created when first used: all of them at once would delay every start.
        self._decoders: dict[bytes, msgspec.json.Decoder[Any]] = {}
        self._encoder = msgspec.json.Encoder()

    def encode(self, value: T | SnapshotAsDifferences) -> bytes:
        """Return the line of a value, with its line feed."""
        body = self._encoder.encode(value)
        if _may_contain_huge_integer(value) and _HUGE_INTEGER_AS_ZEROS in body.translate(
            _DIGITS_TO_ZEROS
        ):
            body = _STRING_OR_INTEGER_PATTERN.sub(_quote_huge_integer, body)
        return self._line_start_by_class[type(value)] + body[1:] + b"\n"

    def _decoder(self, kind: bytes) -> msgspec.json.Decoder[Any]:
        if kind not in self._decoders:
            if kind not in self._class_by_kind:
                raise BadLine(f"unknown kind of line: {kind[:40]!r}")
            # Not strict: a sequence beyond 2**63 comes back from its string form.
            self._decoders[kind] = decoder_of(self._class_by_kind[kind], strict=False)
        return self._decoders[kind]

    def decode(self, line: bytes) -> T:
        """Return the value of a line; raises BadLine if it is not a line of this union."""
        kind = line[9 : line.find(b'"', 9)] if line.startswith(b'{"kind":"') else None
        if kind is None:
            raise BadLine(f"a line does not start with the kind of its record: {line[:60]!r}")
        try:
            decoder = self._decoder(kind)
            if kind == b"snapshot" and _DIFFERENCES_KEY in line:
                value: Any = from_differences(
                    decoder_of(SnapshotAsDifferences, strict=False).decode(line)
                )
            else:
                value = decoder.decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadLine(
                f"a {kind.decode()} line cannot be read: {describe_parse_error(error)}"
            ) from error
        # A number beyond 64 bits has more digits than these.
        if _HUGE_INTEGER_AS_ZEROS in line.translate(
            _DIGITS_TO_ZEROS
        ) and _contains_impossible_integer(to_builtins(value)):
            raise BadLine(f"a {kind.decode()} line has a number beyond 64 bits")
        if isinstance(value, Snapshot):
            value = complete_snapshot(value, kind.decode())
        else:
            check_histograms(value, kind.decode())
        decoded_value: T = value
        return decoded_value


_RECORD_CODEC: Codec[Record] = Codec(Record)
_COMMAND_CODEC: Codec[Command] = Codec(Command)

encode_record = _RECORD_CODEC.encode
decode_record = _RECORD_CODEC.decode
encode_command = _COMMAND_CODEC.encode
decode_command = _COMMAND_CODEC.decode
