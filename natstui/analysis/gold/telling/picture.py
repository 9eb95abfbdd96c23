"""The data of a report's charts: totals and the worst consumers, in buckets of fitting width.

The buckets of a session of 40 seconds are seconds, those of a day quarters of an hour.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer, AnswerInputs
from natstui.analysis.gold.rates import SECOND_US, bucket_start, repeats
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import CONSUMER_KEY, SESSION, Table, columns

WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_POINTS = 120
"""Maximum of points in a chart of a session."""
MOST_DRAWN = 24
"""Maximum of consumers in charts of all sessions together; at least one per session."""

PICTURE = Table(
    "picture",
    "Chart data of a session: all consumers together (rank 0), and the worst consumers.",
    columns(
        SESSION,
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
_BUCKET = ("session", "rank", "bucket_at_us", "width_s")


def picture(inputs: AnswerInputs) -> DataFrame:
    """Return `picture`: one row per session, charted consumer (or all) and interval."""
    widths = widths_of(inputs.silver)
    samples = inputs.silver.consumer_sample
    single_rows = samples.join(F.broadcast(_charted_consumers(inputs)), "series_id")
    single_rows = _with_buckets(single_rows, widths).withColumn("members", F.lit(1.0))
    total_rows = _totals(samples, inputs.gold("consumer_rate"), widths)
    rows = _consumers(total_rows).unionAll(_consumers(single_rows))
    streams = _totals(inputs.silver.stream_sample, inputs.gold("stream_rate"), widths)
    return PICTURE.contract(rows.join(_published_rates(streams), [*_BUCKET], "full"))


def widths_of(silver: Silver) -> DataFrame:
    """Return the bucket width, the start and the end of each session.

    The width is the smallest with at most `MOST_POINTS` buckets.
    """
    duration_s = (F.max("at_us") - F.min("at_us")) / 1e6
    width_s = reduce(
        lambda otherwise, width: F.when(F.col("lasted_s") <= width * MOST_POINTS, width).otherwise(
            otherwise
        ),
        reversed(WIDTHS_S[:-1]),
        F.lit(WIDTHS_S[-1]),
    )
    polls = silver.poll.groupBy("session").agg(
        duration_s.alias("lasted_s"),
        F.min("at_us").alias("begun_at_us"),
        F.max("at_us").alias("over_at_us"),
    )
    width = width_s.cast("bigint").alias("width_s")
    return polls.select("session", width, "begun_at_us", "over_at_us")


def _charted_consumers(inputs: AnswerInputs) -> DataFrame:
    """Return the charted series, each with its rank: lost > stuck > late > wasteful."""
    identity = [*CONSUMER_KEY]
    stuck = inputs.gold("stuck").groupBy(*identity).agg(F.sum("duration_s").alias("stuck_s"))
    redeliveries = inputs.gold("redelivery").select(*identity, "given_up_count", "repeated_msgs")
    rows = inputs.gold("lag").join(stuck, identity, "left").join(redeliveries, identity, "left")
    worst_first = (
        F.col("given_up_count").desc_nulls_last(),
        F.col("stuck_s").desc_nulls_last(),
        F.col("pending_max_msgs").desc(),
        F.col("repeated_msgs").desc_nulls_last(),
        "stream", "consumer", "created_at_us",
    )  # fmt: skip
    order = Window.partitionBy("session").orderBy(*worst_first)
    rows = rows.withColumn("rank", F.row_number().over(order))
    most_per_session = max(1, MOST_DRAWN // max(len(inputs.systems), 1))
    series = inputs.gold("consumer_rate").select("series_id", *identity).distinct()
    rows = rows.where(F.col("rank") <= most_per_session).join(series, identity)
    return rows.select("series_id", "rank")


def bucket_of(name: str) -> Column:
    """Return the start of the bucket of a time, with buckets of `width_s`."""
    return bucket_start(name, F.col("width_s") * SECOND_US)


def _with_buckets(samples: DataFrame, widths: DataFrame) -> DataFrame:
    rows = samples.join(F.broadcast(widths), "session")
    return rows.withColumn("bucket_at_us", bucket_of("at_us"))


def _totals(samples: DataFrame, rates: DataFrame, widths: DataFrame) -> DataFrame:
    rows = with_members(_with_buckets(samples, widths), rates, widths)
    no_name = F.lit(None).cast("string")
    return rows.withColumns({"rank": F.lit(0), "stream": no_name, "consumer": no_name})


def with_members(rows: DataFrame, rates: DataFrame, widths: DataFrame) -> DataFrame:
    """Add `members`, the mean number of series in the bucket of a row.

    With many series each poll reads only a part, which represents all. Short-lived series must not
    count for the entire bucket. `rates` are those of all series, `widths` the width of the buckets
    with the start and end of each session.
    """
    first = F.col("last_at_us") - F.round(F.col("covered_s") * 1_000_000)
    series_lives = rates.groupBy("session", "series_id").agg(
        F.min_by(first, "bucket_at_us").cast("bigint").alias("first_at_us"),
        F.max("last_at_us").alias("last_at_us"),
        F.sum("samples_count").alias("samples"),
        F.min("created_at_us").alias("created_at_us"),
    )
    series_lives = series_lives.join(F.broadcast(widths), "session")
    first, last = F.col("first_at_us"), F.col("last_at_us")
    session_start, session_end = F.col("begun_at_us"), F.col("over_at_us")
    # It was there before it was read first, and after it was read last: until it would be next.
    step_us = (last.cast("double") - first) / F.greatest(F.col("samples") - 1, F.lit(1))
    series_lives = series_lives.withColumns(
        {
            "since_us": F.greatest(
                F.least(first, F.greatest("created_at_us", session_start)), session_start
            ),
            "until_us": F.when(last + 2 * step_us >= session_end, session_end).otherwise(
                F.least(last, session_end)
            ),
        }
    )
    series_lives = series_lives.withColumns(
        {"from_us": F.least(first, "since_us"), "to_us": F.greatest(last, "until_us")}
    )
    # Those that are drawn, and not all from first to last: a damaged time would make billions.
    buckets = rows.select("session", "bucket_at_us").distinct()
    is_in_life = F.col("bucket_at_us").between(bucket_of("from_us"), bucket_of("to_us"))
    buckets_of_series = series_lives.join(buckets, "session").where(is_in_life)

    def within_us(start: Column, end: Column) -> Column:
        """Return the time of a bucket that is between two times."""
        # Exact for every real time, and a damaged one does not leave the range of numbers.
        bucket, start, end = (
            time_column.cast("double") for time_column in (F.col("bucket_at_us"), start, end)
        )
        long_us = F.least(end, bucket + F.col("width_s") * 1_000_000) - F.greatest(start, bucket)
        return F.greatest(long_us, F.lit(0.0))

    lived_us = F.sum(within_us(F.col("since_us"), F.col("until_us")))
    watched_us = F.max(within_us(session_start, session_end))
    is_known = (watched_us > 0) & (lived_us > 0)
    members = F.when(is_known, lived_us / watched_us).otherwise(F.count("*"))
    members = buckets_of_series.groupBy("session", "bucket_at_us").agg(members.alias("members"))
    return rows.join(F.broadcast(members), ["session", "bucket_at_us"])


def _per_s(name: str) -> Column:
    """Return a rate of all series together; null without a known change."""
    watched_s = F.sum("elapsed_us") / 1e6
    return F.when(watched_s > 0, F.max("members") * F.sum(name) / watched_s)


def _consumers(rows: DataFrame) -> DataFrame:
    return rows.groupBy(*_BUCKET, "stream", "consumer").agg(
        _per_s("delivered_msgs").alias("delivered_per_s"),
        (F.max("members") * F.avg("pending_msgs")).alias("pending_msgs"),
        F.sum(repeats()).alias("repeated_msgs"),
        (F.max(F.col("at_us") - F.col("next_at_us")) / 1e6).alias("behind_max_s"),
    )


def _published_rates(rows: DataFrame) -> DataFrame:
    return rows.groupBy(*_BUCKET).agg(_per_s("published_msgs").alias("published_per_s"))


PLACE = 170
ANSWERS = (
    Answer(
        PICTURE,
        picture,
        needs=("stream_rate", "consumer_rate", "lag", "stuck", "redelivery"),
        sorted_by=("session", "rank", "bucket_at_us"),
        least_rows_count=(MOST_DRAWN + 1) * (MOST_POINTS + 2),
    ),
)
