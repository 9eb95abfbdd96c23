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


class Buckets:
    """Samples by series and bucket: one narrow key, so that the partial sums stay cheap."""

    def __init__(self, samples: DataFrame, thresholds: Thresholds, names: tuple[str, ...]) -> None:
        bucket = bucket_start(F.col("at_us"), thresholds).alias("bucket_at_us")
        self._groups = samples.groupBy("series_id", bucket)
        self._identity = ("session", *names, "created_at_us")

    def agg(self, *sums: Column) -> DataFrame:
        """Aggregate; the identity rides along, as it follows from the series."""
        riders = [F.any_value(name).alias(name) for name in self._identity]
        return self._groups.agg(*riders, *sums)


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
