"""A value as text, and what one revision changed of the one before."""

from __future__ import annotations

import difflib

from natstui.clean import clean_line
from natstui.model.records.stores import KeyRow
from natstui.tui.kit.raw.payload import Look, Reading, reading
from natstui.tui.stores.cells import value_of
from natstui.units import bytes_text, local_text

_AROUND_LINES = 3


def read_value(row: KeyRow, look: Look) -> Reading:
    """Return a value as text; empty where the revision deleted it."""
    return reading(value_of(row), look)


def revision_caption(row: KeyRow, place: str, shown: str) -> str:
    """Return the line above a value."""
    when = local_text(row.created_at_us, "%Y-%m-%d %H:%M:%S", 3)
    what = bytes_text(row.value_bytes) if row.operation == "PUT" else row.operation
    parts = [clean_line(row.key), f"revision {row.revision_seq} ({place})", when, what, shown]
    given = len(value_of(row))
    if given < row.value_bytes:
        parts.append(f"only the first {bytes_text(given)}: natstui kv get shows all")
    return "  ·  ".join(clean_line(part) for part in parts if part)


def difference_text(before: KeyRow | None, row: KeyRow) -> str:
    """Return what a revision changed, line by line; `-` is gone, `+` is new."""
    if before is None:
        return "The revision before is not kept.\n\n" + read_value(row, "auto").text
    old, new = _lines(before), _lines(row)
    if old == new:
        return f"The same as revision {before.revision_seq}."
    found = difflib.unified_diff(
        old, new, f"revision {before.revision_seq}", f"revision {row.revision_seq}", lineterm="",
        n=_AROUND_LINES,
    )  # fmt: skip
    return "\n".join(found)


def _lines(row: KeyRow) -> list[str]:
    if row.operation != "PUT":
        return [f"({row.operation}: no value)"]
    return read_value(row, "auto").text.split("\n")
