"""Each metric of each session as values per block of time, reduced to a handful of numbers."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.bench import BEFORE_MEASURING
from natstui.analysis.silver.layer import Silver

BLOCK_US = 10_000_000
_MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Reduced:
    """One metric of one session."""

    session: str
    metric: str
    n: int
    mean: float
    variance: float
    neighbours: float | None


def block_values(silver: Silver, loads: DataFrame, slotted: DataFrame) -> DataFrame:
    """Return one value per session, metric and block of time."""
    block = F.col("at_us") - F.pmod("at_us", F.lit(BLOCK_US))
    polls = silver.poll.where(F.col("api_rtt_us").isNotNull())
    rtt = polls.groupBy("session", block.alias("at_us")).agg(F.avg("api_rtt_us").alias("value"))
    values = rtt.select("session", F.lit("api round trip (µs)").alias("metric"), "at_us", "value")
    pairs = {
        "published (msg/s)": "published_per_s",
        "delivered (msg/s)": "delivered_per_s",
        "pending (messages)": "pending_mean_msgs",
    }
    metrics = [F.struct(F.lit(m).alias("metric"), F.col(c).alias("value")) for m, c in
               pairs.items()]  # fmt: skip
    spread = loads.select("session", F.col("bucket_at_us").alias("at_us"),
                          F.inline(F.array(*metrics)))  # fmt: skip
    values = values.unionByName(spread)
    return values.unionByName(_bench_throughput(slotted)).unionByName(_bench_latency(silver))


def _bench_throughput(slotted: DataFrame) -> DataFrame:
    metric = F.concat(F.lit("bench "), "counter", F.lit(" (msg/s)")).alias("metric")
    rows = slotted.groupBy("session", metric, F.col("slot_at_us").alias("at_us"))
    sums = rows.agg(F.sum("msgs").cast("double").alias("value")).where(F.col("value") > 0)
    # Warm-up and drain are no seconds of the load; half of the median separates them.
    usual = F.median("value").over(Window.partitionBy("session", "metric"))
    return (
        sums.withColumn("usual", usual).where(F.col("value") >= F.col("usual") / 2).drop("usual")
    )


def _bench_latency(silver: Silver) -> DataFrame:
    early = F.coalesce(F.col("phase").isin(*BEFORE_MEASURING), F.lit(False))
    rows = silver.bench_latency.where(F.col("corrected") & ~early)
    metric = F.concat(F.lit("bench "), "metric", F.lit(" latency (µs)")).alias("metric")
    second = (F.col("at_us") - F.pmod("at_us", F.lit(1_000_000))).alias("at_us")
    weight = F.col("latencies_count")
    mean = F.sum(F.col("latency_ns") / 1e3 * weight) / F.sum(weight)
    return rows.groupBy("session", metric, second).agg(mean.alias("value"))


def reduce(values: DataFrame) -> list[Reduced]:
    """Reduce the values of each session and metric to what the test needs."""
    order = Window.partitionBy("session", "metric").orderBy("at_us")
    rows = values.where(F.col("value").isNotNull())
    rows = rows.withColumn("before", F.lag("value").over(order))
    sums = rows.groupBy("session", "metric").agg(
        F.count("*").alias("n"),
        F.avg("value").alias("mean"),
        F.coalesce(F.var_samp("value"), F.lit(0.0)).alias("variance"),
        F.corr("value", "before").alias("neighbours"),
    )
    # The correlation of a constant is NaN in Spark.
    names = ["session", "metric", "n", "mean", "variance", "neighbours"]
    sums = sums.withColumn("neighbours", F.nanvl("neighbours", F.lit(None))).select(*names)
    return [Reduced(*row) for row in sums.orderBy("session", "metric").take(_MOST_ROWS)]
