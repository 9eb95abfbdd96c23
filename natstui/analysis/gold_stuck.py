"""Answer 3: what was stuck, from when to when, and why.

Stuck is an ack floor that did not move while messages were outstanding. Each stretch carries the
evidence and the most likely cause; the first cause that fits, in the order below, is named.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.rates import long_runs
from natstui.analysis.silver_events import latest_configuration
from natstui.analysis.silver_layer import Silver, Thresholds
from natstui.analysis.tables import CONSUMER_IDENTITY, Table, columns

STUCK = Table(
    "stuck",
    "Every stretch in which a consumer's ack floor did not move with messages outstanding.",
    CONSUMER_IDENTITY
    + columns(
        ("start_at_us", "bigint", "First sample at this floor"),
        ("end_at_us", "bigint", "Last sample at this floor"),
        ("duration_s", "double", "Between the two"),
        ("open", "boolean", "It lasted until the recording of the consumer ended"),
        ("cause", "string", "The most likely cause, one of a fixed set"),
        ("ack_floor_stream_seq", "bigint", "Where the floor stood; the next message is to blame"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_end_msgs", "bigint", "Unprocessed at the end"),
        ("ack_pending_max_msgs", "bigint", "Most waiting for their acknowledgement"),
        ("max_ack_pending_msgs", "bigint", "Limit of that; null is unlimited or not known"),
        ("delivered_msgs", "bigint", "Deliveries meanwhile"),
        ("fresh_msgs", "bigint", "Advance of the delivered sequence meanwhile"),
        ("redelivered_max_msgs", "bigint", "Most redelivered and not settled"),
        ("no_pull_share", "double", "Share of samples without an open pull or a subscriber"),
        ("paused_share", "double", "Share of samples in which it was paused"),
        ("leaderless_share", "double", "Share of samples without a leader"),
        ("samples_count", "bigint", "Samples in the stretch"),
    ),
)

CAUSES = {
    "no leader": "the consumer had no leader: its peers were away",
    "paused": "it was paused",
    "ack limit": "it stood at its limit of unacknowledged messages: nobody acknowledges",
    "poison": "the same message was delivered again and again",
    "nobody pulls": "no pull request was open",
    "no subscriber": "nobody listened on its deliver subject",
    "not acknowledged": "messages were delivered and not acknowledged",
    "unknown": "nothing recorded explains it",
}


def stuck(silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the table `stuck`."""
    runs = _runs(silver.consumer_sample, thresholds)
    consumers = latest_configuration(silver.configuration, F.col("consumer").isNotNull()).select(
        *(c.name for c in CONSUMER_IDENTITY), "max_ack_pending_msgs", "pull"
    )
    runs = runs.join(F.broadcast(consumers), [c.name for c in CONSUMER_IDENTITY], "left")
    last = consumer_rate.groupBy("series_id").agg(F.max("last_at_us").alias("last_at_us"))
    runs = runs.join(F.broadcast(last), "series_id")
    runs = runs.withColumn("open", F.col("end_at_us") == F.col("last_at_us"))
    return STUCK.contract(runs.withColumn("cause", _cause()))


def _runs(samples: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return one row per stretch that lasted long enough."""
    rows = long_runs(samples, "stuck_since_us", thresholds.stuck_after_s)
    idle = (F.col("waiting_pulls_count") == 0) & ~F.col("push_bound")
    # The change of the first sample of a stretch happened before it.
    inside = F.col("at_us") > F.col("stuck_since_us")
    identity = [c.name for c in CONSUMER_IDENTITY]
    start = F.col("stuck_since_us").alias("start_at_us")
    runs = rows.groupBy("series_id", *identity, start).agg(
        F.max("at_us").alias("end_at_us"),
        F.count("*").alias("samples_count"),
        F.max("ack_floor_stream_seq").alias("ack_floor_stream_seq"),
        F.max("pending_msgs").alias("pending_max_msgs"),
        F.max_by("pending_msgs", "at_us").alias("pending_end_msgs"),
        F.max("ack_pending_msgs").alias("ack_pending_max_msgs"),
        F.coalesce(F.sum(F.when(inside, F.col("delivered_msgs"))), F.lit(0)).alias(
            "delivered_msgs"
        ),
        F.coalesce(F.sum(F.when(inside, F.col("fresh_msgs"))), F.lit(0)).alias("fresh_msgs"),
        F.max("redelivered_msgs").alias("redelivered_max_msgs"),
        _share(idle).alias("no_pull_share"),
        _share(F.col("paused")).alias("paused_share"),
        _share(F.col("leader").isNull()).alias("leaderless_share"),
    )
    duration_s = (F.col("end_at_us") - F.col("start_at_us")) / 1e6
    return runs.withColumn("duration_s", duration_s)


def _share(condition: Column) -> Column:
    return F.count_if(condition) / F.count("*")


def _cause() -> Column:
    """Return the first cause that fits."""
    at_limit = F.col("ack_pending_max_msgs") >= F.col("max_ack_pending_msgs")
    repeated = F.col("delivered_msgs") > F.col("fresh_msgs")
    poisoned = repeated & (F.col("redelivered_max_msgs") > 0)
    idle = F.col("no_pull_share") > 0.5
    push = F.col("pull") == F.lit(False)
    return (
        F.when(F.col("leaderless_share") > 0.5, "no leader")
        .when(F.col("paused_share") > 0.5, "paused")
        .when(at_limit, "ack limit")
        .when(poisoned, "poison")
        .when(idle & push, "no subscriber")
        .when(idle & (F.col("pending_max_msgs") > 0), "nobody pulls")
        .when(F.col("ack_pending_max_msgs") > 0, "not acknowledged")
        .otherwise("unknown")
    )
