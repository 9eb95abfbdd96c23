"""Table of the periods in which polls, the API, leaders or replicas were missing or slow."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.gold_table import (
    TIMELINE_ROWS_COUNT,
    GoldTable,
    build_findings,
    consumer_text,
    count_text,
    duration_text,
)
from natstui.analysis.gold.rates import bucket_start
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, Table, columns
from natstui.model.findings.thresholds import PEER_LAG_MSGS

AVAILABILITY = Table(
    "availability",
    "Outages, slow replies and leader changes, one row per period or moment.",
    columns(
        SESSION_COLUMN,
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

MAX_POLLS_BETWEEN_UNREACHABLE = 3
"""Maximum polls from an unreachable leader to its next one in the same period.

It is more than 1, because a poll may read only some of the rows.
"""


def compute_availability(silver: Silver, thresholds: Thresholds) -> DataFrame:
    """Return `availability`: outages, slow replies, replica lag, leader changes and clock steps.

    One row for each; leader changes and clock steps have no duration.
    """
    period_tables = (
        _poll_gaps(silver.poll),
        _clock_steps(silver.poll),
        _unreachable_periods(silver.poll),
        _event_periods(
            silver.event,
            "unavailable",
            F.col("kind") == "restored",
            F.concat_ws(": ", "what", "text"),
        ),
        _connection_gaps(silver.event),
        _slow_buckets(silver.poll, thresholds),
        _leader_changes(silver),
        _replica_periods(silver),
    )
    rows = period_tables[0]
    for part in period_tables[1:]:
        rows = rows.unionAll(part)
    duration = (F.col("end_at_us") - F.col("start_at_us")) / 1e6
    return AVAILABILITY.conform(rows.withColumn("duration_s", duration))


def _availability_columns(
    kind: str | Column,
    start: Column,
    end: Column | None,
    value: Column | None,
    detail: Column,
    consumer: Column | None = None,
) -> list[Column]:
    null = F.lit(None)
    consumer = null if consumer is None else consumer
    return [
        F.col("session"),
        (F.lit(kind) if isinstance(kind, str) else kind).alias("kind"),
        F.col("stream").cast("string").alias("stream"),
        consumer.cast("string").alias("consumer"),
        start.cast("bigint").alias("start_at_us"),
        (null if end is None else end).cast("bigint").alias("end_at_us"),
        (null if value is None else value).cast("double").alias("value"),
        detail.cast("string").alias("detail"),
    ]


def is_gap() -> Column:
    """Return whether polling stopped before a poll; false if unreadable polls explain this."""
    lost_records_count = F.coalesce("lost_before_count", F.lit(0)).cast("double")
    # The pause is at most twice as long as the unreadable records, if they were polls.
    is_unreadable = (lost_records_count > 0) & (
        F.col("gap_before_us") <= 2 * (lost_records_count + 1) * F.col("interval_us")
    )
    return F.col("gap_before_us").isNotNull() & ~is_unreadable


def _poll_gaps(poll: DataFrame) -> DataFrame:
    rows = poll.where(is_gap()).withColumn("stream", F.lit(None))
    gap_us = F.col("gap_before_us")
    return rows.select(
        _availability_columns(
            "gap", F.col("at_us") - gap_us, F.col("at_us"), gap_us / 1e6, F.lit(None)
        )
    )


def _clock_steps(poll: DataFrame) -> DataFrame:
    rows = poll.where(F.col("clock_step_us").isNotNull()).withColumn("stream", F.lit(None))
    step_s = F.col("clock_step_us") / 1e6
    direction = F.when(step_s > 0, "forward").otherwise("back")
    detail = F.format_string("the clock was set %s by %.1f s", direction, F.abs(step_s))
    return rows.select(_availability_columns("clock_step", F.col("at_us"), None, step_s, detail))


def _unreachable_periods(poll: DataFrame) -> DataFrame:
    """Return the periods in which the leader of a stream or consumer did not reply.

    A period ends at the poll after the last one that reports this, or at the last poll before a
    gap; reports up to `MAX_POLLS_BETWEEN_UNREACHABLE` polls apart are of one period.
    """
    order = Window.partitionBy("session").orderBy("mono_us")
    is_after_gap = F.col("gap_before_us").isNotNull()
    next_at_us = F.when(~F.lead(is_after_gap).over(order), F.lead("at_us").over(order))
    polls = poll.withColumns(
        {
            "number": F.row_number().over(order),
            "next_at_us": next_at_us,
            "gaps_count": F.sum(is_after_gap.cast("int")).over(order),
        }
    )
    no_consumer = F.lit(None).cast("string")
    streams = F.transform("unreachable_streams", lambda name: F.array(name, no_consumer))
    names = F.explode(F.concat(streams, "unreachable_consumers")).alias("who")
    rows = polls.select("session", "number", "at_us", "next_at_us", "gaps_count", names)
    rows = rows.withColumns({"stream": F.get("who", F.lit(0)), "consumer": F.get("who", F.lit(1))})
    keys = ["session", "stream", "consumer", "gaps_count"]
    asset_order = Window.partitionBy(*keys).orderBy("number")
    is_new_period = (
        F.col("number") - F.lag("number").over(asset_order) > MAX_POLLS_BETWEEN_UNREACHABLE
    )
    rows = rows.withColumn("begins", F.coalesce(is_new_period, F.lit(True)).cast("int"))
    rows = rows.withColumn("run", F.sum("begins").over(asset_order))
    runs = rows.groupBy(*keys, "run").agg(
        F.min("at_us").alias("start"),
        F.max(F.coalesce("next_at_us", "at_us")).alias("end"),
    )
    detail = F.lit("its leader did not reply to the server")
    start, end = F.col("start"), F.col("end")
    return runs.select(
        _availability_columns("unreachable", start, end, None, detail, F.col("consumer"))
    )


def _event_periods(event: DataFrame, kind: str, is_end: Column, detail: Column) -> DataFrame:
    """Return the periods from an event of a kind to the next event for which `is_end` is true."""
    is_start = F.col("kind") == kind
    rows = event.where(is_start | is_end)
    order = Window.partitionBy("session", "what").orderBy("at_us")
    later_rows = order.rowsBetween(1, Window.unboundedFollowing)
    end = F.min(F.when(is_end, F.col("at_us"))).over(later_rows)
    rows = rows.withColumns({"end": end, "was": F.lag("kind").over(order)})
    is_first_start = is_start & ~F.coalesce(F.col("was") == kind, F.lit(False))
    rows = rows.where(is_first_start).withColumn("stream", F.lit(None))
    return rows.select(_availability_columns(kind, F.col("at_us"), F.col("end"), None, detail))


def _connection_gaps(event: DataFrame) -> DataFrame:
    """Return the periods without a connection, except after a link that was closed on purpose."""
    link_events = event.where(
        (F.col("kind") == "link_changed") & ~F.col("what").eqNullSafe("closed")
    )
    is_connected = F.col("state") == "connected"
    link_events = link_events.withColumns({"state": F.col("what"), "what": F.lit("link")})
    link_events = link_events.withColumn(
        "kind", F.when(is_connected, "connected").otherwise("disconnected")
    )
    first_at_us = F.min("at_us").over(Window.partitionBy("session"))
    link_events = link_events.withColumn("first_at_us", first_at_us)
    # Before the first connection nothing was lost.
    link_events = link_events.where((F.col("at_us") > F.col("first_at_us")) | is_connected).drop(
        "first_at_us"
    )
    link_events = link_events.where((F.col("state") != "connecting") | is_connected)
    is_end = F.col("kind") == "connected"
    return _event_periods(link_events, "disconnected", is_end, F.col("text"))


def _slow_buckets(poll: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the buckets with a median round trip much longer than the median of the session."""
    rows = poll.where(F.col("api_rtt_us").isNotNull())
    medians = rows.groupBy("session").agg(F.median("api_rtt_us").alias("usual_us"))
    bucket = bucket_start("at_us", thresholds.bucket_us).alias("start")
    rows = rows.groupBy("session", bucket).agg(F.median("api_rtt_us").alias("median_us"))
    rows = rows.join(F.broadcast(medians), "session")
    is_slow = F.col("median_us") >= thresholds.api_slow_factor_ratio * F.col("usual_us")
    rows = rows.where(is_slow).withColumn("stream", F.lit(None))
    end = F.col("start") + thresholds.bucket_us
    detail = F.format_string("usual %.0f µs", F.col("usual_us"))
    return rows.select(
        _availability_columns("api_slow", F.col("start"), end, F.col("median_us"), detail)
    )


def _leader_changes(silver: Silver) -> DataFrame:
    """Return the changes of a stream's leader between two samples.

    Streams without replicas are left out: they have no elections, but a restarted server may have
    another name.
    """
    previous_leader, leader = F.col("leader_before"), F.col("leader")
    has_changed = previous_leader.isNotNull() & leader.isNotNull() & (previous_leader != leader)
    rows = silver.stream_sample.where(has_changed & (F.col("peers_count") > 0))
    detail = F.concat_ws(" → ", previous_leader, leader)
    return rows.select(_availability_columns("leader_change", F.col("at_us"), None, None, detail))


def _replica_periods(silver: Silver) -> DataFrame:
    """Return the periods in which a stream had no leader, or a replica was away or lagging.

    A gap ends a period.
    """
    has_lagging_replica = F.col("peer_lag_msgs") > PEER_LAG_MSGS
    has_away_replica = F.col("away_peers_count") > 0
    has_no_leader = F.col("leader").isNull() & (F.col("peers_count") > 0)
    replica_state = (
        F.when(has_no_leader, "leader_absent")
        .when(has_away_replica, "replica_away")
        .when(has_lagging_replica, "replica_lag")
    )
    rows = silver.stream_sample.withColumn("state", replica_state)
    # Only replicated streams can lose a leader or a replica.
    rows = rows.where(F.col("peers_count") > 0)
    order = Window.partitionBy("series_id", "gaps_count").orderBy("mono_us")
    has_changed = ~F.col("state").eqNullSafe(F.lag("state").over(order))
    rows = rows.withColumn("run", F.sum(has_changed.cast("int")).over(order))
    runs = rows.where(F.col("state").isNotNull())
    keys = ("series_id", "session", "stream", "gaps_count", "run", "state")
    periods = runs.groupBy(*keys).agg(
        F.min("at_us").alias("start"),
        F.max("at_us").alias("end"),
        F.max("peer_lag_msgs").alias("lag_msgs"),
        F.max("away_peers_count").alias("away_count"),
    )
    lag_text = F.concat(F.lit("up to "), count_text(F.col("lag_msgs"), "entry", "entries"))
    away_text = F.concat(count_text(F.col("away_count"), "replica"), F.lit(" without contact"))
    detail = F.when(F.col("away_count") > 0, away_text).when(
        F.col("lag_msgs") > PEER_LAG_MSGS, F.concat(lag_text, F.lit(" behind"))
    )
    lag_msgs = F.when(F.col("state") == "replica_lag", F.col("lag_msgs"))
    return periods.select(
        _availability_columns(F.col("state"), F.col("start"), F.col("end"), lag_msgs, detail)
    )


_WEIGHT_BY_KIND = {
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


def find_availability_problems(periods: DataFrame) -> DataFrame:
    """Return a finding for each row of `availability`."""
    weights = F.create_map(
        *(F.lit(key_or_value) for pair in _WEIGHT_BY_KIND.items() for key_or_value in pair)
    )
    duration_weight = F.least(F.coalesce("duration_s", F.lit(0.0)) / 60, F.lit(10.0))
    has_duration = F.col("duration_s").isNotNull()
    duration_clause = F.when(
        has_duration, F.concat(F.lit(" for "), duration_text("duration_s"))
    ).otherwise("")
    sentence = F.concat(F.replace("kind", F.lit("_"), F.lit(" ")), duration_clause)
    is_clock_step = F.col("kind") == "clock_step"
    evidence = F.when(
        is_clock_step, "all times are shown as if the clock had not been set"
    ).otherwise(F.coalesce("detail", F.lit("")))
    texts = (F.when(is_clock_step, F.col("detail")).otherwise(sentence), evidence)
    subject = F.coalesce(F.nullif(consumer_text(), F.lit("")), F.lit("monitoring"))
    weight = weights[F.col("kind")] + duration_weight
    return build_findings(periods, "availability", subject, weight, texts, F.col("kind"))


REPORT_POSITION = 120
GOLD_TABLES = (
    GoldTable(
        AVAILABILITY,
        lambda inputs: compute_availability(inputs.silver, inputs.thresholds),
        findings=(find_availability_problems,),
        section=Section(
            "Availability",
            ("session", "kind", "stream", "consumer", "start_at_us", "duration_s", "detail"),
            "No gaps, no elections, nothing slow.",
        ),
        sorted_by=("start_at_us",),
        min_rows_count=TIMELINE_ROWS_COUNT,
    ),
)
