"""Answer 4: what was delivered more than once: how much, when, which messages, after what."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.rates import bucket_start
from natstui.analysis.silver_events import latest_configuration
from natstui.analysis.silver_layer import Silver, Thresholds
from natstui.analysis.tables import CONSUMER_IDENTITY, Table, columns

CHANGE_WINDOW_US = 300_000_000
"""A configuration change this long before a hot spot is named with it."""
REDELIVERY = Table(
    "redelivery",
    "Repeated deliveries of each consumer over the whole session.",
    CONSUMER_IDENTITY
    + columns(
        ("delivered_msgs", "bigint", "Deliveries, repeated ones included"),
        ("repeated_msgs", "bigint", "Deliveries beyond the advance of the sequence: at least"),
        ("repeated_share", "double", "Repeated per delivery; null with a filter, or none at all"),
        ("redelivered_max_msgs", "bigint", "Most redelivered and not settled"),
        ("naks_count", "bigint", "Negative acknowledgements announced"),
        ("given_up_count", "bigint", "Messages given up (delivered too often, or terminated)"),
    ),
)

HOT_SPOT = Table(
    "redelivery_hot_spot",
    "Buckets in which a consumer got messages again, with what happened around it.",
    CONSUMER_IDENTITY
    + columns(
        ("bucket_at_us", "bigint", "Start of the bucket"),
        ("repeated_msgs", "bigint", "Deliveries beyond the advance of the sequence: at least"),
        ("naks_count", "bigint", "Negative acknowledgements in the bucket"),
        ("given_up_count", "bigint", "Messages given up in the bucket"),
        ("leader_changes_count", "bigint", "Elections for the consumer or stream in the bucket"),
        ("configured_at_us", "bigint", "Last change of its configuration up to 5 min before"),
    ),
)

GIVEN_UP = ("max_deliver", "terminated")
"""Advisories that say that a message is not delivered any more."""
_ELECTED = ("stream_leader_elected", "consumer_leader_elected")


def redelivery(silver: Silver, consumer_rate: DataFrame) -> DataFrame:
    """Return the table `redelivery`."""
    identity = [c.name for c in CONSUMER_IDENTITY]
    rows = consumer_rate.groupBy("series_id", *identity).agg(
        F.coalesce(F.sum("delivered_msgs"), F.lit(0)).alias("delivered_msgs"),
        F.coalesce(F.sum("repeated_msgs"), F.lit(0)).alias("repeated_msgs"),
        F.max("redelivered_max_msgs").alias("redelivered_max_msgs"),
    )
    told = silver.advisory.groupBy("session", "stream", "consumer").agg(
        F.count_if(F.col("kind") == "nak").alias("naks_count"),
        F.count_if(F.col("kind").isin(*GIVEN_UP)).alias("given_up_count"),
    )
    rows = rows.join(F.broadcast(told), ["session", "stream", "consumer"], "left")
    rows = rows.na.fill(0, ["naks_count", "given_up_count"])
    filtered = latest_configuration(silver.configuration, F.col("consumer").isNotNull())
    rows = rows.join(F.broadcast(filtered.select(*identity, "filtered")), identity, "left")
    # With a filter the sequence also advances over messages that are not the consumer's.
    countable = ~F.coalesce("filtered", F.lit(False)) & (F.col("delivered_msgs") > 0)
    share = F.when(countable, F.col("repeated_msgs") / F.col("delivered_msgs"))
    return REDELIVERY.contract(rows.withColumn("repeated_share", share))


def hot_spot(silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the table `redelivery_hot_spot`."""
    rows = consumer_rate.where(F.col("repeated_msgs") >= thresholds.hot_msgs)
    bucket = bucket_start(F.col("at_us"), thresholds).alias("bucket_at_us")
    around = silver.advisory.groupBy("session", "stream", "consumer", bucket).agg(
        F.count_if(F.col("kind") == "nak").alias("naks_count"),
        F.count_if(F.col("kind").isin(*GIVEN_UP)).alias("given_up_count"),
        F.count_if(F.col("kind").isin(*_ELECTED)).alias("own_count"),
    )
    of_consumer = around.where(F.col("consumer").isNotNull())
    rows = rows.join(
        F.broadcast(of_consumer), ["session", "stream", "consumer", "bucket_at_us"], "left"
    )
    of_stream = around.where(F.col("consumer").isNull()).select(
        "session", "stream", "bucket_at_us", F.col("own_count").alias("stream_count")
    )
    rows = rows.join(F.broadcast(of_stream), ["session", "stream", "bucket_at_us"], "left")
    counts = ["naks_count", "given_up_count", "own_count", "stream_count"]
    rows = rows.na.fill(0, counts).withColumn(
        "leader_changes_count", F.col("own_count") + F.col("stream_count")
    )
    return HOT_SPOT.contract(_with_change(rows, silver, thresholds))


def _with_change(rows: DataFrame, silver: Silver, thresholds: Thresholds) -> DataFrame:
    identity = [c.name for c in CONSUMER_IDENTITY]
    changed = (F.col("change_count") > 0) & F.col("consumer").isNotNull()
    changes = silver.configuration.where(changed)
    changes = changes.groupBy(*identity).agg(F.sort_array(F.collect_list("at_us")).alias("at"))
    rows = rows.join(F.broadcast(changes), identity, "left")
    end_us = F.col("bucket_at_us") + thresholds.bucket_s * 1_000_000
    near = F.filter("at", lambda at: (at < end_us) & (at >= end_us - CHANGE_WINDOW_US))
    return rows.withColumn("configured_at_us", F.array_max(near))
