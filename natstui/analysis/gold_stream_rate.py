"""Answer 1: what each stream did, per bucket of time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.rates import BUCKET, Buckets, common, last, per_s
from natstui.analysis.silver_layer import Silver, Thresholds
from natstui.analysis.tables import STREAM_IDENTITY, Table, columns

STREAM_RATE = Table(
    "stream_rate",
    "What each stream did per bucket of time.",
    STREAM_IDENTITY
    + BUCKET
    + columns(
        ("published_msgs", "bigint", "Messages stored in the bucket"),
        ("published_per_s", "double", "The same per second; null when nothing is known"),
        ("grown_msgs", "bigint", "Change of the messages kept"),
        ("grown_bytes", "bigint", "Change of the bytes kept"),
        ("grown_bytes_per_s", "double", "The same per second"),
        ("stored_msgs", "bigint", "Messages kept at the end of the bucket"),
        ("stored_bytes", "bigint", "Bytes kept at the end of the bucket"),
        ("last_seq", "bigint", "Last sequence at the end of the bucket"),
    ),
)


def stream_rate(silver: Silver, thresholds: Thresholds) -> DataFrame:
    """Return the table `stream_rate`."""
    rows = Buckets(silver.stream_sample, thresholds, ("stream",))
    rows = rows.agg(
        *common(),
        F.sum("published_msgs").alias("published_msgs"),
        F.sum("grown_msgs").alias("grown_msgs"),
        F.sum("grown_bytes").alias("grown_bytes"),
        *(last(name).alias(name) for name in ("stored_msgs", "stored_bytes", "last_seq")),
    )
    return STREAM_RATE.contract(
        rows.withColumns(
            {
                "published_per_s": per_s("published_msgs"),
                "grown_bytes_per_s": per_s("grown_bytes"),
            }
        )
    )
