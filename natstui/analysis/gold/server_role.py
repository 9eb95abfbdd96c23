"""Table of the servers: their versions, and the streams and consumers that each one led."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

MAX_SERVERS_COUNT = 100
"""Maximum servers of all sessions in a result."""

SERVER_ROLE = Table(
    "server_role",
    "Servers that replied or led something: their versions, and what they led.",
    columns(
        SESSION_COLUMN,
        ("server", "string", "Name of the server"),
        ("versions", "string", "Its versions in the order of time; null if they are unknown"),
        ("streams_count", "bigint", "Streams that the server led at their last sample"),
        ("consumers_count", "bigint", "Consumers that the server led at their last sample"),
        (
            "led_share",
            "double",
            "Share led by this server, of all samples with a leader; null without any",
        ),
        ("left_count", "bigint", "How often a stream or consumer got another leader"),
    ),
    key=("session", "server"),
)


def compute_server_role(silver: Silver) -> DataFrame:
    """Return `server_role`: one row per session and server that replied or was a leader."""
    rows = _leader_roles(silver).join(
        _server_versions(silver.server_sample), ["session", "server"], "full"
    )
    rows = rows.na.fill(0, ["streams_count", "consumers_count", "left_count", "samples_count"])
    all_samples_count = F.sum("samples_count").over(Window.partitionBy("session"))
    led_share = F.col("samples_count") / F.nullif(all_samples_count, F.lit(0))
    return SERVER_ROLE.conform(rows.withColumn("led_share", led_share))


def _leader_roles(silver: Silver) -> DataFrame:
    """Return one row per session and leader, with the counts of what it led."""
    streams = _samples_with_leader(silver.stream_sample, is_stream=True)
    samples = streams.unionAll(_samples_with_leader(silver.consumer_sample, is_stream=False))
    order = Window.partitionBy("series_id").orderBy("mono_us")
    rows = samples.withColumn("next_leader", F.lead("server").over(order))
    is_last_sample, is_stream = F.col("next_leader").isNull(), F.col("is_stream")
    return rows.groupBy("session", "server").agg(
        F.count_if(is_last_sample & is_stream).alias("streams_count"),
        F.count_if(is_last_sample & ~is_stream).alias("consumers_count"),
        F.count_if(F.col("next_leader") != F.col("server")).alias("left_count"),
        F.count("*").alias("samples_count"),
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


def _server_versions(server_sample: DataFrame) -> DataFrame:
    """Return one row per session and server, with its versions as `2.11.9 → 2.12.1`."""
    rows = server_sample.groupBy("session", "server", "version").agg(
        F.min("at_us").alias("first_at_us")
    )
    first_samples = F.collect_list(F.struct("first_at_us", "version"))
    versions = F.array_join(F.sort_array(first_samples)["version"], " → ")
    return rows.groupBy("session", "server").agg(F.nullif(versions, F.lit("")).alias("versions"))


REPORT_POSITION = 122
GOLD_TABLES = (
    GoldTable(
        SERVER_ROLE,
        lambda inputs: compute_server_role(inputs.silver),
        section=Section(
            "Servers",
            ("session", "server", "versions", "streams_count", "consumers_count", "led_share",
             "left_count"),
            "No server is known: none was recorded, and no leader was known.",
        ),
        sorted_by=("session", "server"),
        max_rows_count=MAX_SERVERS_COUNT,
        min_rows_count=MAX_SERVERS_COUNT,
    ),
)  # fmt: skip
