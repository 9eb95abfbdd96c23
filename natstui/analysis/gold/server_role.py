"""Answer: the streams and consumers that each server led."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION, Table, columns

SERVER_ROLE = Table(
    "server_role",
    "Streams and consumers that each server led.",
    columns(
        SESSION,
        ("server", "string", "Name of the server"),
        ("streams_count", "bigint", "Streams that the server led at their last sample"),
        ("consumers_count", "bigint", "Consumers that the server led at their last sample"),
        ("led_share", "double", "Share led by this server, of all samples with a leader"),
        ("left_count", "bigint", "How often a stream or consumer got another leader"),
    ),
    key=("session", "server"),
)


def server_role(silver: Silver) -> DataFrame:
    """Return `server_role`: one row per session and server that was a leader."""
    streams = _leader_counts(silver.stream_sample, "streams_count", "consumers_count")
    consumers = _leader_counts(silver.consumer_sample, "consumers_count", "streams_count")
    rows = streams.unionByName(consumers).groupBy("session", "server").agg(
        *(F.sum(name).alias(name)
          for name in ("streams_count", "consumers_count", "left_count", "samples_count"))
    )  # fmt: skip
    all_samples = F.sum("samples_count").over(Window.partitionBy("session"))
    return SERVER_ROLE.contract(rows.withColumn("led_share", F.col("samples_count") / all_samples))


def _leader_counts(samples: DataFrame, own: str, other: str) -> DataFrame:
    """Return the counts of each server as leader of streams or consumers, in the column `own`."""
    order = Window.partitionBy("series_id").orderBy("mono_us")
    rows = samples.where(F.col("leader").isNotNull()).select(
        "session",
        F.col("leader").alias("server"),
        F.lead("leader").over(order).alias("next_leader"),
    )
    is_last, next_leader = F.col("next_leader").isNull(), F.col("next_leader")
    return rows.groupBy("session", "server").agg(
        F.count("*").alias("samples_count"),
        F.count_if(is_last).alias(own),
        F.lit(0).cast("bigint").alias(other),
        F.count_if(~is_last & (next_leader != F.col("server"))).alias("left_count"),
    )


PLACE = 122
ANSWERS = (
    Answer(
        SERVER_ROLE,
        lambda inputs: server_role(inputs.silver),
        section=Section(
            "Servers",
            ("session", "server", "streams_count", "consumers_count", "led_share", "left_count"),
            "No leader was known.",
        ),
        sorted_by=("session", "server"),
        most_rows_count=50,
    ),
)
