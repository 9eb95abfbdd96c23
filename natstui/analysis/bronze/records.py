"""Validation of lines by the dataclasses of the model, with the result of the other readers.

The other readers (`natstui.lines`) decode a line into its dataclass and refuse it if that fails.
Here the same types become a schema for Spark, and the same refusals a condition, so that an
analysis leaves out exactly the lines that `natstui sessions verify` reports.
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
"""Options for reading a line: invalid JSON and other types are marked, and raise no error."""

_TABLES = (StreamColumns, ConsumerColumns, ConsumersAsDifferences)
POLL = kind_of(Snapshot)
"""Kind of the lines with a poll."""


def _digits_up_to(largest: str) -> str:
    """Return a pattern of the numbers with as many digits that are not larger."""
    lower = (
        rf"{largest[:at]}[0-{int(digit) - 1}]\d{{{len(largest) - at - 1}}}"
        for at, digit in enumerate(largest)
        if digit != "0"
    )
    return "|".join((*lower, largest))


_UNSIGNED = _digits_up_to(str(2**64 - 1))
_HUGE = rf'"(?:\d{{19}}|{_UNSIGNED})"(?!:)|(?<=[:,\[])(?:9[2-9]\d{{17}}|{_UNSIGNED})(?=[,\]}}])'
"""Pattern of numbers beyond signed 64 bits, and within unsigned ones: as text, written by natstui,
or bare; not in keys. A line with a larger one is left out."""


@dataclass(frozen=True, slots=True)
class _Keyframe:
    """The fields of a keyframe that an analysis reads; the others must only be valid JSON."""

    at_us: int
    configured: Configured
    findings: FindingsSoFar | None = None


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: Any
    """Its type without None."""
    required: bool


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    """Return the fields with a Spark type; of the others only the JSON is checked."""
    hints = typing.get_type_hints(cls)
    fields_ = []
    for field in fields(cls):
        hint, optional = without_none(hints[field.name])
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if ddl_type(hint) is not None:
            fields_.append(_Field(field.name, hint, not optional and not has_default))
    return tuple(fields_)


def _is_invalid(value: Column, hint: Any, *, required: bool = True) -> Column | None:
    """Return whether a value has not this type; None if it always has."""
    conditions = list(_invalid_conditions(value, hint))
    inside = _any(iter(conditions)) if conditions else None
    if required:
        return value.isNull() if inside is None else value.isNull() | inside
    return None if inside is None else value.isNotNull() & inside


def _invalid_conditions(value: Column, hint: Any) -> Iterator[Column]:
    """Yield the conditions under which a present value has not this type."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        yield ~value.isin(*typing.get_args(hint))
    elif origin is tuple:
        item_hint, optional = without_none(item_of(hint))
        if Ellipsis not in typing.get_args(hint):
            yield F.size(value) != len(typing.get_args(hint))
        if not optional or not is_scalar(item_hint):
            yield F.exists(
                value, lambda item: _is_invalid_item(item, item_hint, optional=optional)
            )
    elif isinstance(hint, type) and is_dataclass(hint):
        yield from _invalid_fields(value, hint)


def _is_invalid_item(item: Column, hint: Any, *, optional: bool) -> Column:
    broken = _is_invalid(item, hint, required=not optional)
    return F.lit(False) if broken is None else broken


def _invalid_fields(value: Column, cls: type, without: tuple[str, ...] = ()) -> Iterator[Column]:
    if cls in _TABLES:
        yield from _invalid_columns(value, cls)
        return
    for field in _fields(cls):
        if field.name not in without:
            broken = _is_invalid(value[field.name], field.type, required=field.required)
            if broken is not None:
                yield broken
    if cls is LatencyCounts:
        yield F.size(value["buckets"]) != F.size(value["counts"])
        yield F.exists(value["buckets"], lambda bucket: (bucket < 0) | (bucket >= BUCKETS_COUNT))


def _invalid_columns(table: Column, cls: type) -> Iterator[Column]:
    """Yield the conditions under which columns are missing, differ in length, or have nulls."""
    length = F.coalesce(F.size(table["name"]), F.lit(0))
    never_null: dict[Any, list[Column]] = {}
    for field in _fields(cls):
        values, is_later = table[field.name], field.name in _optional_columns(cls)
        yield ~_fits(values, length, later=is_later)
        item, optional = without_none(item_of(field.type))
        if typing.get_origin(item) is tuple:
            yield values.isNotNull() & _has_invalid_lists(F.flatten(values), item_of(item))
        elif not is_scalar(item):
            yield from (
                values.isNotNull() & broken for broken in _invalid_conditions(values, field.type)
            )
        elif not optional:
            absent = F.array().cast(f"array<{ddl_type(item)}>")
            values = F.coalesce(values, absent) if is_later else values
            never_null.setdefault(item, []).append(values)
    for item, columns in never_null.items():
        yield _has_null(F.concat(*columns), item)


def _has_invalid_lists(rows: Column, cls: type) -> Column:
    """Return whether flattened lists are null or have a row that is no `cls`."""
    return rows.isNull() | F.exists(rows, lambda row: _is_invalid_item(row, cls, optional=False))


def _has_null(values: Column, item: Any) -> Column:
    """Return whether an array has a null, without a lambda, which would be slow.

    Spark returns null for `array_contains` of a missing value in an array with a null.
    """
    if item is bool:
        values, item = values.cast("array<bigint>"), int
    missing_value = {int: -(2**63), float: float("-inf"), str: "\ufffe\uffff"}
    return F.array_contains(values, F.lit(missing_value[item])).isNull()


def _fits(column: Column, length: Column, *, later: bool) -> Column:
    size = F.size(column)
    # Of none, Spark says null or -1, as it is set.
    return (size == length) | ~(size > 0) | size.isNull() if later else size.eqNullSafe(length)


def _optional_columns(cls: type) -> set[str]:
    """Return the columns that may be absent; not those of differences, which need each other."""
    return {*later_columns(cls)} - {*PACKED_AS.values()}


def record(value: Column, cls: type, line_number: Column) -> Column:
    """Return a line as a struct of the fields of its class; null for an invalid line.

    `line_number` is the number at its end: if the beginning has another number, the line consists
    of two lines with a hole between them.
    """
    ddl = _with_number(ddl_fields(cls))

    def sound(line: Column) -> Column:
        return _is_sound(line, line_number) & ~_any(_invalid_fields(line, cls))

    # In an array, because a lambda is given the parsed line, and a condition would parse again.
    parsed = F.transform(
        F.array(F.from_json(value, ddl, OPTIONS)), partial(_repair_numbers, value, ddl)
    )
    return F.get(F.filter(parsed, sound), F.lit(0))


def _with_number(fields: str) -> str:
    return f"struct<{fields},`line`:int,`{CORRUPT}`:string>"


def _repair_numbers(value: Column, ddl: str, line: Column) -> Column:
    """Return a parsed line, parsed again if it has numbers beyond signed 64 bits."""
    huge = line[CORRUPT].isNotNull() & is_huge(value)
    return F.when(huge, F.from_json(clamp_numbers(value), ddl, OPTIONS)).otherwise(line)


def _is_sound(line: Column, line_number: Column) -> Column:
    return line[CORRUPT].isNull() & line["line"].eqNullSafe(line_number)


def with_polls(lines: DataFrame) -> DataFrame:
    """Return lines with the column `snapshot`: a poll as a struct, null for other lines.

    It is built column by column, not in a lambda: Spark compiles these steps, and parses each poll
    once.
    """
    ddl, value = _with_number(poll_fields()), F.col("value")
    is_poll = F.col("whole") & (F.col("kind") == POLL)
    rows = lines.withColumn(POLL, F.when(is_poll, F.from_json(value, ddl, OPTIONS)))
    rows = rows.withColumn(POLL, _repair_numbers(value, ddl, F.col(POLL)))
    poll = F.col(POLL)
    is_broken = _any(_invalid_poll(poll))
    sound = _is_sound(poll, F.col("line_number")) & ~is_broken
    return rows.withColumn(POLL, F.when(sound, poll))


def _invalid_poll(poll: Column) -> Iterator[Column]:
    yield from _invalid_fields(poll, Snapshot, ("streams", "consumers"))
    streams, consumers = poll["streams"], poll["consumers"]
    yield streams.isNull() | consumers.isNull()
    yield from _invalid_fields(streams, StreamColumns)
    as_differences = _any(_invalid_fields(consumers, ConsumersAsDifferences))
    as_they_are = _any(_invalid_fields(consumers, ConsumerColumns))
    yield F.when(is_packed(consumers), as_differences).otherwise(as_they_are)


def is_packed(consumers: Column) -> Column:
    """Return whether the five columns of a poll are differences, by one of them."""
    return consumers[PACKED_AS["ack_floor_stream_seq"]].isNotNull()


def _any(conditions: Iterator[Column]) -> Column:
    return reduce(lambda first, second: first | second, conditions)


def clamp_numbers(value: Column) -> Column:
    """Return a line with numbers beyond signed 64 bits replaced by the largest number."""
    return F.regexp_replace(value, _HUGE, str(2**63 - 1))


def is_huge(value: Column) -> Column:
    """Return whether a line may have numbers beyond signed 64 bits."""
    return value.rlike(_HUGE)


def class_of(kind: str) -> type:
    """Return the dataclass of a kind of line."""
    return _CLASSES.get(kind, _Keyframe)


_CLASSES: dict[str, type] = {kind_of(cls): cls for cls in typing.get_args(Record)}
