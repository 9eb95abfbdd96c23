"""Answer 6: how fast it fills, when it is full, what a message costs, the busiest moments."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver_events import latest_configuration
from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import SESSION, STREAM_IDENTITY, Table, columns

CAPACITY = Table(
    "capacity",
    "Growth of each stream and the time until it meets each of its limits.",
    STREAM_IDENTITY
    + columns(
        ("stored_msgs", "bigint", "Messages kept at the end"),
        ("stored_bytes", "bigint", "Bytes kept at the end"),
        ("message_bytes", "double", "Bytes kept per message, overhead of the store included"),
        ("growth_msgs_per_s", "double", "Change of the messages kept, over the time watched"),
        ("growth_bytes_per_s", "double", "Change of the bytes kept, over the time watched"),
        ("max_msgs", "bigint", "Limit; null is unlimited"),
        ("max_bytes", "bigint", "Limit; null is unlimited"),
        ("msgs_full_in_s", "double", "Until the limit of messages at this growth; null is never"),
        ("bytes_full_in_s", "double", "Until the limit of bytes at this growth; null is never"),
        ("discard", "string", "What it discards when full: old messages or new ones"),
    ),
)

ACCOUNT_CAPACITY = Table(
    "account_capacity",
    "Growth of the account's storage and the time until its limit.",
    columns(
        SESSION,
        ("storage_bytes", "bigint", "Storage used at the end"),
        ("growth_bytes_per_s", "double", "Change over the time recorded"),
        ("max_storage_bytes", "bigint", "Limit; null is unlimited"),
        ("full_in_s", "double", "Until the limit at this growth; null is never"),
        ("api_errors_count", "bigint", "API errors while it was recorded"),
    ),
)


def capacity(silver: Silver, stream_rate: DataFrame) -> DataFrame:
    """Return the table `capacity`."""
    identity = [c.name for c in STREAM_IDENTITY]
    rows = stream_rate.groupBy("series_id", *identity).agg(
        F.max_by("stored_msgs", "bucket_at_us").alias("stored_msgs"),
        F.max_by("stored_bytes", "bucket_at_us").alias("stored_bytes"),
        (F.sum("grown_msgs") / F.nullif(F.sum("covered_s"), F.lit(0.0))).alias(
            "growth_msgs_per_s"
        ),
        (F.sum("grown_bytes") / F.nullif(F.sum("covered_s"), F.lit(0.0))).alias(
            "growth_bytes_per_s"
        ),
    )
    streams = latest_configuration(silver.configuration, F.col("consumer").isNull())
    limits = streams.select(*identity, "max_msgs", "max_bytes", "discard")
    rows = rows.join(F.broadcast(limits), identity, "left")
    return CAPACITY.contract(
        rows.withColumns(
            {
                "message_bytes": F.col("stored_bytes") / F.nullif("stored_msgs", F.lit(0)),
                "msgs_full_in_s": _full_in_s("max_msgs", "stored_msgs", "growth_msgs_per_s"),
                "bytes_full_in_s": _full_in_s("max_bytes", "stored_bytes", "growth_bytes_per_s"),
            }
        )
    )


def account_capacity(silver: Silver) -> DataFrame:
    """Return the table `account_capacity`."""
    polls = silver.poll.where(F.col("storage_bytes").isNotNull())
    used, seconds = F.col("storage_bytes"), F.col("mono_us") / 1e6
    rows = polls.groupBy("session").agg(
        F.max_by("storage_bytes", "mono_us").alias("storage_bytes"),
        F.max_by("max_storage_bytes", "mono_us").alias("max_storage_bytes"),
        (F.max_by("api_errors_count", "mono_us") - F.min_by("api_errors_count", "mono_us")).alias(
            "api_errors_count"
        ),
        (
            (F.max_by(used, "mono_us") - F.min_by(used, "mono_us"))
            / F.nullif(F.max(seconds) - F.min(seconds), F.lit(0.0))
        ).alias("growth_bytes_per_s"),
    )
    full = _full_in_s("max_storage_bytes", "storage_bytes", "growth_bytes_per_s")
    return ACCOUNT_CAPACITY.contract(rows.withColumn("full_in_s", full))


def _full_in_s(limit: str, used: str, growth: str) -> Column:
    room = F.col(limit) - F.col(used)
    full = F.when(room <= 0, F.lit(0.0)).when(F.col(growth) > 0, room / F.col(growth))
    return F.when(F.col(limit).isNotNull(), full)
