"""The format of a recording as text, generated from the records, so that it is always
correct.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from natstui.lines import SCHEMA_VERSION
from natstui.model.live.column_differences import ConsumersAsDifferences
from natstui.model.records.record import NEVER_RECORDED, Record, kind_of
from natstui.session.files.index import SegmentIndex
from natstui.session.files.info import DroppedSegments, SessionInfo
from natstui.session.files.keyframe import Keyframe
from natstui.session.share.tables import unit_of

_INTRODUCTION = f"""\
# The format of a session, schema version {SCHEMA_VERSION}

Generated from the records (`natstui sessions format`); a test compares this file with them.

A session is a folder:

- `session.json`: what was recorded and when. It never contains a secret.
- `records-000001.jsonl.gz`: a sealed segment, about a minute. `zcat` reads it, and so does Spark.
- `records-000002.jsonl`: the open segment, written at once. When the recorder was killed, its last
  line may be torn: ignore a line that does not end with a line feed.
- `index.jsonl`: the content of each sealed segment, one line per segment. It may be deleted.
- `recording.lock`: locked (flock) while a process records here.

Every line is one JSON object in UTF-8, without spaces between its parts, and ends with a line
feed: readers check its start and its end before they decode it. It begins with `kind`.
Then comes its time, `at_us`; in a poll `taken_mono_us`, then `taken_at_us`. The other fields
follow in any order. It ends with `line`, its number in the segment: 0 for the keyframe, then 1,
2, 3 for the records as they happened. Lines of a sealed segment are not in the order of time:
sort by `line`, then by `part`. A poll of many rows is cut into parts, each a line with the same
`line`, followed by `part` (from 0) and `parts_count`; the rows of all parts together, in order,
are the poll, and all its other fields are in part 0. A poll with missing parts was being written
when the recorder ended.

A writer writes every field. The column "there" says what a reader of any version finds: a field
that is "always" there is in every recording since version 1, and never null; one that "may be
absent" is missing in recordings of writers that did not have it yet, and then unknown: null,
false, 0 or empty; one that "may be null" is null where nothing is known. "Values may be null" is
the same of the items of a list, as of the rows of a column. A reader leaves out fields that it
does not know. Integers beyond a signed 64-bit number are strings of digits. No number is NaN or
infinite.

The first line of a segment is its keyframe: the complete state at the start of the segment. It
repeats earlier records, so do not count it. The records in a keyframe are as in a line of their
own, but without `kind` and `line`. Segments are in the order of their numbers; numbers that are
missing at the beginning were deleted to keep within a limit, and `session.json` says so
(`dropped`). Where the clock was set, a `clock_stepped` line begins a new segment, after its
keyframe. A `gap` that lost records begins one too: that keyframe has the state at that time.

Times are UTC. Durations and order come from the times in `_mono_us`: they are of a clock that is
never set and that counts on while the machine sleeps (CLOCK_BOOTTIME on Linux); its zero means
nothing, and all times of a session in `_mono_us` are of the same one until the engine starts
again. In older recordings this clock stopped during sleep: where the time in UTC runs ahead of it
without a `clock_stepped`, the machine slept.

Five columns of the consumers of a poll are differences within the row, as
`ConsumersAsDifferences` says below: such a poll is packed. Version 1 had the columns of
`ConsumerColumns`, and so do the poll in a keyframe and a poll with a value that would not come
back the same from a difference; the names of the columns show which it is, and it is the same in
all parts of a poll. All columns of one table are of the same length. A time in
`delivered_near_us` or `acked_near_us` is a difference when it is less than 1000000000, also when
it is negative, and µs since 1970 otherwise.

A histogram of times (`LatencyCounts`) has buckets of 1 ns up to bucket 255, then 128 for every
power of two. The smallest time in bucket b is b ns below 256, and otherwise, with shift = b //
128 - 1, (128 + b % 128) * 2**shift ns; the largest is 1 ns below the smallest of the next bucket.
Buckets are numbered from 0 to 8191; a bucket without a count is left out.

`session.json` is one JSON object; spaces do not matter there. `index.jsonl` and `recording.lock`
need not be written: a reader reads the segments instead. A sealed segment is gzip of
one or several members; natstui writes seven, the keyframe in the first, events in the second, and
servers and connections in the last, so that a reader can open what it needs.

Payloads are in a session only if the user requested them; `session.json` says so (`payloads`).
Connections, which have users and addresses, are in it only with `[session] connections = true`.

    zcat records-*.gz | jq -c 'select(.kind == "advisory") | .text'
    zcat records-*.gz | jq -c 'select(.kind == "snapshot") | .taken_at_us as $t | .consumers
      | [.name, .delivered_consumer_seq, .delivered_near_us] | transpose[]
      | {{name: .[0], delivered_consumer_seq: .[1],
         delivered_at_us: (if .[2] and .[2] < 1e9 then .[2] + $t else .[2] end)}}'
"""


@cache
def _field_texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """Return class → field → the docstring of the field, read from the source."""
    texts_by_class: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            texts = texts_by_class.setdefault(node.name, {})
            for field, next_node in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(next_node, ast.Expr)
                    and isinstance(next_node.value, ast.Constant)
                ):
                    text = " ".join(str(next_node.value.value).split())
                    texts[field.target.id] = text
    return texts_by_class


def _json_type(hint: Any) -> str:
    """Return the JSON type of a Python type as text, as `list[str]` or `int | null`."""
    text = re.sub(r"\b(?:natstui|typing|collections|abc)(?:\.\w+)*\.(?=\w)", "", str(hint))
    text = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)
    text = text.replace("NoneType", "null").replace("None", "null")
    return text.replace("tuple[", "list[").replace(", ...", "")


ALWAYS_PRESENT_TEXT, MAYBE_ABSENT_TEXT, MAYBE_NULL_TEXT, VALUES_MAYBE_NULL_TEXT = (
    "always", "may be absent", "may be null", "values may be null",
)  # fmt: skip


def describe_presence(field: FieldInfo, hint: Any) -> str:
    """Return a text about a field: it is always present, or may be absent, or may be null."""
    tuple_item_types = [
        item_type for item_type in typing.get_args(hint) if typing.get_origin(hint) is tuple
    ]
    parts = [
        "" if field.required else MAYBE_ABSENT_TEXT,
        MAYBE_NULL_TEXT if type(None) in typing.get_args(hint) else "",
        VALUES_MAYBE_NULL_TEXT
        if any(type(None) in typing.get_args(item_type) for item_type in tuple_item_types)
        else "",
    ]
    return ", ".join(filter(None, parts)) or ALWAYS_PRESENT_TEXT


def _field_table_lines(cls: Any) -> Iterator[str]:
    """Yield the lines of the table of the fields of a class."""
    module = inspect.getmodule(cls)
    texts = _field_texts(module).get(cls.__name__, {}) if module else {}
    hints = typing.get_type_hints(cls)
    yield "| field | type | there | unit | meaning |"
    yield "|---|---|---|---|---|"
    for field in fields(cls):
        json_type = _json_type(hints[field.name])
        is_numeric = re.search(r"\b(int|float)\b", json_type)
        unit = unit_of(field.name) if is_numeric else ""
        presence_text = describe_presence(field, hints[field.name])
        cells = (f"`{field.name}`", json_type, presence_text, unit, texts.get(field.name, ""))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _section_lines(cls: Any, title: str) -> Iterator[str]:
    yield f"\n{title}\n"
    yield textwrap.fill(" ".join((cls.__doc__ or "").split()), 99) + "\n"
    yield from _field_table_lines(cls)


def _collect_nested(cls: Any, collected: dict[str, Any]) -> None:
    """Add the classes of the values inside a value to `collected`, by name."""
    for hint in typing.get_type_hints(cls).values():
        for inner_class in _iterate_classes(hint):
            if inner_class.__name__ not in collected:
                collected[inner_class.__name__] = inner_class
                _collect_nested(inner_class, collected)


def _iterate_classes(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _iterate_classes(argument)


def format_text() -> str:
    """Return the complete description of the format of a recording, in Markdown."""
    record_classes = [
        record_class
        for record_class in typing.get_args(Record)
        if record_class not in NEVER_RECORDED
    ]
    lines = [_INTRODUCTION]
    parts: dict[str, Any] = {}
    for record_class in (*record_classes, Keyframe):
        lines += _section_lines(record_class, f"## kind `{kind_of(record_class)}`")
        _collect_nested(record_class, parts)
    parts[ConsumersAsDifferences.__name__] = ConsumersAsDifferences
    _collect_nested(SegmentIndex, parts)
    for name in sorted(parts):
        if parts[name] not in record_classes:
            lines += _section_lines(parts[name], f"## {name}")
    for title, record_class in (
        ("session.json", SessionInfo),
        ("DroppedSegments", DroppedSegments),
    ):
        lines += _section_lines(record_class, f"## {title}")
    lines += _section_lines(SegmentIndex, "## a line of index.jsonl")
    return "\n".join(lines) + "\n"
