"""Table of the cost of redeliveries in messages and bytes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

REDELIVERY_COST = Table(
    "redelivery_cost",
    "Redelivered messages of each stream, and their bytes.",
    columns(
        SESSION_COLUMN,
        ("stream", "string", "Name of the stream"),
        ("consumers_count", "bigint", "Number of consumers with redeliveries"),
        ("delivered_msgs", "bigint", "Deliveries to all of its consumers"),
        ("repeated_msgs", "bigint", "Minimum number of redeliveries among these deliveries"),
        (
            "repeated_share",
            "double",
            "Redeliveries per delivery of its consumers without a filter; null without any",
        ),
        ("message_bytes", "double", "Mean size of a stored message of the stream"),
        (
            "repeated_bytes",
            "double",
            "Estimated bytes sent again: redeliveries times the mean size",
        ),
    ),
    key=("session", "stream"),
)


def compute_redelivery_cost(redelivery: DataFrame, capacity: DataFrame) -> DataFrame:
    """Return `redelivery_cost`: one row per session and stream name."""
    # Redeliveries to consumers with a filter are in the sums (a minimum), not in the share.
    is_countable = F.col("repeated_share").isNotNull()
    repeated_share = F.sum(F.when(is_countable, F.col("repeated_msgs"))) / F.sum(
        F.when(is_countable, F.col("delivered_msgs"))
    )
    rows = redelivery.groupBy("session", "stream").agg(
        F.count_if(F.col("repeated_msgs") > 0).alias("consumers_count"),
        F.sum("delivered_msgs").alias("delivered_msgs"),
        F.sum("repeated_msgs").alias("repeated_msgs"),
        repeated_share.alias("repeated_share"),
    )
    # Of a recreated stream, the newest one.
    message_sizes = capacity.groupBy("session", "stream").agg(
        F.max_by("message_bytes", "created_at_us").alias("message_bytes")
    )
    rows = rows.join(message_sizes, ["session", "stream"], "left")
    repeated_bytes = F.col("repeated_msgs") * F.col("message_bytes")
    return REDELIVERY_COST.conform(rows.withColumn("repeated_bytes", repeated_bytes))


REPORT_POSITION = 100
GOLD_TABLES = (
    GoldTable(
        REDELIVERY_COST,
        lambda inputs: compute_redelivery_cost(inputs.gold("redelivery"), inputs.gold("capacity")),
        input_names=("redelivery", "capacity"),
        section=Section(
            "Cost of redelivery",
            ("session", "stream", "consumers_count", "delivered_msgs", "repeated_msgs",
             "repeated_share", "message_bytes", "repeated_bytes"),
            "No consumers.",
        ),
        sorted_by=("-repeated_bytes", "session", "stream"),
        max_rows_count=50,
    ),
)  # fmt: skip
