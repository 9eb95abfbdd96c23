"""The data of a report's charts: totals and the worst consumers, in buckets of fitting width.

A bucket is a second in a session of 40 seconds, and a quarter of an hour in one of a day.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldInputs, GoldTable
from natstui.analysis.gold.rates import SECOND_US, bucket_start, redelivered_msgs
from natstui.analysis.gold.session import SESSION_SUMMARY
from natstui.analysis.tables import CONSUMER_KEY, SESSION_COLUMN, Table, columns, series_id

BUCKET_WIDTHS_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14400,
    43200,
    86400,
)
MAX_POINTS_COUNT = 120
"""Maximum number of points in a chart of a session."""
MAX_CHARTED_CONSUMERS = 24
"""Maximum number of charted consumers of all sessions together; at least one per session."""

PICTURE = Table(
    "picture",
    "Chart data of a session: all consumers together (rank 0), and the worst consumers.",
    columns(
        SESSION_COLUMN,
        ("rank", "bigint", "0: all consumers together, 1: the worst consumer, 2: the next"),
        ("stream", "string", "Name of the stream; null: all streams together"),
        ("consumer", "string", "Name of the consumer; null: all consumers together"),
        ("bucket_at_us", "bigint", "Start of the interval"),
        (
            "width_s",
            "bigint",
            "Length of the interval, which depends on the length of the session",
        ),
        ("published_per_s", "double", "Messages stored per second, all streams together"),
        ("delivered_per_s", "double", "Deliveries per second; null if unknown"),
        ("pending_msgs", "double", "Unprocessed on average"),
        (
            "repeated_msgs",
            "bigint",
            "Minimum redeliveries (deliveries minus the advance of the stream sequence)",
        ),
        ("behind_max_s", "double", "Greatest age of the next message, if it was measured"),
    ),
    key=("session", "rank", "bucket_at_us"),
)
_BUCKET_KEY = ("session", "rank", "bucket_at_us", "width_s")


def compute_picture(inputs: GoldInputs) -> DataFrame:
    """Return `picture`: one row per session, charted consumer (or all) and interval."""
    sessions = inputs.gold(SESSION_SUMMARY.name)
    widths = bucket_widths(sessions)
    rows = (
        inputs.silver.consumer_sample.transform(_with_buckets, widths)
        .transform(_consumer_sums, _charted_consumers(inputs))
        .transform(with_series_count, inputs.gold("consumer_rate"), sessions)
        .withColumns(
            {
                "delivered_per_s": _total_rate_per_s("delivered_msgs"),
                "pending_msgs": F.col("members") * F.col("pending_msgs") / F.col("samples_count"),
                "behind_max_s": F.col("behind_max_us") / 1e6,
            }
        )
    )
    published_rates = (
        inputs.silver.stream_sample.transform(_with_buckets, widths)
        .groupBy("session", "bucket_at_us", "width_s")
        .agg(*(F.sum(name).alias(name) for name in ("elapsed_us", "published_msgs")))
        .withColumn("rank", F.lit(0))
        .transform(with_series_count, inputs.gold("stream_rate"), sessions)
        .select(*_BUCKET_KEY, _total_rate_per_s("published_msgs").alias("published_per_s"))
    )
    return PICTURE.conform(rows.join(published_rates, [*_BUCKET_KEY], "full"))


def bucket_widths(sessions: DataFrame) -> DataFrame:
    """Return the bucket width (s) of each session: at most `MAX_POINTS_COUNT` buckets."""
    session_duration_s = F.col("duration_s")
    width_s = reduce(
        lambda otherwise, width: F.when(
            session_duration_s <= width * MAX_POINTS_COUNT, width
        ).otherwise(otherwise),
        reversed(BUCKET_WIDTHS_S[:-1]),
        F.lit(BUCKET_WIDTHS_S[-1]),
    )
    return sessions.select("session", width_s.cast("bigint").alias("width_s"))


def _charted_consumers(inputs: GoldInputs) -> DataFrame:
    """Return the series of the worst consumers of each session, with rank and names.

    Dropped messages are worse than being stuck, then pending messages, then redeliveries.
    """
    key_columns = [*CONSUMER_KEY]
    stuck = inputs.gold("stuck").groupBy(*key_columns).agg(F.sum("duration_s").alias("stuck_s"))
    redeliveries = inputs.gold("redelivery").select(
        *key_columns, "given_up_count", "repeated_msgs"
    )
    rows = (
        inputs.gold("lag").join(stuck, key_columns, "left").join(redeliveries, key_columns, "left")
    )
    worst_first = (
        F.col("given_up_count").desc_nulls_last(),
        F.col("stuck_s").desc_nulls_last(),
        F.col("pending_max_msgs").desc(),
        F.col("repeated_msgs").desc_nulls_last(),
        "stream", "consumer", "created_at_us",
    )  # fmt: skip
    order = Window.partitionBy("session").orderBy(*worst_first)
    rows = rows.withColumn("rank", F.row_number().over(order))
    max_per_session = max(1, MAX_CHARTED_CONSUMERS // max(len(inputs.systems), 1))
    rows = rows.where(F.col("rank") <= max_per_session)
    return rows.select(series_id(CONSUMER_KEY), "rank", "stream", "consumer")


def picture_bucket_start(name: str) -> Column:
    """Return the start (UTC µs) of the bucket of the time in column `name`, `width_s` long."""
    return bucket_start(name, F.col("width_s") * SECOND_US)


def _with_buckets(samples: DataFrame, widths: DataFrame) -> DataFrame:
    rows = samples.join(F.broadcast(widths), "session")
    return rows.withColumn("bucket_at_us", picture_bucket_start("at_us"))


def _consumer_sums(samples: DataFrame, charted_consumers: DataFrame) -> DataFrame:
    """Return sums per bucket: of each charted consumer, and of all consumers with rank 0."""
    bucket, names = ("session", "bucket_at_us", "width_s"), ("rank", "stream", "consumer")
    summed_columns = {
        "elapsed_us": F.col("elapsed_us"),
        "delivered_msgs": F.col("delivered_msgs"),
        "pending_msgs": F.col("pending_msgs").cast("double"),
        "samples_count": F.when(F.col("pending_msgs").isNotNull(), 1),
        "repeated_msgs": redelivered_msgs(),
    }
    # First by series: names are added to few rows, and compared in none of the samples.
    sums = samples.groupBy("series_id", *bucket).agg(
        *(F.sum(value).alias(name) for name, value in summed_columns.items()),
        F.max(F.col("at_us") - F.col("next_at_us")).alias("behind_max_us"),
    )
    sums = sums.join(F.broadcast(charted_consumers), "series_id", "left")
    sums = sums.groupingSets([[*bucket], [*bucket, *names]], *bucket, *names).agg(
        *(F.sum(name).alias(name) for name in summed_columns),
        F.max("behind_max_us").alias("behind_max_us"),
        (F.grouping("rank") == 1).alias("is_total"),
    )
    sums = sums.where(F.col("is_total") | F.col("rank").isNotNull())
    return sums.withColumn("rank", F.coalesce("rank", F.lit(0)))


def with_series_count(rows: DataFrame, rates: DataFrame, sessions: DataFrame) -> DataFrame:
    """Add `members`, the mean number of series that existed in a bucket: 1 for a rank above 0.

    With many series a poll reads only some, which represent all of them. A series counts only for
    the time for which it existed. `rows` are one per session, rank, bucket and `width_s`; `rates`
    are those of all series.
    """
    first = F.col("last_at_us") - F.round(F.col("covered_s") * 1_000_000)
    series_lifetimes = rates.groupBy("session", "series_id").agg(
        F.min_by(first, "bucket_at_us").cast("bigint").alias("first_at_us"),
        F.max("last_at_us").alias("last_at_us"),
        F.sum("samples_count").alias("samples"),
        F.min("created_at_us").alias("created_at_us"),
    )
    ends = sessions.select("session", "start_at_us", "end_at_us")
    series_lifetimes = series_lifetimes.join(F.broadcast(ends), "session")
    first, last = F.col("first_at_us"), F.col("last_at_us")
    session_start_us, session_end_us = F.col("start_at_us"), F.col("end_at_us")
    # A series exists from its creation to the time at which the next sample would be.
    sample_interval_us = (last.cast("double") - first) / F.greatest(F.col("samples") - 1, F.lit(1))
    series_lifetimes = series_lifetimes.withColumns(
        {
            "since_us": F.greatest(
                F.least(first, F.greatest("created_at_us", session_start_us)), session_start_us
            ),
            "until_us": F.when(
                last + 2 * sample_interval_us >= session_end_us, session_end_us
            ).otherwise(F.least(last, session_end_us)),
        }
    )
    series_lifetimes = series_lifetimes.select(
        F.col("session").alias("of_session"), "since_us", "until_us", "start_at_us", "end_at_us",
        F.least(first, "since_us").alias("from_us"), F.greatest(last, "until_us").alias("to_us"),
    )  # fmt: skip

    def overlap_with_bucket_us(start: Column, end: Column) -> Column:
        """Return how long (µs) a bucket and the time from `start` to `end` overlap."""
        # A double is exact for every real time, and does not overflow for a damaged one.
        bucket, start, end = (
            time_column.cast("double") for time_column in (F.col("bucket_at_us"), start, end)
        )
        overlap_us = F.least(end, bucket + F.col("width_s") * 1_000_000) - F.greatest(
            start, bucket
        )
        return F.greatest(overlap_us, F.lit(0.0))

    is_in_lifetime = F.col("bucket_at_us").between(
        picture_bucket_start("from_us"), picture_bucket_start("to_us")
    )
    existed_us = F.sum(overlap_with_bucket_us(F.col("since_us"), F.col("until_us")))
    watched_us = F.max(overlap_with_bucket_us(session_start_us, session_end_us))
    has_times = (watched_us > 0) & (existed_us > 0)
    series_count = F.when(has_times, existed_us / watched_us).otherwise(F.count("*"))
    # Joined to the buckets of `rows`: a life with a damaged time would have billions of buckets.
    is_of_bucket = (
        (F.col("session") == F.col("of_session")) & (F.col("rank") == 0) & is_in_lifetime
    )
    rows_with_lifetimes = rows.join(series_lifetimes, is_of_bucket, "left")
    rows_with_lifetimes = rows_with_lifetimes.groupBy(*rows.columns).agg(
        series_count.alias("members"), F.count("of_session").alias("lives_count")
    )
    return rows_with_lifetimes.where((F.col("rank") > 0) | (F.col("lives_count") > 0))


def _total_rate_per_s(name: str) -> Column:
    """Return the rate per second of all series together; null if no change is known."""
    watched_s = F.col("elapsed_us") / 1e6
    return F.when(watched_s > 0, F.col("members") * F.col(name) / watched_s)


REPORT_POSITION = 170
GOLD_TABLES = (
    GoldTable(
        PICTURE,
        compute_picture,
        input_names=(
            "stream_rate",
            "consumer_rate",
            "lag",
            "stuck",
            "redelivery",
            SESSION_SUMMARY.name,
        ),
        sorted_by=("session", "rank", "bucket_at_us"),
        # Each session has the rows of all consumers, and those of its charted ones.
        min_rows_count=2 * MAX_CHARTED_CONSUMERS * (MAX_POINTS_COUNT + 2),
    ),
)
