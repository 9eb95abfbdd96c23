"""Validation of lines by the dataclasses of the model; accepts what other readers accept.

The other readers (`natstui.lines`) decode a line into its dataclass and refuse it if that fails.
Here the same types become a schema and a condition in Spark SQL, so that an analysis leaves out
exactly the lines that `natstui sessions verify` reports.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import fields
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.bronze.schema import (
    ddl_fields,
    ddl_type,
    is_scalar,
    item_type,
    poll_fields_ddl,
    split_optional,
)
from natstui.model.bench.latency import BUCKETS_COUNT, LatencyCounts
from natstui.model.live.column_differences import (
    DIFFERENCE_COLUMN_BY_COLUMN,
    ConsumersAsDifferences,
)
from natstui.model.live.snapshot import (
    ConsumerColumns,
    Snapshot,
    StreamColumns,
    added_columns,
)
from natstui.model.records.findings import FindingsSoFar
from natstui.model.records.record import Configured, Record, kind_of

CORRUPT_FIELD = "_corrupt_record"
JSON_OPTIONS = {
    "columnNameOfCorruptRecord": CORRUPT_FIELD,
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
"""Options of `from_json`: a line with invalid JSON or other types is marked, without an error."""

_COLUMN_CLASSES = (StreamColumns, ConsumerColumns, ConsumersAsDifferences)
POLL = kind_of(Snapshot)
"""Kind of the lines with a poll."""


def _number_pattern(largest: str) -> str:
    """Return a pattern of the numbers up to `largest` that have the same number of digits."""
    smaller_number_patterns = (
        rf"{largest[:index]}[0-{int(digit) - 1}]\d{{{len(largest) - index - 1}}}"
        for index, digit in enumerate(largest)
        if digit != "0"
    )
    return "|".join((*smaller_number_patterns, largest))


_UINT64_PATTERN = _number_pattern(str(2**64 - 1))
_LARGE_NUMBER_PATTERN = (
    rf'"(?:\d{{19}}|{_UINT64_PATTERN})"(?!:)|'
    rf"(?<=[:,\[])(?:9[2-9]\d{{17}}|{_UINT64_PATTERN})(?=[,\]}}])"
)
"""Pattern of numbers above signed and within unsigned 64 bits: as text, which natstui writes, or
bare; not in keys. A line with a larger number is left out."""


class _Keyframe(Struct, frozen=True):
    """The fields of a keyframe that an analysis reads; other fields must only be valid JSON."""

    at_us: int
    configured: Configured
    findings: FindingsSoFar | None = None


class _TypedField(Struct, frozen=True):
    name: str
    type: Any
    """Its type without None."""
    is_required: bool


@cache
def _typed_fields(cls: type[Struct]) -> tuple[_TypedField, ...]:
    """Return the fields of a value that have a Spark type; other fields are not checked."""
    hints = typing.get_type_hints(cls)
    typed_fields = []
    for field in fields(cls):
        hint, is_optional = split_optional(hints[field.name])
        if ddl_type(hint) is not None:
            typed_fields.append(_TypedField(field.name, hint, not is_optional and field.required))
    return tuple(typed_fields)


def _invalid_condition(value: str, hint: Any, *, is_required: bool = True) -> str | None:
    """Return the SQL condition under which a value is invalid for a type; None if it never is."""
    conditions = list(_invalid_conditions(value, hint))
    if is_required:
        return _join_or([f"{value} IS NULL", *conditions])
    return f"({value} IS NOT NULL AND {_join_or(conditions)})" if conditions else None


def _invalid_conditions(value: str, hint: Any) -> Iterator[str]:
    """Yield the SQL conditions under which a value that is not null is invalid for a type."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        yield f"{value} NOT IN ({', '.join(map(repr, typing.get_args(hint)))})"
    elif origin is tuple:
        item_hint, is_optional = split_optional(item_type(hint))
        if Ellipsis not in typing.get_args(hint):
            yield f"size({value}) != {len(typing.get_args(hint))}"
        if not is_optional or not is_scalar(item_hint):
            yield _has_invalid_item(value, item_hint, is_optional=is_optional)
    elif isinstance(hint, type) and issubclass(hint, Struct):
        yield from _invalid_fields(value, hint)


def _has_invalid_item(values: str, hint: Any, *, is_optional: bool = False) -> str:
    invalid_item_condition = _invalid_condition("item", hint, is_required=not is_optional)
    return f"exists({values}, item -> {invalid_item_condition or 'false'})"


def _invalid_fields(value: str, cls: type, excluded_names: tuple[str, ...] = ()) -> Iterator[str]:
    if cls in _COLUMN_CLASSES:
        yield from _invalid_columns(value, cls)
        return
    for field in _typed_fields(cls):
        if field.name not in excluded_names:
            invalid_condition = _invalid_condition(
                f"{value}.{field.name}", field.type, is_required=field.is_required
            )
            if invalid_condition is not None:
                yield invalid_condition
    if cls is LatencyCounts:
        yield f"size({value}.buckets) != size({value}.counts)"
        yield f"exists({value}.buckets, bucket -> bucket < 0 OR bucket >= {BUCKETS_COUNT})"


def _invalid_columns(table: str, cls: type) -> Iterator[str]:
    """Yield SQL conditions: a column is missing, has another length, or has an invalid value."""
    length_sql, optional_columns = f"coalesce(size({table}.name), 0)", _optional_columns(cls)
    required_columns_by_type: dict[Any, list[str]] = {}
    sizes_by_is_added_later: dict[bool, list[str]] = {False: [], True: []}
    for field in _typed_fields(cls):
        values, is_added_later = f"{table}.{field.name}", field.name in optional_columns
        sizes_by_is_added_later[is_added_later].append(f"size({values})")
        item, is_optional = split_optional(item_type(field.type))
        if typing.get_origin(item) is tuple:
            rows = f"flatten({values})"
            invalid_condition = f"{rows} IS NULL OR {_has_invalid_item(rows, item_type(item))}"
            yield f"({values} IS NOT NULL AND ({invalid_condition}))"
        elif not is_scalar(item):
            for invalid_condition in _invalid_conditions(values, field.type):
                yield f"({values} IS NOT NULL AND {invalid_condition})"
        elif not is_optional:
            empty_array = f"CAST(array() AS array<{ddl_type(item)}>)"
            values = f"coalesce({values}, {empty_array})" if is_added_later else values
            required_columns_by_type.setdefault(item, []).append(values)
    required_sizes = f"array({', '.join(sizes_by_is_added_later[False])})"
    yield f"array_distinct({required_sizes}) != array({length_sql})"
    if sizes_by_is_added_later[True]:
        # The size of a missing column is null or -1, depending on a setting of Spark.
        allowed_sizes = f"array({length_sql}, 0, -1, CAST(NULL AS int))"
        added_sizes = f"array({', '.join(sizes_by_is_added_later[True])})"
        yield f"size(array_except({added_sizes}, {allowed_sizes})) > 0"
    for item, columns in required_columns_by_type.items():
        yield _has_null(f"concat({', '.join(columns)})", item)


def _has_null(values: str, item: Any) -> str:
    """Return the SQL condition that the array `values`, with items of type `item`, has a null.

    It uses no slow lambda: `array_contains` of a value that the array does not have is null if the
    array has a null.
    """
    if item is bool:
        values, item = f"CAST({values} AS array<bigint>)", int
    unused_value_by_type = {int: -(2**63), float: "double('-infinity')", str: r"'\ufffe\uffff'"}
    return f"array_contains({values}, {unused_value_by_type[item]}) IS NULL"


def _optional_columns(cls: type) -> set[str]:
    """Return the columns that older recordings lack, except the columns of differences."""
    return {*added_columns(cls)} - {*DIFFERENCE_COLUMN_BY_COLUMN.values()}


def parse_record(cls: type) -> Column:
    """Return the column that parses `value`, a line, into a struct of a class; null if invalid.

    A line whose number in the JSON is not `line_number`, the number at its end, is invalid: it
    consists of two torn lines. The column is built as one text of SQL, because a call into the JVM
    for each part would take longer than to parse the text.
    """
    ddl = _line_type_ddl(ddl_fields(cls))
    # In an array, so that a lambda gets the parsed line; each condition would parse it again.
    parsed_line_sql = _from_json("value", ddl)
    reparsed_line_sql = _reparse_large_numbers("line", ddl)
    lines_sql = f"transform(array({parsed_line_sql}), line -> {reparsed_line_sql})"
    is_valid_sql = _is_valid_line("line", _join_or(_invalid_fields("line", cls)))
    return F.expr(f"get(filter({lines_sql}, line -> {is_valid_sql}), 0)")


def _line_type_ddl(fields: str) -> str:
    return f"struct<{fields},`line`:int,`{CORRUPT_FIELD}`:string>"


def _from_json(value: str, ddl: str) -> str:
    options = ", ".join(f"'{name}', '{option}'" for name, option in JSON_OPTIONS.items())
    return f"from_json({value}, '{ddl}', map({options}))"


def _reparse_large_numbers(line: str, ddl: str) -> str:
    """Return the SQL that parses a line again if it has numbers above signed 64 bits."""
    must_reparse_sql = f"{line}.{CORRUPT_FIELD} IS NOT NULL AND {has_large_number('value')}"
    return f"IF({must_reparse_sql}, {_from_json(clamp_large_numbers('value'), ddl)}, {line})"


def _is_valid_line(line: str, is_invalid_sql: str) -> str:
    return (
        f"{line}.{CORRUPT_FIELD} IS NULL AND {line}.line <=> line_number AND NOT {is_invalid_sql}"
    )


def with_poll_column(lines: DataFrame) -> DataFrame:
    """Add the column `snapshot`: a poll as a struct; null for other lines and invalid polls.

    It is computed in several steps instead of a lambda: Spark compiles them, and parses each poll
    once.
    """
    ddl = _line_type_ddl(poll_fields_ddl())
    successive_poll_sqls = (
        f"IF(is_complete AND kind = '{POLL}', {_from_json('value', ddl)}, NULL)",
        _reparse_large_numbers(POLL, ddl),
        f"IF({_is_valid_line(POLL, _join_or(_invalid_poll(POLL)))}, {POLL}, NULL)",
    )
    for poll_sql in successive_poll_sqls:
        lines = lines.withColumn(POLL, F.expr(poll_sql))
    return lines


def _invalid_poll(poll: str) -> Iterator[str]:
    yield from _invalid_fields(poll, Snapshot, ("streams", "consumers"))
    streams, consumers = f"{poll}.streams", f"{poll}.consumers"
    yield f"{streams} IS NULL OR {consumers} IS NULL"
    yield from _invalid_fields(streams, StreamColumns)
    invalid_differences = _join_or(_invalid_fields(consumers, ConsumersAsDifferences))
    invalid_values = _join_or(_invalid_fields(consumers, ConsumerColumns))
    difference_condition = f"{consumers}.{_DIFFERENCE_COLUMN} IS NOT NULL"
    yield f"IF({difference_condition}, {invalid_differences}, {invalid_values})"


_DIFFERENCE_COLUMN = DIFFERENCE_COLUMN_BY_COLUMN["ack_floor_stream_seq"]


def has_differences(consumers: Column) -> Column:
    """Return whether a poll recorded its five columns of counters and times as differences."""
    return consumers[_DIFFERENCE_COLUMN].isNotNull()


def _join_or(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions)})"


def clamp_large_numbers(value: str) -> str:
    """Return the SQL of a line with numbers above signed 64 bits replaced by 2⁶³ - 1."""
    return f"regexp_replace({value}, r'{_LARGE_NUMBER_PATTERN}', '{2**63 - 1}')"


def has_large_number(value: str) -> str:
    """Return the SQL condition that a line may have numbers above signed 64 bits."""
    return f"{value} RLIKE r'{_LARGE_NUMBER_PATTERN}'"


def class_of(kind: str) -> type:
    """Return the dataclass of a kind of line; that of keyframes for an unknown kind."""
    return _CLASS_BY_KIND.get(kind, _Keyframe)


_CLASS_BY_KIND: dict[str, type] = {kind_of(cls): cls for cls in typing.get_args(Record)}
