"""Answer 7: what benchmarks reached, measured again from what their workers reported.

The steady part is found, not believed: it runs from the first to the last second in which the
role did at least nine tenths of its median second. Percentiles of throughput are over seconds,
percentiles of latency are read from merged histograms, never averaged.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import SESSION, Table, columns

STEADY_SHARE = 0.9
COUNTERS = {
    "sent": "sent_msgs",
    "acked": "acked_msgs",
    "received": "received_msgs",
    "acks_sent": "acks_sent_msgs",
}

_RUN = columns(SESSION, ("run_id", "string", "The benchmark run"))
_RUN_NAMES = ["session", "run_id"]

BENCH_STEADY = Table(
    "bench_steady",
    "The steady part found for each role and counter of a run.",
    _RUN
    + columns(
        ("role", "string", "Role of the workers"),
        ("counter", "string", "sent, acked, received or acks_sent"),
        ("start_at_us", "bigint", "Start of its first second"),
        ("end_at_us", "bigint", "End of its last second"),
        ("duration_s", "double", "Between the two"),
        ("dropped_s", "double", "Seconds before it: warm-up and ramp"),
    ),
)

BENCH_THROUGHPUT = Table(
    "bench_throughput",
    "Messages per second in the steady part, per worker and per role (worker_id is null).",
    _RUN
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


def slots(silver: Silver) -> DataFrame:
    """Return counter, slot (second) and messages per run, role and worker, long and thin."""
    pairs = F.array(
        *(
            F.struct(F.lit(name).alias("counter"), F.col(column).alias("msgs"))
            for name, column in COUNTERS.items()
        )
    )
    second = F.col("at_us") - F.pmod("at_us", F.lit(1_000_000))
    rows = silver.bench_interval.select(
        *_RUN_NAMES, "role", "worker_id", second.alias("slot_at_us"), F.inline(pairs)
    )
    keys = [*_RUN_NAMES, "role", "worker_id", "counter", "slot_at_us"]
    return rows.groupBy(*keys).agg(F.sum("msgs").alias("msgs"))


def bench_steady(slotted: DataFrame) -> DataFrame:
    """Return the table `bench_steady`."""
    keys = [*_RUN_NAMES, "role", "counter"]
    together = slotted.groupBy(*keys, "slot_at_us").agg(F.sum("msgs").alias("msgs"))
    together = together.where(F.col("msgs") > 0)
    usual = together.groupBy(*keys).agg(
        F.median("msgs").alias("usual"), F.min("slot_at_us").alias("first_at_us")
    )
    full = together.join(F.broadcast(usual), keys).where(
        F.col("msgs") >= STEADY_SHARE * F.col("usual")
    )
    rows = full.groupBy(*keys).agg(
        F.min("slot_at_us").alias("start_at_us"),
        (F.max("slot_at_us") + 1_000_000).alias("end_at_us"),
        F.min("first_at_us").alias("first_at_us"),
    )
    return BENCH_STEADY.contract(
        rows.withColumns(
            {
                "duration_s": (F.col("end_at_us") - F.col("start_at_us")) / 1e6,
                "dropped_s": (F.col("start_at_us") - F.col("first_at_us")) / 1e6,
            }
        )
    )


def bench_throughput(slotted: DataFrame, steady: DataFrame) -> DataFrame:
    """Return the table `bench_throughput`; a second without a report counts as 0."""
    keys = [*_RUN_NAMES, "role", "counter"]
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
