"""Table of the time at which the storage of the account is full, at the growth of the session.

The session is cut into twelve parts of equal length. The error of the total growth follows from
the variation of the growth between parts, and from their autocorrelation.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import GoldTable, build_findings, moment_text
from natstui.analysis.gold.shared.forecast import (
    NO_FORECAST_MEANING,
    growth_aggregates,
    growth_margin,
    interval_text,
    is_growth_certain,
    is_reportable,
    limit_cause,
    number_parts,
    time_until_used_s,
    with_growth,
)
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

SESSION_PARTS_COUNT = 12
_GROWTH_COLUMN = "pace"
_MAX_FORECAST_S = 100 * 365 * 86_400
_MAX_REPORTED_TIME_TO_FULL_S = 30 * 86_400
"""Maximum time until a limit of which a finding is reported."""

ACCOUNT_FULL = Table(
    "account_full",
    "When storage and memory of the account will be full, if they grow as in the session.",
    columns(
        SESSION_COLUMN,
        ("what", "string", "storage or memory"),
        ("used_bytes", "bigint", "Bytes used at the end of the session"),
        ("limit_bytes", "bigint", "Limit; null: unlimited"),
        ("growth_bytes_per_s", "double", "Growth during the recording, bytes per second"),
        ("low_bytes_per_s", "double", "Lower bound of the true growth (95 % sure)"),
        ("high_bytes_per_s", "double", "Upper bound of the true growth (95 % sure)"),
        ("watched_s", "double", "Time over which the growth was measured"),
        ("full_at_us", "bigint",
            f"When it will be full at this growth; {NO_FORECAST_MEANING}"),
        ("earliest_at_us", "bigint", "Earliest time at which it may be full; null: never, or "
                                     "unknown"),
        ("latest_at_us", "bigint", "Latest time at which it may be full; null: never, or unknown"),
        ("parts_count", "bigint", "Number of parts of the session used for the forecast"),
        ("end_at_us", "bigint", "Time of the last poll, where the forecast begins"),
    ),
    key=("session", "what"),
)  # fmt: skip
_STORAGE_KINDS = ("storage", "memory")
_KEY_COLUMNS = ["session", "what"]


def compute_account_full(silver: Silver) -> DataFrame:
    """Return `account_full`: one row per session and kind of storage, from its polls."""
    storage_uses = F.array(
        *(
            F.struct(
                F.lit(kind).alias("what"),
                F.col(f"{kind}_bytes").alias("used_bytes"),
                F.col(f"max_{kind}_bytes").alias("limit_bytes"),
            )
            for kind in _STORAGE_KINDS
        )
    )
    polls = silver.poll.select("session", "at_us", F.inline(storage_uses))
    polls = polls.where(F.col("used_bytes").isNotNull())
    key_window = Window.partitionBy(*_KEY_COLUMNS)
    order = key_window.orderBy("at_us")
    # UTC without the steps of the clock, as in `account_capacity`.
    moment_us = F.col("at_us").cast("double")
    first_us, last_us = F.min(moment_us).over(key_window), F.max(moment_us).over(key_window)
    number = F.floor(
        (moment_us - first_us) * SESSION_PARTS_COUNT / F.nullif(last_us - first_us, F.lit(0.0))
    )
    polls = polls.select(
        *_KEY_COLUMNS, "at_us", "used_bytes", "limit_bytes",
        F.least(number, F.lit(SESSION_PARTS_COUNT - 1)).alias("part"),
        (F.col("used_bytes") - F.lag("used_bytes").over(order)).alias("grown_bytes"),
        ((moment_us - F.lag(moment_us).over(order)) / 1e6).alias("elapsed_s"),
    )  # fmt: skip
    parts = polls.groupBy(*_KEY_COLUMNS, "part").agg(
        F.sum("grown_bytes").alias("grown_bytes"),
        F.sum("elapsed_s").alias("elapsed_s"),
        F.max_by(F.struct("at_us", "used_bytes", "limit_bytes"), "at_us").alias("newest"),
    )
    # A session of one poll has no time in it.
    growth = F.when(F.col("elapsed_s") > 0, F.col("grown_bytes") / F.col("elapsed_s"))
    parts = number_parts(
        parts.withColumn(_GROWTH_COLUMN, growth), _KEY_COLUMNS, "part", [_GROWTH_COLUMN]
    )
    rows = parts.groupBy(*_KEY_COLUMNS).agg(
        F.max_by("newest", "part").alias("newest"),
        (F.sum("grown_bytes") / F.nullif(F.sum("elapsed_s"), F.lit(0.0))).alias(
            "growth_bytes_per_s"
        ),
        F.coalesce(F.sum("elapsed_s"), F.lit(0.0)).alias("watched_s"),
        *growth_aggregates(_GROWTH_COLUMN, "part"),
    )
    return ACCOUNT_FULL.conform(_with_forecast_times(rows.select("*", "newest.*")))


def _with_forecast_times(rows: DataFrame) -> DataFrame:
    growth_bytes_per_s, parts_count = (
        F.col("growth_bytes_per_s"),
        F.col(f"{_GROWTH_COLUMN}_total_count"),
    )
    free_bytes = F.col("limit_bytes") - F.col("used_bytes")
    part_s = F.col("watched_s") / parts_count
    rows = with_growth(rows, [_GROWTH_COLUMN], part_s)
    rows = rows.withColumns(
        {
            "left_s": F.when(
                (free_bytes <= 0) | is_growth_certain(_GROWTH_COLUMN),
                time_until_used_s(_GROWTH_COLUMN, free_bytes, part_s),
            ),
            "earliest_s": time_until_used_s(_GROWTH_COLUMN, free_bytes, part_s, "_most"),
            "latest_s": time_until_used_s(_GROWTH_COLUMN, free_bytes, part_s, "_least"),
        }
    )
    is_reported = is_reportable(F.col("left_s"), F.col("watched_s"))
    left_column_by_time_column = {
        "full_at_us": "left_s",
        "earliest_at_us": "earliest_s",
        "latest_at_us": "latest_s",
    }
    forecast_times = {
        time_column: F.when(is_reported, _full_at_us(F.col(left_column)))
        for time_column, left_column in left_column_by_time_column.items()
    }
    return rows.withColumns(
        {
            "low_bytes_per_s": growth_bytes_per_s - growth_margin(_GROWTH_COLUMN),
            "high_bytes_per_s": growth_bytes_per_s + growth_margin(_GROWTH_COLUMN),
            "parts_count": parts_count,
            "end_at_us": F.col("at_us"),
            **forecast_times,
        }
    )


def _full_at_us(left_s: Column) -> Column:
    """Return the UTC time (µs) at which a limit is reached in `left_s`; null for never."""
    moment_us = F.col("at_us") + F.round(left_s).cast("bigint") * 1_000_000
    return F.when(left_s <= _MAX_FORECAST_S, moment_us)


def find_full_accounts(rows: DataFrame) -> DataFrame:
    """Return findings about accounts whose storage or memory is full, or will be full soon."""
    # The finding is about the entire session: these times are not its start and end.
    rows = rows.withColumnRenamed("end_at_us", "polled_at_us")
    left_s = (F.col("full_at_us") - F.col("polled_at_us")) / 1e6
    is_full = left_s <= 0
    rows = rows.where(
        is_full | ((left_s <= _MAX_REPORTED_TIME_TO_FULL_S) & F.col("latest_at_us").isNotNull())
    )
    weight = F.when(left_s < 3600, 74).when(left_s < 86_400, 57).otherwise(38)
    forecast_text = F.concat(
        F.lit("at this rate its "), "what", F.lit(" is full on "), moment_text("full_at_us")
    )
    full_text = F.concat(F.lit("its "), "what", F.lit(" is full"))
    used_text = F.format_string("%d of %d bytes used", "used_bytes", "limit_bytes")
    evidence = F.concat_ws(
        ", ", interval_text(moment_text("earliest_at_us"), moment_text("latest_at_us")),
        F.format_string("%.0f bytes a second more", "growth_bytes_per_s"), used_text,
    )  # fmt: skip
    texts = (
        F.when(is_full, full_text).otherwise(forecast_text),
        F.when(is_full, used_text).otherwise(evidence),
    )
    used_share = F.col("used_bytes") / F.nullif("limit_bytes", F.lit(0))
    suffix = F.when(is_full, "full").otherwise(limit_cause(used_share))
    cause = F.concat_ws(" ", "what", suffix)
    return build_findings(rows, "capacity", F.lit("account"), weight, texts, cause)


REPORT_POSITION = 140
GOLD_TABLES = (
    GoldTable(
        ACCOUNT_FULL,
        lambda inputs: compute_account_full(inputs.silver),
        findings=(find_full_accounts,),
        section=Section(
            "When the account is full",
            ("session", "what", "used_bytes", "limit_bytes", "growth_bytes_per_s", "full_at_us",
             "earliest_at_us", "latest_at_us"),
            "The storage use of the account was not recorded.",
        ),
        sorted_by=("session", "-what"),
        max_rows_count=50,
    ),
)  # fmt: skip
