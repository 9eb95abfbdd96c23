"""Table of the streams and consumers without activity in the recording."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldInputs, GoldTable, build_findings, count_text
from natstui.analysis.section import Section
from natstui.analysis.tables import CONSUMER_KEY, SESSION_COLUMN, Table, columns

_MIN_FINDING_IDLE_S = 86_400
"""Minimum time without activity of which a finding is reported."""

IDLE = Table(
    "idle",
    "Streams that stored and delivered nothing, and consumers without messages.",
    columns(
        SESSION_COLUMN,
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "Name of the consumer; null for a stream"),
        ("created_at_us", "bigint", "When the stream or consumer was created"),
        ("watched_s", "double", "How long the stream or consumer was observed"),
        ("last_at_us", "bigint", "Time of the last message or delivery; null: none"),
        ("idle_s", "double", "Time without activity until the last sample"),
        ("stored_msgs", "bigint", "Stored messages of a stream; null for a consumer"),
        ("stored_bytes", "bigint", "Stored bytes of a stream; null for a consumer"),
    ),
    key=CONSUMER_KEY,
)


def compute_idle(inputs: GoldInputs) -> DataFrame:
    """Return `idle`: one row per stream or consumer without activity, from the rates."""
    rates = inputs.gold("consumer_rate").groupBy("session", "stream", "consumer", "created_at_us")
    rates = rates.agg(
        F.sum("covered_s").alias("watched_s"),
        (F.coalesce(F.sum("delivered_msgs"), F.lit(0))).alias("delivered_msgs"),
        (F.coalesce(F.sum("settled_msgs"), F.lit(0))).alias("settled_msgs"),
        (F.max("pending_max_msgs") + F.max("ack_pending_max_msgs")).alias("waiting_msgs"),
        F.max("last_at_us").alias("sampled_at_us"),
        F.max("last_delivered_at_us").alias("last_at_us"),
    )
    is_busy = F.col("delivered_msgs") + F.col("settled_msgs") + F.col("waiting_msgs") > 0
    consumers = rates.where((F.col("watched_s") > 0) & ~is_busy)
    delivered_streams = (
        rates.where(F.col("delivered_msgs") > 0).select("session", "stream").distinct()
    )
    streams = (
        inputs.gold("stream_rate")
        .groupBy("session", "stream", "created_at_us")
        .agg(
            F.sum("covered_s").alias("watched_s"),
            F.coalesce(F.sum("published_msgs"), F.lit(0)).alias("published_msgs"),
            F.max("last_at_us").alias("sampled_at_us"),
            F.max("last_stored_at_us").alias("last_at_us"),
            F.max_by("stored_msgs", "bucket_at_us").alias("stored_msgs"),
            F.max_by("stored_bytes", "bucket_at_us").alias("stored_bytes"),
        )
    )
    streams = streams.where((F.col("watched_s") > 0) & (F.col("published_msgs") == 0))
    streams = streams.join(delivered_streams, ["session", "stream"], "left_anti")
    rows = streams.unionByName(consumers, allowMissingColumns=True)
    last_active_at_us = F.coalesce("last_at_us", "created_at_us")
    idle_s = (F.col("sampled_at_us") - last_active_at_us) / 1e6
    return IDLE.conform(rows.withColumn("idle_s", idle_s))


def find_unused_assets(rows: DataFrame) -> DataFrame:
    """Return one finding per session with unused streams or consumers."""
    rows = rows.where(F.col("idle_s") >= _MIN_FINDING_IDLE_S)
    is_stream = F.col("consumer").isNull()
    rows = rows.groupBy("session").agg(
        F.count_if(is_stream).alias("streams_count"),
        F.count_if(~is_stream).alias("consumers_count"),
        F.coalesce(F.sum("stored_bytes"), F.lit(0)).alias("stored_bytes"),
        F.max("idle_s").alias("idle_s"),
    )
    sentence = F.concat(
        count_text(F.col("streams_count"), "stream"), F.lit(" and "),
        count_text(F.col("consumers_count"), "consumer"),
        F.lit(" did nothing for a day or longer"),
    )  # fmt: skip
    evidence = F.format_string(
        "the longest for %.0f days; the streams keep %d bytes",
        F.col("idle_s") / 86_400, F.col("stored_bytes"),
    )  # fmt: skip
    return build_findings(rows, "idle", F.lit("account"), F.lit(26), (sentence, evidence))


REPORT_POSITION = 150
GOLD_TABLES = (
    GoldTable(
        IDLE,
        compute_idle,
        input_names=("consumer_rate", "stream_rate"),
        findings=(find_unused_assets,),
        section=Section(
            "Idle streams and consumers",
            ("session", "stream", "consumer", "idle_s", "last_at_us", "stored_msgs",
             "stored_bytes"),
            "Everything did something.",
            optional=True,
        ),
        sorted_by=("-idle_s", "session", "stream", "consumer"),
        max_rows_count=50,
    ),
)  # fmt: skip
