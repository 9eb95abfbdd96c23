"""The columns of polls as rows: one per stream or consumer and poll."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.records import is_packed
from natstui.analysis.bronze.schema import PACKED_AS
from natstui.model.findings.thresholds import PEER_ACTIVE_S
from natstui.model.live.column_differences import NEAR_BELOW_US
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns, later_columns

_PACKED = "_packed"
"""Column that says, for each poll or sample, whether the five columns hold differences."""
_ALL = "all_"
"""Begins the name of a column that still holds all values of a poll."""
_TABLES = {"streams": StreamColumns, "consumers": ConsumerColumns}


def exploded(polls: DataFrame, where: str, fields: schema.Fields) -> DataFrame:
    """Return one row per position of the columns in the struct `rows`, each column as `<name>`.

    `where` is streams or consumers; the other columns of a poll are repeated in each row.
    """
    rows, is_consumers = F.col("rows"), where == "consumers"
    kept = [name for name in polls.columns if name != "rows"]
    if is_consumers:
        polls = polls.withColumn(_PACKED, is_packed(rows))
        kept.append(_PACKED)
    # Columns by themselves are looked up once per poll, inside a struct once per sample.
    polls = polls.select(
        *kept,
        *(
            _recorded(rows, where, name, type_text).alias(_ALL + name)
            for name, type_text in fields.items()
        ),
    )
    lists = {name: read for name, read in _OF_LISTS.items() if read.of in fields}
    polls = polls.withColumns({_ALL + name: _of_list(read) for name, read in lists.items()})
    samples = polls.select("*", F.posexplode(_ALL + "name").alias("_i", "_name"))
    read_of = {read.of for read in lists.values()}
    picked = [name for name in fields if name not in read_of]
    # Picking by position is cheaper than arrays_zip, which builds an object per row.
    picks = (F.get(_ALL + name, F.col("_i")).alias(name) for name in (*picked, *lists))
    samples = samples.select(*kept, *picks)
    return _unpacked(samples) if is_consumers else samples


def _recorded(rows: Column, where: str, name: str, type_text: str) -> Column:
    """Return all values of a column, or the differences recorded in their place.

    A column that an older recording does not have is filled with the value for unknown.
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


def _unpacked(rows: DataFrame) -> DataFrame:
    """Turn the differences in the five columns into values where `_packed` says so.

    One row per consumer, with `taken_at_us`.
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
    """Return a time that may stand as its difference to another."""
    difference = F.col(_PACKED) & (F.col(near) < NEAR_BELOW_US)
    return F.when(difference, F.col(near) + base_us).otherwise(F.col(near))


class _OfList(NamedTuple):
    """What is read of a list that each sample has."""

    of: str
    read: Callable[[Column], Column]
    of_none: int | None
    """What is read of an empty one."""


def _away(peers: Column) -> Column:
    """Return the replicas that are away, as `model.servers.replicas.is_away` has it."""

    def is_away(peer: Column) -> Column:
        heard_ns = F.nullif(peer["active_ns"], F.lit(0))
        silent = F.coalesce(heard_ns > PEER_ACTIVE_S * 1e9, ~peer["current"])
        # What cannot be read of a replica is no proof that it is there.
        return F.coalesce(peer["offline"] | silent, F.lit(True))

    return F.filter(peers, is_away)


_OF_LISTS = {
    "peers_count": _OfList("peers", F.size, 0),
    "away_peers_count": _OfList("peers", lambda peers: F.size(_away(peers)), 0),
    "peer_lag_msgs": _OfList("peers", lambda peers: F.array_max(peers["lag_msgs"]), None),
    "upstream_lag_msgs": _OfList("upstreams", lambda all: F.array_max(all["lag_msgs"]), None),
}
"""Lists are not kept: what is read of them, as columns."""


def _of_list(of: _OfList) -> Column:
    lists = F.col(_ALL + of.of)
    values = F.transform(lists, of.read)
    none = F.array_repeat(F.lit(of.of_none), F.size(lists))
    # Most polls have none: a lambda takes its time with each sample.
    return F.when(F.size(F.flatten(lists)) == 0, none).otherwise(values)
