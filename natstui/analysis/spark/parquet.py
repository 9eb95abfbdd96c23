"""Write a short table as one Parquet file, from here: a job of Spark takes longer than its rows.

Columns that may be null, or hold lists, plain and uncompressed, as the format's own description
has it: https://parquet.apache.org/docs/file-format/. Imports no pyspark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from natstui.paths import private_folder

_MAGIC = b"PAR1"
_PLAIN, _RLE = 0, 3
_OPTIONAL, _REPEATED = 1, 2
PHYSICAL = {"boolean": 0, "bigint": 2, "timestamp": 2, "double": 5, "string": 6}
"""The types of values, and their numbers in the format."""
_LISTS = 3
_ITEM = ("list", "element")
"""The names of what is in a list."""
_CONVERTED = {"string": 0, "timestamp": 10}
"""UTF8, and microseconds since 1970 in UTC."""
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


class Struct:
    """A struct of Thrift's compact protocol: values by the number of their field."""

    def __init__(self, *fields: tuple[int, int, Any]) -> None:
        self._fields = fields

    def encoded(self) -> bytes:
        """Return its bytes; fields without a value are left out."""
        parts, before = [], 0
        for number, kind, value in self._fields:
            if value is not None:
                parts.append(bytes([(number - before) << 4 | kind]) + _encoded(kind, value))
                before = number
        return b"".join(parts) + b"\x00"


def _encoded(kind: int, value: Any) -> bytes:
    if kind in (_I32, _I64):
        return _varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == _BINARY:
        text: bytes = value.encode()
        return _varint(len(text)) + text
    if kind == _STRUCT:
        encoded: bytes = value.encoded()
        return encoded
    item, items = value
    begin = bytes([len(items) << 4 | item] if len(items) < 15 else [0xF0 | item])
    length = b"" if len(items) < 15 else _varint(len(items))
    return begin + length + b"".join(_encoded(item, one) for one in items)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def write_table(
    folder: Path,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Any]],
    notes: dict[str, str],
) -> None:
    """Write a folder with one file; raises OSError.

    `columns` are names and types, `rows` hold a value for each of them, `notes` are kept beside.
    """
    private_folder(folder)
    body, chunks = bytearray(_MAGIC), []
    for place, (name, type_text) in enumerate(columns):
        if rows:
            inner, depth = _inside(type_text)
            values = [row[place] for row in rows]
            entries: list[_Entry] = [(0, value is not None, value) for value in values]
            if depth:
                entries = [entry for value in values for entry in _entries(value, depth)]
            page = _page(inner, depth, entries)
            path = [name, *_ITEM * depth]
            chunks.append(_chunk(path, inner, len(entries), len(body), len(page)))
            body += page
    footer = _footer(columns, len(rows), chunks, len(body), notes).encoded()
    body += footer + struct.pack("<I", len(footer)) + _MAGIC
    (folder / "part-00000.parquet").write_bytes(body)


def _inside(type_text: str) -> tuple[str, int]:
    """Return the type of the values, and how many lists they are in."""
    depth = type_text.count("array<")
    return type_text.removeprefix("array<" * depth).removesuffix(">" * depth), depth


_Entry = tuple[int, int, Any]
"""How deep the list is that goes on, how much of the path to the value is there, and it."""


def _entries(value: Any, depth: int, begun: int = 0, there: int = 0) -> Iterator[_Entry]:
    """Yield what is written of a value that is in `depth` lists, below so much that is there."""
    if value is None or not depth:
        yield begun, there + (value is not None), value
    elif not value:
        yield begun, there + 1, None
    else:
        inside = there // 2 + 1
        for place, item in enumerate(value):
            yield from _entries(item, depth - 1, inside if place else begun, there + 2)


def _page(type_text: str, depth: int, entries: Sequence[_Entry]) -> bytes:
    data = b""
    if depth:
        data += _levels([begun for begun, _, _ in entries], depth)
    data += _levels([there for _, there, _ in entries], 2 * depth + 1)
    data += _plain(type_text, [value for _, _, value in entries if value is not None])
    about = Struct((1, _I32, len(entries)), (2, _I32, _PLAIN), (3, _I32, _RLE), (4, _I32, _RLE))
    size = len(data)
    head = Struct((1, _I32, 0), (2, _I32, size), (3, _I32, size), (5, _STRUCT, about))
    return head.encoded() + data


def _levels(levels: Sequence[int], most: int) -> bytes:
    """Return numbers of as many bits as the largest may need, eight of them after another."""
    packed = _bits(levels, most.bit_length())
    run = _varint(-(-len(levels) // 8) << 1 | 1) + packed
    return struct.pack("<I", len(run)) + run


def _plain(type_text: str, known: Sequence[Any]) -> bytes:
    if type_text == "boolean":
        return _bits(known)
    if type_text == "double":
        return struct.pack(f"<{len(known)}d", *known)
    if type_text == "string":
        return b"".join(_texts(known))
    return struct.pack(f"<{len(known)}q", *known)


def _texts(known: Sequence[str]) -> Iterator[bytes]:
    for value in known:
        text = value.encode("utf-8", "replace")
        yield struct.pack("<I", len(text)) + text


def _bits(numbers: Sequence[int], width: int = 1) -> bytes:
    """Return numbers of so many bits each, in groups of eight, the first in the lowest bits."""
    groups = (numbers[start : start + 8] for start in range(0, len(numbers), 8))
    return b"".join(
        sum(number << place * width for place, number in enumerate(group)).to_bytes(
            width, "little"
        )
        for group in groups
    )


def _chunk(path: list[str], type_text: str, count: int, offset: int, size: int) -> Struct:
    about = Struct(
        (1, _I32, PHYSICAL[type_text]),
        (2, _LIST, (_I32, [_PLAIN, _RLE])),
        (3, _LIST, (_BINARY, path)),
        (4, _I32, 0),
        (5, _I64, count),
        (6, _I64, size),
        (7, _I64, size),
        (9, _I64, offset),
    )
    return Struct((2, _I64, offset), (3, _STRUCT, about))


def _footer(
    columns: Sequence[tuple[str, str]],
    rows_count: int,
    chunks: Sequence[Struct],
    size: int,
    notes: dict[str, str],
) -> Struct:
    schema = [Struct((4, _BINARY, "rows"), (5, _I32, len(columns)))]
    schema += [part for name, type_text in columns for part in _described(name, type_text)]
    groups = [Struct((1, _LIST, (_STRUCT, chunks)), (2, _I64, size), (3, _I64, rows_count))]
    kept = [Struct((1, _BINARY, key), (2, _BINARY, value)) for key, value in notes.items()]
    return Struct(
        (1, _I32, 1),
        (2, _LIST, (_STRUCT, schema)),
        (3, _I64, rows_count),
        (4, _LIST, (_STRUCT, groups if chunks else [])),
        (5, _LIST, (_STRUCT, kept)),
        (6, _BINARY, "natstui"),
    )


def _described(name: str, type_text: str) -> Iterator[Struct]:
    """Yield the parts of the schema that a column is; a list is three, one in another."""
    inner, depth = _inside(type_text)
    group, item = _ITEM
    for _ in range(depth):
        yield Struct((3, _I32, _OPTIONAL), (4, _BINARY, name), (5, _I32, 1), (6, _I32, _LISTS))
        yield Struct((3, _I32, _REPEATED), (4, _BINARY, group), (5, _I32, 1))
        name = item
    yield Struct(
        (1, _I32, PHYSICAL[inner]),
        (3, _I32, _OPTIONAL),
        (4, _BINARY, name),
        (6, _I32, _CONVERTED.get(inner)),
    )
