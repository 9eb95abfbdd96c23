"""Answer 6, continued: what everything together did, and its busiest moments."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.tables import SESSION, Table, columns

BUSIEST_COUNT = 10


LOAD = Table(
    "load",
    "What everything together did, per bucket of time.",
    columns(
        SESSION,
        ("bucket_at_us", "bigint", "Start of the bucket"),
        ("published_per_s", "double", "Messages stored, all streams together"),
        ("grown_bytes_per_s", "double", "Change of the bytes kept, all streams together"),
        ("delivered_per_s", "double", "Deliveries, all consumers together"),
        ("settled_per_s", "double", "Deliveries settled, all consumers together"),
        ("pending_mean_msgs", "double", "Unprocessed on average, all consumers together"),
    ),
)


BUSIEST = Table(
    "busiest",
    "The ten busiest buckets of each session.",
    columns(
        SESSION,
        ("bucket_at_us", "bigint", "Start of the bucket"),
        ("published_per_s", "double", "Messages stored, all streams together"),
        ("grown_bytes_per_s", "double", "Change of the bytes kept, all streams together"),
        ("delivered_per_s", "double", "Deliveries, all consumers together"),
        ("pending_mean_msgs", "double", "Unprocessed on average, all consumers together"),
        ("busiest_count", "bigint", "1 for the busiest"),
    ),
)


def load(stream_rate: DataFrame, consumer_rate: DataFrame) -> DataFrame:
    """Return the table `load`."""
    keys = ["session", "bucket_at_us"]
    streams = stream_rate.groupBy(*keys).agg(
        F.sum("published_per_s").alias("published_per_s"),
        F.sum("grown_bytes_per_s").alias("grown_bytes_per_s"),
    )
    consumers = consumer_rate.groupBy(*keys).agg(
        F.sum("delivered_per_s").alias("delivered_per_s"),
        F.sum("settled_per_s").alias("settled_per_s"),
        F.sum("pending_mean_msgs").alias("pending_mean_msgs"),
    )
    return LOAD.contract(streams.join(consumers, keys, "full"))


def busiest(loads: DataFrame) -> DataFrame:
    """Return the table `busiest`."""
    order = Window.partitionBy("session").orderBy(
        F.col("published_per_s").desc_nulls_last(), "bucket_at_us"
    )
    rows = loads.withColumn("busiest_count", F.row_number().over(order))
    return BUSIEST.contract(rows.where(F.col("busiest_count") <= BUSIEST_COUNT))
