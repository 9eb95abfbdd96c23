"""Stream and consumer samples: one row each, with the change since the previous sample.

The columns of a poll become rows here. Samples are sorted only here; later steps scan them. The
change is null after a gap of the recording, and if a counter decreased. A recreated stream or
consumer is another series.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.records import POLL, has_differences
from natstui.analysis.silver.index import clock_shift_us, with_span_values
from natstui.analysis.silver.tables import CONSUMER_SAMPLE, STREAM_SAMPLE
from natstui.analysis.tables import CONSUMER_KEY, STREAM_KEY, Table, series_id
from natstui.model.findings.thresholds import PEER_OFFLINE_AFTER_S
from natstui.model.live.column_differences import DIFFERENCE_COLUMN_BY_COLUMN, MIN_ABSOLUTE_TIME_US
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns, added_columns

_PREVIOUS_PREFIX = "before_"
_OMITTED_COLUMNS = ("pinned_at_us", "replicas", "desired")
"""Columns that no table has, and that therefore are not read."""
_SERVER_TIME_COLUMNS = {
    "streams": ("first_at_us", "last_at_us"),
    "consumers": ("delivered_at_us", "acked_at_us", "next_at_us"),
}
"""Columns with times of the server's clock."""


def stream_samples(lines: DataFrame, epochs: DataFrame) -> DataFrame:
    """Return `stream_sample`: one row per stream and poll that has the stream."""
    rows = _sample_rows(lines, epochs, "streams", _without_omitted_columns(schema.STREAM_COLUMNS))
    rows = rows.withColumnRenamed("name", "stream").withColumn("series_id", series_id(STREAM_KEY))
    rows = _with_previous(rows, STREAM_SAMPLE, "last_seq", "stored_msgs", "stored_bytes", "leader")
    rows = _with_elapsed(rows, reset=_change_from_previous("last_seq") < 0)
    rows = rows.withColumns(
        {
            "published_msgs": _known_change("last_seq"),
            "grown_msgs": _known_change("stored_msgs"),
            "grown_bytes": _known_change("stored_bytes"),
            "leader_before": _previous_value("leader"),
            "gaps_count": F.col("epoch"),
        }
    )
    return STREAM_SAMPLE.conform(rows.select("*", "rest.*"))


def _without_omitted_columns(columns: schema.SparkTypeByColumn) -> schema.SparkTypeByColumn:
    return {name: type_text for name, type_text in columns.items() if name not in _OMITTED_COLUMNS}


def consumer_samples(lines: DataFrame, epochs: DataFrame) -> DataFrame:
    """Return `consumer_sample`: one row per consumer and poll that has the consumer."""
    rows = _sample_rows(
        lines, epochs, "consumers", _without_omitted_columns(schema.CONSUMER_COLUMNS)
    )
    rows = rows.withColumnRenamed("name", "consumer").withColumns(
        {
            "series_id": series_id(CONSUMER_KEY),
            "outstanding": (F.col("pending_msgs") > 0) | (F.col("ack_pending_msgs") > 0),
        }
    )
    counters = ("delivered_consumer_seq", "delivered_stream_seq", "ack_floor_consumer_seq",
                "ack_floor_stream_seq")  # fmt: skip
    rows = _with_previous(rows, CONSUMER_SAMPLE, *counters, "pending_msgs", "outstanding")
    decrease_conditions = [
        _change_from_previous(name) < 0
        for name in ("delivered_consumer_seq", "ack_floor_stream_seq")
    ]
    rows = _with_elapsed(rows, reset=decrease_conditions[0] | decrease_conditions[1])
    has_pending_messages = F.col("pending_msgs") > 0
    is_unchanged = _change_from_previous("ack_floor_stream_seq") == 0
    # In a gap the pending messages may have been processed, and others stored.
    had_pending_messages = (_previous_value("pending_msgs") > 0) & (
        F.col("epoch") == _previous_value("epoch")
    )
    rows = rows.withColumns(
        {
            "delivered_msgs": _known_change("delivered_consumer_seq"),
            "fresh_msgs": _known_change("delivered_stream_seq"),
            "settled_msgs": _known_change("ack_floor_consumer_seq"),
            "stuck_start_us": _state_start_us(
                F.col("outstanding"), _previous_value("outstanding") & is_unchanged
            ),
            "behind_start_us": _state_start_us(has_pending_messages, had_pending_messages),
        }
    )
    # The columns of the previous sample are dropped before the next sort of rows.
    rows = rows.drop(*(name for name in rows.columns if name.startswith(_PREVIOUS_PREFIX)))
    rows = rows.withColumns(
        {
            "stuck_since_us": _last_state_start_us(F.col("outstanding"), "stuck_start_us"),
            "behind_since_us": _last_state_start_us(has_pending_messages, "behind_start_us"),
        }
    )
    return CONSUMER_SAMPLE.conform(rows.select("*", "rest.*"))


def _sample_rows(
    lines: DataFrame, epochs: DataFrame, asset_kind: str, fields: schema.SparkTypeByColumn
) -> DataFrame:
    """Return one row per asset of a kind and poll, with its values, at_us, mono_us and epoch.

    `asset_kind` is streams or consumers. Values from lists, such as replicas, are added.
    """
    polls = lines.where((F.col("kind") == POLL) & F.col(POLL).isNotNull()).select(
        "session",
        clock_shift_us(lines).alias("moved_us"),
        (F.col(POLL)["taken_mono_us"] + clock_shift_us(lines)).alias("taken_mono_us"),
        F.col(POLL)["taken_at_us"].alias("taken_at_us"),
        F.col(POLL)[asset_kind].alias("rows"),
    )
    # `epoch` is the number of gaps before a poll, `set_us` the clock steps before it.
    polls = with_span_values(polls, epochs, F.col("taken_mono_us"), "session")
    polls = polls.withColumns({name: F.coalesce(name, F.lit(0)) for name in ("epoch", "set_us")})
    rows = explode_columns(polls, asset_kind, fields)
    # Times of the server are moved, too: an age is by the clock that the recorder had.
    rows = rows.withColumns(
        {
            name: F.coalesce(F.try_subtract(name, "set_us"), name)
            for name in ("taken_at_us", *_SERVER_TIME_COLUMNS[asset_kind])
        }
    )
    return (
        rows.withColumn("mono_us", F.col("sampled_mono_us") + F.col("moved_us"))
        .withColumn("at_us", F.col("taken_at_us") + F.col("mono_us") - F.col("taken_mono_us"))
        .drop("sampled_mono_us", "moved_us", "taken_at_us", "taken_mono_us", "set_us")
    )


_HAS_DIFFERENCES_COLUMN = "_packed"
"""Name of the boolean column: the five columns of a poll or sample are differences."""
_ARRAY_COLUMN_PREFIX = "all_"
"""Prefix of the name of a column that has an array of the values of all rows of a poll."""
_COLUMN_CLASSES: dict[str, type[StreamColumns] | type[ConsumerColumns]] = {
    "streams": StreamColumns,
    "consumers": ConsumerColumns,
}


def explode_columns(
    polls: DataFrame, asset_kind: str, fields: schema.SparkTypeByColumn
) -> DataFrame:
    """Return a row per stream or consumer of each poll, from the arrays in the column `rows`.

    Each array becomes a column. `asset_kind` is streams or consumers. The other columns of a poll
    are repeated in each row.
    """
    rows, is_consumers = F.col("rows"), asset_kind == "consumers"
    poll_columns = [name for name in polls.columns if name != "rows"]
    if is_consumers:
        polls = polls.withColumn(_HAS_DIFFERENCES_COLUMN, has_differences(rows))
        poll_columns.append(_HAS_DIFFERENCES_COLUMN)
    # A separate column is read once per poll, a field of a struct once per sample.
    polls = polls.select(
        *poll_columns,
        *(
            _recorded_values(rows, asset_kind, name, type_text).alias(_ARRAY_COLUMN_PREFIX + name)
            for name, type_text in fields.items()
        ),
    )
    list_value_by_name = {
        name: list_value
        for name, list_value in _LIST_VALUE_BY_COLUMN.items()
        if list_value.list_name in fields
    }
    polls = polls.withColumns(
        {
            _ARRAY_COLUMN_PREFIX + name: _list_values(list_value)
            for name, list_value in list_value_by_name.items()
        }
    )
    samples = polls.select("*", F.posexplode(_ARRAY_COLUMN_PREFIX + "name").alias("_i", "_name"))
    list_fields = {list_value.list_name for list_value in list_value_by_name.values()}
    scalar_fields = [name for name in fields if name not in list_fields]
    # Reading by position is cheaper than arrays_zip, which builds an object per row.
    row_values = (
        F.get(_ARRAY_COLUMN_PREFIX + name, F.col("_i")).alias(name)
        for name in (*scalar_fields, *list_value_by_name)
    )
    samples = samples.select(*poll_columns, *row_values)
    return _replace_differences(samples) if is_consumers else samples


def _recorded_values(rows: Column, asset_kind: str, name: str, type_text: str) -> Column:
    """Return the array of the values of a column, or of the differences recorded instead.

    The values of a column that an older recording does not have are unknown.
    """
    column = rows[name]
    if name in added_columns(_COLUMN_CLASSES[asset_kind]):
        unknown_values = F.array_repeat(_unknown_value(type_text), F.size(rows["name"]))
        column = F.when(F.size(column) > 0, column).otherwise(unknown_values)
    if asset_kind == "consumers" and name in DIFFERENCE_COLUMN_BY_COLUMN:
        return F.when(
            F.col(_HAS_DIFFERENCES_COLUMN), rows[DIFFERENCE_COLUMN_BY_COLUMN[name]]
        ).otherwise(column)
    return column


def _unknown_value(type_text: str) -> Column:
    if type_text.endswith("?"):
        return F.lit(None).cast(schema.spark_type(type_text))
    return F.lit(False) if type_text == "boolean" else F.array().cast(type_text)


def _replace_differences(rows: DataFrame) -> DataFrame:
    """Return the rows with differences in the five columns replaced by values.

    `rows` has one row per consumer and poll, with `taken_at_us`.
    """
    has_difference, consumer_seq = F.col(_HAS_DIFFERENCES_COLUMN), F.col("delivered_consumer_seq")
    ahead_seq = F.when(has_difference, consumer_seq).otherwise(F.lit(0).cast("bigint"))
    stream_seq = F.col("delivered_stream_seq") + ahead_seq
    delivered_us = _restore_time("delivered_at_us", F.col("taken_at_us"))
    restored_columns = {
        "delivered_stream_seq": stream_seq,
        "ack_floor_consumer_seq": _restore_sequence("ack_floor_consumer_seq", consumer_seq),
        "ack_floor_stream_seq": _restore_sequence("ack_floor_stream_seq", stream_seq),
        "delivered_at_us": delivered_us,
        "acked_at_us": _restore_time(
            "acked_at_us", F.coalesce(delivered_us, F.col("taken_at_us"))
        ),
    }
    return rows.withColumns(restored_columns).drop(_HAS_DIFFERENCES_COLUMN)


def _restore_sequence(name: str, base_seq: Column) -> Column:
    """Return the sequence in column `name`, also if its distance behind `base_seq` is recorded."""
    return F.when(F.col(_HAS_DIFFERENCES_COLUMN), base_seq - F.col(name)).otherwise(F.col(name))


def _restore_time(name: str, base_us: Column) -> Column:
    """Return the time (µs) in column `name`, also if its difference to `base_us` is recorded."""
    is_difference = F.col(_HAS_DIFFERENCES_COLUMN) & (F.col(name) < MIN_ABSOLUTE_TIME_US)
    return F.when(is_difference, F.col(name) + base_us).otherwise(F.col(name))


class _ListValue(NamedTuple):
    """A value of a sample that is computed from a list of the sample."""

    list_name: str
    compute_value: Callable[[Column], Column]
    empty_value: int | None
    """The value if the list is empty."""


def _away_replicas(peers: Column) -> Column:
    """Return replicas that are offline, silent for `PEER_OFFLINE_AFTER_S`, or of unknown state.

    A replica without a last contact is also away if it is not current. The rule is that of
    `model.servers.replicas.has_lost_leader_contact`.
    """

    def has_lost_leader_contact(peer: Column) -> Column:
        active_ns = F.nullif(peer["active_ns"], F.lit(0))
        is_silent = F.coalesce(active_ns > PEER_OFFLINE_AFTER_S * 1e9, ~peer["current"])
        # A replica with unknown values counts as away.
        return F.coalesce(peer["offline"] | is_silent, F.lit(True))

    return F.filter(peers, has_lost_leader_contact)


_LIST_VALUE_BY_COLUMN = {
    "peers_count": _ListValue("peers", F.size, 0),
    "away_peers_count": _ListValue("peers", lambda peers: F.size(_away_replicas(peers)), 0),
    "peer_lag_msgs": _ListValue("peers", lambda peers: F.array_max(peers["lag_msgs"]), None),
    "upstream_lag_msgs": _ListValue(
        "upstreams", lambda upstreams: F.array_max(upstreams["lag_msgs"]), None
    ),
}
"""Column → how it is computed from a list of each sample; the table does not have the lists."""


def _list_values(list_value: _ListValue) -> Column:
    list_column = F.col(_ARRAY_COLUMN_PREFIX + list_value.list_name)
    values = F.transform(list_column, list_value.compute_value)
    empty_values = F.array_repeat(F.lit(list_value.empty_value), F.size(list_column))
    # Most polls have only empty lists, and a lambda is slow.
    return F.when(F.size(F.flatten(list_column)) == 0, empty_values).otherwise(values)


def _series_window() -> WindowSpec:
    # The hash includes the identity, so a single 8-byte key partitions and sorts.
    return Window.partitionBy("series_id").orderBy("mono_us")


def _with_previous(rows: DataFrame, table: Table, *names: str) -> DataFrame:
    """Add the columns `names`, mono_us and epoch of the previous sample, with `_PREVIOUS_PREFIX`.

    All other columns of the table are put into a struct `rest`: otherwise every step would copy
    each of them.
    """
    kept_names = ("series_id", "at_us", "mono_us", "epoch", *names)
    other_names = [column.name for column in table.columns if column.name not in kept_names]
    other_columns = F.struct(*(name for name in other_names if name in rows.columns)).alias("rest")
    rows = rows.select(*kept_names, other_columns)
    # Separate columns: a struct would be built and read once per sample.
    return rows.withColumns(
        {
            _PREVIOUS_PREFIX + name: F.lag(name).over(_series_window())
            for name in ("mono_us", "epoch", *names)
        }
    )


def _previous_value(name: str) -> Column:
    return F.col(_PREVIOUS_PREFIX + name)


def _change_from_previous(name: str) -> Column:
    return F.col(name) - _previous_value(name)


def _with_elapsed(rows: DataFrame, reset: Column) -> DataFrame:
    """Add `reset` without nulls, and `elapsed_us`, the time since the previous sample.

    `reset`: whether a counter restarted. `elapsed_us` is null if changes are unknown.
    """
    is_reset = F.coalesce(reset, F.lit(False))
    # A row that could not be read again, as its server was away, is in two polls.
    is_clock_advanced = F.col("mono_us") > _previous_value("mono_us")
    is_known_change = (F.col("epoch") == _previous_value("epoch")) & ~is_reset & is_clock_advanced
    return rows.withColumns(
        {
            "reset": is_reset,
            "elapsed_us": F.when(is_known_change, _change_from_previous("mono_us")),
        }
    )


def _known_change(name: str) -> Column:
    return F.when(F.col("elapsed_us").isNotNull(), _change_from_previous(name))


def _state_start_us(state: Column, is_unchanged: Column) -> Column:
    """Return the time (µs) of a sample at which a state begins; null in all other samples.

    `is_unchanged`: the state continues. A gap does not end it by itself: a counter that only grows
    and is equal after the gap did not change.
    """
    return F.when(state & ~F.coalesce(is_unchanged, F.lit(False)), F.col("at_us"))


def _last_state_start_us(state: Column, start: str) -> Column:
    """Return the time (µs) at which a state began, from column `start`; null without the state."""
    rows_so_far = _series_window().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.when(state, F.last(start, ignorenulls=True).over(rows_so_far))
