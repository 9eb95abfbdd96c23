"""Table of the streams and consumers that each server led."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

SERVER_ROLE = Table(
    "server_role",
    "Streams and consumers that each server led.",
    columns(
        SESSION_COLUMN,
        ("server", "string", "Name of the server"),
        ("streams_count", "bigint", "Streams that the server led at their last sample"),
        ("consumers_count", "bigint", "Consumers that the server led at their last sample"),
        ("led_share", "double", "Share led by this server, of all samples with a leader"),
        ("left_count", "bigint", "How often a stream or consumer got another leader"),
    ),
    key=("session", "server"),
)


def compute_server_role(silver: Silver) -> DataFrame:
    """Return `server_role`: one row per session and server that was a leader."""
    streams = _samples_with_leader(silver.stream_sample, is_stream=True)
    samples = streams.unionAll(_samples_with_leader(silver.consumer_sample, is_stream=False))
    order = Window.partitionBy("series_id").orderBy("mono_us")
    rows = samples.withColumn("next_leader", F.lead("server").over(order))
    is_last_sample, is_stream = F.col("next_leader").isNull(), F.col("is_stream")
    rows = rows.groupBy("session", "server").agg(
        F.count_if(is_last_sample & is_stream).alias("streams_count"),
        F.count_if(is_last_sample & ~is_stream).alias("consumers_count"),
        F.count_if(F.col("next_leader") != F.col("server")).alias("left_count"),
        F.count("*").alias("samples_count"),
    )
    all_samples_count = F.sum("samples_count").over(Window.partitionBy("session"))
    return SERVER_ROLE.conform(
        rows.withColumn("led_share", F.col("samples_count") / all_samples_count)
    )


def _samples_with_leader(samples: DataFrame, *, is_stream: bool) -> DataFrame:
    """Return the samples with a leader: series, time and leader (`server`)."""
    return samples.where(F.col("leader").isNotNull()).select(
        "session",
        "series_id",
        "mono_us",
        F.col("leader").alias("server"),
        F.lit(is_stream).alias("is_stream"),
    )


REPORT_POSITION = 122
GOLD_TABLES = (
    GoldTable(
        SERVER_ROLE,
        lambda inputs: compute_server_role(inputs.silver),
        section=Section(
            "Servers",
            ("session", "server", "streams_count", "consumers_count", "led_share", "left_count"),
            "No leader was known.",
        ),
        sorted_by=("session", "server"),
        max_rows_count=50,
    ),
)
