"""Answer 5: when polls, the API, leaders or replicas were missing or slow."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Answer, consumer_text, counted, finding, time_text
from natstui.analysis.gold.rates import bucket_start
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION, Table, columns
from natstui.model.findings.thresholds import PEER_LAG_MSGS

AVAILABILITY = Table(
    "availability",
    "Outages, slow replies and leader changes, one row per period or moment.",
    columns(
        SESSION,
        ("kind", "string", "gap, clock_step, unreachable, unavailable, disconnected, api_slow, "
         "leader_change, leader_absent, replica_away or replica_lag"),
        ("stream", "string", "The stream concerned"),
        ("consumer", "string", "The consumer concerned"),
        ("start_at_us", "bigint", "From when"),
        ("end_at_us", "bigint", "End of the period; null for a moment, or if it did not end"),
        ("duration_s", "double", "Between the two"),
        ("value", "double", "Size; gap and clock_step: s; api_slow: median µs; "
                                  "replica_lag: entries"),
        ("detail", "string", "More about it"),
    ),
    key=("session", "kind", "stream", "consumer", "start_at_us", "detail"),
)  # fmt: skip

UNREACHABLE_POLLS = 3
"""Polls that may come between two that tell of the same: each asks only for a part."""


def availability(silver: Silver, thresholds: Thresholds) -> DataFrame:
    """Return `availability`: one row per period or moment, from polls, events and samples."""
    parts = (
        _gaps(silver.poll),
        _clock_steps(silver.poll),
        _unreachable(silver.poll),
        _stretches(silver.event, "unavailable", F.col("kind") == "restored"),
        _disconnected(silver.event),
        _slow(silver.poll, thresholds),
        _leader_changes(silver),
        _samples(silver),
    )
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    duration = (F.col("end_at_us") - F.col("start_at_us")) / 1e6
    return AVAILABILITY.contract(rows.withColumn("duration_s", duration))


def _row(
    kind: str | Column,
    start: Column,
    end: Column | None,
    value: Column | None,
    detail: Column,
    consumer: Column | None = None,
) -> list[Column]:
    nothing = F.lit(None)
    consumer = nothing if consumer is None else consumer
    return [
        F.col("session"),
        (F.lit(kind) if isinstance(kind, str) else kind).alias("kind"),
        F.col("stream").cast("string").alias("stream"),
        consumer.cast("string").alias("consumer"),
        start.cast("bigint").alias("start_at_us"),
        (nothing if end is None else end).cast("bigint").alias("end_at_us"),
        (nothing if value is None else value).cast("double").alias("value"),
        detail.cast("string").alias("detail"),
    ]


def is_gap() -> Column:
    """Return whether nobody polled before a poll, rather than that it can only not be read."""
    lost = F.coalesce("lost_before_count", F.lit(0)).cast("double")
    # So many polls can have been among the records that cannot be read, or half of them.
    unread = (lost > 0) & (F.col("gap_before_us") <= 2 * (lost + 1) * F.col("interval_us"))
    return F.col("gap_before_us").isNotNull() & ~unread


def _gaps(poll: DataFrame) -> DataFrame:
    rows = poll.where(is_gap()).withColumn("stream", F.lit(None))
    length = F.col("gap_before_us")
    return rows.select(
        _row("gap", F.col("at_us") - length, F.col("at_us"), length / 1e6, F.lit(None))
    )


def _clock_steps(poll: DataFrame) -> DataFrame:
    rows = poll.where(F.col("clock_step_us").isNotNull()).withColumn("stream", F.lit(None))
    step_s = F.col("clock_step_us") / 1e6
    way = F.when(step_s > 0, "forward").otherwise("back")
    detail = F.format_string("the clock was set %s by %.1f s", way, F.abs(step_s))
    return rows.select(_row("clock_step", F.col("at_us"), None, step_s, detail))


def _unreachable(poll: DataFrame) -> DataFrame:
    """Return the stretches in which polls told that a leader does not answer the server."""
    order = Window.partitionBy("session").orderBy("mono_us")
    polls = poll.withColumns(
        {"number": F.row_number().over(order), "next_at_us": F.lead("at_us").over(order)}
    )
    nobody = F.lit(None).cast("string")
    streams = F.transform("unreachable_streams", lambda name: F.array(name, nobody))
    both = F.explode(F.concat(streams, "unreachable_consumers")).alias("who")
    rows = polls.select("session", "number", "at_us", "next_at_us", both)
    rows = rows.withColumns({"stream": F.get("who", F.lit(0)), "consumer": F.get("who", F.lit(1))})
    who = ["session", "stream", "consumer"]
    of_one = Window.partitionBy(*who).orderBy("number")
    apart = F.col("number") - F.lag("number").over(of_one) > UNREACHABLE_POLLS
    rows = rows.withColumn("begins", F.coalesce(apart, F.lit(True)).cast("int"))
    rows = rows.withColumn("run", F.sum("begins").over(of_one))
    runs = rows.groupBy(*who, "run").agg(
        F.min("at_us").alias("start"),
        F.max(F.coalesce("next_at_us", "at_us")).alias("end"),
    )
    detail = F.lit("its leader did not reply to the server")
    start, end = F.col("start"), F.col("end")
    return runs.select(_row("unreachable", start, end, None, detail, F.col("consumer")))


def _stretches(event: DataFrame, kind: str, ends: Column) -> DataFrame:
    """Return the stretches that begin with events of a kind and end with the next `ends`."""
    begins = F.col("kind") == kind
    rows = event.where(begins | ends)
    order = Window.partitionBy("session", "what").orderBy("at_us")
    after = order.rowsBetween(1, Window.unboundedFollowing)
    end = F.min(F.when(ends, F.col("at_us"))).over(after)
    rows = rows.withColumns({"end": end, "was": F.lag("kind").over(order)})
    first = begins & ~F.coalesce(F.col("was") == kind, F.lit(False))
    rows = rows.where(first).withColumn("stream", F.lit(None))
    detail = F.concat_ws(": ", "what", "text")
    return rows.select(_row(kind, F.col("at_us"), F.col("end"), None, detail))


def _disconnected(event: DataFrame) -> DataFrame:
    """Return the stretches without a connection; a link that was closed on purpose is none."""
    links = event.where((F.col("kind") == "link_changed") & ~F.col("what").eqNullSafe("closed"))
    up = F.col("state") == "connected"
    links = links.withColumn("state", F.col("what")).withColumn("what", F.lit("link"))
    links = links.withColumn("kind", F.when(up, "connected").otherwise("disconnected"))
    first = links.groupBy("session").agg(F.min("at_us").alias("first_at_us"))
    links = links.join(F.broadcast(first), "session")
    # Before the first connection nothing was lost.
    links = links.where((F.col("at_us") > F.col("first_at_us")) | up).drop("first_at_us")
    links = links.where((F.col("state") != "connecting") | up)
    return _stretches(links, "disconnected", F.col("kind") == "connected")


def _slow(poll: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the buckets whose median round trip stands out from the session's."""
    rows = poll.where(F.col("api_rtt_us").isNotNull())
    usual = rows.groupBy("session").agg(F.median("api_rtt_us").alias("usual_us"))
    bucket = bucket_start("at_us", thresholds.bucket_us).alias("start")
    rows = rows.groupBy("session", bucket).agg(F.median("api_rtt_us").alias("median_us"))
    rows = rows.join(F.broadcast(usual), "session")
    slow = F.col("median_us") >= thresholds.api_slow_factor_ratio * F.col("usual_us")
    rows = rows.where(slow).withColumn("stream", F.lit(None))
    end = F.col("start") + thresholds.bucket_us
    detail = F.format_string("usual %.0f µs", F.col("usual_us"))
    return rows.select(_row("api_slow", F.col("start"), end, F.col("median_us"), detail))


def _leader_changes(silver: Silver) -> DataFrame:
    """Return every change of a stream's leader that two samples show.

    Without replicas nothing is elected: a server that came back calls itself something else.
    """
    before, now = F.col("leader_before"), F.col("leader")
    other = before.isNotNull() & now.isNotNull() & (before != now)
    rows = silver.stream_sample.where(other & (F.col("peers_count") > 0))
    detail = F.concat_ws(" → ", before, now)
    return rows.select(_row("leader_change", F.col("at_us"), None, None, detail))


def _samples(silver: Silver) -> DataFrame:
    """Return stretches in which a stream had no leader, or a replica was away or far behind."""
    lags = F.col("peer_lag_msgs") > PEER_LAG_MSGS
    away = F.col("away_peers_count") > 0
    absent = F.col("leader").isNull() & (F.col("peers_count") > 0)
    trouble = F.when(absent, "leader_absent").when(away, "replica_away").when(lags, "replica_lag")
    rows = silver.stream_sample.withColumn("trouble", trouble)
    # Only replicated streams can lose a leader or a replica.
    rows = rows.where(F.col("peers_count") > 0)
    order = Window.partitionBy("series_id").orderBy("mono_us")
    changed = ~F.col("trouble").eqNullSafe(F.lag("trouble").over(order))
    rows = rows.withColumn("run", F.sum(changed.cast("int")).over(order))
    runs = rows.where(F.col("trouble").isNotNull())
    found = runs.groupBy("series_id", "session", "stream", "run", "trouble").agg(
        F.min("at_us").alias("start"),
        F.max("at_us").alias("end"),
        F.max("peer_lag_msgs").alias("lag_msgs"),
        F.max("away_peers_count").alias("away_count"),
    )
    behind = F.concat(F.lit("up to "), counted(F.col("lag_msgs"), "entry", "entries"))
    away = F.concat(counted(F.col("away_count"), "replica"), F.lit(" not heard of"))
    detail = F.when(F.col("away_count") > 0, away).when(
        F.col("lag_msgs") > PEER_LAG_MSGS, F.concat(behind, F.lit(" behind"))
    )
    entries = F.when(F.col("trouble") == "replica_lag", F.col("lag_msgs"))
    return found.select(_row(F.col("trouble"), F.col("start"), F.col("end"), entries, detail))


_WEIGHTS = {
    "leader_absent": 75,
    "unreachable": 70,
    "disconnected": 45,
    "replica_away": 42,
    "replica_lag": 40,
    "unavailable": 38,
    "clock_step": 36,
    "gap": 35,
    "api_slow": 33,
    "leader_change": 28,
}


def away_or_slow(stretches: DataFrame) -> DataFrame:
    """Return a finding for each stretch or moment."""
    weights = F.create_map(*(F.lit(x) for pair in _WEIGHTS.items() for x in pair))
    long = F.least(F.coalesce("duration_s", F.lit(0.0)) / 60, F.lit(10.0))
    known = F.col("duration_s").isNotNull()
    lasted = F.when(known, F.concat(F.lit(" for "), time_text("duration_s"))).otherwise("")
    sentence = F.concat(F.replace("kind", F.lit("_"), F.lit(" ")), lasted)
    is_step = F.col("kind") == "clock_step"
    evidence = F.when(is_step, "all times are shown as if the clock had not been set").otherwise(
        F.coalesce("detail", F.lit(""))
    )
    words = (F.when(is_step, F.col("detail")).otherwise(sentence), evidence)
    subject = F.coalesce(F.nullif(consumer_text(), F.lit("")), F.lit("monitoring"))
    weight = weights[F.col("kind")] + long
    return finding(stretches, "availability", subject, weight, words, F.col("kind"))


PLACE = 120
ANSWERS = (
    Answer(
        AVAILABILITY,
        lambda given: availability(given.silver, given.thresholds),
        findings=(away_or_slow,),
        section=Section(
            "Availability",
            ("session", "kind", "stream", "consumer", "start_at_us", "duration_s", "detail"),
            "No gaps, no elections, nothing slow.",
        ),
        sorted_by=("start_at_us",),
    ),
)
