"""Answer: how large the messages of each stream were, hour by hour."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import STREAM_IDENTITY, Table, columns

HOUR_US = 3_600_000_000

MESSAGE_SIZE = Table(
    "message_size",
    "Size of the messages that each stream stores, per hour.",
    STREAM_IDENTITY
    + columns(
        ("hour_at_us", "bigint", "Start of the hour, UTC"),
        ("published_msgs", "bigint", "Messages stored in the hour"),
        (
            "message_bytes",
            "double",
            "Bytes stored per message at the end of the hour, overhead included",
        ),
        ("message_min_bytes", "double", "Smallest value at any poll of the hour"),
        ("message_max_bytes", "double", "Largest value at any poll of the hour"),
    ),
)


def message_size(silver: Silver) -> DataFrame:
    """Return the table `message_size`; hours in which a stream kept nothing are left out."""
    rows = silver.stream_sample.where(F.col("stored_msgs") > 0).withColumns(
        {
            "hour_at_us": F.col("at_us") - F.pmod(F.col("at_us"), F.lit(HOUR_US)),
            "bytes": F.col("stored_bytes") / F.col("stored_msgs"),
        }
    )
    identity = [column.name for column in STREAM_IDENTITY]
    rows = rows.groupBy("series_id", *identity, "hour_at_us").agg(
        F.coalesce(F.sum("published_msgs"), F.lit(0)).alias("published_msgs"),
        F.max_by("bytes", "mono_us").alias("message_bytes"),
        F.min("bytes").alias("message_min_bytes"),
        F.max("bytes").alias("message_max_bytes"),
    )
    return MESSAGE_SIZE.contract(rows)


PLACE = 135
ANSWERS = (
    Answer(
        MESSAGE_SIZE,
        lambda given: message_size(given.silver),
        section=Section(
            "Message size",
            ("session", "stream", "hour_at_us", "published_msgs", "message_bytes",
             "message_min_bytes", "message_max_bytes"),
            "No stream kept a message.",
        ),
        sorted_by=("session", "stream", "hour_at_us"),
        most_rows_count=50,
    ),
)  # fmt: skip
