"""Answer 7, continued: latency percentiles, read from merged histograms."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold_bench_steady import RUN, RUN_NAMES
from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import Table, columns

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
MEASURED = columns(
    ("metric", "string", "ack, e2e, store or rtt"),
    ("corrected", "boolean", "Counted from when the message was due, not from when it went"),
)

BENCH_LATENCY_SUMMARY = Table(
    "bench_latency_summary",
    "Latency percentiles of each run, all workers merged, start-up phases left out.",
    RUN
    + MEASURED
    + columns(
        ("latencies_count", "bigint", "Latencies measured"),
        ("mean_us", "double", "Mean"),
        *((f"{name}_us", "double", f"{percent:g} % are not above") for name, percent
          in PERCENTILES.items()),
        ("max_us", "double", "Largest"),
    ),
)  # fmt: skip

_BEFORE = ("starting", "warmup", "ramp")


def bench_latency_summary(silver: Silver) -> DataFrame:
    """Return the table `bench_latency_summary`."""
    keys = [*RUN_NAMES, "metric", "corrected"]
    early = F.coalesce(F.col("phase").isin(*_BEFORE), F.lit(False))
    return BENCH_LATENCY_SUMMARY.contract(merged(silver.bench_latency.where(~early), keys))


def merged(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Return count, mean, max and percentiles (µs) of histograms merged by `keys`."""
    buckets = rows.groupBy(*keys, "latency_ns").agg(F.sum("latencies_count").alias("n"))
    total = F.sum("n").over(Window.partitionBy(*keys))
    ordered = Window.partitionBy(*keys).orderBy("latency_ns")
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = buckets.withColumns({"total": total, "seen": F.sum("n").over(so_far)})
    latency_us = F.col("latency_ns") / 1e3
    return ranked.groupBy(*keys).agg(
        F.sum("n").alias("latencies_count"),
        (F.sum(latency_us * F.col("n")) / F.sum("n")).alias("mean_us"),
        *(
            F.min(F.when(F.col("seen") >= _rank(percent), latency_us)).alias(f"{name}_us")
            for name, percent in PERCENTILES.items()
        ),
        F.max(latency_us).alias("max_us"),
    )


def _rank(percent: float) -> Column:
    # Rounded first: 0.99 × 200 must be 198 and not 198.00000000000003.
    return F.greatest(F.ceil(F.round(F.col("total") * (percent / 100), 6)), F.lit(1))
