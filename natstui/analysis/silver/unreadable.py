"""Which lines are no records: judged by the dataclasses of the model, as every reader does it.

The other readers (`natstui.lines`) decode a line into its dataclass and refuse it when that
fails. Here the same types become a schema for Spark, and the same refusals a condition, so that
an analysis leaves out the lines that `natstui sessions verify` reports, and no others.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from natstui.analysis.silver.schema import (
    PACKED_AS,
    ddl_fields,
    ddl_type,
    is_scalar,
    item_of,
    without_none,
)
from natstui.model.bench.latency import BUCKETS_COUNT, LatencyCounts
from natstui.model.live.column_differences import ConsumersAsDifferences, SnapshotAsDifferences
from natstui.model.live.snapshot import (
    ConsumerColumns,
    Snapshot,
    StreamColumns,
    later_columns,
)
from natstui.model.records.findings import FindingsSoFar
from natstui.model.records.record import Configured, Record, kind_of

CORRUPT = "_corrupt_record"
OPTIONS = {
    "columnNameOfCorruptRecord": CORRUPT,
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
"""For reading a line: what is no JSON, or of another type, is noted and no error."""

_TABLES = (StreamColumns, ConsumerColumns, ConsumersAsDifferences)
_ONLY_WITH_DIFFERENCES = '"ack_floor_stream_behind_seq":'
BEFORE_STREAMS, BEFORE_CONSUMERS = ',"streams":', ',"consumers":'
"""What a poll has before its rows, streams first."""
_AFTER_ROWS = ',"streams_complete":'
_HUGE = r'"\d{19,}"(?!:)|(?<=[:,\[])(?:9[2-9]\d{17}|\d{20,})(?=[,\]}])'
"""Numbers beyond 64 signed bits: text as natstui writes them, and bare as others do; no keys."""


@dataclass(frozen=True, slots=True)
class _Keyframe:
    """What an analysis reads of a keyframe; the rest of it has to be JSON."""

    at_us: int
    configured: Configured
    findings: FindingsSoFar | None = None


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: Any
    """Without None."""
    required: bool


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    """Return the fields whose type Spark can hold; of the others only the JSON is checked."""
    hints = typing.get_type_hints(cls)
    found = []
    for field in fields(cls):
        kept, optional = without_none(hints[field.name])
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if ddl_type(kept) is not None:
            found.append(_Field(field.name, kept, not optional and not has_default))
    return tuple(found)


def _broken(value: Column, hint: Any, *, required: bool = True) -> Column | None:
    """Return whether a value is none of this type; None when it always is."""
    conditions = list(_broken_inside(value, hint))
    inside = _any(iter(conditions)) if conditions else None
    if required:
        return value.isNull() if inside is None else value.isNull() | inside
    return None if inside is None else value.isNotNull() & inside


def _broken_inside(value: Column, hint: Any) -> Iterator[Column]:
    """Yield the conditions under which a value that is there is none of this type."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        yield ~value.isin(*typing.get_args(hint))
    elif origin is tuple:
        kept, optional = without_none(item_of(hint))
        if Ellipsis not in typing.get_args(hint):
            yield F.size(value) != len(typing.get_args(hint))
        if not optional or not is_scalar(kept):
            yield F.exists(value, lambda item: _broken_item(item, kept, optional))
    elif isinstance(hint, type) and is_dataclass(hint):
        yield from _broken_struct(value, hint)


def _broken_item(item: Column, hint: Any, optional: bool) -> Column:
    broken = _broken(item, hint, required=not optional)
    return F.lit(False) if broken is None else broken


def _broken_struct(value: Column, cls: type, without: tuple[str, ...] = ()) -> Iterator[Column]:
    for each in _fields(cls):
        if each.name not in without:
            broken = _broken(value[each.name], each.type, required=each.required)
            if broken is not None:
                yield broken
    if cls in _TABLES:
        length = F.coalesce(F.size(value["name"]), F.lit(0))
        for each in _fields(cls):
            yield ~_fits(value[each.name], length, later=each.name in _later(cls))
    if cls is LatencyCounts:
        yield F.size(value["buckets"]) != F.size(value["counts"])
        yield F.exists(value["buckets"], lambda one: (one < 0) | (one >= BUCKETS_COUNT))


def _fits(column: Column, length: Column, *, later: bool) -> Column:
    size = F.greatest(F.coalesce(F.size(column), F.lit(0)), F.lit(0))
    return (size == length) | (size == 0) if later else size == length


def _later(cls: type) -> set[str]:
    """Return the columns that may be absent; not the differences, which refer to each other."""
    return {*later_columns(cls)} - {*PACKED_AS.values()}


def records(
    value: Column, cls: type, line_count: Column, *, without: tuple[str, ...] = ()
) -> Column:
    """Return a line as an array of one struct, of the fields of its class; empty for a bad line.

    `line_count` is the number at its end: what begins as another line than it ends is two lines
    without what was between them. Fields `without` are not looked at.
    """
    ddl = f"struct<{ddl_fields(cls, without)},`line`:int,`{CORRUPT}`:string>"

    def repaired(line: Column) -> Column:
        huge = line[CORRUPT].isNotNull() & is_huge(value)
        return F.when(huge, F.from_json(clamped(value), ddl, OPTIONS)).otherwise(line)

    def sound(line: Column) -> Column:
        broken = _any(_broken_struct(line, cls, without))
        return line[CORRUPT].isNull() & line["line"].eqNullSafe(line_count) & ~broken

    # In an array, because a lambda is given the parsed line, and a condition would parse again.
    return F.filter(F.transform(F.array(F.from_json(value, ddl, OPTIONS)), repaired), sound)


def _any(conditions: Iterator[Column]) -> Column:
    return reduce(lambda left, right: left | right, conditions)


def clamped(value: Column) -> Column:
    """Return a line in which numbers beyond 64 signed bits are the largest one."""
    return F.regexp_replace(value, _HUGE, str(2**63 - 1))


def is_huge(value: Column) -> Column:
    """Return whether a line may have numbers beyond 64 signed bits."""
    return value.rlike(_HUGE)


def _around_rows(value: Column) -> Column:
    """Return a poll without its streams and consumers, if these lie together as they should.

    No text in a line can hold what is looked for: a quotation mark in a text has a backslash.
    """
    begin = F.substring_index(value, BEFORE_STREAMS, 1)
    end = F.substring_index(value, _AFTER_ROWS, -1)
    length = F.octet_length(begin) + len(_AFTER_ROWS) + F.octet_length(end)
    cut = F.concat(begin, F.lit(_AFTER_ROWS), end)
    return F.when(length < F.octet_length(value), cut).otherwise(value)


def poll_head(value: Column, line_count: Column, *, every_column: bool) -> Column:
    """Return what a poll says beside its rows; null when it is none.

    Whether its rows are as they must be is looked at only with `every_column`: that costs as
    much as reading them.
    """
    about = _around_rows(value)
    head = F.get(records(about, Snapshot, line_count, without=("streams", "consumers")), F.lit(0))
    if not every_column:
        return head
    packed = F.size(records(value, SnapshotAsDifferences, line_count)) > 0
    plain = F.size(records(value, Snapshot, line_count)) > 0
    differences = value.contains(_ONLY_WITH_DIFFERENCES)
    return F.when(F.when(differences, packed).otherwise(plain), head)


def records_of(kind: str) -> Column:
    """Return the lines of a kind, no polls, as `records`: of columns `value` and `line_count`."""
    return records(F.col("value"), _CLASSES.get(kind, _Keyframe), F.col("line_count"))


_CLASSES: dict[str, type] = {kind_of(cls): cls for cls in typing.get_args(Record)}
