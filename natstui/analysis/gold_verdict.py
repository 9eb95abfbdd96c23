"""Answer 9: the ten things most worth looking at, each with its evidence.

Every table tells its findings in the same shape, with a weight of 0 to 100. The second finding
of a kind weighs less than the first, so that fifty stuck consumers leave room for a full disk.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.tables import SESSION, Table, columns

TOLD_COUNT = 10
_FADE = 0.85

VERDICT = Table(
    "verdict",
    "The ten things most worth looking at.",
    columns(
        ("rank_count", "bigint", "1 for the most important"),
        SESSION,
        ("kind", "string", "The table the finding comes from"),
        ("subject", "string", "What it is about"),
        ("sentence", "string", "What was found"),
        ("evidence", "string", "The numbers behind it"),
        ("start_at_us", "bigint", "When it began"),
        ("end_at_us", "bigint", "When it ended, as far as recorded"),
        ("weight_count", "double", "0 to 100"),
    ),
)

Gold = Callable[[str], DataFrame]


def verdict(gold: Gold) -> DataFrame:
    """Return the table `verdict` from the other gold tables, by name."""
    parts = [tell(gold) for tell in _TELLERS]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    of_kind = Window.partitionBy("kind").orderBy(F.col("weight").desc(), "subject", "start_at_us")
    faded = F.col("weight") * F.pow(F.lit(_FADE), F.row_number().over(of_kind) - 1)
    rows = rows.withColumn("weight_count", faded)
    top = rows.orderBy(F.col("weight_count").desc(), "kind", "subject").limit(TOLD_COUNT)
    order = Window.orderBy(F.col("weight_count").desc(), "kind", "subject")
    return VERDICT.contract(top.withColumn("rank_count", F.row_number().over(order)))


def _told(
    rows: DataFrame, kind: str, subject: Column, weight: Column, words: tuple[Column, Column]
) -> DataFrame:
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


def _stuck(gold: Gold) -> DataFrame:
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
    return _told(rows, "stuck", _consumer(), weight, (sentence, evidence))


def _lag(gold: Gold) -> DataFrame:
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
    return _told(rows, "lag", _consumer(), weight, (sentence, evidence))


def _poison(gold: Gold) -> DataFrame:
    rows = gold("poison").where(~F.col("acked"))
    rows = rows.withColumnsRenamed({"first_at_us": "start_at_us", "last_at_us": "end_at_us"})
    weight = F.when(F.col("given_up"), 62).otherwise(45)
    fate = F.when(F.col("given_up"), "was given up").otherwise("comes back again and again")
    sentence = F.format_string("message %d %s", F.col("stream_seq"), fate)
    evidence = F.format_string(
        "%d deliveries, %d naks", F.coalesce("deliveries_count", F.lit(0)), F.col("naks_count")
    )
    return _told(rows, "poison", _consumer(), weight, (sentence, evidence))


def _redelivery(gold: Gold) -> DataFrame:
    rows = gold("redelivery").where(F.col("repeated_share") > 0.05)
    weight = 35 + F.col("repeated_share") * 30
    sentence = F.format_string("%.1f %% of deliveries were repeats", F.col("repeated_share") * 100)
    evidence = F.format_string("%d of %d deliveries", "repeated_msgs", "delivered_msgs")
    return _told(rows, "redelivery", _consumer(), weight, (sentence, evidence))


def _availability(gold: Gold) -> DataFrame:
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
    return _told(
        rows, "availability", subject, weights[F.col("kind")] + long, (sentence, evidence)
    )


def _capacity(gold: Gold) -> DataFrame:
    soonest = F.least("msgs_full_in_s", "bytes_full_in_s")
    rows = gold("capacity").withColumn("soonest", soonest)
    # A stream that discards old messages is meant to be full.
    rows = rows.where((F.col("soonest") < 7 * 86_400) & (F.col("discard") == "new"))
    weight = F.when(F.col("soonest") < 3600, 72).when(F.col("soonest") < 86_400, 55).otherwise(36)
    sentence = F.format_string("full in %.1f h, and then it refuses", F.col("soonest") / 3600)
    evidence = F.format_string(
        "grows by %.1f messages and %.0f bytes a second", "growth_msgs_per_s", "growth_bytes_per_s"
    )
    return _told(rows, "capacity", F.col("stream"), weight, (sentence, evidence))


def _benchmark(gold: Gold) -> DataFrame:
    lost, left = F.coalesce("lost_msgs", F.lit(0)), F.coalesce("unaccounted_msgs", F.lit(0))
    open_sum = F.col("closes") == F.lit(False)
    rows = gold("bench_account").where((lost > 0) | (left != 0) | open_sum)
    weight = F.when(lost > 0, 74).otherwise(58)
    sentence = F.format_string("%d messages lost, %d not accounted for", lost, left)
    evidence = F.format_string(
        "%d sent, %d acknowledged, %d received", "sent_msgs", "acked_msgs", "received_msgs"
    )
    return _told(rows, "benchmark", F.coalesce("title", "run_id"), weight, (sentence, evidence))


def _comparison(gold: Gold) -> DataFrame:
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
    return _told(rows, "comparison", F.col("metric"), weight, (sentence, evidence))


def _identity(gold: Gold) -> DataFrame:
    streams = gold("capacity").groupBy("session", "stream").agg(F.count("*").alias("made"))
    rows = streams.where(F.col("made") > 1)
    sentence = F.format_string("deleted and made again %d times", F.col("made") - 1)
    evidence = F.lit("its creation time changed while it was recorded")
    return _told(rows, "identity", F.col("stream"), F.lit(48), (sentence, evidence))


def _damage(gold: Gold) -> DataFrame:
    rows = gold("session").where(F.col("corrupt_segments_count") > 0)
    sentence = F.format_string("%d segments are damaged", "corrupt_segments_count")
    evidence = F.format_string("%d lines could not be read", "torn_lines_count")
    return _told(rows, "recording", F.col("session"), F.lit(50), (sentence, evidence))


_TELLERS = (
    _stuck, _lag, _poison, _redelivery, _availability, _capacity, _benchmark, _comparison,
    _identity, _damage,
)  # fmt: skip
