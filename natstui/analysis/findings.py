"""Findings about everything but consumers, for the verdict."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.findings_consumer import Gold, told


def availability(gold: Gold) -> DataFrame:
    """Tell of what was away or slow."""
    rows = gold("availability")
    base = {"leader_absent": 75, "disconnected": 45, "unavailable": 38, "replica_lag": 40,
            "gap": 35, "api_slow": 33, "leader_change": 28}  # fmt: skip
    weights = F.create_map(*(F.lit(x) for pair in base.items() for x in pair))
    long = F.least(F.coalesce("duration_s", F.lit(0.0)) / 60, F.lit(10.0))
    sentence = F.concat(F.replace("kind", F.lit("_"), F.lit(" ")), F.when(
        F.col("duration_s").isNotNull(), F.format_string(" for %.0f s", "duration_s")
    ).otherwise(""))  # fmt: skip
    evidence = F.coalesce("detail", F.lit(""))
    subject = F.coalesce("stream", F.lit("monitoring"))
    return told(rows, "availability", subject, weights[F.col("kind")] + long, (sentence, evidence))


def capacity(gold: Gold) -> DataFrame:
    """Tell of streams that will refuse messages soon."""
    soonest = F.least("msgs_full_in_s", "bytes_full_in_s")
    rows = gold("capacity").withColumn("soonest", soonest)
    # A stream that discards old messages is meant to be full.
    rows = rows.where((F.col("soonest") < 7 * 86_400) & (F.col("discard") == "new"))
    weight = F.when(F.col("soonest") < 3600, 72).when(F.col("soonest") < 86_400, 55).otherwise(36)
    when = (
        F.when(F.col("soonest") == 0, F.lit("full"))
        .when(F.col("soonest") < 3600, F.format_string("full in %.0f min", F.col("soonest") / 60))
        .otherwise(F.format_string("full in %.1f h", F.col("soonest") / 3600))
    )
    sentence = F.concat(when, F.lit(", and then it refuses messages"))
    evidence = F.format_string(
        "grows by %.1f messages and %.0f bytes a second", "growth_msgs_per_s", "growth_bytes_per_s"
    )
    return told(rows, "capacity", F.col("stream"), weight, (sentence, evidence))


def benchmark(gold: Gold) -> DataFrame:
    """Tell of benchmarks that lost messages or do not add up."""
    lost, left = F.coalesce("lost_msgs", F.lit(0)), F.coalesce("unaccounted_msgs", F.lit(0))
    open_sum = F.col("closes") == F.lit(False)
    rows = gold("bench_account").where((lost > 0) | (left != 0) | open_sum)
    weight = F.when(lost > 0, 74).otherwise(58)
    sentence = F.format_string("%d messages lost, %d not accounted for", lost, left)
    evidence = F.format_string(
        "%d sent, %d acknowledged, %d received", "sent_msgs", "acked_msgs", "received_msgs"
    )
    return told(rows, "benchmark", F.coalesce("title", "run_id"), weight, (sentence, evidence))


def comparison(gold: Gold) -> DataFrame:
    """Tell of metrics that became slower or faster."""
    rows = gold("comparison").where(F.col("verdict").isin("slower", "faster"))
    rows = rows.withColumnRenamed("compared", "session")
    worse = F.col("verdict") == "slower"
    weight = F.when(worse, 65).otherwise(30) + F.least(F.abs("mean_change") * 50, F.lit(25.0))
    sentence = F.format_string(
        "%s than %s: %+.1f %%", F.col("verdict"), F.col("baseline"), F.col("mean_change") * 100
    )
    evidence = F.format_string(
        "between %+.1f and %+.1f %%", F.col("low_change") * 100, F.col("high_change") * 100
    )
    return told(rows, "comparison", F.col("metric"), weight, (sentence, evidence))


def identity(gold: Gold) -> DataFrame:
    """Tell of streams that were deleted and made again."""
    streams = gold("capacity").groupBy("session", "stream").agg(F.count("*").alias("made"))
    rows = streams.where(F.col("made") > 1)
    sentence = F.format_string("deleted and made again %d times", F.col("made") - 1)
    evidence = F.lit("its creation time changed while it was recorded")
    return told(rows, "identity", F.col("stream"), F.lit(48), (sentence, evidence))


def damage(gold: Gold) -> DataFrame:
    """Tell of recordings that could not be read whole."""
    rows = gold("session").where(F.col("corrupt_segments_count") > 0)
    sentence = F.format_string("%d segments are damaged", "corrupt_segments_count")
    evidence = F.format_string("%d lines could not be read", "torn_lines_count")
    return told(rows, "recording", F.col("session"), F.lit(50), (sentence, evidence))
