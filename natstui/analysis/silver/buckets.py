"""The buckets of a histogram of latencies, as queries."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def bucket_of(latency_ns: Column) -> Column:
    """Return the bucket of a latency, as `natstui.model.bench.latency` does."""
    value = F.greatest(latency_ns, F.lit(0))
    shift = F.greatest(F.length(F.bin(value)) - 8, F.lit(0))
    return shift * 128 + F.floor(value / F.pow(F.lit(2.0), shift)).cast("bigint")


def bucket_middle_ns(bucket: Column) -> Column:
    """Return the latency a bucket stands for, as `natstui.model.bench.latency` does."""
    return F.floor((_low_ns(bucket) + _low_ns(bucket + 1) - 1) / 2).cast("bigint")


def _low_ns(bucket: Column) -> Column:
    octave = F.shiftright(bucket, 7) - 1
    power = F.pow(F.lit(2.0), octave).cast("bigint")
    return F.when(bucket < 256, bucket).otherwise((128 + bucket.bitwiseAND(127)) * power)
