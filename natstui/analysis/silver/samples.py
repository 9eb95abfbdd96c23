"""Stream and consumer samples: one row each, with the change since the previous sample.

The columns of a poll become rows here. Samples are sorted only here: everything later is a scan.
Rates stop at a gap of the recording, at a counter that decreased, and at another creation time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.records import POLL, is_packed
from natstui.analysis.bronze.schema import PACKED_AS
from natstui.analysis.silver.index import clock_moved_us
from natstui.analysis.silver.tables import CONSUMER_SAMPLE, STREAM_SAMPLE
from natstui.analysis.tables import CONSUMER_KEY, STREAM_KEY, Table, series_id
from natstui.model.findings.thresholds import PEER_ACTIVE_S
from natstui.model.live.column_differences import NEAR_BELOW_US
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns, later_columns

_BEFORE = "before_"
_NOT_KEPT = ("pinned_at_us", "replicas", "desired")
"""Columns that are in no table: unfolding them would cost as much as any other."""


def stream_samples(lines: DataFrame, gap_ends: DataFrame) -> DataFrame:
    """Return `stream_sample`: one row per stream and poll with it."""
    rows = _rows(lines, gap_ends, "streams", _kept(schema.STREAM_COLUMNS))
    rows = rows.withColumnRenamed("name", "stream").withColumn("series_id", series_id(STREAM_KEY))
    rows = _with_previous(rows, STREAM_SAMPLE, "last_seq", "stored_msgs", "stored_bytes", "leader")
    rows = _with_elapsed(rows, reset=_change("last_seq") < 0)
    rows = rows.withColumns(
        {
            "published_msgs": _step("last_seq"),
            "grown_msgs": _step("stored_msgs"),
            "grown_bytes": _step("stored_bytes"),
            "leader_before": _previous("leader"),
        }
    )
    return STREAM_SAMPLE.contract(rows.select("*", "rest.*"))


def _kept(columns: schema.Fields) -> schema.Fields:
    return {name: type_text for name, type_text in columns.items() if name not in _NOT_KEPT}


def consumer_samples(lines: DataFrame, gap_ends: DataFrame) -> DataFrame:
    """Return `consumer_sample`: one row per consumer and poll with it."""
    rows = _rows(lines, gap_ends, "consumers", _kept(schema.CONSUMER_COLUMNS))
    rows = rows.withColumnRenamed("name", "consumer").withColumns(
        {
            "series_id": series_id(CONSUMER_KEY),
            "outstanding": (F.col("pending_msgs") > 0) | (F.col("ack_pending_msgs") > 0),
        }
    )
    counters = ("delivered_consumer_seq", "delivered_stream_seq", "ack_floor_consumer_seq",
                "ack_floor_stream_seq")  # fmt: skip
    rows = _with_previous(rows, CONSUMER_SAMPLE, *counters, "pending_msgs", "outstanding")
    backwards = [_change(name) < 0 for name in ("delivered_consumer_seq", "ack_floor_stream_seq")]
    rows = _with_elapsed(rows, reset=backwards[0] | backwards[1])
    behind, stays = F.col("pending_msgs") > 0, _change("ack_floor_stream_seq") == 0
    rows = rows.withColumns(
        {
            "delivered_msgs": _step("delivered_consumer_seq"),
            "fresh_msgs": _step("delivered_stream_seq"),
            "settled_msgs": _step("ack_floor_consumer_seq"),
            "stuck_start_us": _start(F.col("outstanding"), _previous("outstanding") & stays),
            "behind_start_us": _start(behind, _previous("pending_msgs") > 0),
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
    rows = explode_columns(_with_epochs(polls, gap_ends), where, fields)
    return (
        rows.withColumn("mono_us", F.col("sampled_mono_us") + F.col("moved_us"))
        .withColumn("at_us", F.col("taken_at_us") + F.col("mono_us") - F.col("taken_mono_us"))
        .drop("sampled_mono_us", "moved_us", "taken_at_us", "taken_mono_us")
    )


def _with_epochs(polls: DataFrame, gap_ends: DataFrame) -> DataFrame:
    """Add `epoch`, the number of gaps before a poll, and subtract the steps of the wall clock."""
    polls = polls.join(F.broadcast(gap_ends), "session", "left")
    past_gap_ends = F.filter("gap_ends", lambda end: end <= F.col("taken_mono_us"))
    steps = F.filter("steps", lambda step: step["mono_us"] <= F.col("taken_mono_us"))
    set_us = F.coalesce(F.get(steps, F.size(steps) - 1)["set_us"], F.lit(0))
    return polls.withColumns(
        {
            "epoch": F.coalesce(F.size(past_gap_ends), F.lit(0)),
            "taken_at_us": F.coalesce(F.try_subtract("taken_at_us", set_us), "taken_at_us"),
        }
    ).drop("gap_ends", "steps")


_PACKED = "_packed"
"""Name of the column with whether the five columns of a poll or sample are differences."""
_ALL = "all_"
"""Prefix of the name of a column that still has all values of a poll."""
_TABLES = {"streams": StreamColumns, "consumers": ConsumerColumns}


def explode_columns(polls: DataFrame, where: str, fields: schema.Fields) -> DataFrame:
    """Return one row per position of the columns in the struct `rows`, with a column for each.

    `where` is streams or consumers; the other columns of a poll are repeated in each row.
    """
    rows, is_consumers = F.col("rows"), where == "consumers"
    poll_columns = [name for name in polls.columns if name != "rows"]
    if is_consumers:
        polls = polls.withColumn(_PACKED, is_packed(rows))
        poll_columns.append(_PACKED)
    # Columns by themselves are looked up once per poll, inside a struct once per sample.
    polls = polls.select(
        *poll_columns,
        *(
            _recorded_values(rows, where, name, type_text).alias(_ALL + name)
            for name, type_text in fields.items()
        ),
    )
    lists = {
        name: list_value
        for name, list_value in _LIST_VALUES.items()
        if list_value.list_name in fields
    }
    polls = polls.withColumns(
        {_ALL + name: _list_values(list_value) for name, list_value in lists.items()}
    )
    samples = polls.select("*", F.posexplode(_ALL + "name").alias("_i", "_name"))
    list_fields = {list_value.list_name for list_value in lists.values()}
    picked = [name for name in fields if name not in list_fields]
    # Picking by position is cheaper than arrays_zip, which builds an object per row.
    picks = (F.get(_ALL + name, F.col("_i")).alias(name) for name in (*picked, *lists))
    samples = samples.select(*poll_columns, *picks)
    return _replace_differences(samples) if is_consumers else samples


def _recorded_values(rows: Column, where: str, name: str, type_text: str) -> Column:
    """Return all values of a column, or the recorded differences that replace them.

    A column that is missing in an older recording is filled with the value for unknown.
    """
    column = rows[name]
    if name in later_columns(_TABLES[where]):
        filled = F.array_repeat(_unknown(type_text), F.size(rows["name"]))
        column = F.when(F.size(column) > 0, column).otherwise(filled)
    if where == "consumers" and name in PACKED_AS:
        return F.when(F.col(_PACKED), rows[PACKED_AS[name]]).otherwise(column)
    return column


def _unknown(type_text: str) -> Column:
    if type_text.endswith("?"):
        return F.lit(None).cast(schema.spark_type(type_text))
    return F.lit(False) if type_text == "boolean" else F.array().cast(type_text)


def _replace_differences(rows: DataFrame) -> DataFrame:
    """Return rows with the differences in the five columns replaced by values, if `_packed`.

    `rows` has one row per consumer, with `taken_at_us`.
    """
    packed, consumer_seq = F.col(_PACKED), F.col("delivered_consumer_seq")
    ahead = F.when(packed, consumer_seq).otherwise(F.lit(0).cast("bigint"))
    stream_seq = F.col("delivered_stream_seq") + ahead
    delivered_us = _time("delivered_at_us", F.col("taken_at_us"))
    filled = {
        "delivered_stream_seq": stream_seq,
        "ack_floor_consumer_seq": _behind("ack_floor_consumer_seq", consumer_seq),
        "ack_floor_stream_seq": _behind("ack_floor_stream_seq", stream_seq),
        "delivered_at_us": delivered_us,
        "acked_at_us": _time("acked_at_us", F.coalesce(delivered_us, F.col("taken_at_us"))),
    }
    return rows.withColumns(filled).drop(_PACKED)


def _behind(name: str, seq: Column) -> Column:
    return F.when(F.col(_PACKED), seq - F.col(name)).otherwise(F.col(name))


def _time(near: str, base_us: Column) -> Column:
    """Return a time that may be recorded as its difference to `base_us`."""
    difference = F.col(_PACKED) & (F.col(near) < NEAR_BELOW_US)
    return F.when(difference, F.col(near) + base_us).otherwise(F.col(near))


class _ListValue(NamedTuple):
    """A value that is read from a list of each sample."""

    list_name: str
    read: Callable[[Column], Column]
    empty_value: int | None
    """Value for an empty list."""


def _away_replicas(peers: Column) -> Column:
    """Return the replicas that are away by the rule of `model.servers.replicas.is_away`."""

    def is_away(peer: Column) -> Column:
        active_ns = F.nullif(peer["active_ns"], F.lit(0))
        silent = F.coalesce(active_ns > PEER_ACTIVE_S * 1e9, ~peer["current"])
        # What cannot be read of a replica is no proof that it is there.
        return F.coalesce(peer["offline"] | silent, F.lit(True))

    return F.filter(peers, is_away)


_LIST_VALUES = {
    "peers_count": _ListValue("peers", F.size, 0),
    "away_peers_count": _ListValue("peers", lambda peers: F.size(_away_replicas(peers)), 0),
    "peer_lag_msgs": _ListValue("peers", lambda peers: F.array_max(peers["lag_msgs"]), None),
    "upstream_lag_msgs": _ListValue(
        "upstreams", lambda upstreams: F.array_max(upstreams["lag_msgs"]), None
    ),
}
"""Column → its value read from a list of each sample; the lists are not in the table."""


def _list_values(list_value: _ListValue) -> Column:
    list_column = F.col(_ALL + list_value.list_name)
    values = F.transform(list_column, list_value.read)
    empty_values = F.array_repeat(F.lit(list_value.empty_value), F.size(list_column))
    # Most polls have none: a lambda takes its time with each sample.
    return F.when(F.size(F.flatten(list_column)) == 0, empty_values).otherwise(values)


def _series() -> WindowSpec:
    # The identity is inside the hash, so one 8-byte key partitions and sorts.
    return Window.partitionBy("series_id").orderBy("mono_us")


def _with_previous(rows: DataFrame, table: Table, *names: str) -> DataFrame:
    """Add the columns `names`, mono_us and epoch of the previous sample.

    All other columns of the table are sorted as a single struct `rest`: otherwise every step would
    copy them separately.
    """
    kept_names = ("series_id", "at_us", "mono_us", "epoch", *names)
    other_names = [column.name for column in table.columns if column.name not in kept_names]
    rest = F.struct(*(name for name in other_names if name in rows.columns)).alias("rest")
    rows = rows.select(*kept_names, rest)
    # Side by side, not as a struct: that would be built and taken apart once per sample.
    return rows.withColumns(
        {_BEFORE + name: F.lag(name).over(_series()) for name in ("mono_us", "epoch", *names)}
    )


def _previous(name: str) -> Column:
    return F.col(_BEFORE + name)


def _change(name: str) -> Column:
    return F.col(name) - _previous(name)


def _with_elapsed(rows: DataFrame, reset: Column) -> DataFrame:
    """Add `reset` and `elapsed_us`, which is null if the change is unknown."""
    backwards = F.coalesce(reset, F.lit(False))
    # While a node was away, a row that could not be read again is in two polls.
    newer = F.col("mono_us") > _previous("mono_us")
    is_known_change = (F.col("epoch") == _previous("epoch")) & ~backwards & newer
    return rows.withColumns(
        {"reset": backwards, "elapsed_us": F.when(is_known_change, _change("mono_us"))}
    )


def _step(name: str) -> Column:
    return F.when(F.col("elapsed_us").isNotNull(), _change(name))


def _start(state: Column, stays: Column) -> Column:
    """Return the time of a sample at which a state begins; null at all others.

    A gap does not end a state: a counter that only grows and is equal afterwards did not change.
    """
    return F.when(state & ~F.coalesce(stays, F.lit(False)), F.col("at_us"))


def _since(state: Column, start: str) -> Column:
    """Return the time since which a state holds without a break; null if it does not hold."""
    so_far = _series().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.when(state, F.last(start, ignorenulls=True).over(so_far))
