"""Findings about consumers, for the verdict."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

Gold = Callable[[str], DataFrame]


def told(
    rows: DataFrame, kind: str, subject: Column, weight: Column, words: tuple[Column, Column]
) -> DataFrame:
    """Return findings; `words` are the sentence and its evidence."""
    sentence, evidence = words
    nothing = F.lit(None).cast("bigint")
    start = F.col("start_at_us") if "start_at_us" in rows.columns else nothing
    end = F.col("end_at_us") if "end_at_us" in rows.columns else nothing
    return rows.select(
        F.col("session").alias("session"),
        F.lit(kind).alias("kind"),
        subject.alias("subject"),
        sentence.alias("sentence"),
        evidence.alias("evidence"),
        start.alias("start_at_us"),
        end.alias("end_at_us"),
        weight.cast("double").alias("weight"),
    )


def _consumer() -> Column:
    return F.concat_ws(" > ", "stream", "consumer")


def stuck(gold: Gold) -> DataFrame:
    """Tell of consumers without progress."""
    rows = gold("stuck")
    long = F.least(F.col("duration_s") / 3600, F.lit(1.0)) * 30
    meant = F.col("cause") == "paused"
    weight = F.when(meant, 30 + long / 2).otherwise(60 + long)
    sentence = F.format_string("stuck for %.0f s: %s", "duration_s", "cause")
    evidence = F.format_string(
        "ack floor %d, %d pending, %d of %s unacknowledged, %d deliveries meanwhile",
        "ack_floor_stream_seq",
        "pending_max_msgs",
        "ack_pending_max_msgs",
        F.coalesce(F.col("max_ack_pending_msgs").cast("string"), F.lit("unlimited")),
        "delivered_msgs",
    )
    return told(rows, "stuck", _consumer(), weight, (sentence, evidence))


def lag(gold: Gold) -> DataFrame:
    """Tell of consumers that fall behind."""
    growing = (F.col("growth_per_min") > 0) & (F.col("pending_last_msgs") > 0)
    rows = gold("lag").where(F.col("never_caught_up") | (growing & (F.col("drain_s").isNull())))
    rows = rows.where(F.col("pending_last_msgs") > 0)
    weight = F.when(F.col("never_caught_up"), 50).otherwise(40) + F.least(
        F.log10(F.col("pending_last_msgs") + 1) * 4, F.lit(25)
    )
    never = F.when(F.col("never_caught_up"), "never caught up").otherwise("falls behind")
    sentence = F.format_string(
        "%s: %d messages pending at the end", never, F.col("pending_last_msgs")
    )
    evidence = F.format_string(
        "%d pending at the start, %.1f more per minute",
        F.col("pending_first_msgs"),
        F.coalesce("growth_per_min", F.lit(0.0)),
    )
    return told(rows, "lag", _consumer(), weight, (sentence, evidence))


def poison(gold: Gold) -> DataFrame:
    """Tell of messages that are never settled."""
    rows = gold("poison").where(~F.col("acked"))
    rows = rows.withColumnsRenamed({"first_at_us": "start_at_us", "last_at_us": "end_at_us"})
    weight = F.when(F.col("given_up"), 62).otherwise(45)
    fate = F.when(F.col("given_up"), "was given up").otherwise("comes back again and again")
    sentence = F.format_string("message %d %s", F.col("stream_seq"), fate)
    evidence = F.format_string(
        "%d deliveries, %d naks", F.coalesce("deliveries_count", F.lit(0)), F.col("naks_count")
    )
    return told(rows, "poison", _consumer(), weight, (sentence, evidence))


def redelivery(gold: Gold) -> DataFrame:
    """Tell of consumers that get much of their work again."""
    rows = gold("redelivery").where(F.col("repeated_share") > 0.05)
    weight = 35 + F.col("repeated_share") * 30
    sentence = F.format_string("%.1f %% of deliveries were repeats", F.col("repeated_share") * 100)
    evidence = F.format_string("%d of %d deliveries", "repeated_msgs", "delivered_msgs")
    return told(rows, "redelivery", _consumer(), weight, (sentence, evidence))
