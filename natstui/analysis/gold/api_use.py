"""Table of the requests to the JetStream API over time, and of its error replies."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.gold.rates import bucket_start, increase_since_last_poll
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

API_USE = Table(
    "api_use",
    "Requests and errors of the JetStream API of the account, per interval of time.",
    columns(
        SESSION_COLUMN,
        ("bucket_at_us", "bigint", "Start of the interval"),
        ("requests_count", "bigint", "Requests of the account in the interval"),
        ("errors_count", "bigint", "Requests of the account that failed in the interval"),
        ("rtt_median_us", "double", "Median round-trip time of the recorder's requests"),
    ),
    key=("session", "bucket_at_us"),
)


def compute_api_use(silver: Silver, thresholds: Thresholds) -> DataFrame:
    """Return `api_use`: one row per session and interval, from its polls."""
    polls = silver.poll.where(F.col("api_errors_count").isNotNull()).withColumns(
        {
            "more_requests": increase_since_last_poll("api_requests_count"),
            "more_errors": increase_since_last_poll("api_errors_count"),
            "bucket_at_us": bucket_start("at_us", thresholds.bucket_us),
        }
    )
    rows = polls.groupBy("session", "bucket_at_us").agg(
        F.sum("more_requests").alias("requests_count"),
        F.sum("more_errors").alias("errors_count"),
        F.median("api_rtt_us").alias("rtt_median_us"),
    )
    return API_USE.conform(rows)


REPORT_POSITION = 125
GOLD_TABLES = (
    GoldTable(
        API_USE,
        lambda inputs: compute_api_use(inputs.silver, inputs.thresholds),
        section=Section(
            "API over time, most errors first",
            ("session", "bucket_at_us", "requests_count", "errors_count", "rtt_median_us"),
            "The use of the API was not recorded.",
        ),
        sorted_by=("-errors_count", "session", "bucket_at_us"),
        max_rows_count=50,
    ),
)
