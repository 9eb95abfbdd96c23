"""Rows of a table held to expected ones: every column, numbers within rounding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from natstui.analysis.tables import Table

Row = dict[str, Any]


def assert_alike(name: str, found: Iterable[Row], expected: Iterable[Row]) -> None:
    """Fail with the table, the row and the column when two sets of rows differ."""
    rows, wanted = _sorted(found), _sorted(expected)
    assert len(rows) == len(wanted), f"{name}: {len(rows)} rows instead of {len(wanted)}"
    for row, other in zip(rows, wanted, strict=True):
        assert row.keys() == other.keys(), f"{name}: {row.keys() ^ other.keys()}"
        for column, value in other.items():
            told = f"{name}.{column}: {row[column]!r} instead of {value!r} in {row}"
            assert _same(row[column], value), told


def assert_keyed(table: Table, rows: Iterable[Row]) -> None:
    """Fail with the table and the key when it has none, or several rows have the same one."""
    assert table.key, f"{table.name} has no key"
    counts = Counter(tuple(row[name] for name in table.key) for row in rows)
    repeated = [key for key, count in counts.items() if count > 1]
    assert not repeated, f"{table.name}: {repeated}"


def _same(value: object, other: object) -> bool:
    if isinstance(value, float) and isinstance(other, int | float):
        return math.isclose(value, other, rel_tol=1e-6, abs_tol=1e-6)
    return value == other and type(value) is type(other)


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=_key)


def _key(row: Row) -> tuple[list[str], list[str]]:
    # Fractions last and rounded: they may differ in their last digits.
    exact = [repr(row[name]) for name in sorted(row) if not isinstance(row[name], float)]
    return exact, [f"{row[name]:.3g}" for name in sorted(row) if isinstance(row[name], float)]
