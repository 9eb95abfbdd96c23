"""Answer 1: what each consumer did, per bucket of time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.rates import BUCKET, Buckets, common, last, per_s
from natstui.analysis.silver_layer import Silver, Thresholds
from natstui.analysis.tables import CONSUMER_IDENTITY, Table, columns

CONSUMER_RATE = Table(
    "consumer_rate",
    "What each consumer did per bucket of time.",
    CONSUMER_IDENTITY
    + BUCKET
    + columns(
        ("delivered_msgs", "bigint", "Deliveries in the bucket, repeated ones included"),
        ("delivered_per_s", "double", "The same per second; null when nothing is known"),
        ("settled_msgs", "bigint", "Advance of the ack floor, in deliveries"),
        ("settled_per_s", "double", "The same per second"),
        ("repeated_msgs", "bigint", "Deliveries beyond the advance of the sequence: at least"),
        ("pending_first_msgs", "bigint", "Unprocessed at the first sample"),
        ("pending_last_msgs", "bigint", "Unprocessed at the last sample"),
        ("pending_min_msgs", "bigint", "Fewest unprocessed"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_mean_msgs", "double", "Unprocessed on average"),
        ("ack_pending_max_msgs", "bigint", "Most waiting for their acknowledgement"),
        ("redelivered_max_msgs", "bigint", "Most redelivered and not settled"),
        ("behind_max_s", "double", "Greatest age of the next message, where it was asked for"),
    ),
)


def consumer_rate(silver: Silver, thresholds: Thresholds) -> DataFrame:
    """Return the table `consumer_rate`."""
    rows = Buckets(silver.consumer_sample, thresholds, ("stream", "consumer"))
    repeated = F.greatest(F.col("delivered_msgs") - F.col("fresh_msgs"), F.lit(0))
    rows = rows.agg(
        *common(),
        F.sum("delivered_msgs").alias("delivered_msgs"),
        F.sum("settled_msgs").alias("settled_msgs"),
        F.sum(repeated).alias("repeated_msgs"),
        F.min_by("pending_msgs", "mono_us").alias("pending_first_msgs"),
        last("pending_msgs").alias("pending_last_msgs"),
        F.min("pending_msgs").alias("pending_min_msgs"),
        F.max("pending_msgs").alias("pending_max_msgs"),
        F.avg("pending_msgs").alias("pending_mean_msgs"),
        F.max("ack_pending_msgs").alias("ack_pending_max_msgs"),
        F.max("redelivered_msgs").alias("redelivered_max_msgs"),
        (F.max(F.col("at_us") - F.col("next_at_us")) / 1e6).alias("behind_max_s"),
    )
    return CONSUMER_RATE.contract(
        rows.withColumns(
            {
                "delivered_per_s": per_s("delivered_msgs"),
                "settled_per_s": per_s("settled_msgs"),
            }
        )
    )
