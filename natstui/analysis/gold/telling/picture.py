"""What a report draws: everything together and the worst consumers, in buckets of fitting width.

A session of 40 seconds is drawn by the second, one of a day by the quarter of an hour.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer, Given
from natstui.analysis.gold.rates import SECOND_US, bucket_start, repeats
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import CONSUMER_KEY, SESSION, Table, columns

WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
MOST_POINTS = 120
"""A session is drawn with at most so many points."""
MOST_DRAWN = 24
"""Consumers drawn, over all sessions; at least one of each."""

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


def picture(given: Given) -> DataFrame:
    """Return `picture`: one row per session, drawn consumer (or all) and interval."""
    widths = widths_of(given.silver)
    drawn = _worst(given)
    samples = given.silver.consumer_sample
    ranks = F.broadcast(drawn.select("series_id", "rank"))
    alone = _bucketed(samples.join(ranks, "series_id"), widths)
    together = _of_all(samples, given.gold("consumer_rate"), widths)
    rows = _consumers(together).unionAll(_consumers(alone.withColumn("members", F.lit(1.0))))
    streams = _of_all(given.silver.stream_sample, given.gold("stream_rate"), widths)
    rows = rows.join(_published(streams), [*_BUCKET], "full")
    names = drawn.select("session", "rank", "stream", "consumer")
    return PICTURE.contract(rows.join(F.broadcast(names), ["session", "rank"], "left"))


def widths_of(silver: Silver) -> DataFrame:
    """Return session and width_s: the narrowest buckets of which there are not too many.

    And when the session began and ended.
    """
    lasted_s = (F.max("at_us") - F.min("at_us")) / 1e6
    fitting = reduce(
        lambda otherwise, width: F.when(F.col("lasted_s") <= width * MOST_POINTS, width).otherwise(
            otherwise
        ),
        reversed(WIDTHS_S[:-1]),
        F.lit(WIDTHS_S[-1]),
    )
    polls = silver.poll.groupBy("session").agg(
        lasted_s.alias("lasted_s"),
        F.min("at_us").alias("begun_at_us"),
        F.max("at_us").alias("over_at_us"),
    )
    width = fitting.cast("bigint").alias("width_s")
    return polls.select("session", width, "begun_at_us", "over_at_us")


def _worst(given: Given) -> DataFrame:
    """Return the consumers drawn, each with its rank: lost > stuck > late > wasteful."""
    one = [*CONSUMER_KEY]
    stuck = given.gold("stuck").groupBy(*one).agg(F.sum("duration_s").alias("stuck_s"))
    wasted = given.gold("redelivery").select(*one, "given_up_count", "repeated_msgs")
    rows = given.gold("lag").join(stuck, one, "left").join(wasted, one, "left")
    worst_first = (
        F.col("given_up_count").desc_nulls_last(),
        F.col("stuck_s").desc_nulls_last(),
        F.col("pending_max_msgs").desc(),
        F.col("repeated_msgs").desc_nulls_last(),
        "stream", "consumer", "created_at_us",
    )  # fmt: skip
    order = Window.partitionBy("session").orderBy(*worst_first)
    rows = rows.withColumn("rank", F.row_number().over(order))
    most = max(1, MOST_DRAWN // max(len(given.systems), 1))
    series = given.gold("consumer_rate").select("series_id", *one).distinct()
    rows = rows.where(F.col("rank") <= most).join(series, one)
    return rows.select("series_id", "rank", *one)


def bucket_of(name: str) -> Column:
    """Return the start of the bucket, `width_s` wide, that a moment lies in."""
    return bucket_start(name, F.col("width_s") * SECOND_US)


def _bucketed(samples: DataFrame, widths: DataFrame) -> DataFrame:
    rows = samples.join(F.broadcast(widths), "session")
    return rows.withColumn("bucket_at_us", bucket_of("at_us"))


def _of_all(samples: DataFrame, rates: DataFrame, widths: DataFrame) -> DataFrame:
    rows = with_members(_bucketed(samples, widths), rates, widths)
    return rows.withColumn("rank", F.lit(0))


def with_members(rows: DataFrame, rates: DataFrame, widths: DataFrame) -> DataFrame:
    """Add to rows by session and bucket how many series there were then on average.

    Of many series each poll reads only a part: what is known of these is known of all. Others
    live for seconds only, and must not count for the whole bucket. `rates` are those of all
    series, `widths` the width of the buckets and the span of each session.
    """
    first = F.col("last_at_us") - F.round(F.col("covered_s") * 1_000_000)
    lives = rates.groupBy("session", "series_id").agg(
        F.min_by(first, "bucket_at_us").cast("bigint").alias("first_at_us"),
        F.max("last_at_us").alias("last_at_us"),
        F.sum("samples_count").alias("samples"),
        F.min("created_at_us").alias("created_at_us"),
    )
    lives = lives.join(F.broadcast(widths), "session")
    first, last = F.col("first_at_us"), F.col("last_at_us")
    begun, over = F.col("begun_at_us"), F.col("over_at_us")
    # It was there before it was read first, and after it was read last: until it would be next.
    step_us = (last.cast("double") - first) / F.greatest(F.col("samples") - 1, F.lit(1))
    lives = lives.withColumns(
        {
            "since_us": F.greatest(F.least(first, F.greatest("created_at_us", begun)), begun),
            "until_us": F.when(last + 2 * step_us >= over, over).otherwise(F.least(last, over)),
        }
    )
    lives = lives.withColumns(
        {"from_us": F.least(first, "since_us"), "to_us": F.greatest(last, "until_us")}
    )
    # Those that are drawn, and not all from first to last: a damaged time would make billions.
    buckets = rows.select("session", "bucket_at_us").distinct()
    of_life = F.col("bucket_at_us").between(bucket_of("from_us"), bucket_of("to_us"))
    each = lives.join(buckets, "session").where(of_life)

    def within_us(start: Column, end: Column) -> Column:
        """Return how much of a bucket lies between two moments."""
        # Exact for every real time, and a damaged one does not leave the range of numbers.
        bucket, start, end = (at.cast("double") for at in (F.col("bucket_at_us"), start, end))
        long_us = F.least(end, bucket + F.col("width_s") * 1_000_000) - F.greatest(start, bucket)
        return F.greatest(long_us, F.lit(0.0))

    there_us = F.sum(within_us(F.col("since_us"), F.col("until_us")))
    watched_us = F.max(within_us(begun, over))
    known = (watched_us > 0) & (there_us > 0)
    members = F.when(known, there_us / watched_us).otherwise(F.count("*"))
    members = each.groupBy("session", "bucket_at_us").agg(members.alias("members"))
    return rows.join(F.broadcast(members), ["session", "bucket_at_us"])


def _per_s(name: str) -> Column:
    """Return a rate of all series together; null where no change is known."""
    watched_s = F.sum("elapsed_us") / 1e6
    return F.when(watched_s > 0, F.max("members") * F.sum(name) / watched_s)


def _consumers(rows: DataFrame) -> DataFrame:
    return rows.groupBy(*_BUCKET).agg(
        _per_s("delivered_msgs").alias("delivered_per_s"),
        (F.max("members") * F.avg("pending_msgs")).alias("pending_msgs"),
        F.sum(repeats()).alias("repeated_msgs"),
        (F.max(F.col("at_us") - F.col("next_at_us")) / 1e6).alias("behind_max_s"),
    )


def _published(rows: DataFrame) -> DataFrame:
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
