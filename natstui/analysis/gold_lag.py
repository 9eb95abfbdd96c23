"""Answer 2: who is behind, how fast it grows, when it will have caught up, the worst periods."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver_layer import Thresholds
from natstui.analysis.tables import CONSUMER_IDENTITY, Table, columns

RECENT_BUCKETS = 5
"""The time to drain comes from the growth over this many last buckets."""

LAG = Table(
    "lag",
    "How far behind each consumer was, over the whole session.",
    CONSUMER_IDENTITY
    + columns(
        ("first_at_us", "bigint", "Start of its first bucket"),
        ("last_at_us", "bigint", "Start of its last bucket"),
        ("pending_first_msgs", "bigint", "Unprocessed at the start"),
        ("pending_last_msgs", "bigint", "Unprocessed at the end"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_mean_msgs", "double", "Unprocessed on average"),
        ("growth_per_min", "double", "Slope of the mean lag over the session"),
        ("recent_growth_per_min", "double", "The same over the last buckets"),
        ("drain_s", "double", "Time until nothing is pending at the recent pace; null is never"),
        ("behind_max_s", "double", "Greatest age of the next message, where it was asked for"),
        ("behind_estimate_s", "double", "Pending at the end over what its stream then stored"),
        ("never_caught_up", "boolean", "Something was pending at every sample"),
    ),
)


def lag(consumer_rate: DataFrame, stream_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the table `lag` from the rates per bucket."""
    ends = consumer_rate.groupBy("series_id").agg(F.max("bucket_at_us").alias("end_at_us"))
    recent_us = RECENT_BUCKETS * thresholds.bucket_s * 1_000_000
    rows = consumer_rate.join(F.broadcast(ends), "series_id")
    recent = F.col("bucket_at_us") > F.col("end_at_us") - recent_us
    minutes = F.col("bucket_at_us") / 60e6
    pending, samples = F.col("pending_mean_msgs"), F.col("samples_count")
    rows = rows.groupBy("series_id", *(c.name for c in CONSUMER_IDENTITY)).agg(
        F.min("bucket_at_us").alias("first_at_us"),
        F.max("bucket_at_us").alias("last_at_us"),
        F.min_by("pending_first_msgs", "bucket_at_us").alias("pending_first_msgs"),
        F.max_by("pending_last_msgs", "bucket_at_us").alias("pending_last_msgs"),
        F.max("pending_max_msgs").alias("pending_max_msgs"),
        (F.sum(pending * samples) / F.sum(samples)).alias("pending_mean_msgs"),
        F.regr_slope(pending, minutes).alias("growth_per_min"),
        F.regr_slope(F.when(recent, pending), minutes).alias("recent_growth_per_min"),
        F.max("behind_max_s").alias("behind_max_s"),
        (F.min("pending_min_msgs") > 0).alias("never_caught_up"),
    )
    return LAG.contract(_with_times(rows, stream_rate))


def _with_times(rows: DataFrame, stream_rate: DataFrame) -> DataFrame:
    last_rate = stream_rate.groupBy("session", "stream").agg(
        F.max_by("published_per_s", "bucket_at_us").alias("published_per_s")
    )
    rows = rows.join(F.broadcast(last_rate), ["session", "stream"], "left")
    falling = -F.col("recent_growth_per_min") / 60
    pending = F.col("pending_last_msgs")
    drain = F.when(pending == 0, F.lit(0.0)).when(falling > 0, pending / falling)
    estimate = F.when(pending == 0, F.lit(0.0)).when(
        F.col("published_per_s") > 0, pending / F.col("published_per_s")
    )
    return rows.withColumns({"drain_s": drain, "behind_estimate_s": estimate})
