"""The answers as one JSON object: every gold table, its columns explained, its first rows."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis import gold
from natstui.analysis.side_by_side import side_by_side
from natstui.analysis.store import Store
from natstui.analysis.tables import Table

FORMAT_VERSION = 1
_LARGE = ("stream_rate", "consumer_rate")
"""A row per asset and bucket: for notebooks, of which only a taste is shown."""
_LARGE_ROWS = 20
_ORDER: dict[str, tuple[str, ...]] = {
    "verdict": ("rank_count",),
    "stuck": ("-duration_s",),
    "lag": ("-pending_last_msgs", "-pending_max_msgs"),
    "lag_period": ("-pending_max_msgs", "start_at_us"),
    "redelivery": ("-repeated_msgs",),
    "redelivery_hot_spot": ("-repeated_msgs",),
    "poison": ("-deliveries_count",),
    "availability": ("start_at_us",),
    "busiest": ("session", "busiest_count"),
    "bench_throughput": ("session", "run_id", "role", "counter", "worker_id"),
    "bench_latency_summary": ("session", "run_id", "metric", "corrected"),
    "bench_knee": ("session", "run_id", "metric", "level_count"),
}


def collect(store: Store, rows_count: int) -> dict[str, Any]:
    """Return the tables of this run, at most `rows_count` rows of each."""
    found = side_by_side(lambda table: _collected(store, table, rows_count), gold.TABLES)
    tables = {table.name: rows for table, rows in zip(gold.TABLES, found, strict=True)}
    return {"format_version": FORMAT_VERSION, "tables": tables}


def _collected(store: Store, table: Table, rows_count: int) -> dict[str, Any]:
    limit = min(rows_count, _LARGE_ROWS) if table.name in _LARGE else rows_count
    if table.name == "load":
        # Drawn as a chart, which a cut would falsify.
        limit = max(limit, 5_000)
    rows = _sorted(store.gold(table), table).take(limit + 1)
    return {
        "meaning": table.meaning,
        "columns": [
            {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
            for c in table.columns
        ],
        "rows": [[_plain(value) for value in row] for row in rows[:limit]],
        "cut": len(rows) > limit,
    }


def _sorted(rows: DataFrame, table: Table) -> DataFrame:
    names = _ORDER.get(table.name)
    if names is None:
        first = ("session", "stream", "consumer", "bucket_at_us", "role", "counter", "metric")
        names = tuple(c.name for c in table.columns if c.name in first)
    keys = [
        F.col(n[1:]).desc_nulls_last() if n.startswith("-") else F.col(n).asc_nulls_first()
        for n in names
    ]
    return rows.orderBy(*keys)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
