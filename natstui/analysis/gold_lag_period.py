"""Answer 2, continued: every stretch of time in which a consumer was behind."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.rates import long_runs
from natstui.analysis.silver_layer import Silver, Thresholds
from natstui.analysis.tables import CONSUMER_IDENTITY, Table, columns

LAG_PERIOD = Table(
    "lag_period",
    "Every stretch of time in which a consumer had unprocessed messages without a break.",
    CONSUMER_IDENTITY
    + columns(
        ("start_at_us", "bigint", "First sample with messages pending"),
        ("end_at_us", "bigint", "Last sample with messages pending"),
        ("duration_s", "double", "Between the two"),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_end_msgs", "bigint", "Unprocessed at its last sample"),
        ("open", "boolean", "It lasted until the recording of the consumer ended"),
    ),
)


def lag_period(silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the table `lag_period`: runs of samples with messages pending."""
    rows = long_runs(silver.consumer_sample, "behind_since_us", thresholds.behind_after_s)
    identity = [c.name for c in CONSUMER_IDENTITY]
    start = F.col("behind_since_us").alias("start_at_us")
    runs = rows.groupBy("series_id", *identity, start).agg(
        F.max("at_us").alias("end_at_us"),
        F.max("pending_msgs").alias("pending_max_msgs"),
        F.max_by("pending_msgs", "at_us").alias("pending_end_msgs"),
    )
    runs = runs.withColumn("duration_s", (F.col("end_at_us") - F.col("start_at_us")) / 1e6)
    last = consumer_rate.groupBy("series_id").agg(F.max("last_at_us").alias("last_at_us"))
    runs = runs.join(F.broadcast(last), "series_id")
    return LAG_PERIOD.contract(runs.withColumn("open", F.col("end_at_us") == F.col("last_at_us")))
