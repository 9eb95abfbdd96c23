"""The tables of the document: the fields of a line and their types; and values of these."""

from __future__ import annotations

import random
import re
from typing import Any

from msgspec import Struct

NEVER_NEGATIVE = ("messages", "sequence", "count", "bytes", "µs on the engine's monotonic clock")
TEXTS = (
    "",
    "a",
    "ORDERS > é",
    '"]}',
    '","line":5}',
    "\\",
    "\x1b[2J",
    "{}\n",
    "18446744073709551615",
)


class Field(Struct, frozen=True):
    name: str
    type: str
    unit: str


Tables = dict[str, tuple[Field, ...]]


def tables_of(document: str) -> Tables:
    """Return the fields under every heading: "kind snapshot", "Peer", "session.json"."""
    found: dict[str, list[Field]] = {}
    heading = ""
    for line in document.splitlines():
        if line.startswith("## "):
            heading = line[3:].replace("`", "")
        row = re.fullmatch(
            r"\| `(\w+)` \| (.*?) \| .*? \| (.*?) \| .*\|", line.replace(r"\|", "¦")
        )
        if row:
            found.setdefault(heading, []).append(Field(row[1], row[2].replace("¦", "|"), row[3]))
    return {name: tuple(fields) for name, fields in found.items()}


def inner(type_text: str) -> str:
    """Return what stands between the brackets of a type."""
    return type_text[type_text.index("[") + 1 : -1]


def fields_named(tables: Tables, name: str) -> tuple[Field, ...]:
    """Return the fields of a type; also where it is the content of a line."""
    by_line = "kind " + re.sub(r"(?<=.)([A-Z])", r"_\1", name).lower()
    return tables[name] if name in tables else tables[by_line]


def fault(tables: Tables, value: Any, type_text: str) -> str:
    """Return why a JSON value is not of a type of the document; empty when it is."""
    if type_text.endswith(" | null"):
        return "" if value is None else fault(tables, value, type_text[:-7])
    if type_text.startswith("Literal["):
        return "" if repr(value) in inner(type_text).split(", ") else f"{value!r}: {type_text}"
    if type_text.startswith("list["):
        return _fault_of_list(tables, value, inner(type_text))
    if type_text.startswith(("dict[str, ", "Mapping[str, ")):
        if not isinstance(value, dict):
            return f"{value!r} is no object"
        of = inner(type_text).split(", ", 1)[1]
        return "".join(fault(tables, one, of) for one in value.values())
    simple = {"str": str, "bool": bool, "int": int, "float": (int, float)}
    if type_text in simple:
        huge = type_text == "int" and isinstance(value, str) and value.lstrip("-").isdigit()
        good = isinstance(value, simple[type_text]) and isinstance(value, bool) == (
            type_text == "bool"
        )
        return "" if good or huge else f"{value!r} is no {type_text}"
    return fault_of_fields(tables, value, fields_named(tables, type_text))


def _fault_of_list(tables: Tables, value: Any, of: str) -> str:
    if not isinstance(value, list):
        return f"{value!r} is no list"
    kinds = of.split(", ") if re.fullmatch(r"(str|int|float)(, (str|int|float))+", of) else None
    if kinds is None:
        return "".join(fault(tables, one, of) for one in value)
    if len(kinds) != len(value):
        return f"{value!r} has not {len(kinds)} values"
    return "".join(fault(tables, one, kind) for one, kind in zip(value, kinds, strict=True))


def fault_of_fields(tables: Tables, value: Any, fields: tuple[Field, ...]) -> str:
    """Return which fields of an object are missing, unknown, or of another type."""
    if not isinstance(value, dict):
        return f"{value!r} is no object"
    if {*value} != {field.name for field in fields}:
        return f"fields differ: {sorted({*value} ^ {field.name for field in fields})}"
    return "".join(
        f"{field.name}: {wrong}; "
        for field in fields
        if (wrong := fault(tables, value[field.name], field.type))
    )


class Values:
    """Random values of the document's types, the same for a seed."""

    def __init__(self, tables: Tables, seed: int) -> None:
        self.tables = tables
        self.random = random.Random(seed)

    def of(self, type_text: str, unit: str) -> Any:
        """Return a value of a type; the unit says in which range."""
        pick = self.random
        if type_text.endswith(" | null"):
            return None if pick.random() < 0.3 else self.of(type_text[:-7], unit)
        if type_text.startswith("Literal["):
            return pick.choice(inner(type_text).split(", "))[1:-1]
        if type_text.startswith("list["):
            of = inner(type_text)
            if re.fullmatch(r"(str|int|float)(, (str|int|float))+", of):
                return [self.of(one, unit) for one in of.split(", ")]
            return [self.of(of, unit) for _ in range(pick.randrange(3))]
        if type_text.startswith(("dict[str, ", "Mapping[str, ")):
            of = inner(type_text).split(", ", 1)[1]
            return {f"k{n}": self.of(of, unit) for n in range(pick.randrange(3))}
        return self._simple(type_text, unit)

    def _simple(self, type_text: str, unit: str) -> Any:
        pick = self.random
        if type_text == "str":
            return pick.choice(TEXTS)
        if type_text == "bool":
            return pick.random() < 0.5
        if type_text == "float":
            return pick.choice((0.0, 1.0, 0.25, 1e-9, 123456.789))
        if type_text == "int":
            return self._integer(unit)
        if type_text == "LatencyCounts":
            buckets = sorted(pick.sample(range(8192), pick.randrange(4)))
            return {"buckets": buckets, "counts": [pick.randrange(1, 9) for _ in buckets]}
        if type_text.endswith("Columns"):
            return self.columns(type_text, pick.randrange(4))
        return self.fields(fields_named(self.tables, type_text))

    def _integer(self, unit: str) -> int:
        pick = self.random
        if unit.startswith("µs since"):
            return 1_795_000_000_000_000 + pick.randrange(10**9)
        if unit.startswith("µs on"):
            return pick.randrange(10**12)
        most = 2**64 - 1 if unit == "sequence" and pick.random() < 0.1 else 10**9
        return pick.randrange(most) if unit in NEVER_NEGATIVE else pick.randrange(-(10**9), 10**9)

    def columns(self, type_text: str, rows_count: int) -> dict[str, list[Any]]:
        """Return a table of columns of one length."""
        return {
            field.name: [self.of(inner(field.type), field.unit) for _ in range(rows_count)]
            for field in self.tables[type_text]
        }

    def fields(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        """Return an object with all its fields."""
        return {field.name: self.of(field.type, field.unit) for field in fields}
