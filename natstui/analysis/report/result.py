"""The answers as one JSON object: every gold table, its columns explained, its first rows."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer
from natstui.analysis.gold.build import ANSWERS
from natstui.analysis.spark.store import Store

FORMAT_VERSION = 1


def collect(store: Store, rows_count: int) -> dict[str, Any]:
    """Return the tables of this run, at most `rows_count` rows of each."""
    tables = {answer.table.name: _collected(store, answer, rows_count) for answer in ANSWERS}
    return {"format_version": FORMAT_VERSION, "tables": tables}


def _collected(store: Store, answer: Answer, rows_count: int) -> dict[str, Any]:
    table = answer.table
    limit = max(min(rows_count, answer.most_rows_count or rows_count), answer.least_rows_count)
    rows = first_rows(store, answer, limit + 1)
    return {
        "meaning": table.meaning,
        "section": answer.section and asdict(answer.section),
        "columns": [
            {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
            for c in table.columns
        ],
        "rows": [[_plain(value) for value in row] for row in rows[:limit]],
        "cut": len(rows) > limit,
    }


def first_rows(store: Store, answer: Answer, count: int) -> list[Row]:
    """Return the first rows of a table, in the order of its answer."""
    if store.is_empty(answer.table):
        return []
    found: list[Row] = in_order(store.gold(answer.table), answer.sorted_by).take(count)
    return found


def in_order(rows: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """Return rows sorted as a result tells them; `-` sorts the largest first."""
    keys = [
        F.col(n[1:]).desc_nulls_last() if n.startswith("-") else F.col(n).asc_nulls_first()
        for n in names
    ]
    return rows.orderBy(*keys)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
