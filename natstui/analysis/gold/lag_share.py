"""Table of the waiting time of each consumer's next message, with leader and pinned client."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import CONSUMER_IDENTITY, CONSUMER_KEY, Table, columns
from natstui.model.findings.thresholds import MIN_TIME_TO_DRAIN_S

_PERCENTILES = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}
_PERCENT_MEANING = "of the samples had a shorter waiting time; null if it was never known"

LAG_SHARE = Table(
    "lag_share",
    "Waiting time of the next message of each consumer: percentiles, and the share of time above "
    f"the objective of {MIN_TIME_TO_DRAIN_S:g} s.",
    CONSUMER_IDENTITY
    + columns(
        ("known_count", "bigint", "Samples in which the waiting time is known"),
        ("p50_s", "double", f"50 % {_PERCENT_MEANING}"),
        ("p95_s", "double", f"95 % {_PERCENT_MEANING}"),
        ("p99_s", "double", f"99 % {_PERCENT_MEANING}"),
        ("max_s", "double", "The longest wait"),
        (
            "over_share",
            "double",
            "Share of the time with a known waiting time in which it was above the objective; "
            "null without such a time between two samples",
        ),
        ("leader", "string", "Server that led the consumer last"),
        ("pinned_client", "string", "ID of the client that was pinned last; null without any"),
    ),
    key=CONSUMER_KEY,
)


def compute_lag_share(silver: Silver) -> DataFrame:
    """Return `lag_share`: one row per consumer, with the waiting time of its next message."""
    age_s = F.greatest(F.col("at_us") - F.col("next_at_us"), F.lit(0)) / 1e6
    age_s = F.when(F.col("next_at_us").isNotNull(), age_s)
    # Without pending messages the wait is 0; otherwise the age must have been measured.
    wait_s = F.when(F.col("pending_msgs") == 0, F.lit(0.0)).otherwise(age_s)
    # Most waits of a consumer are 0: to count equal ones first is cheaper than to sort all. Polls
    # differ in their distance: a sample counts for the time since the one before.
    waits = silver.consumer_sample.groupBy(
        "series_id", *CONSUMER_KEY, "leader", "pinned_client", wait_s.alias("wait_s")
    ).agg(
        F.count("*").alias("samples_count"),
        F.sum("elapsed_us").alias("elapsed_us"),
        F.max("mono_us").alias("mono_us"),
    )
    samples_count, is_known = F.col("samples_count"), F.col("wait_s").isNotNull()
    is_long = F.col("wait_s") > F.lit(float(MIN_TIME_TO_DRAIN_S))
    long_us = F.coalesce(F.sum(F.when(is_long, F.col("elapsed_us"))), F.lit(0))
    rows = waits.groupBy("series_id", *CONSUMER_KEY).agg(
        F.coalesce(F.sum(F.when(is_known, samples_count)), F.lit(0)).alias("known_count"),
        # All three in one aggregate, which counts the values once.
        F.percentile("wait_s", [*_PERCENTILES.values()], samples_count).alias("percentiles"),
        F.max("wait_s").alias("max_s"),
        (long_us / F.sum(F.when(is_known, F.col("elapsed_us")))).alias("over_share"),
        *(
            F.max_by(name, F.when(F.col(name).isNotNull(), F.col("mono_us"))).alias(name)
            for name in ("leader", "pinned_client")
        ),
    )
    percentiles = {name: F.col("percentiles")[index] for index, name in enumerate(_PERCENTILES)}
    return LAG_SHARE.conform(rows.withColumns(percentiles))


REPORT_POSITION = 72
GOLD_TABLES = (
    GoldTable(
        LAG_SHARE,
        lambda inputs: compute_lag_share(inputs.silver),
        section=Section(
            "Waiting time of the next message",
            ("session", "stream", "consumer", "over_share", "p50_s", "p95_s", "p99_s", "max_s",
             "leader", "pinned_client"),
            "No consumers.",
        ),
        sorted_by=("-over_share", "-p99_s", "session", "stream", "consumer"),
        max_rows_count=50,
    ),
)  # fmt: skip
