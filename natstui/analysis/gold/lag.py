"""Tables of lagging consumers: growth of the backlog, time to drain, and the worst periods."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.comparison.statistics import MAX_RELATIVE_NOISE
from natstui.analysis.gold.gold_table import (
    TIMELINE_ROWS_COUNT,
    GoldTable,
    build_findings,
    consumer_text,
    count_text,
    duration_text,
)
from natstui.analysis.gold.rates import UNSEEN_MEANING, samples_of_long_periods, with_unseen_s
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import CONSUMER_IDENTITY, CONSUMER_KEY, Table, columns
from natstui.model.findings.thresholds import (
    LAGGING_WINDOW_S,
    MIN_TIME_TO_DRAIN_S,
    STALE_ROWS_AFTER_S,
)

UNKNOWN_GROWTH_TEXT = "the recording is too short to know its growth"
_MAX_AUTOCORRELATION = 0.95
_MIN_T_BY_MAX_BUCKETS_COUNT = (
    (3, 63.7),
    (4, 9.92),
    (5, 5.84),
    (6, 4.60),
    (8, 4.03),
    (12, 3.50),
    (22, 3.17),
)
"""Pairs: a maximum of buckets, the minimum ratio of a slope to its error (t, one-sided 0.995)."""
_MIN_T_OF_MORE_BUCKETS = 2.85
RECENT_BUCKETS = 5
"""Number of last buckets from whose growth the time to drain is computed."""

LAG = Table(
    "lag",
    "The lag of each consumer over the entire session.",
    CONSUMER_IDENTITY
    + columns(
        ("first_at_us", "bigint", "Start of the first interval"),
        ("last_at_us", "bigint", "Start of the last interval"),
        ("watched_s", "double", "Time that the consumer was observed"),
        ("unseen_s", "double", f"{UNSEEN_MEANING}; its pending messages are from that sample"),
        ("pending_first_msgs", "bigint", "Unprocessed messages at the start"),
        ("pending_last_msgs", "bigint", "Unprocessed messages at the end"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_mean_msgs", "double", "Unprocessed on average"),
        ("growth_per_min", "double", "Slope of the mean lag over the session"),
        (
            "growth_error_per_min",
            "double",
            "Standard error of the slope, corrected for autocorrelation; null with fewer than 3 "
            "intervals",
        ),
        ("buckets_count", "bigint", "Number of intervals used for the slope"),
        ("recent_growth_per_min", "double", "Slope of the mean lag over the last intervals"),
        ("drain_s", "double", "Time to clear the backlog at the recent rate; null: never"),
        ("behind_max_s", "double", "Greatest age of the next message, if it was measured"),
        (
            "behind_last_s",
            "double",
            "Greatest age of the next message in the last interval; if not measured, an "
            "estimate: pending messages divided by the stream's publish rate",
        ),
        (
            "behind_estimate_s",
            "double",
            "Estimated age of the next message at the end of the recording: pending messages "
            "divided by the stream's publish rate",
        ),
        ("never_caught_up", "boolean", "Whether messages were pending at every sample"),
        (
            "made_again",
            "boolean",
            "Whether another consumer of the stream had the same name before",
        ),
    ),
    key=CONSUMER_KEY,
)


def compute_lag(
    consumer_rate: DataFrame, stream_rate: DataFrame, thresholds: Thresholds
) -> DataFrame:
    """Return `lag`: one row per consumer, from its rates.

    The growth of its pending messages is the slope of a line by least squares.
    """
    end_at_us = F.max("bucket_at_us").over(Window.partitionBy("series_id"))
    rows = consumer_rate.withColumn("end_at_us", end_at_us)
    recent_us = RECENT_BUCKETS * thresholds.bucket_us
    is_recent = F.col("bucket_at_us") > F.col("end_at_us") - recent_us
    # The middle of the recorded time, which may be only seconds in the first and last bucket.
    rows = rows.withColumn("minute", (F.col("last_at_us") - F.col("covered_s") * 1e6 / 2) / 60e6)
    rows = rows.transform(_with_residuals)
    pending, samples, minutes = map(F.col, ("pending_mean_msgs", "samples_count", "minute"))
    rows = rows.groupBy("series_id", *CONSUMER_KEY).agg(
        F.min("bucket_at_us").alias("first_at_us"),
        F.max("bucket_at_us").alias("last_at_us"),
        F.sum("covered_s").alias("watched_s"),
        F.min_by("pending_first_msgs", "bucket_at_us").alias("pending_first_msgs"),
        F.max_by("pending_last_msgs", "bucket_at_us").alias("pending_last_msgs"),
        F.max("pending_max_msgs").alias("pending_max_msgs"),
        (F.sum(pending * samples) / F.sum(samples)).alias("pending_mean_msgs"),
        F.regr_slope(pending, minutes).alias("growth_per_min"),
        _slope_error().alias("growth_error_per_min"),
        F.count("*").alias("buckets_count"),
        F.regr_slope(F.when(is_recent, pending), minutes).alias("recent_growth_per_min"),
        F.max("behind_max_s").alias("behind_max_s"),
        F.max_by("behind_max_s", "bucket_at_us").alias("behind_last_s"),
        (F.min("pending_min_msgs") > 0).alias("never_caught_up"),
    )
    return (
        rows.transform(_with_estimates, stream_rate)
        .transform(with_unseen_s, consumer_rate, stream_rate)
        .transform(LAG.conform)
    )


def _with_residuals(rows: DataFrame) -> DataFrame:
    """Add `residual`, the distance of a bucket to the regression line, and `residual_before`."""
    series = Window.partitionBy("series_id")
    minute, pending = F.col("minute"), F.col("pending_mean_msgs")
    slope = F.coalesce(F.regr_slope(pending, minute).over(series), F.lit(0.0))
    minutes_from_middle = minute - F.avg(minute).over(series)
    residual = pending - F.avg(pending).over(series) - slope * minutes_from_middle
    rows = rows.withColumn("residual", residual)
    previous_residual = F.lag("residual").over(series.orderBy("bucket_at_us"))
    return rows.withColumn("residual_before", previous_residual)


def _slope_error() -> Column:
    """Return the standard error of the slope of a series; null for less than 3 buckets.

    Correlated residuals count as fewer independent ones: n (1 - r) / (1 + r), r: autocorrelation.
    """
    n, residual = F.count("*"), F.col("residual")
    sum_of_squares = F.sum(residual * residual)
    autocorrelation = F.sum(residual * F.col("residual_before")) / F.nullif(
        sum_of_squares, F.lit(0.0)
    )
    bounded_autocorrelation = F.least(
        F.greatest(F.coalesce(autocorrelation, F.lit(0.0)), F.lit(0.0)),
        F.lit(_MAX_AUTOCORRELATION),
    )
    minutes_spread = F.regr_sxx(F.col("pending_mean_msgs"), F.col("minute"))
    standard_error = F.sqrt(
        sum_of_squares
        / (n - 2)
        / minutes_spread
        * (1 + bounded_autocorrelation)
        / (1 - bounded_autocorrelation)
    )
    rounding_error_msgs = F.max("pending_mean_msgs") * MAX_RELATIVE_NOISE
    is_straight_line = sum_of_squares <= n * rounding_error_msgs * rounding_error_msgs
    return F.when(n > 2, F.when(is_straight_line, F.lit(0.0)).otherwise(standard_error))


def _with_estimates(rows: DataFrame, stream_rate: DataFrame) -> DataFrame:
    last_stream_rates = stream_rate.groupBy("session", "stream").agg(
        F.max_by("published_per_s", "bucket_at_us").alias("published_per_s"),
        F.count_distinct("created_at_us").alias("creations_count"),
    )
    same_name_window = Window.partitionBy("session", "stream", "consumer").orderBy("created_at_us")
    # A recreated stream has recreated consumers, too.
    is_recreated = F.row_number().over(same_name_window) > F.coalesce("creations_count", F.lit(1))
    rows = rows.join(last_stream_rates, ["session", "stream"], "left")
    pending_msgs = F.col("pending_last_msgs")
    time_to_drain_s = drain_s(pending_msgs, F.col("recent_growth_per_min") / 60)
    behind_estimate_s = F.when(pending_msgs == 0, F.lit(0.0)).when(
        F.col("published_per_s") > 0, pending_msgs / F.col("published_per_s")
    )
    return rows.withColumns(
        {
            "drain_s": time_to_drain_s,
            "behind_estimate_s": behind_estimate_s,
            "behind_last_s": F.coalesce("behind_last_s", behind_estimate_s),
            "made_again": is_recreated,
        }
    )


def drain_s(pending_msgs: Column, trend_msgs_per_s: Column) -> Column:
    """Return the time (s) until nothing is pending, by the rule of `model.live.limits`."""
    return F.when(pending_msgs == 0, F.lit(0.0)).when(
        trend_msgs_per_s < 0, pending_msgs / -trend_msgs_per_s
    )


LAG_PERIOD = Table(
    "lag_period",
    "Every long period in which a consumer always had unprocessed messages.",
    CONSUMER_IDENTITY
    + columns(
        ("start_at_us", "bigint", "First sample with messages pending"),
        ("end_at_us", "bigint", "Last sample with messages pending"),
        ("duration_s", "double", "Between the two"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_end_msgs", "bigint", "Unprocessed messages at the last sample"),
        ("behind_max_s", "double", "Greatest age of the next message, if it was measured"),
        ("open", "boolean", "Whether the period lasted until the recording of the consumer ended"),
    ),
    key=(*CONSUMER_KEY, "start_at_us"),
)


def compute_lag_period(
    silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds
) -> DataFrame:
    """Return `lag_period`: one row per consumer and long period with messages always pending."""
    rows = samples_of_long_periods(
        silver.consumer_sample, "behind_since_us", thresholds.behind_after_s
    )
    start = F.col("behind_since_us").alias("start_at_us")
    periods = rows.groupBy("series_id", *CONSUMER_KEY, start).agg(
        F.max("at_us").alias("end_at_us"),
        F.max("pending_msgs").alias("pending_max_msgs"),
        F.max_by("pending_msgs", "at_us").alias("pending_end_msgs"),
        (F.max(F.col("at_us") - F.col("next_at_us")) / 1e6).alias("behind_max_s"),
    )
    periods = periods.withColumn("duration_s", (F.col("end_at_us") - F.col("start_at_us")) / 1e6)
    last_samples = consumer_rate.groupBy("series_id").agg(F.max("last_at_us").alias("last_at_us"))
    periods = periods.join(last_samples, "series_id")
    return LAG_PERIOD.conform(
        periods.withColumn("open", F.col("end_at_us") == F.col("last_at_us"))
    )


def find_lagging_consumers(lags: DataFrame) -> DataFrame:
    """Return findings about consumers that fall behind, or never caught up.

    A consumer is reported only if its next message had waited for long at the end of the
    recording, or for an unknown time. It falls behind only if its backlog grew by more than
    chance. Consumers that were recorded for a short time are left out.
    """
    is_falling_behind = is_growing() & F.col("drain_s").isNull()
    rows = lags.where(F.col("never_caught_up") | is_falling_behind)
    has_old_message = F.coalesce(F.col("behind_last_s") >= MIN_TIME_TO_DRAIN_S, F.lit(True))
    rows = rows.where((F.col("pending_last_msgs") > 0) & has_old_message)
    rows = rows.where(F.col("watched_s") >= LAGGING_WINDOW_S)
    weight = F.when(F.col("never_caught_up"), 50).otherwise(40) + F.least(
        F.log10(F.col("pending_last_msgs") + 1) * 4, F.lit(25)
    )
    state_text = F.when(F.col("never_caught_up"), "never caught up").otherwise("falls behind")
    pending_text = count_text(F.col("pending_last_msgs"), "message")
    last_sample_text = F.concat(
        F.lit("when it was last seen, "), duration_text("unseen_s"), F.lit(" before the end")
    )
    count_time_text = F.when(F.col("unseen_s") < STALE_ROWS_AFTER_S, "at the end").otherwise(
        last_sample_text
    )
    sentence = F.concat(state_text, F.lit(", "), pending_text, F.lit(" pending "), count_time_text)
    direction = F.when(F.col("growth_per_min") < 0, "fewer").otherwise("more")
    growth_text = F.when(F.col("growth_per_min").isNull(), UNKNOWN_GROWTH_TEXT).otherwise(
        F.format_string("%.1f %s per minute", F.abs("growth_per_min"), direction)
    )
    evidence = F.concat(
        F.format_string("%d pending at the start, ", "pending_first_msgs"), growth_text
    )
    return build_findings(rows, "lag", consumer_text(), weight, (sentence, evidence))


def is_growing() -> Column:
    """Return whether a backlog certainly grows (99.5 % sure)."""
    min_t = reduce(
        lambda otherwise, step: F.when(F.col("buckets_count") <= step[0], step[1]).otherwise(
            otherwise
        ),
        reversed(_MIN_T_BY_MAX_BUCKETS_COUNT),
        F.lit(_MIN_T_OF_MORE_BUCKETS),
    )
    is_significant = F.col("growth_per_min") > min_t * F.col("growth_error_per_min")
    return F.coalesce((F.col("growth_per_min") > 0) & is_significant, F.lit(False))


def find_recovered_consumers(periods: DataFrame) -> DataFrame:
    """Return findings about consumers that lagged, but caught up before the end."""
    rows = periods.where(~F.col("open") & (F.col("behind_max_s") >= MIN_TIME_TO_DRAIN_S))
    weight = 38 + F.least(F.log10(F.col("pending_max_msgs") + 1) * 3, F.lit(15))
    max_pending_text = count_text(F.col("pending_max_msgs"), "message")
    sentence = F.concat(
        F.lit("was behind for "),
        duration_text("duration_s"),
        F.lit(", by up to "),
        max_pending_text,
    )
    evidence = F.concat(F.lit("the next one waited for up to "), duration_text("behind_max_s"))
    return build_findings(rows, "lag", consumer_text(), weight, (sentence, evidence))


def find_recreated_consumers(lags: DataFrame) -> DataFrame:
    """Return findings about consumers that were deleted and recreated with the same name."""
    rows = lags.where("made_again")
    sentence = F.lit("deleted and recreated")
    evidence = F.lit("its creation time changed during the recording, that of its stream did not")
    texts = (sentence, evidence)
    return build_findings(rows, "identity", consumer_text(), F.lit(47), texts, F.lit("recreated"))


REPORT_POSITION = 70
GOLD_TABLES = (
    GoldTable(
        LAG,
        lambda inputs: compute_lag(
            inputs.gold("consumer_rate"), inputs.gold("stream_rate"), inputs.thresholds
        ),
        input_names=("consumer_rate", "stream_rate"),
        findings=(find_lagging_consumers, find_recreated_consumers),
        section=Section(
            "Lag",
            ("session", "stream", "consumer", "pending_last_msgs", "unseen_s",
             "pending_max_msgs", "growth_per_min", "drain_s", "behind_max_s", "never_caught_up"),
            "No consumers.",
        ),
        sorted_by=("-pending_last_msgs", "-pending_max_msgs"),
    ),
    GoldTable(
        LAG_PERIOD,
        lambda inputs: compute_lag_period(
            inputs.silver, inputs.gold("consumer_rate"), inputs.thresholds
        ),
        input_names=("consumer_rate",),
        findings=(find_recovered_consumers,),
        section=Section(
            "Worst periods of lag",
            ("session", "stream", "consumer", "start_at_us", "duration_s", "pending_max_msgs",
             "behind_max_s", "open"),
            "No consumer was behind for long.",
        ),
        sorted_by=("-pending_max_msgs", "start_at_us"),
        min_rows_count=TIMELINE_ROWS_COUNT,
    ),
)  # fmt: skip
