"""Consumers in a recording of version 2: five columns are differences within the row."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.schema import PACKED_CONSUMER_COLUMNS

NEAR_BELOW_US = 1_000_000_000
"""A time that is less than this is a difference; all others are µs since 1970."""


def unpacked(rows: DataFrame) -> DataFrame:
    """Fill the five columns from their differences where a poll was packed.

    One row per consumer, with `taken_at_us`, the columns of both versions, and null in those of
    the other version. The columns of differences are gone afterwards.
    """
    consumer_seq, taken_us = F.col("delivered_consumer_seq"), F.col("taken_at_us")
    stream_seq = F.coalesce(
        F.col("delivered_stream_seq"), consumer_seq + F.col("delivered_stream_ahead_seq")
    )
    delivered_us = F.coalesce(F.col("delivered_at_us"), _time("delivered_near_us", taken_us))
    acked_us = _time("acked_near_us", F.coalesce(delivered_us, taken_us))
    filled = {
        "delivered_stream_seq": stream_seq,
        "ack_floor_consumer_seq": F.coalesce(
            F.col("ack_floor_consumer_seq"), consumer_seq - F.col("ack_floor_consumer_behind_seq")
        ),
        "ack_floor_stream_seq": F.coalesce(
            F.col("ack_floor_stream_seq"), stream_seq - F.col("ack_floor_stream_behind_seq")
        ),
        "delivered_at_us": delivered_us,
        "acked_at_us": F.coalesce(F.col("acked_at_us"), acked_us),
    }
    return rows.withColumns(filled).drop(*PACKED_CONSUMER_COLUMNS)


def _time(near: str, base_us: Column) -> Column:
    """Return a time that may stand as its difference to another."""
    return F.when(F.col(near) < NEAR_BELOW_US, F.col(near) + base_us).otherwise(F.col(near))
