"""Answer 1: rates of every stream and consumer, per bucket of time.

A rate is the change of a counter over the time it was watched. Time without polls (a gap), a
counter that went backwards and the first sample of an asset give no change and no time, so a
bucket that was not watched has no rate instead of a wrong one.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver_layer import Thresholds
from natstui.analysis.tables import columns

BUCKET = columns(
    ("series_id", "bigint", "Hash of session, names and creation time"),
    ("bucket_at_us", "bigint", "Start of the bucket"),
    ("last_at_us", "bigint", "Last sample in the bucket"),
    ("covered_s", "double", "Time in the bucket over which changes are known"),
    ("samples_count", "bigint", "Samples in the bucket"),
    ("resets_count", "bigint", "Times a counter went backwards"),
)


def bucket_start(at_us: Column, thresholds: Thresholds) -> Column:
    """Return the start of the bucket a moment lies in."""
    return at_us - F.pmod(at_us, F.lit(thresholds.bucket_s * 1_000_000))


def long_runs(samples: DataFrame, since: str, least_s: float) -> DataFrame:
    """Return the samples of the stretches that lasted at least so long.

    `since` is the column with the moment a stretch began. Most stretches are one sample long;
    finding the others first, in three columns, spares grouping them all.
    """
    lasted_s = (F.col("at_us") - F.col(since)) / 1e6
    found = samples.where(lasted_s >= least_s).select("series_id", since).distinct()
    return samples.join(F.broadcast(found), ["series_id", since], "left_semi")


class Buckets:
    """Samples by series and bucket."""

    def __init__(self, samples: DataFrame, thresholds: Thresholds, names: tuple[str, ...]) -> None:
        bucket = bucket_start(F.col("at_us"), thresholds).alias("bucket_at_us")
        # The identity follows from the series, but text among the sums would make Spark sort.
        self._groups = samples.groupBy("series_id", bucket, "session", *names, "created_at_us")

    def agg(self, *sums: Column) -> DataFrame:
        """Aggregate."""
        return self._groups.agg(*sums)


def common() -> tuple[Column, ...]:
    """Return what both tables say of a bucket."""
    return (
        (F.coalesce(F.sum("elapsed_us"), F.lit(0)) / 1e6).alias("covered_s"),
        F.max("at_us").alias("last_at_us"),
        F.count("*").alias("samples_count"),
        F.count_if("reset").alias("resets_count"),
    )


def last(name: str) -> Column:
    """Return the value at the last sample."""
    return F.max_by(name, "mono_us")


def per_s(name: str) -> Column:
    """Return a change per second watched; null when none was."""
    return F.when(F.col("covered_s") > 0, F.col(name) / F.col("covered_s"))
