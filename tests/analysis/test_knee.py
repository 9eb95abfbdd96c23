"""The knee of the load: found where latency breaks away, and only there."""

from __future__ import annotations

from dataclasses import fields

import pytest
from pyspark.sql import DataFrame, SparkSession

from natstui.analysis.gold.bench import bench_knee, slots
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import BENCH_INTERVAL, BENCH_LATENCY, BENCH_RESULT
from natstui.analysis.tables import Table

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, table: Table, rows: list[dict[str, object]]) -> DataFrame:
    """Return rows of a table; columns not given are null."""
    names = [column.name for column in table.columns]
    values = [tuple(row.get(name) for name in names) for row in rows]
    return spark.createDataFrame(values, table.ddl())


def test_the_knee_is_the_last_load_before_the_p99_breaks_away(spark: SparkSession) -> None:
    intervals, latencies = [], []
    for second in range(100):
        level = second // 10
        head = {"session": "s", "run_id": "r", "at_us": second * 1_000_000, "role": "pub",
                "worker_id": 0, "phase": "steady"}  # fmt: skip
        counts = {"sent_msgs": 1000 * (level + 1), "acked_msgs": 0, "received_msgs": 0}
        intervals.append({**head, **counts, "acks_sent_msgs": 0})
        latency_ns = 1_000_000 if level < 7 else 9_000_000
        told = {"metric": "ack", "corrected": True, "latency_ns": latency_ns}
        latencies.append({**head, **told, "latencies_count": 100})
    made = {
        "bench_interval": frame(spark, BENCH_INTERVAL, intervals),
        "bench_latency": frame(spark, BENCH_LATENCY, latencies),
    }
    empty = frame(spark, BENCH_RESULT, [])
    silver = Silver(**{f.name: made.get(f.name, empty) for f in fields(Silver)})
    rows = bench_knee(silver, slots(silver)).collect()
    assert [(r["level_count"], r["load_per_s"]) for r in rows if r["knee"]] == [(7, 7000.0)]
