"""Sampled acknowledgements as times, those of one record each and those counted together."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver.buckets import bucket_middle_ns, bucket_of
from natstui.analysis.silver.index import of_kind
from natstui.analysis.silver.tables import ACK_TIME

_OF_CONSUMER = ("session", "stream", "consumer", "at_us")


def ack_times(index: DataFrame) -> DataFrame:
    """Return the table `ack_time`: samples that were recorded one by one, and those counted."""
    nothing = F.lit(0)
    single = (
        of_kind(index, "ack_sample")
        .select("session", "line.*")
        .select(
            *_OF_CONSUMER,
            bucket_of(F.col("ack_ns")).alias("bucket_id"),
            F.lit(1).alias("latencies_count"),
            F.when(F.col("deliveries_count") > 1, 1).otherwise(nothing).alias("repeated_count"),
            nothing.alias("left_out_count"),
        )
    )
    counted = (
        of_kind(index, "acks_counted")
        .select("session", "line.*")
        .select("*", F.posexplode_outer("times.buckets").alias("position", "bucket_id"))
    )
    first = F.coalesce(F.col("position"), nothing) == 0
    counted = counted.select(
        *_OF_CONSUMER,
        "bucket_id",
        F.coalesce(F.get("times.counts", F.col("position")), nothing).alias("latencies_count"),
        *(
            F.when(first, F.col(name)).otherwise(nothing).alias(name)
            for name in ("repeated_count", "left_out_count")
        ),
    )
    rows = single.unionAll(counted)
    return ACK_TIME.contract(rows.withColumn("latency_ns", bucket_middle_ns(F.col("bucket_id"))))
