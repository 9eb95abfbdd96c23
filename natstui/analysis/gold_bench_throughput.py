"""Answer 7, continued: messages per second in the steady part, and how fairly they fall."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold_bench_steady import RUN, RUN_NAMES
from natstui.analysis.tables import Table, columns

BENCH_THROUGHPUT = Table(
    "bench_throughput",
    "Messages per second in the steady part, per worker and per role (worker_id is null).",
    RUN
    + columns(
        ("role", "string", "Role of the workers"),
        ("worker_id", "bigint", "Number of the worker; null for the role together"),
        ("counter", "string", "sent, acked, received or acks_sent"),
        ("seconds_count", "bigint", "Seconds in the steady part"),
        ("total_msgs", "bigint", "Messages in the steady part"),
        ("mean_per_s", "double", "Total over the length of the steady part"),
        ("p5_per_s", "double", "The slowest twentieth of the seconds is below"),
        ("p50_per_s", "double", "Median second"),
        ("p95_per_s", "double", "The fastest twentieth of the seconds is above"),
        ("max_per_s", "double", "Fastest second"),
        ("min_per_s", "double", "Slowest second"),
        ("fairness_ratio", "double", "Jain's index over the workers, for the role together"),
    ),
)


def bench_throughput(slotted: DataFrame, steady: DataFrame) -> DataFrame:
    """Return the table `bench_throughput`; a second without a report counts as 0."""
    keys = [*RUN_NAMES, "role", "counter"]
    workers = _padded(slotted, steady, [*keys, "worker_id"])
    totals = workers.groupBy(*keys, "slot_at_us").agg(F.sum("msgs").alias("msgs"))
    totals = totals.withColumn("worker_id", F.lit(None).cast("bigint"))
    both = workers.select(*keys, "worker_id", "slot_at_us", "msgs").unionByName(totals)
    rows = both.groupBy(*keys, "worker_id").agg(
        F.count("*").alias("seconds_count"),
        F.sum("msgs").alias("total_msgs"),
        F.avg("msgs").alias("mean_per_s"),
        *(_quantile(percent).alias(f"p{percent}_per_s") for percent in (5, 50, 95)),
        F.max("msgs").alias("max_per_s"),
        F.min("msgs").alias("min_per_s"),
    )
    return BENCH_THROUGHPUT.contract(_with_fairness(rows, keys))


def _padded(slotted: DataFrame, steady: DataFrame, keys: list[str]) -> DataFrame:
    """Return a row for every second of the steady part and every worker."""
    seconds = F.sequence(
        F.col("start_at_us"), F.col("end_at_us") - 1_000_000, F.lit(1_000_000).cast("bigint")
    )
    known = slotted.select(*keys).distinct()
    grid = known.join(F.broadcast(steady), [k for k in keys if k != "worker_id"])
    grid = grid.select(*keys, F.explode(seconds).alias("slot_at_us"))
    rows = grid.join(slotted, [*keys, "slot_at_us"], "left")
    return rows.withColumn("msgs", F.coalesce("msgs", F.lit(0)))


def _quantile(percent: int) -> Column:
    return F.percentile("msgs", percent / 100)


def _with_fairness(rows: DataFrame, keys: list[str]) -> DataFrame:
    share = F.col("total_msgs").cast("double")
    workers = rows.where(F.col("worker_id").isNotNull()).groupBy(*keys)
    index = workers.agg(
        (F.pow(F.sum(share), 2) / F.nullif(F.count("*") * F.sum(share * share), F.lit(0.0))).alias(
            "fairness"
        )
    )
    rows = rows.join(F.broadcast(index), keys, "left")
    whole = F.col("worker_id").isNull()
    return rows.withColumn("fairness_ratio", F.when(whole, F.col("fairness")))
