"""Consumers in a recording of version 2: five columns are differences within the row."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.schema import PACKED_AS

NEAR_BELOW_US = 1_000_000_000
"""A time that is less than this is a difference; all others are µs since 1970."""
IS_PACKED = "_packed"
"""Tells, for each poll or sample, whether the five columns hold differences."""


def is_packed(row: Column) -> Column:
    """Return whether a poll was packed; one of its columns stands for all five."""
    return row[next(iter(PACKED_AS.values()))].isNotNull()


def either(row: Column, name: str) -> Column:
    """Return all values of a column, or the differences recorded in their place."""
    if name not in PACKED_AS:
        return row[name]
    return F.when(F.col(IS_PACKED), row[PACKED_AS[name]]).otherwise(row[name])


def unpacked(rows: DataFrame) -> DataFrame:
    """Turn the differences in the five columns into values where `_packed` says so.

    One row per consumer, with `taken_at_us`.
    """
    packed, consumer_seq = F.col(IS_PACKED), F.col("delivered_consumer_seq")
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
    return rows.withColumns(filled).drop(IS_PACKED)


def _behind(name: str, seq: Column) -> Column:
    return F.when(F.col(IS_PACKED), seq - F.col(name)).otherwise(F.col(name))


def _time(near: str, base_us: Column) -> Column:
    """Return a time that may stand as its difference to another."""
    difference = F.col(IS_PACKED) & (F.col(near) < NEAR_BELOW_US)
    return F.when(difference, F.col(near) + base_us).otherwise(F.col(near))
