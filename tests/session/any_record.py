"""Random records of every kind: hostile text, 64-bit extremes, empty and ragged-free columns."""

from __future__ import annotations

import types
import typing
from typing import Any, get_args

from hypothesis import strategies as st
from msgspec import Struct

from natstui.model.bench.latency import LatencyCounts
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.records.record import NEVER_RECORDED, Record

SIGNED = st.integers(-(2**63), 2**63 - 1)
SEQUENCES = st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**63 - 1, 2**63, 2**64 - 1])
HOSTILE = [
    '"]}',
    "\x1b[2J",
    '","line":5}',
    "\u202e",
    "\\",
    "18446744073709551615",
    "\ud7ff",
    "{}\n",
]
TEXTS = st.text(max_size=12) | st.sampled_from(HOSTILE)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)

_COUNTERS = ("_seq", "_msgs", "_bytes", "_count", "buckets", "counts")

KINDS: list[Any] = [cls for cls in get_args(Record) if cls not in NEVER_RECORDED]


def of(hint: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Return values of a type hint; a field's name tells whether it may pass 63 bits."""
    origin, arguments = typing.get_origin(hint), get_args(hint)
    if hint in (StreamColumns, ConsumerColumns, LatencyCounts):
        return columns(hint)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return fields_of(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([of(argument, name) for argument in arguments])
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(of(arguments[0], name), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(of(argument, name) for argument in arguments))
    if origin is dict:
        return st.dictionaries(TEXTS, of(arguments[1], name), max_size=2)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXTS,
        bool: st.booleans(),
        float: FLOATS,
        type(None): st.none(),
        int: SEQUENCES if name.endswith(_COUNTERS) else SIGNED,
    }
    return simple[hint]


def fields_of(cls: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{f: of(hints[f], f) for f in cls.__struct_fields__})


def columns(cls: Any) -> st.SearchStrategy[Any]:
    """Columns of one length."""
    hints = typing.get_type_hints(cls)
    cells = {f: of(get_args(hints[f])[0], f) for f in cls.__struct_fields__}
    if "buckets" in cells:
        cells["buckets"] = st.integers(0, 8191)
    if "sampled_mono_us" in cells:
        cells["sampled_mono_us"] = st.integers(0, 2**63 - 1)

    def filled(rows: int) -> st.SearchStrategy[Any]:
        lists = {
            name: st.lists(cell, min_size=rows, max_size=rows) for name, cell in cells.items()
        }
        return st.builds(cls, **{name: one.map(tuple) for name, one in lists.items()})

    return st.integers(0, 3).flatmap(filled)


def any_record() -> st.SearchStrategy[Any]:
    """Return records of every kind that can be recorded."""
    return st.one_of([fields_of(cls) for cls in KINDS])
