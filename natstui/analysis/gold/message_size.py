"""Table of the message size of each stream per hour."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.gold.rates import HOUR_US, bucket_start
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import STREAM_IDENTITY, STREAM_KEY, Table, columns

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
            "Bytes stored per message at the end of the hour, overhead included; null if every "
            "poll found the stream empty",
        ),
        ("message_min_bytes", "double", "Smallest value at any poll of the hour"),
        ("message_max_bytes", "double", "Largest value at any poll of the hour"),
    ),
    key=(*STREAM_KEY, "hour_at_us"),
)


def compute_message_size(silver: Silver) -> DataFrame:
    """Return `message_size`: one row per stream and hour with stored messages."""
    rows = silver.stream_sample.withColumns(
        {
            "hour_at_us": bucket_start("at_us", HOUR_US),
            "bytes": F.col("stored_bytes") / F.nullif("stored_msgs", F.lit(0)),
        }
    )
    known_mono_us = F.when(F.col("bytes").isNotNull(), F.col("mono_us"))
    rows = rows.groupBy("series_id", *STREAM_KEY, "hour_at_us").agg(
        F.coalesce(F.sum("published_msgs"), F.lit(0)).alias("published_msgs"),
        F.max_by("bytes", known_mono_us).alias("message_bytes"),
        F.min("bytes").alias("message_min_bytes"),
        F.max("bytes").alias("message_max_bytes"),
    )
    # A work queue is often empty at each poll, whatever was published meanwhile.
    has_messages = (F.col("published_msgs") > 0) | F.col("message_bytes").isNotNull()
    return MESSAGE_SIZE.conform(rows.where(has_messages))


REPORT_POSITION = 135
GOLD_TABLES = (
    GoldTable(
        MESSAGE_SIZE,
        lambda inputs: compute_message_size(inputs.silver),
        section=Section(
            "Message size",
            ("session", "stream", "hour_at_us", "published_msgs", "message_bytes",
             "message_min_bytes", "message_max_bytes"),
            "No stream stored a message.",
        ),
        sorted_by=("session", "stream", "hour_at_us"),
        max_rows_count=50,
    ),
)  # fmt: skip
