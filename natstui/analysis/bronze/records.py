"""Which lines are no records: judged by the dataclasses of the model, as every reader does it.

The other readers (`natstui.lines`) decode a line into its dataclass and refuse it when that
fails. Here the same types become a schema for Spark, and the same refusals a condition, so that
an analysis leaves out the lines that `natstui sessions verify` reports, and no others.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.bronze.schema import (
    PACKED_AS,
    ddl_fields,
    ddl_type,
    is_scalar,
    item_of,
    poll_fields,
    without_none,
)
from natstui.model.bench.latency import BUCKETS_COUNT, LatencyCounts
from natstui.model.live.column_differences import ConsumersAsDifferences
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
POLL = kind_of(Snapshot)
"""Kind of the lines that hold a poll."""
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
            yield F.exists(value, lambda item: _broken_item(item, kept, optional=optional))
    elif isinstance(hint, type) and is_dataclass(hint):
        yield from _broken_struct(value, hint)


def _broken_item(item: Column, hint: Any, *, optional: bool) -> Column:
    broken = _broken(item, hint, required=not optional)
    return F.lit(False) if broken is None else broken


def _broken_struct(value: Column, cls: type, without: tuple[str, ...] = ()) -> Iterator[Column]:
    if cls in _TABLES:
        yield from _broken_columns(value, cls)
        return
    for each in _fields(cls):
        if each.name not in without:
            broken = _broken(value[each.name], each.type, required=each.required)
            if broken is not None:
                yield broken
    if cls is LatencyCounts:
        yield F.size(value["buckets"]) != F.size(value["counts"])
        yield F.exists(value["buckets"], lambda bucket: (bucket < 0) | (bucket >= BUCKETS_COUNT))


def _broken_columns(table: Column, cls: type) -> Iterator[Column]:
    """Yield the conditions under which columns are missing, differ in length, or have nulls."""
    length = F.coalesce(F.size(table["name"]), F.lit(0))
    never_null: dict[Any, list[Column]] = {}
    for each in _fields(cls):
        values, is_later = table[each.name], each.name in _later(cls)
        yield ~_fits(values, length, later=is_later)
        item, optional = without_none(item_of(each.type))
        if typing.get_origin(item) is tuple:
            yield values.isNotNull() & _broken_lists(F.flatten(values), item_of(item))
        elif not is_scalar(item):
            yield from (
                values.isNotNull() & broken for broken in _broken_inside(values, each.type)
            )
        elif not optional:
            absent = F.array().cast(f"array<{ddl_type(item)}>")
            values = F.coalesce(values, absent) if is_later else values
            never_null.setdefault(item, []).append(values)
    for item, columns in never_null.items():
        yield _has_null(F.concat(*columns), item)


def _broken_lists(rows: Column, cls: type) -> Column:
    """Return whether lists, flattened, have a row that is none of a class; or one is null."""
    return rows.isNull() | F.exists(rows, lambda row: _broken_item(row, cls, optional=False))


def _has_null(values: Column, item: Any) -> Column:
    """Return whether an array has a null; without a lambda, which takes its time per value.

    Whether an array with a null contains what it does not contain is unknown to Spark.
    """
    if item is bool:
        values, item = values.cast("array<bigint>"), int
    never = {int: -(2**63), float: float("-inf"), str: "\ufffe\uffff"}
    return F.array_contains(values, F.lit(never[item])).isNull()


def _fits(column: Column, length: Column, *, later: bool) -> Column:
    size = F.size(column)
    # Of none, Spark says null or -1, as it is set.
    return (size == length) | ~(size > 0) | size.isNull() if later else size.eqNullSafe(length)


def _later(cls: type) -> set[str]:
    """Return the columns that may be absent; not the differences, which refer to each other."""
    return {*later_columns(cls)} - {*PACKED_AS.values()}


def record(value: Column, cls: type, line_number: Column) -> Column:
    """Return a line as a struct of the fields of its class; null for a bad line.

    `line_number` is the number at its end: what begins as another line than it ends is two lines
    without what was between them.
    """
    ddl = _with_number(ddl_fields(cls))

    def sound(line: Column) -> Column:
        return _is_sound(line, line_number) & ~_any(_broken_struct(line, cls))

    # In an array, because a lambda is given the parsed line, and a condition would parse again.
    parsed = F.transform(F.array(F.from_json(value, ddl, OPTIONS)), partial(_repaired, value, ddl))
    return F.get(F.filter(parsed, sound), F.lit(0))


def _with_number(fields: str) -> str:
    return f"struct<{fields},`line`:int,`{CORRUPT}`:string>"


def _repaired(value: Column, ddl: str, line: Column) -> Column:
    """Return a line; parsed again where numbers in it are beyond 64 signed bits."""
    huge = line[CORRUPT].isNotNull() & is_huge(value)
    return F.when(huge, F.from_json(clamped(value), ddl, OPTIONS)).otherwise(line)


def _is_sound(line: Column, line_number: Column) -> Column:
    return line[CORRUPT].isNull() & line["line"].eqNullSafe(line_number)


def with_polls(lines: DataFrame) -> DataFrame:
    """Return lines with `snapshot`, a poll as a struct; null for a bad line, and for others.

    Column by column, not in a lambda: Spark compiles such a step, and parses each poll once.
    """
    ddl, value = _with_number(poll_fields()), F.col("value")
    is_poll = F.col("whole") & (F.col("kind") == POLL)
    rows = lines.withColumn(POLL, F.when(is_poll, F.from_json(value, ddl, OPTIONS)))
    rows = rows.withColumn(POLL, _repaired(value, ddl, F.col(POLL)))
    poll = F.col(POLL)
    is_broken = _any(_broken_poll(poll))
    sound = _is_sound(poll, F.col("line_number")) & ~is_broken
    return rows.withColumn(POLL, F.when(sound, poll))


def _broken_poll(poll: Column) -> Iterator[Column]:
    yield from _broken_struct(poll, Snapshot, ("streams", "consumers"))
    streams, consumers = poll["streams"], poll["consumers"]
    yield streams.isNull() | consumers.isNull()
    yield from _broken_struct(streams, StreamColumns)
    as_differences = _any(_broken_struct(consumers, ConsumersAsDifferences))
    as_they_are = _any(_broken_struct(consumers, ConsumerColumns))
    yield F.when(is_packed(consumers), as_differences).otherwise(as_they_are)


def is_packed(consumers: Column) -> Column:
    """Return whether five columns of a poll hold differences; one stands for all five."""
    return consumers[PACKED_AS["ack_floor_stream_seq"]].isNotNull()


def _any(conditions: Iterator[Column]) -> Column:
    return reduce(lambda left, right: left | right, conditions)


def clamped(value: Column) -> Column:
    """Return a line in which numbers beyond 64 signed bits are the largest one."""
    return F.regexp_replace(value, _HUGE, str(2**63 - 1))


def is_huge(value: Column) -> Column:
    """Return whether a line may have numbers beyond 64 signed bits."""
    return value.rlike(_HUGE)


def class_of(kind: str) -> type:
    """Return what a line of a kind is read as."""
    return _CLASSES.get(kind, _Keyframe)


_CLASSES: dict[str, type] = {kind_of(cls): cls for cls in typing.get_args(Record)}
