"""Answer 2: who is behind, how fast it grows, when it will have caught up, the worst periods."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Answer, consumer_text, counted, finding, time_text
from natstui.analysis.gold.rates import long_runs
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import CONSUMER_IDENTITY, Table, columns
from natstui.model.findings.thresholds import FALLING_BEHIND_S, FALLING_WINDOW_S

UNKNOWN_GROWTH = "recorded too shortly to tell how fast it grows"
RECENT_BUCKETS = 5
"""The time to drain comes from the growth over this many last buckets."""

LAG = Table(
    "lag",
    "How far behind each consumer was, over the whole session.",
    CONSUMER_IDENTITY
    + columns(
        ("first_at_us", "bigint", "Start of its first bucket"),
        ("last_at_us", "bigint", "Start of its last bucket"),
        ("watched_s", "double", "Time over which its changes are known"),
        ("pending_first_msgs", "bigint", "Unprocessed at the start"),
        ("pending_last_msgs", "bigint", "Unprocessed at the end"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_mean_msgs", "double", "Unprocessed on average"),
        ("growth_per_min", "double", "Slope of the mean lag over the session"),
        ("recent_growth_per_min", "double", "The same over the last buckets"),
        ("drain_s", "double", "Time until nothing is pending at the recent pace; null is never"),
        ("behind_max_s", "double", "Greatest age of the next message, where it was asked for"),
        ("behind_estimate_s", "double", "Pending at the end over what its stream then stored"),
        ("never_caught_up", "boolean", "Something was pending at every sample"),
        ("made_again", "boolean", "Another consumer of the same stream had its name before"),
    ),
)


def lag(consumer_rate: DataFrame, stream_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the table `lag` from the rates per bucket."""
    ends = consumer_rate.groupBy("series_id").agg(F.max("bucket_at_us").alias("end_at_us"))
    recent_us = RECENT_BUCKETS * thresholds.bucket_s * 1_000_000
    rows = consumer_rate.join(F.broadcast(ends), "series_id")
    recent = F.col("bucket_at_us") > F.col("end_at_us") - recent_us
    # The middle of what was watched: of the first and the last bucket that may be seconds.
    minutes = (F.col("last_at_us") - F.col("covered_s") * 1e6 / 2) / 60e6
    pending, samples = F.col("pending_mean_msgs"), F.col("samples_count")
    rows = rows.groupBy("series_id", *(c.name for c in CONSUMER_IDENTITY)).agg(
        F.min("bucket_at_us").alias("first_at_us"),
        F.max("bucket_at_us").alias("last_at_us"),
        F.sum("covered_s").alias("watched_s"),
        F.min_by("pending_first_msgs", "bucket_at_us").alias("pending_first_msgs"),
        F.max_by("pending_last_msgs", "bucket_at_us").alias("pending_last_msgs"),
        F.max("pending_max_msgs").alias("pending_max_msgs"),
        (F.sum(pending * samples) / F.sum(samples)).alias("pending_mean_msgs"),
        F.regr_slope(pending, minutes).alias("growth_per_min"),
        F.regr_slope(F.when(recent, pending), minutes).alias("recent_growth_per_min"),
        F.max("behind_max_s").alias("behind_max_s"),
        (F.min("pending_min_msgs") > 0).alias("never_caught_up"),
    )
    return LAG.contract(_with_times(rows, stream_rate))


def _with_times(rows: DataFrame, stream_rate: DataFrame) -> DataFrame:
    last_rate = stream_rate.groupBy("session", "stream").agg(
        F.max_by("published_per_s", "bucket_at_us").alias("published_per_s"),
        F.count_distinct("created_at_us").alias("made_count"),
    )
    of_name = Window.partitionBy("session", "stream", "consumer").orderBy("created_at_us")
    # A stream that was made again took its consumers along.
    again = F.row_number().over(of_name) > F.coalesce("made_count", F.lit(1))
    rows = rows.join(F.broadcast(last_rate), ["session", "stream"], "left")
    pending = F.col("pending_last_msgs")
    drain = drain_s(pending, F.col("recent_growth_per_min") / 60)
    estimate = F.when(pending == 0, F.lit(0.0)).when(
        F.col("published_per_s") > 0, pending / F.col("published_per_s")
    )
    return rows.withColumns({"drain_s": drain, "behind_estimate_s": estimate, "made_again": again})


def drain_s(pending_msgs: Column, trend_msgs_per_s: Column) -> Column:
    """Return the time until nothing is pending, as `model.live.limits.time_to_drain_s` does."""
    drained = F.when(pending_msgs == 0, F.lit(0.0))
    return drained.when(trend_msgs_per_s < 0, pending_msgs / -trend_msgs_per_s)


LAG_PERIOD = Table(
    "lag_period",
    "Every stretch of time in which a consumer had unprocessed messages without a break.",
    CONSUMER_IDENTITY
    + columns(
        ("start_at_us", "bigint", "First sample with messages pending"),
        ("end_at_us", "bigint", "Last sample with messages pending"),
        ("duration_s", "double", "Between the two"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_end_msgs", "bigint", "Unprocessed at its last sample"),
        ("behind_max_s", "double", "Greatest age of the next message, where it was asked for"),
        ("open", "boolean", "It lasted until the recording of the consumer ended"),
    ),
)


def lag_period(silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the table `lag_period`: runs of samples with messages pending."""
    rows = long_runs(silver.consumer_sample, "behind_since_us", thresholds.behind_after_s)
    identity = [c.name for c in CONSUMER_IDENTITY]
    start = F.col("behind_since_us").alias("start_at_us")
    runs = rows.groupBy("series_id", *identity, start).agg(
        F.max("at_us").alias("end_at_us"),
        F.max("pending_msgs").alias("pending_max_msgs"),
        F.max_by("pending_msgs", "at_us").alias("pending_end_msgs"),
        (F.max(F.col("at_us") - F.col("next_at_us")) / 1e6).alias("behind_max_s"),
    )
    runs = runs.withColumn("duration_s", (F.col("end_at_us") - F.col("start_at_us")) / 1e6)
    last = consumer_rate.groupBy("series_id").agg(F.max("last_at_us").alias("last_at_us"))
    runs = runs.join(F.broadcast(last), "series_id")
    return LAG_PERIOD.contract(runs.withColumn("open", F.col("end_at_us") == F.col("last_at_us")))


def falling_behind(lags: DataFrame) -> DataFrame:
    """Return findings about consumers that fall behind, or never caught up.

    Of one that was there for seconds only, neither can be told.
    """
    growing = (F.col("growth_per_min") > 0) & (F.col("pending_last_msgs") > 0)
    rows = lags.where(F.col("never_caught_up") | (growing & (F.col("drain_s").isNull())))
    rows = rows.where((F.col("pending_last_msgs") > 0) & (F.col("watched_s") >= FALLING_WINDOW_S))
    weight = F.when(F.col("never_caught_up"), 50).otherwise(40) + F.least(
        F.log10(F.col("pending_last_msgs") + 1) * 4, F.lit(25)
    )
    never = F.when(F.col("never_caught_up"), "never caught up").otherwise("falls behind")
    pending = counted(F.col("pending_last_msgs"), "message")
    sentence = F.concat(never, F.lit(", "), pending, F.lit(" pending at the end"))
    more = F.when(F.col("growth_per_min") < 0, "fewer").otherwise("more")
    growth = F.when(F.col("growth_per_min").isNull(), UNKNOWN_GROWTH).otherwise(
        F.format_string("%.1f %s per minute", F.abs("growth_per_min"), more)
    )
    evidence = F.concat(F.format_string("%d pending at the start, ", "pending_first_msgs"), growth)
    return finding(rows, "lag", consumer_text(), weight, (sentence, evidence))


def was_behind(periods: DataFrame) -> DataFrame:
    """Return findings about consumers that were behind, and had caught up before the end."""
    rows = periods.where(~F.col("open") & (F.col("behind_max_s") >= FALLING_BEHIND_S))
    weight = 38 + F.least(F.log10(F.col("pending_max_msgs") + 1) * 3, F.lit(15))
    most = counted(F.col("pending_max_msgs"), "message")
    sentence = F.concat(
        F.lit("was behind for "), time_text("duration_s"), F.lit(", by up to "), most
    )
    evidence = F.concat(F.lit("the next one waited for up to "), time_text("behind_max_s"))
    return finding(rows, "lag", consumer_text(), weight, (sentence, evidence))


def made_again(lags: DataFrame) -> DataFrame:
    """Return findings about consumers that were deleted and made again under their name."""
    rows = lags.where("made_again")
    sentence = F.lit("deleted and made again")
    evidence = F.lit("its creation time changed while it was recorded, and not its stream's")
    words = (sentence, evidence)
    return finding(rows, "identity", consumer_text(), F.lit(47), words, F.lit("made again"))


ANSWERS = (
    Answer(
        LAG,
        lambda given: lag(
            given.gold("consumer_rate"), given.gold("stream_rate"), given.thresholds
        ),
        needs=("consumer_rate", "stream_rate"),
        findings=(falling_behind, made_again),
        section=Section(
            "Lag",
            ("session", "stream", "consumer", "pending_last_msgs", "pending_max_msgs",
             "growth_per_min", "drain_s", "behind_max_s", "never_caught_up"),
            "No consumers.",
        ),
        sorted_by=("-pending_last_msgs", "-pending_max_msgs"),
    ),
    Answer(
        LAG_PERIOD,
        lambda given: lag_period(given.silver, given.gold("consumer_rate"), given.thresholds),
        needs=("consumer_rate",),
        findings=(was_behind,),
        section=Section(
            "Worst periods of lag",
            ("session", "stream", "consumer", "start_at_us", "duration_s", "pending_max_msgs",
             "behind_max_s", "open"),
            "No consumer was behind for long.",
        ),
        sorted_by=("-pending_max_msgs", "start_at_us"),
    ),
)  # fmt: skip
