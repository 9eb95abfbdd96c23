"""Answer 4, continued: the messages that come back again and again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold_redelivery import GIVEN_UP
from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import SESSION, Table, columns

POISON_LEAST_COUNT = 3
"""A message delivered this often, or given up, is poison."""


POISON = Table(
    "poison",
    "Messages that were delivered again and again, or given up.",
    columns(
        SESSION,
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "Name of the consumer"),
        ("stream_seq", "bigint", "The message"),
        ("deliveries_count", "bigint", "Most deliveries announced"),
        ("naks_count", "bigint", "Negative acknowledgements announced"),
        ("given_up", "boolean", "It was delivered too often, or terminated"),
        ("acked", "boolean", "A sampled acknowledgement shows that it was settled"),
        ("first_at_us", "bigint", "First announcement"),
        ("last_at_us", "bigint", "Last announcement"),
    ),
)


def poison(silver: Silver) -> DataFrame:
    """Return the table `poison`, from advisories and sampled acknowledgements."""
    told = silver.advisory.where(F.col("stream_seq").isNotNull()).select(
        "session", "stream", "consumer", "stream_seq", "deliveries_count", "at_us", "kind"
    )
    acked = silver.ack_sample.where(F.col("deliveries_count") > 1).select(
        "session", "stream", "consumer", "stream_seq", "deliveries_count", "at_us",
        F.lit("ack").alias("kind"),
    )  # fmt: skip
    rows = told.unionAll(acked).groupBy("session", "stream", "consumer", "stream_seq")
    messages = rows.agg(
        F.max("deliveries_count").alias("deliveries_count"),
        F.count_if(F.col("kind") == "nak").alias("naks_count"),
        F.bool_or(F.col("kind").isin(*GIVEN_UP)).alias("given_up"),
        F.bool_or(F.col("kind") == "ack").alias("acked"),
        F.min("at_us").alias("first_at_us"),
        F.max("at_us").alias("last_at_us"),
    )
    often = F.col("deliveries_count") >= POISON_LEAST_COUNT
    return POISON.contract(messages.where(often | F.col("given_up")))
