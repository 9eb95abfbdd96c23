"""Table of the events of a session: what users did, what the system reported, and problems.

The list of events in a report is made of its rows with the lowest `rank`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.changes import configuration_changes
from natstui.analysis.gold.gold_table import (
    TIMELINE_ROWS_COUNT,
    GoldInputs,
    GoldTable,
    count_text,
)
from natstui.analysis.gold.redelivery import ELECTION_KINDS
from natstui.analysis.gold.shared.harm import REPORTED_SEVERITIES
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

MEANING_BY_KIND = {
    "note": "a note of a person",
    "configuration": "a changed configuration",
    "command": "a command of the user and its outcome",
    "recorder": "a restart of the recorder, or records that it could not write",
    "connection": "a lost or restored connection",
    "benchmark": "the steady part of a benchmark",
    "dropped": "a message dropped after max deliver",
    "stuck": "a consumer that stopped",
    "availability": "another outage, slow replies, or a change seen in polls",
    "finding": "a recorded finding",
    "lag": "a consumer that lagged",
    "redelivery": "an interval with many redeliveries",
    "election": "an elected leader",
}
"""Kind of event → its meaning; the first kinds have the lowest ranks."""
EVENTS_OF_A_TURN_COUNT = 15
"""Number of events of a kind that are ranked in turn: no kind hides the others."""

_ELECTION_POLL_US = 120_000_000
"""Maximum time (µs) between an election and the poll that has the new leader."""

TIMELINE_EVENT = Table(
    "timeline_event",
    "Events of a session: changes, commands, the connection, elections, problems, notes.",
    columns(
        SESSION_COLUMN,
        (
            "rank",
            "bigint",
            f"Order of importance in the session, from 1: {EVENTS_OF_A_TURN_COUNT} events of each "
            "kind in turn, in the order of the kinds and of time",
        ),
        ("kind", "string", f"Kind of event: {', '.join(MEANING_BY_KIND)}"),
        ("at_us", "bigint", "When it happened or began"),
        ("end_at_us", "bigint", "When it ended; null for a moment, or if it did not end"),
        ("stream", "string", "The stream concerned"),
        ("consumer", "string", "The consumer concerned"),
        ("text", "string", "What happened"),
    ),
    key=("session", "rank"),
)


def compute_timeline_event(inputs: GoldInputs) -> DataFrame:
    """Return `timeline_event`: the events of all kinds, each with its rank in its session."""
    event_tables = [*_recorded_events(inputs)]
    for name, events_of in _EVENTS_BY_GOLD_TABLE.items():
        # A table without rows has no events, and would only make the plan longer.
        if not inputs.is_empty(name):
            event_tables += events_of(inputs.gold(name), inputs)
    rows = reduce(lambda rows, part: rows.unionAll(part), event_tables)
    kinds = F.array(*(F.lit(kind) for kind in MEANING_BY_KIND))
    time_order = ("at_us", "end_at_us", "stream", "consumer", "text")
    kind_order = Window.partitionBy("session", "kind").orderBy(*time_order)
    turn = F.floor((F.row_number().over(kind_order) - 1) / EVENTS_OF_A_TURN_COUNT)
    rows = rows.withColumns({"turn": turn, "position": F.array_position(kinds, F.col("kind"))})
    order = Window.partitionBy("session").orderBy("turn", "position", *time_order)
    return TIMELINE_EVENT.conform(rows.withColumn("rank", F.row_number().over(order)))


def _event_rows(
    rows: DataFrame, kind: str, text: Column, at_us: str = "at_us", end_at_us: str | None = None
) -> DataFrame:
    """Return a row of an event per row; `at_us` and `end_at_us` are the columns of its times."""
    names, no_name, no_time = rows.columns, "CAST(NULL AS string)", "CAST(NULL AS bigint)"
    return rows.select(
        "session",
        F.lit(kind).alias("kind"),
        F.col(at_us).alias("at_us"),
        F.expr(end_at_us or no_time).alias("end_at_us"),
        *(
            F.expr(name if name in names else no_name).alias(name)
            for name in ("stream", "consumer")
        ),
        text.alias("text"),
    )


def _recorded_events(inputs: GoldInputs) -> Iterator[DataFrame]:
    """Yield the events that only silver tables have."""
    silver = inputs.silver
    changes = configuration_changes(silver.configuration).withColumnsRenamed(
        {"changed_consumer": "consumer", "changed_at_us": "at_us"}
    )
    change_text = F.concat(F.lit("configuration changed: "), "change")
    yield _event_rows(changes, "configuration", change_text)
    commands = silver.event.where(F.col("kind") == "outcome")
    yield _event_rows(
        commands, "command", F.concat(F.lit("command "), "what", F.lit(": "), "text")
    )
    starts = silver.event.where(F.col("kind") == "engine_started")
    start_order = Window.partitionBy("session").orderBy("at_us")
    restarts = starts.withColumn("number", F.row_number().over(start_order)).where("number > 1")
    restart_text = F.concat(F.lit("the recorder started again: natstui "), "text")
    yield _event_rows(restarts, "recorder", restart_text)
    losses = silver.event.where(F.col("kind") == "gap")
    loss_text = F.concat(F.lit("records before this may be missing: "), "text")
    yield _event_rows(losses, "recorder", loss_text)
    elections = silver.advisory.where(F.col("kind").isin(*ELECTION_KINDS))
    yield _event_rows(elections, "election", F.coalesce(_elected_text(), "text"))


def _elected_text() -> Column:
    """Return the text of an election; null if its leader is unknown."""
    return F.concat("leader", F.lit(" was elected leader"))


def _outages(availability: DataFrame, inputs: GoldInputs) -> Iterator[DataFrame]:
    """Yield the lost and restored connections, and all other rows of `availability`."""
    is_connection = F.col("kind") == "disconnected"
    lost_connections = availability.where(is_connection)
    lost_text = F.concat_ws(": ", F.lit("connection lost"), "detail")
    yield _event_rows(lost_connections, "connection", lost_text, "start_at_us", "end_at_us")
    restored_connections = lost_connections.where(F.col("end_at_us").isNotNull())
    restored_text = F.lit("connection restored")
    yield _event_rows(restored_connections, "connection", restored_text, "end_at_us")
    elections = inputs.silver.advisory.where(F.col("kind") == ELECTION_KINDS[0]).select(
        "session", "stream", F.col("at_us").alias("elected_at_us")
    )
    change, election = availability.alias("change"), elections.alias("election")
    # An election shortly before is an event itself: the change in the polls would repeat it.
    is_of_election = (
        (F.col("change.session") == F.col("election.session"))
        & (F.col("change.stream") == F.col("election.stream"))
        & (F.abs(F.col("change.start_at_us") - F.col("elected_at_us")) <= _ELECTION_POLL_US)
    )
    leader_changes = change.where(F.col("kind") == "leader_change").join(
        election, is_of_election, "left_anti"
    )
    others = availability.where(~is_connection & (F.col("kind") != "leader_change"))
    for rows in (others, leader_changes):
        kind_text = F.replace("kind", F.lit("_"), F.lit(" "))
        median_text = F.when(
            F.col("kind") == "api_slow", F.format_string("median %.0f µs", "value")
        )
        details_text = F.nullif(F.concat_ws(", ", median_text, "detail"), F.lit(""))
        text = F.concat_ws(": ", kind_text, details_text)
        yield _event_rows(rows, "availability", text, "start_at_us", "end_at_us")


def _benchmarks(bench_steady: DataFrame, _: GoldInputs) -> Iterator[DataFrame]:
    runs = bench_steady.groupBy("session", "run_id").agg(
        F.min("start_at_us").alias("start_at_us"), F.max("end_at_us").alias("end_at_us")
    )
    text = F.concat(F.lit("benchmark "), "run_id")
    yield _event_rows(runs, "benchmark", text, "start_at_us", "end_at_us")


def _dropped_messages(poison: DataFrame, _: GoldInputs) -> Iterator[DataFrame]:
    text = F.format_string("message %d dropped after max deliver", "stream_seq")
    yield _event_rows(poison.where("given_up"), "dropped", text, "last_at_us")


def _findings(findings: DataFrame, _: GoldInputs) -> Iterator[DataFrame]:
    name = F.concat("word", F.lit(" ("), "code", F.lit(")"))
    text = F.concat_ws(": ", name, F.nullif("evidence", F.lit("")))
    rows = findings.where(F.col("severity").isin(*REPORTED_SEVERITIES))
    yield _event_rows(rows, "finding", text, "start_at_us", "end_at_us")


def _stuck(stuck: DataFrame, _: GoldInputs) -> Iterator[DataFrame]:
    text = F.concat(F.lit("stuck: "), "cause")
    yield _event_rows(stuck, "stuck", text, "start_at_us", "end_at_us")


def _lag_periods(lag_period: DataFrame, _: GoldInputs) -> Iterator[DataFrame]:
    text = F.format_string("lagging, up to %d pending", "pending_max_msgs")
    yield _event_rows(lag_period, "lag", text, "start_at_us", "end_at_us")


def _hot_spots(hot_spots: DataFrame, inputs: GoldInputs) -> Iterator[DataFrame]:
    rows = hot_spots.withColumn("end_at_us", F.col("bucket_at_us") + inputs.thresholds.bucket_us)
    text = F.concat(count_text(F.col("repeated_msgs"), "message"), F.lit(" delivered again"))
    yield _event_rows(rows, "redelivery", text, "bucket_at_us", "end_at_us")


def _notes(note: DataFrame, _: GoldInputs) -> Iterator[DataFrame]:
    yield _event_rows(note, "note", F.col("text"))


_EVENTS_BY_GOLD_TABLE = {
    "note": _notes,
    "bench_steady": _benchmarks,
    "poison": _dropped_messages,
    "stuck": _stuck,
    "availability": _outages,
    "findings": _findings,
    "lag_period": _lag_periods,
    "redelivery_hot_spot": _hot_spots,
}
"""Gold table → function that returns the events of its rows."""


REPORT_POSITION = 175
GOLD_TABLES = (
    GoldTable(
        TIMELINE_EVENT,
        compute_timeline_event,
        input_names=tuple(_EVENTS_BY_GOLD_TABLE),
        sorted_by=("rank", "session"),
        min_rows_count=TIMELINE_ROWS_COUNT,
    ),
)
