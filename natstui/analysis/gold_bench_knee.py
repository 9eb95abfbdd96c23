"""Answer 7, continued: latency by load, and where it breaks away."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold_bench_latency import merged
from natstui.analysis.gold_bench_steady import RUN, RUN_NAMES
from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import Table, columns

LEVELS_COUNT = 10
"""The seconds of a run are sorted into this many levels of load to find its knee."""
"""The seconds of a run are sorted into this many levels of load to find its knee."""


KNEE_RATIO = 3.0
"""The knee is the highest load whose p99 is below this many times the lowest p99."""
"""The knee is the highest load whose p99 is below this many times the lowest p99."""


BENCH_KNEE = Table(
    "bench_knee",
    "Latency by load, and the load beyond which it breaks away.",
    RUN
    + columns(
        ("metric", "string", "ack, e2e, store or rtt, corrected"),
        ("level_count", "bigint", "1 for the seconds of the lowest load"),
        ("load_per_s", "double", "Messages sent per second at this level"),
        ("p99_us", "double", "99 % of the latencies of this level are not above"),
        ("knee", "boolean", "The highest load before the latency breaks away, if it does"),
    ),
)


def bench_knee(silver: Silver, slotted: DataFrame) -> DataFrame:
    """Return the table `bench_knee`: seconds sorted into levels by what was sent in them."""
    sent = slotted.where(F.col("counter") == "sent").groupBy(*RUN_NAMES, "slot_at_us")
    load = sent.agg(F.sum("msgs").alias("load")).where(F.col("load") > 0)
    order = Window.partitionBy(*RUN_NAMES).orderBy("load", "slot_at_us")
    load = load.withColumn("level_count", F.ntile(LEVELS_COUNT).over(order))
    second = F.col("at_us") - F.pmod("at_us", F.lit(1_000_000))
    rows = silver.bench_latency.where("corrected").withColumn("slot_at_us", second)
    rows = rows.join(F.broadcast(load), [*RUN_NAMES, "slot_at_us"])
    keys = [*RUN_NAMES, "metric", "level_count"]
    levels = merged(rows, keys).select(*keys, "p99_us")
    loads = load.groupBy(*RUN_NAMES, "level_count").agg(F.avg("load").alias("load_per_s"))
    levels = levels.join(F.broadcast(loads), [*RUN_NAMES, "level_count"])
    least = F.min("p99_us").over(Window.partitionBy(*RUN_NAMES, "metric"))
    return BENCH_KNEE.contract(levels.withColumn("least", least).withColumn("knee", _knee()))


def _knee() -> Column:
    """Return whether a level is the last one before the p99 breaks away."""
    levels = Window.partitionBy(*RUN_NAMES, "metric")
    broken = F.col("p99_us") > KNEE_RATIO * F.col("least")
    first_broken = F.min(F.when(broken, F.col("level_count"))).over(levels)
    return F.coalesce(F.col("level_count") == first_broken - 1, F.lit(False))
