"""Tables of the rates of each stream and consumer per interval of time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, GroupedData, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import (
    CONSUMER_IDENTITY,
    CONSUMER_KEY,
    STREAM_IDENTITY,
    STREAM_KEY,
    Table,
    columns,
)

BUCKET_COLUMNS = columns(
    ("series_id", "bigint", "Hash of session, names and creation time"),
    ("bucket_at_us", "bigint", "Start of the interval"),
    ("last_at_us", "bigint", "Last sample in the interval"),
    ("covered_s", "double", "Observed time within the interval"),
    ("samples_count", "bigint", "Samples in the interval"),
    ("resets_count", "bigint", "How often a counter decreased"),
)


SECOND_US, HOUR_US = 1_000_000, 3_600_000_000


def bucket_start(name: str, width_us: int | Column) -> Column:
    """Return the start (UTC µs) of the bucket of the time in column `name`, `width_us` long."""
    return F.col(name) - F.pmod(name, F.lit(width_us))


def redelivered_msgs() -> Column:
    """Return how many redeliveries, at least, were between the previous sample and this one."""
    return F.greatest(F.col("delivered_msgs") - F.col("fresh_msgs"), F.lit(0))


def samples_of_long_periods(
    samples: DataFrame, start_column: str, min_duration_s: float
) -> DataFrame:
    """Return the samples of the periods that lasted at least `min_duration_s`.

    `start_column` has the start of a period. Most periods have one sample: to find the long ones
    first, with three columns, is faster than to group all.
    """
    lasted_s = (F.col("at_us") - F.col(start_column)) / 1e6
    long_periods = (
        samples.where(lasted_s >= min_duration_s).select("series_id", start_column).distinct()
    )
    return samples.join(long_periods, ["series_id", start_column], "left_semi")


def group_by_bucket(
    samples: DataFrame, thresholds: Thresholds, key: tuple[str, ...]
) -> GroupedData:
    """Return samples grouped by series and bucket; `key` are the columns of the series."""
    bucket = bucket_start("at_us", thresholds.bucket_us).alias("bucket_at_us")
    # The key follows from the series; as an aggregate its text would make Spark sort.
    return samples.groupBy("series_id", bucket, *key)


def common_columns() -> tuple[Column, ...]:
    """Return the aggregates of a bucket that both tables of rates have."""
    return (
        (F.coalesce(F.sum("elapsed_us"), F.lit(0)) / 1e6).alias("covered_s"),
        F.max("at_us").alias("last_at_us"),
        F.count("*").alias("samples_count"),
        F.count_if("reset").alias("resets_count"),
    )


def increase_since_last_poll(name: str) -> Column:
    """Return the growth of a counter of the account since the previous poll.

    A counter that decreases has restarted from 0, with the server or with another meta leader.
    """
    order = Window.partitionBy("session").orderBy("mono_us")
    value, previous = F.col(name), F.lag(name).over(order)
    return F.coalesce(F.when(value < previous, value).otherwise(value - previous), F.lit(0))


def per_observed_s(name: str) -> Column:
    """Return the change in column `name` per recorded second; null without recorded time."""
    return F.when(F.col("covered_s") > 0, F.col(name) / F.col("covered_s"))


UNSEEN_MEANING = "Time from its last sample to the end of the recording"


def with_unseen_s(rows: DataFrame, series_rates: DataFrame, stream_rates: DataFrame) -> DataFrame:
    """Add `unseen_s`, the seconds from the last sample of a series to the end of the recording.

    The last row of a deleted or unreadable stream or consumer is older than the end of the
    recording. `rows` are one per series, `series_rates` their rates, `stream_rates` those of
    streams.
    """
    all_rates = series_rates.select("session", "last_at_us").unionAll(
        stream_rates.select("session", "last_at_us")
    )
    ends = all_rates.groupBy("session").agg(F.max("last_at_us").alias("ended_at_us"))
    last_sample_times = series_rates.groupBy("series_id").agg(
        F.max("last_at_us").alias("seen_at_us")
    )
    rows = rows.join(F.broadcast(ends), "session").join(last_sample_times, "series_id")
    unseen_s = (F.col("ended_at_us") - F.col("seen_at_us")) / 1e6
    return rows.withColumn("unseen_s", unseen_s).drop("ended_at_us", "seen_at_us")


CONSUMER_RATE = Table(
    "consumer_rate",
    "Rates of each consumer, per interval of time.",
    CONSUMER_IDENTITY
    + BUCKET_COLUMNS
    + columns(
        ("delivered_msgs", "bigint", "Deliveries in the interval, redeliveries included"),
        ("delivered_per_s", "double", "The same per second; null if unknown"),
        ("settled_msgs", "bigint", "Advance of the ack floor (consumer sequence)"),
        ("settled_per_s", "double", "The same per second"),
        (
            "repeated_msgs",
            "bigint",
            "Minimum redeliveries (deliveries minus the advance of the stream sequence)",
        ),
        ("pending_first_msgs", "bigint", "Unprocessed messages at the first sample"),
        ("pending_last_msgs", "bigint", "Unprocessed messages at the last sample"),
        ("pending_min_msgs", "bigint", "Fewest unprocessed"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_mean_msgs", "double", "Unprocessed on average"),
        ("ack_pending_max_msgs", "bigint", "Largest number of unacknowledged messages"),
        (
            "redelivered_max_msgs",
            "bigint",
            "Largest number of redelivered messages that were not acked",
        ),
        ("behind_max_s", "double", "Greatest age of the next message, if it was measured"),
        ("last_delivered_at_us", "bigint", "Last delivery up to the end of the interval"),
    ),
    day_column="bucket_at_us",
    key=(*CONSUMER_KEY, "bucket_at_us"),
)


def compute_consumer_rate(silver: Silver, thresholds: Thresholds) -> DataFrame:
    """Return `consumer_rate`: one row per consumer and interval, from its samples."""
    rows = group_by_bucket(silver.consumer_sample, thresholds, CONSUMER_KEY).agg(
        *common_columns(),
        F.sum("delivered_msgs").alias("delivered_msgs"),
        F.sum("settled_msgs").alias("settled_msgs"),
        F.sum(redelivered_msgs()).alias("repeated_msgs"),
        F.min_by("pending_msgs", "mono_us").alias("pending_first_msgs"),
        F.max_by("pending_msgs", "mono_us").alias("pending_last_msgs"),
        F.min("pending_msgs").alias("pending_min_msgs"),
        F.max("pending_msgs").alias("pending_max_msgs"),
        F.avg("pending_msgs").alias("pending_mean_msgs"),
        F.max("ack_pending_msgs").alias("ack_pending_max_msgs"),
        F.max("redelivered_msgs").alias("redelivered_max_msgs"),
        (F.max(F.col("at_us") - F.col("next_at_us")) / 1e6).alias("behind_max_s"),
        F.max("delivered_at_us").alias("last_delivered_at_us"),
    )
    return CONSUMER_RATE.conform(
        rows.withColumns(
            {
                "delivered_per_s": per_observed_s("delivered_msgs"),
                "settled_per_s": per_observed_s("settled_msgs"),
            }
        )
    )


STREAM_RATE = Table(
    "stream_rate",
    "Rates of each stream, per interval of time.",
    STREAM_IDENTITY
    + BUCKET_COLUMNS
    + columns(
        ("published_msgs", "bigint", "Messages stored in the interval"),
        ("published_per_s", "double", "The same per second; null if unknown"),
        ("grown_msgs", "bigint", "Change of the number of stored messages"),
        ("grown_bytes", "bigint", "Change of the stored bytes"),
        ("grown_bytes_per_s", "double", "The same per second"),
        ("stored_msgs", "bigint", "Messages stored at the end of the interval"),
        ("stored_bytes", "bigint", "Bytes stored at the end of the interval"),
        ("last_seq", "bigint", "Last sequence at the end of the interval"),
        ("first_at_us", "bigint", "Time of the oldest stored message at the end of the interval"),
        ("last_stored_at_us", "bigint", "Last stored message up to the end of the interval"),
    ),
    day_column="bucket_at_us",
    key=(*STREAM_KEY, "bucket_at_us"),
)


_LAST_VALUES = ("stored_msgs", "stored_bytes", "last_seq", "first_at_us")


def compute_stream_rate(silver: Silver, thresholds: Thresholds) -> DataFrame:
    """Return `stream_rate`: one row per stream and interval, from its samples."""
    rows = group_by_bucket(silver.stream_sample, thresholds, STREAM_KEY).agg(
        *common_columns(),
        F.sum("published_msgs").alias("published_msgs"),
        F.sum("grown_msgs").alias("grown_msgs"),
        F.sum("grown_bytes").alias("grown_bytes"),
        *(F.max_by(name, "mono_us").alias(name) for name in _LAST_VALUES),
        F.max("last_at_us").alias("last_stored_at_us"),
    )
    return STREAM_RATE.conform(
        rows.withColumns(
            {
                "published_per_s": per_observed_s("published_msgs"),
                "grown_bytes_per_s": per_observed_s("grown_bytes"),
            }
        )
    )


_MAX_REPORTED_ROWS_COUNT = 20
"""Maximum rows in a result: these tables have a row per bucket and stream or consumer."""

REPORT_POSITION = 20
GOLD_TABLES = (
    GoldTable(
        STREAM_RATE,
        lambda inputs: compute_stream_rate(inputs.silver, inputs.thresholds),
        sorted_by=("session", "stream", "bucket_at_us"),
        max_rows_count=_MAX_REPORTED_ROWS_COUNT,
    ),
    GoldTable(
        CONSUMER_RATE,
        lambda inputs: compute_consumer_rate(inputs.silver, inputs.thresholds),
        sorted_by=("session", "stream", "consumer", "bucket_at_us"),
        max_rows_count=_MAX_REPORTED_ROWS_COUNT,
    ),
)
