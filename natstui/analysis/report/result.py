"""The answers as one JSON object: every gold table, its columns explained, its first rows."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer
from natstui.analysis.gold.answers import ANSWERS
from natstui.analysis.spark.parallel import in_parallel
from natstui.analysis.spark.store import Store

FORMAT_VERSION = 1


def collect(store: Store, rows_count: int) -> dict[str, Any]:
    """Return the tables of this run, at most `rows_count` rows of each."""
    found = in_parallel(lambda answer: _collected(store, answer, rows_count), ANSWERS)
    tables = {answer.table.name: rows for answer, rows in zip(ANSWERS, found, strict=True)}
    return {"format_version": FORMAT_VERSION, "tables": tables}


def _collected(store: Store, answer: Answer, rows_count: int) -> dict[str, Any]:
    table = answer.table
    limit = max(min(rows_count, answer.most_rows_count or rows_count), answer.least_rows_count)
    empty = store.is_empty(table)
    found = [] if empty else _sorted(store.gold(table), answer.sorted_by).take(limit + 1)
    rows = [tuple(answer.told(row.asDict()).values()) if answer.told else row for row in found]
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


def _sorted(rows: DataFrame, names: tuple[str, ...]) -> DataFrame:
    keys = [
        F.col(n[1:]).desc_nulls_last() if n.startswith("-") else F.col(n).asc_nulls_first()
        for n in names
    ]
    return rows.orderBy(*keys)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
