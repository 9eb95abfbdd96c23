"""The knee of the load: found where latency breaks away, and only there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

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


def levels(spark: SparkSession, run: Callable[[int], tuple[int, int]]) -> list[Any]:
    """Return the levels of a run of 100 s; `run` has what a second sent, and its latency."""
    intervals, latencies = [], []
    for second in range(100):
        sent, latency_ns = run(second)
        head = {"session": "s", "run_id": "r", "at_us": second * 1_000_000, "role": "pub",
                "worker_id": 0, "phase": "steady"}  # fmt: skip
        counts = {"sent_msgs": sent, "acked_msgs": 0, "received_msgs": 0}
        intervals.append({**head, **counts, "acks_sent_msgs": 0})
        told = {"metric": "ack", "corrected": True, "latency_ns": latency_ns}
        latencies.append({**head, **told, "latencies_count": 100})
    made = {
        "bench_interval": frame(spark, BENCH_INTERVAL, intervals),
        "bench_latency": frame(spark, BENCH_LATENCY, latencies),
    }
    empty = frame(spark, BENCH_RESULT, [])
    silver = Silver(**{f.name: made.get(f.name, empty) for f in fields(Silver)})
    return bench_knee(silver, slots(silver)).collect()


def test_the_knee_is_the_last_load_before_the_p99_breaks_away(spark: SparkSession) -> None:
    def ramp(second: int) -> tuple[int, int]:
        return 1000 * (second // 10 + 1), 1_000_000 if second < 70 else 9_000_000

    rows = levels(spark, ramp)
    assert [(r["level"], round(r["load_per_s"], -3)) for r in rows if r["knee"]] == [(7, 7000.0)]


def test_a_run_of_constant_load_has_no_knee_however_its_latency_leaps(spark: SparkSession) -> None:
    def steady(second: int) -> tuple[int, int]:
        sent = 400 if second in (0, 99) else 800 + second % 7 - 3
        return sent, 9_000_000 if second % 7 == 6 else 1_000_000

    assert [r["load_per_s"] for r in levels(spark, steady) if r["knee"]] == []
