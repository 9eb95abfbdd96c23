"""Validation of lines by the dataclasses of the model, with the result of the other readers.

The other readers (`natstui.lines`) decode a line into its dataclass and refuse it if that fails.
Here the same types become a schema for Spark, and the same refusals a condition, so that an
analysis leaves out exactly the lines that `natstui sessions verify` reports.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, reduce
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


def _is_invalid(value: str, hint: Any, *, required: bool = True) -> str | None:
    """Return whether a value has not this type, as SQL; None if it always has."""
    conditions = list(_invalid_conditions(value, hint))
    if required:
        return _any([f"{value} IS NULL", *conditions])
    return f"({value} IS NOT NULL AND {_any(conditions)})" if conditions else None


def _invalid_conditions(value: str, hint: Any) -> Iterator[str]:
    """Yield the conditions under which a present value has not this type."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        yield f"{value} NOT IN ({', '.join(map(repr, typing.get_args(hint)))})"
    elif origin is tuple:
        item_hint, optional = without_none(item_of(hint))
        if Ellipsis not in typing.get_args(hint):
            yield f"size({value}) != {len(typing.get_args(hint))}"
        if not optional or not is_scalar(item_hint):
            yield _has_invalid_item(value, item_hint, optional=optional)
    elif isinstance(hint, type) and is_dataclass(hint):
        yield from _invalid_fields(value, hint)


def _has_invalid_item(values: str, hint: Any, *, optional: bool = False) -> str:
    broken = _is_invalid("item", hint, required=not optional)
    return f"exists({values}, item -> {broken or 'false'})"


def _invalid_fields(value: str, cls: type, without: tuple[str, ...] = ()) -> Iterator[str]:
    if cls in _TABLES:
        yield from _invalid_columns(value, cls)
        return
    for field in _fields(cls):
        if field.name not in without:
            broken = _is_invalid(f"{value}.{field.name}", field.type, required=field.required)
            if broken is not None:
                yield broken
    if cls is LatencyCounts:
        yield f"size({value}.buckets) != size({value}.counts)"
        yield f"exists({value}.buckets, bucket -> bucket < 0 OR bucket >= {BUCKETS_COUNT})"


def _invalid_columns(table: str, cls: type) -> Iterator[str]:
    """Yield the conditions under which columns are missing, differ in length, or have nulls."""
    length, later = f"coalesce(size({table}.name), 0)", _optional_columns(cls)
    never_null: dict[Any, list[str]] = {}
    sizes: dict[bool, list[str]] = {False: [], True: []}
    for field in _fields(cls):
        values, is_later = f"{table}.{field.name}", field.name in later
        sizes[is_later].append(f"size({values})")
        item, optional = without_none(item_of(field.type))
        if typing.get_origin(item) is tuple:
            rows = f"flatten({values})"
            broken = f"{rows} IS NULL OR {_has_invalid_item(rows, item_of(item))}"
            yield f"({values} IS NOT NULL AND ({broken}))"
        elif not is_scalar(item):
            for broken in _invalid_conditions(values, field.type):
                yield f"({values} IS NOT NULL AND {broken})"
        elif not optional:
            absent = f"CAST(array() AS array<{ddl_type(item)}>)"
            values = f"coalesce({values}, {absent})" if is_later else values
            never_null.setdefault(item, []).append(values)
    yield f"array_distinct(array({', '.join(sizes[False])})) != array({length})"
    if sizes[True]:
        # Of none, Spark says null or -1, as it is set.
        fitting = f"array({length}, 0, -1, CAST(NULL AS int))"
        yield f"size(array_except(array({', '.join(sizes[True])}), {fitting})) > 0"
    for item, columns in never_null.items():
        yield _has_null(f"concat({', '.join(columns)})", item)


def _has_null(values: str, item: Any) -> str:
    """Return whether an array has a null, without a lambda, which would be slow.

    Spark returns null for `array_contains` of a missing value in an array with a null.
    """
    if item is bool:
        values, item = f"CAST({values} AS array<bigint>)", int
    missing_value = {int: -(2**63), float: "double('-infinity')", str: r"'\ufffe\uffff'"}
    return f"array_contains({values}, {missing_value[item]}) IS NULL"


def _optional_columns(cls: type) -> set[str]:
    """Return the columns that may be absent; not those of differences, which need each other."""
    return {*later_columns(cls)} - {*PACKED_AS.values()}


def record(cls: type) -> Column:
    """Return `value`, a line, as a struct of the fields of its class; null for an invalid line.

    `line_number` is the number at its end: if the beginning has another number, the line consists
    of two lines with a hole between them.

    It is one text of SQL: a call into the JVM for each part would take longer than to parse it.
    """
    ddl = _with_number(ddl_fields(cls))
    # In an array, because a lambda is given the parsed line, and a condition would parse again.
    parsed = f"transform(array({_from_json('value', ddl)}), line -> {_repaired('line', ddl)})"
    is_sound = _is_sound("line", _any(_invalid_fields("line", cls)))
    return F.expr(f"get(filter({parsed}, line -> {is_sound}), 0)")


def _with_number(fields: str) -> str:
    return f"struct<{fields},`line`:int,`{CORRUPT}`:string>"


def _from_json(value: str, ddl: str) -> str:
    options = ", ".join(f"'{name}', '{option}'" for name, option in OPTIONS.items())
    return f"from_json({value}, '{ddl}', map({options}))"


def _repaired(line: str, ddl: str) -> str:
    """Return a parsed line, parsed again if it has numbers beyond signed 64 bits."""
    huge = f"{line}.{CORRUPT} IS NOT NULL AND {is_huge('value')}"
    return f"IF({huge}, {_from_json(clamp_numbers('value'), ddl)}, {line})"


def _is_sound(line: str, is_broken: str) -> str:
    return f"{line}.{CORRUPT} IS NULL AND {line}.line <=> line_number AND NOT {is_broken}"


def with_polls(lines: DataFrame) -> DataFrame:
    """Return lines with the column `snapshot`: a poll as a struct, null for other lines.

    It is built column by column, not in a lambda: Spark compiles these steps, and parses each poll
    once.
    """
    ddl = _with_number(poll_fields())
    steps = (
        f"IF(whole AND kind = '{POLL}', {_from_json('value', ddl)}, NULL)",
        _repaired(POLL, ddl),
        f"IF({_is_sound(POLL, _any(_invalid_poll(POLL)))}, {POLL}, NULL)",
    )
    return reduce(lambda rows, step: rows.withColumn(POLL, F.expr(step)), steps, lines)


def _invalid_poll(poll: str) -> Iterator[str]:
    yield from _invalid_fields(poll, Snapshot, ("streams", "consumers"))
    streams, consumers = f"{poll}.streams", f"{poll}.consumers"
    yield f"{streams} IS NULL OR {consumers} IS NULL"
    yield from _invalid_fields(streams, StreamColumns)
    as_differences = _any(_invalid_fields(consumers, ConsumersAsDifferences))
    as_they_are = _any(_invalid_fields(consumers, ConsumerColumns))
    is_packed = f"{consumers}.{_PACKED} IS NOT NULL"
    yield f"IF({is_packed}, {as_differences}, {as_they_are})"


_PACKED = PACKED_AS["ack_floor_stream_seq"]


def is_packed(consumers: Column) -> Column:
    """Return whether the five columns of a poll are differences, by one of them."""
    return consumers[_PACKED].isNotNull()


def _any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions)})"


def clamp_numbers(value: str) -> str:
    """Return a line with numbers beyond signed 64 bits replaced by the largest number."""
    return f"regexp_replace({value}, r'{_HUGE}', '{2**63 - 1}')"


def is_huge(value: str) -> str:
    """Return whether a line may have numbers beyond signed 64 bits."""
    return f"{value} RLIKE r'{_HUGE}'"


def class_of(kind: str) -> type:
    """Return the dataclass of a kind of line."""
    return _CLASSES.get(kind, _Keyframe)


_CLASSES: dict[str, type] = {kind_of(cls): cls for cls in typing.get_args(Record)}
