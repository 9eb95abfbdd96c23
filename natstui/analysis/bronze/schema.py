"""The types of the model as types of Spark: what a line of a recording is read with.

A type ending in `?` may be null (unknown). Everything else must be there: Spark does not notice
a renamed field, so `natstui.analysis.bronze.records` checks each one while reading.
"""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from natstui.model.live.column_differences import DIFFERENCES, ConsumersAsDifferences
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.records.record import NEVER_RECORDED, Record, kind_of

SCHEMA_VERSIONS = (1, 2, 3)
"""The versions of a recording that can be read."""

Fields = dict[str, str]

_SCALARS = {int: "bigint", float: "double", str: "string", bool: "boolean"}


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was part of it; object for other unions."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    parts = typing.get_args(hint)
    kept = [part for part in parts if part is not type(None)]
    return (kept[0] if len(kept) == 1 else object), len(kept) < len(parts)


def item_of(hint: Any) -> Any:
    """Return the type of the items of a tuple; object where they differ."""
    items = {part for part in typing.get_args(hint) if part is not Ellipsis}
    return items.pop() if len(items) == 1 else object


def is_scalar(hint: Any) -> bool:
    """Tell whether a type is a number, a text or a truth value."""
    return hint in _SCALARS


def ddl_type(hint: Any) -> str | None:
    """Return a type, which is not None, as DDL; None for what Spark has no type for."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return "string" if all(isinstance(a, str) for a in typing.get_args(hint)) else None
    if origin is tuple:
        inner = ddl_type(without_none(item_of(hint))[0])
        return None if inner is None else f"array<{inner}>"
    if origin is dict:
        inner = ddl_type(without_none(typing.get_args(hint)[1])[0])
        return None if inner is None else f"map<string,{inner}>"
    if isinstance(hint, type) and is_dataclass(hint):
        return f"struct<{ddl_fields(hint)}>"
    return None


@cache
def ddl_fields(cls: type, without: tuple[str, ...] = ()) -> str:
    """Return the fields of a dataclass as DDL, but for those that Spark has no type for."""
    hints = typing.get_type_hints(cls)
    kept = {each.name: ddl_type(without_none(hints[each.name])[0]) for each in fields(cls)}
    return ",".join(f"`{n}`:{text}" for n, text in kept.items() if text and n not in without)


def columns_of(cls: type) -> Fields:
    """Return the type of one value of each column of a table of the model."""
    found: Fields = {}
    for name, hint in typing.get_type_hints(cls).items():
        kept, optional = without_none(item_of(hint))
        text = ddl_type(kept)
        if text is None:
            raise TypeError(f"Spark has no type for the column {cls.__name__}.{name}")
        found[name] = f"{text}?" if optional else text
    return found


STREAM_COLUMNS = columns_of(StreamColumns)
CONSUMER_COLUMNS = columns_of(ConsumerColumns)

PACKED_AS = DIFFERENCES
PACKED_CONSUMER_COLUMNS: Fields = {
    name: f"{text.removesuffix('?')}?"
    for name, text in columns_of(ConsumersAsDifferences).items()
    if name in DIFFERENCES.values()
}
"""Differences, in version 2, that stand in the place of `PACKED_AS`."""

KINDS = (
    *(kind_of(cls) for cls in typing.get_args(Record) if cls not in NEVER_RECORDED),
    "keyframe",
)
"""Every kind a line may have; lines of other kinds are counted and left out.

A keyframe repeats what was known when a segment began: it is no news. Only the configurations
in that of the first segment are read.
"""


def spark_type(type_text: str) -> str:
    """Return the Spark type without the mark for "may be null"."""
    return type_text.removesuffix("?")


def columns(fields: Fields) -> str:
    """Return one array per field as DDL: how a snapshot keeps its rows."""
    return "struct<" + ",".join(f"`{n}`:array<{spark_type(t)}>" for n, t in fields.items()) + ">"


def poll_fields() -> str:
    """Return the fields of a poll as DDL, with its columns as they are or as differences."""
    about = ddl_fields(Snapshot, ("streams", "consumers"))
    consumers = columns(CONSUMER_COLUMNS | PACKED_CONSUMER_COLUMNS)
    return f"{about},`streams`:{columns(STREAM_COLUMNS)},`consumers`:{consumers}"
