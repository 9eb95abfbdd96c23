"""Table of the activity of ephemeral consumers, grouped by similar names."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldTable, consumer_text, join_evidence
from natstui.analysis.gold.shared.family import RANDOM_NAME_PATTERN
from natstui.analysis.section import Section
from natstui.analysis.silver.events import latest_configuration
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import CONSUMER_KEY, SESSION_COLUMN, Table, columns

_MIN_FAMILY_SIZE = 2

EPHEMERAL = Table(
    "ephemeral",
    "Ephemeral consumers: one row per stream and common prefix of their names.",
    columns(
        SESSION_COLUMN,
        ("stream", "string", "Name of the stream"),
        ("name", "string", "Common prefix of their names, then *"),
        ("consumers_count", "bigint", "Consumers"),
        ("watched_s", "double", "Median time that a consumer was observed"),
        (
            "delivered_msgs",
            "bigint",
            "Deliveries to all of these consumers, redeliveries included",
        ),
        (
            "repeated_msgs",
            "bigint",
            "Minimum redeliveries (deliveries minus the advance of the stream sequence)",
        ),
        ("pending_max_msgs", "bigint", "Largest number of unprocessed messages of one consumer"),
    ),
    key=("session", "stream", "name"),
)


def family_members(silver: Silver, consumer_rate: DataFrame) -> DataFrame:
    """Return the ephemeral consumers of families, each with the `name` of its family.

    A family has at least two consumers with the same prefix, none of which is durable.
    """
    configurations = latest_configuration(silver.configuration, F.col("consumer").isNotNull())
    rows = consumer_rate.select(*CONSUMER_KEY).distinct()
    rows = rows.where(F.regexp_like("consumer", F.lit(RANDOM_NAME_PATTERN)))
    rows = rows.join(configurations.select(*CONSUMER_KEY, "durable"), [*CONSUMER_KEY], "left")
    name = F.concat(F.regexp_extract("consumer", RANDOM_NAME_PATTERN, 1), F.lit("*"))
    family_window = Window.partitionBy("session", "stream", "name")
    rows = rows.withColumn("name", name).withColumns(
        {
            "ephemeral": F.bool_and(~F.coalesce("durable", F.lit(True))).over(family_window),
            "alike_count": F.count("*").over(family_window),
        }
    )
    is_family_member = F.col("ephemeral") & (F.col("alike_count") >= _MIN_FAMILY_SIZE)
    return rows.where(is_family_member).select(*CONSUMER_KEY, "name")


def compute_ephemeral(silver: Silver, consumer_rate: DataFrame) -> DataFrame:
    """Return `ephemeral`: one row per stream and family of consumers, from their rates."""
    consumer_totals = consumer_rate.groupBy(*CONSUMER_KEY).agg(
        F.sum("covered_s").alias("covered_s"),
        F.coalesce(F.sum("delivered_msgs"), F.lit(0)).alias("delivered_msgs"),
        F.coalesce(F.sum("repeated_msgs"), F.lit(0)).alias("repeated_msgs"),
        F.max("pending_max_msgs").alias("pending_max_msgs"),
    )
    rows = consumer_totals.join(family_members(silver, consumer_rate), [*CONSUMER_KEY])
    rows = rows.groupBy("session", "stream", "name").agg(
        F.count("*").alias("consumers_count"),
        F.median("covered_s").alias("watched_s"),
        F.sum("delivered_msgs").alias("delivered_msgs"),
        F.sum("repeated_msgs").alias("repeated_msgs"),
        F.max("pending_max_msgs").alias("pending_max_msgs"),
    )
    return EPHEMERAL.conform(rows)


def replace_by_families(findings: DataFrame, members_of_families: DataFrame) -> DataFrame:
    """Return the findings, each about a consumer of a family changed to be about the family."""
    family_names = members_of_families.select(
        "session",
        consumer_text().alias("subject"),
        F.concat_ws(" > ", "stream", "name").alias("all"),
        F.concat(F.lit("for example "), "consumer").alias("example"),
    ).distinct()
    rows = findings.join(family_names, ["session", "subject"], "left")
    other_columns = [name for name in findings.columns if name not in ("subject", "evidence")]
    return rows.select(
        *other_columns,
        F.coalesce("all", "subject").alias("subject"),
        join_evidence("evidence", "example").alias("evidence"),
    )


REPORT_POSITION = 155
GOLD_TABLES = (
    GoldTable(
        EPHEMERAL,
        lambda inputs: compute_ephemeral(inputs.silver, inputs.gold("consumer_rate")),
        input_names=("consumer_rate",),
        section=Section(
            "Ephemeral consumers",
            ("session", "stream", "name", "consumers_count", "watched_s", "delivered_msgs",
             "repeated_msgs", "pending_max_msgs"),
            "No ephemeral consumers with similar names.",
            optional=True,
        ),
        sorted_by=("-consumers_count", "session", "stream", "name"),
        max_rows_count=20,
    ),
)  # fmt: skip
