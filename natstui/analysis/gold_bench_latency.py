"""Answer 7, continued: latency percentiles, the account of messages, the knee of the load."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import SESSION, Table, columns

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}
LEVELS_COUNT = 10
"""The seconds of a run are sorted into this many levels of load to find its knee."""
KNEE_RATIO = 3.0
"""The knee is the highest load whose p99 is below this many times the lowest p99."""

_RUN = columns(SESSION, ("run_id", "string", "The benchmark run"))
_RUN_NAMES = ["session", "run_id"]
_MEASURED = columns(
    ("metric", "string", "ack, e2e, store or rtt"),
    ("corrected", "boolean", "Counted from when the message was due, not from when it went"),
)

BENCH_LATENCY_SUMMARY = Table(
    "bench_latency_summary",
    "Latency percentiles of each run, all workers merged, start-up phases left out.",
    _RUN
    + _MEASURED
    + columns(
        ("latencies_count", "bigint", "Latencies measured"),
        ("mean_us", "double", "Mean"),
        *((f"{name}_us", "double", f"{percent:g} % are not above") for name, percent
          in PERCENTILES.items()),
        ("max_us", "double", "Largest"),
    ),
)  # fmt: skip

BENCH_ACCOUNT = Table(
    "bench_account",
    "Where the messages of each run are: summed from the workers' reports.",
    _RUN
    + columns(
        ("title", "string", "Title of the scenario"),
        ("verdict", "string", "What the benchmark said; null when it did not end"),
        ("sent_msgs", "bigint", "Sent"),
        ("acked_msgs", "bigint", "Acknowledged as stored for the first time"),
        ("duplicate_acked_msgs", "bigint", "Acknowledged as duplicates"),
        ("refused_msgs", "bigint", "Acknowledged with an error"),
        ("unanswered_msgs", "bigint", "Not acknowledged in time"),
        ("missed_msgs", "bigint", "Owed by the schedule and never sent"),
        ("received_msgs", "bigint", "Received"),
        ("redelivered_msgs", "bigint", "Received with a delivery count above 1"),
        ("duplicate_msgs", "bigint", "Received again by the same worker"),
        ("lost_msgs", "bigint", "Expected and never received, as the benchmark found"),
        ("unaccounted_msgs", "bigint", "Sent, and in none of the other sums of the sender"),
        ("closes", "boolean", "These sums equal those of the benchmark"),
    ),
)

BENCH_KNEE = Table(
    "bench_knee",
    "Latency by load, and the load beyond which it breaks away.",
    _RUN
    + columns(
        ("metric", "string", "ack, e2e, store or rtt, corrected"),
        ("level_count", "bigint", "1 for the seconds of the lowest load"),
        ("load_per_s", "double", "Messages sent per second at this level"),
        ("p99_us", "double", "99 % of the latencies of this level are not above"),
        ("knee", "boolean", "The highest load before the latency breaks away, if it does"),
    ),
)

_BEFORE = ("starting", "warmup", "ramp")


def bench_latency_summary(silver: Silver) -> DataFrame:
    """Return the table `bench_latency_summary`."""
    keys = [*_RUN_NAMES, "metric", "corrected"]
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


def bench_account(silver: Silver) -> DataFrame:
    """Return the table `bench_account`; `closes` holds the sums to the benchmark's own."""
    names = [
        "sent_msgs", "acked_msgs", "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs",
        "missed_msgs", "received_msgs", "redelivered_msgs", "duplicate_msgs",
    ]  # fmt: skip
    sums = silver.bench_interval.groupBy(*_RUN_NAMES).agg(*(F.sum(n).alias(n) for n in names))
    told = silver.bench_result.select(
        *_RUN_NAMES,
        "title",
        "verdict",
        "lost_msgs",
        *(F.col(name).alias(f"told_{name}") for name in ("sent_msgs", "acked_msgs",
                                                         "received_msgs")),
    )  # fmt: skip
    rows = sums.join(F.broadcast(told), _RUN_NAMES, "left")
    answered = [F.col(name) for name in names[1:5]]
    acknowledged = answered[0] + answered[1] + answered[2] + answered[3]
    left = F.when(acknowledged > 0, F.col("sent_msgs") - acknowledged)
    agree = [F.col(n) == F.col(f"told_{n}") for n in ("sent_msgs", "acked_msgs", "received_msgs")]
    return BENCH_ACCOUNT.contract(
        rows.withColumns({"unaccounted_msgs": left, "closes": agree[0] & agree[1] & agree[2]})
    )


def bench_knee(silver: Silver, slotted: DataFrame) -> DataFrame:
    """Return the table `bench_knee`: seconds sorted into levels by what was sent in them."""
    sent = slotted.where(F.col("counter") == "sent").groupBy(*_RUN_NAMES, "slot_at_us")
    load = sent.agg(F.sum("msgs").alias("load")).where(F.col("load") > 0)
    order = Window.partitionBy(*_RUN_NAMES).orderBy("load", "slot_at_us")
    load = load.withColumn("level_count", F.ntile(LEVELS_COUNT).over(order))
    second = F.col("at_us") - F.pmod("at_us", F.lit(1_000_000))
    rows = silver.bench_latency.where("corrected").withColumn("slot_at_us", second)
    rows = rows.join(F.broadcast(load), [*_RUN_NAMES, "slot_at_us"])
    keys = [*_RUN_NAMES, "metric", "level_count"]
    levels = merged(rows, keys).select(*keys, "p99_us")
    loads = load.groupBy(*_RUN_NAMES, "level_count").agg(F.avg("load").alias("load_per_s"))
    levels = levels.join(F.broadcast(loads), [*_RUN_NAMES, "level_count"])
    least = F.min("p99_us").over(Window.partitionBy(*_RUN_NAMES, "metric"))
    return BENCH_KNEE.contract(levels.withColumn("least", least).withColumn("knee", _knee()))


def _knee() -> Column:
    """Return whether a level is the last one before the p99 breaks away."""
    levels = Window.partitionBy(*_RUN_NAMES, "metric")
    broken = F.col("p99_us") > KNEE_RATIO * F.col("least")
    first_broken = F.min(F.when(broken, F.col("level_count"))).over(levels)
    return F.coalesce(F.col("level_count") == first_broken - 1, F.lit(False))
