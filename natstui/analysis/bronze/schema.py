"""The types of the model as Spark types, to read the lines of a recording.

Values of a type that ends with `?` may be null (unknown); all others are required. Spark does not
notice a renamed field, so `natstui.analysis.bronze.records` checks each field while reading.
"""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any

from msgspec import Struct

from natstui.model.live.column_differences import (
    DIFFERENCE_COLUMN_BY_COLUMN,
    ConsumersAsDifferences,
)
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.records.record import NEVER_RECORDED, Record, kind_of

SCHEMA_VERSIONS = (1, 2, 3)
"""The schema versions of recordings that can be read."""

SparkTypeByColumn = dict[str, str]

_DDL_BY_SCALAR_TYPE = {int: "bigint", float: "double", str: "string", bool: "boolean"}


def split_optional(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether it included None; `object` for other unions."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    alternatives = typing.get_args(hint)
    other_types = [alternative for alternative in alternatives if alternative is not type(None)]
    return (other_types[0] if len(other_types) == 1 else object), len(other_types) < len(
        alternatives
    )


def item_type(hint: Any) -> Any:
    """Return the type of the items of a tuple; `object` if the items differ in type."""
    item_types = {item for item in typing.get_args(hint) if item is not Ellipsis}
    return item_types.pop() if len(item_types) == 1 else object


def is_scalar(hint: Any) -> bool:
    """Return whether a type is a number, a text or a boolean."""
    return hint in _DDL_BY_SCALAR_TYPE


def ddl_type(hint: Any) -> str | None:
    """Return a Python type as Spark DDL; None if Spark has no type for it."""
    if hint in _DDL_BY_SCALAR_TYPE:
        return _DDL_BY_SCALAR_TYPE[hint]
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return (
            "string"
            if all(isinstance(argument, str) for argument in typing.get_args(hint))
            else None
        )
    if origin is tuple:
        item_ddl = ddl_type(split_optional(item_type(hint))[0])
        return None if item_ddl is None else f"array<{item_ddl}>"
    if origin is dict:
        item_ddl = ddl_type(split_optional(typing.get_args(hint)[1])[0])
        return None if item_ddl is None else f"map<string,{item_ddl}>"
    if isinstance(hint, type) and issubclass(hint, Struct):
        return f"struct<{ddl_fields(hint)}>"
    return None


@cache
def ddl_fields(cls: type[Struct], excluded_names: tuple[str, ...] = ()) -> str:
    """Return the fields of a dataclass as DDL, except excluded and unsupported ones."""
    hints = typing.get_type_hints(cls)
    types = {name: ddl_type(split_optional(hints[name])[0]) for name in cls.__struct_fields__}
    return ",".join(
        f"`{name}`:{text}" for name, text in types.items() if text and name not in excluded_names
    )


def columns_of(cls: type) -> SparkTypeByColumn:
    """Return column → Spark type of its values; raises TypeError if Spark has no such type."""
    types: SparkTypeByColumn = {}
    for name, hint in typing.get_type_hints(cls).items():
        item_hint, optional = split_optional(item_type(hint))
        text = ddl_type(item_hint)
        if text is None:
            raise TypeError(f"Spark has no type for the column {cls.__name__}.{name}")
        types[name] = f"{text}?" if optional else text
    return types


STREAM_COLUMNS = columns_of(StreamColumns)
CONSUMER_COLUMNS = columns_of(ConsumerColumns)

DIFFERENCE_COLUMN_TYPES: SparkTypeByColumn = {
    name: f"{text.removesuffix('?')}?"
    for name, text in columns_of(ConsumersAsDifferences).items()
    if name in DIFFERENCE_COLUMN_BY_COLUMN.values()
}
"""Column of differences → its type; version 2 records these instead of the columns of values."""

KEYFRAME = "keyframe"
"""Kind of the first line of a segment."""
LINE_KINDS = (
    *(kind_of(cls) for cls in typing.get_args(Record) if cls not in NEVER_RECORDED),
    KEYFRAME,
)
"""The known kinds of lines; lines of other kinds are only counted.

A keyframe repeats the state at the start of a segment. Only the configurations and findings in the
keyframes of the first segment and of segments after lost records are read.
"""


def spark_type(type_text: str) -> str:
    """Return a type without the `?` for "may be null"."""
    return type_text.removesuffix("?")


def array_columns_ddl(type_by_column: SparkTypeByColumn) -> str:
    """Return a struct with an array per field as DDL, as a snapshot has its columns."""
    return (
        "struct<"
        + ",".join(
            f"`{n}`:array<{spark_type(type_text)}>" for n, type_text in type_by_column.items()
        )
        + ">"
    )


def poll_fields_ddl() -> str:
    """Return the fields of a poll as DDL, with the columns of values and of differences."""
    poll_ddl = ddl_fields(Snapshot, ("streams", "consumers"))
    consumers = array_columns_ddl(CONSUMER_COLUMNS | DIFFERENCE_COLUMN_TYPES)
    return f"{poll_ddl},`streams`:{array_columns_ddl(STREAM_COLUMNS)},`consumers`:{consumers}"
