"""Stream and consumer samples: one row each, with the change since the sample before.

This is the only place that sorts samples: everything later is a scan. Rates stop at a gap of the
recording, at a counter that went backwards, and at another creation time.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.records import POLL
from natstui.analysis.silver.columns import exploded
from natstui.analysis.silver.index import clock_moved_us
from natstui.analysis.silver.tables import CONSUMER_SAMPLE, STREAM_SAMPLE
from natstui.analysis.tables import Table

_BEFORE = "before_"
_NOT_KEPT = ("pinned_at_us", "replicas", "desired")
"""Columns that no table has: to unfold them costs as much as any other."""


def stream_samples(lines: DataFrame, gap_ends: DataFrame) -> DataFrame:
    """Return `stream_sample`: one row per stream and poll that read it."""
    rows = _rows(lines, gap_ends, "streams", _kept(schema.STREAM_COLUMNS))
    rows = rows.withColumnRenamed("name", "stream").withColumns(
        {
            "series_id": F.xxhash64("session", "stream", "created_at_us"),
        }
    )
    rows = _with_before(rows, STREAM_SAMPLE, "last_seq", "stored_msgs", "stored_bytes", "leader")
    rows = _stepped(rows, reset=_change("last_seq") < 0)
    rows = rows.withColumns(
        {
            "published_msgs": _step("last_seq"),
            "grown_msgs": _step("stored_msgs"),
            "grown_bytes": _step("stored_bytes"),
            "leader_before": _before("leader"),
        }
    )
    return STREAM_SAMPLE.contract(rows.select("*", "rest.*"))


def _kept(columns: schema.Fields) -> schema.Fields:
    return {name: type_text for name, type_text in columns.items() if name not in _NOT_KEPT}


def consumer_samples(lines: DataFrame, gap_ends: DataFrame) -> DataFrame:
    """Return `consumer_sample`: one row per consumer and poll that read it."""
    rows = _rows(lines, gap_ends, "consumers", _kept(schema.CONSUMER_COLUMNS))
    rows = rows.withColumnRenamed("name", "consumer").withColumns(
        {
            "series_id": F.xxhash64("session", "stream", "consumer", "created_at_us"),
            "outstanding": (F.col("pending_msgs") > 0) | (F.col("ack_pending_msgs") > 0),
        }
    )
    counters = ("delivered_consumer_seq", "delivered_stream_seq", "ack_floor_consumer_seq",
                "ack_floor_stream_seq")  # fmt: skip
    rows = _with_before(rows, CONSUMER_SAMPLE, *counters, "pending_msgs", "outstanding")
    backwards = [_change(name) < 0 for name in ("delivered_consumer_seq", "ack_floor_stream_seq")]
    rows = _stepped(rows, reset=backwards[0] | backwards[1])
    behind, stays = F.col("pending_msgs") > 0, _change("ack_floor_stream_seq") == 0
    rows = rows.withColumns(
        {
            "delivered_msgs": _step("delivered_consumer_seq"),
            "fresh_msgs": _step("delivered_stream_seq"),
            "settled_msgs": _step("ack_floor_consumer_seq"),
            "stuck_start_us": _start(F.col("outstanding"), _before("outstanding") & stays),
            "behind_start_us": _start(behind, _before("pending_msgs") > 0),
        }
    )
    # The columns of the sample before are dropped before the rows are passed on.
    rows = rows.drop(*(name for name in rows.columns if name.startswith(_BEFORE)))
    rows = rows.withColumns(
        {
            "stuck_since_us": _since(F.col("outstanding"), "stuck_start_us"),
            "behind_since_us": _since(behind, "behind_start_us"),
        }
    )
    return CONSUMER_SAMPLE.contract(rows.select("*", "rest.*"))


def _rows(lines: DataFrame, gap_ends: DataFrame, where: str, fields: schema.Fields) -> DataFrame:
    """Return one row per asset and poll, with at_us, mono_us, epoch and replica columns."""
    polls = lines.where((F.col("kind") == POLL) & F.col(POLL).isNotNull()).select(
        "session",
        clock_moved_us(lines).alias("moved_us"),
        (F.col(POLL)["taken_mono_us"] + clock_moved_us(lines)).alias("taken_mono_us"),
        F.col(POLL)["taken_at_us"].alias("taken_at_us"),
        F.col(POLL)[where].alias("rows"),
    )
    rows = exploded(_cut(polls, gap_ends), where, fields)
    return (
        rows.withColumn("mono_us", F.col("sampled_mono_us") + F.col("moved_us"))
        .withColumn("at_us", F.col("taken_at_us") + F.col("mono_us") - F.col("taken_mono_us"))
        .drop("sampled_mono_us", "moved_us", "taken_at_us", "taken_mono_us")
    )


def _cut(polls: DataFrame, gap_ends: DataFrame) -> DataFrame:
    """Add `epoch`, the gaps before each poll, and take the steps of the wall clock away."""
    polls = polls.join(F.broadcast(gap_ends), "session", "left")
    passed = F.filter("gap_ends", lambda end: end <= F.col("taken_mono_us"))
    steps = F.filter("steps", lambda step: step["mono_us"] <= F.col("taken_mono_us"))
    set_us = F.coalesce(F.get(steps, F.size(steps) - 1)["set_us"], F.lit(0))
    return polls.withColumns(
        {
            "epoch": F.coalesce(F.size(passed), F.lit(0)),
            "taken_at_us": F.coalesce(F.try_subtract("taken_at_us", set_us), "taken_at_us"),
        }
    ).drop("gap_ends", "steps")


def _series() -> WindowSpec:
    # The identity is inside the hash, so one 8-byte key partitions and sorts.
    return Window.partitionBy("series_id").orderBy("mono_us")


def _with_before(rows: DataFrame, table: Table, *names: str) -> DataFrame:
    """Add those columns, and mono_us and epoch, as they were one sample earlier.

    All other columns of the table travel through the sort as one, `rest`: otherwise every step
    would copy them one by one.
    """
    needed = ("series_id", "at_us", "mono_us", "epoch", *names)
    others = [column.name for column in table.columns if column.name not in needed]
    rest = F.struct(*(name for name in others if name in rows.columns)).alias("rest")
    rows = rows.select(*needed, rest)
    # Side by side, not as a struct: that would be built and taken apart once per sample.
    return rows.withColumns(
        {_BEFORE + name: F.lag(name).over(_series()) for name in ("mono_us", "epoch", *names)}
    )


def _before(name: str) -> Column:
    return F.col(_BEFORE + name)


def _change(name: str) -> Column:
    return F.col(name) - _before(name)


def _stepped(rows: DataFrame, reset: Column) -> DataFrame:
    """Add `reset` and `elapsed_us`: null where the change is not known."""
    backwards = F.coalesce(reset, F.lit(False))
    # While a node was away, a row that could not be read again is in two polls.
    newer = F.col("mono_us") > _before("mono_us")
    known = (F.col("epoch") == _before("epoch")) & ~backwards & newer
    return rows.withColumns({"reset": backwards, "elapsed_us": F.when(known, _change("mono_us"))})


def _step(name: str) -> Column:
    return F.when(F.col("elapsed_us").isNotNull(), _change(name))


def _start(state: Column, stays: Column) -> Column:
    """Return the moment of a sample at which a state begins; null at every other.

    A gap does not break it: a counter that only grows and is the same afterwards did not move.
    """
    return F.when(state & ~F.coalesce(stays, F.lit(False)), F.col("at_us"))


def _since(state: Column, start: str) -> Column:
    """Return since when a state holds without a break; null where it does not hold."""
    so_far = _series().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.when(state, F.last(start, ignorenulls=True).over(so_far))
