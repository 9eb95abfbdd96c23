"""Table of the worst hours, by lost messages, time stuck, time behind and redeliveries."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import (
    GoldInputs,
    GoldTable,
    build_findings,
    count_text,
    duration_text,
    moment_text,
)
from natstui.analysis.gold.rates import HOUR_US, bucket_start
from natstui.analysis.gold.redelivery import MAX_DELIVER_KIND
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION_COLUMN, Table, columns
from natstui.model.findings.catalogue.consumers import PAUSED

_MAX_PERIOD_US = 400 * 24 * HOUR_US
"""Maximum length of a period; longer ones, which have damaged times, are left out."""

HOUR = Table(
    "hour",
    "The hours of each session, the worst first: by messages lost, time stuck, time behind, "
    "redeliveries.",
    columns(
        SESSION_COLUMN,
        ("hour_at_us", "bigint", "When the hour began"),
        ("rank", "bigint", "1 for the worst"),
        ("given_up_count", "bigint", "Messages dropped after max deliver in the hour"),
        ("stuck_s", "double", "Total time that consumers were stuck, paused ones not counted"),
        ("behind_s", "double", "Total length of long periods of lag, all consumers together"),
        ("repeated_msgs", "bigint", "Minimum number of redelivered messages"),
        (
            "polls_count",
            "bigint",
            "Polls in the hour; the first and the last hour are usually incomplete",
        ),
    ),
    key=("session", "hour_at_us"),
)
_HARM_COLUMNS = ("given_up_count", "stuck_us", "behind_us", "repeated_msgs")
"""Columns by which the hours are ranked, the most important first."""


def compute_hour(inputs: GoldInputs) -> DataFrame:
    """Return `hour`: one row per session and hour with a poll."""
    silver = inputs.silver
    drops = silver.advisory.where(F.col("kind") == MAX_DELIVER_KIND)
    stuck_periods = inputs.gold("stuck").where(F.col("cause") != PAUSED.word)
    rates = inputs.gold("consumer_rate")
    amounts_by_source = (
        _hour_amounts(silver.poll, "at_us", "polls_count", F.lit(1)),
        _hour_amounts(drops, "at_us", "given_up_count", F.col("advisories_count")),
        _times_per_hour(stuck_periods, "stuck_us"),
        _times_per_hour(inputs.gold("lag_period"), "behind_us"),
        _hour_amounts(rates, "bucket_at_us", "repeated_msgs", F.col("repeated_msgs")),
    )
    rows = reduce(DataFrame.unionAll, amounts_by_source).groupBy("session", "hour_at_us")
    rows = rows.agg(*(F.sum(name).alias(name) for name in ("polls_count", *_HARM_COLUMNS)))
    worst_first_order = Window.partitionBy("session").orderBy(
        *(F.col(name).desc() for name in _HARM_COLUMNS), "hour_at_us"
    )
    return HOUR.conform(
        rows.where(F.col("polls_count") > 0).withColumns(
            {
                "rank": F.row_number().over(worst_first_order),
                "stuck_s": F.col("stuck_us") / 1e6,
                "behind_s": F.col("behind_us") / 1e6,
            }
        )
    )


def _hour_amounts(rows: DataFrame, time_column: str, name: str, amount: Column) -> DataFrame:
    """Return the hour of each row and its amount in column `name`; other amounts are 0."""
    amounts = {other: F.lit(0) for other in ("polls_count", *_HARM_COLUMNS)} | {name: amount}
    return rows.select(
        "session",
        bucket_start(time_column, HOUR_US).alias("hour_at_us"),
        *(value.alias(column) for column, value in amounts.items()),
    )


def _times_per_hour(periods: DataFrame, name: str) -> DataFrame:
    """Return a row per period and hour; column `name` is the time (µs) of the period in it."""
    start_us, end_us = F.col("start_at_us"), F.col("end_at_us")
    periods = periods.where((end_us >= start_us) & (end_us - start_us <= _MAX_PERIOD_US))
    hours = F.explode(F.sequence(bucket_start("start_at_us", HOUR_US), end_us, F.lit(HOUR_US)))
    rows = periods.select("session", "start_at_us", "end_at_us", hours.alias("hour_at_us"))
    until_us = F.least(end_us, F.col("hour_at_us") + HOUR_US)
    time_us = until_us - F.greatest(start_us, F.col("hour_at_us"))
    return _hour_amounts(rows, "hour_at_us", name, time_us)


def find_worst_hours(hours: DataFrame) -> DataFrame:
    """Return findings about the worst hour of sessions over several hours, if it had problems."""
    counts = hours.groupBy("session").agg(F.count("*").alias("hours_count"))
    rows = hours.join(F.broadcast(counts), "session")
    has_harm = (F.col("given_up_count") > 0) | (F.col("stuck_s") + F.col("behind_s") > 0)
    has_harm |= F.col("repeated_msgs") > 0
    rows = rows.where((F.col("rank") == 1) & (F.col("hours_count") > 1) & has_harm)
    rows = rows.withColumns(
        {"start_at_us": F.col("hour_at_us"), "end_at_us": F.col("hour_at_us") + HOUR_US}
    )
    sentence = F.concat(F.lit("the worst hour began at "), moment_text("hour_at_us"))
    evidence = F.concat(
        count_text(F.col("given_up_count"), "message"),
        F.lit(" dropped, consumers stuck for "), duration_text("stuck_s"),
        F.lit(" and behind for "), duration_text("behind_s"), F.lit(" in all, "),
        count_text(F.col("repeated_msgs"), "message"),
        F.lit(" repeated"),
    )  # fmt: skip
    return build_findings(rows, "hour", F.col("session"), F.lit(30), (sentence, evidence))


REPORT_POSITION = 30
GOLD_TABLES = (
    GoldTable(
        HOUR,
        compute_hour,
        input_names=("consumer_rate", "stuck", "lag_period"),
        findings=(find_worst_hours,),
        section=Section(
            "Worst hours",
            ("session", "rank", "hour_at_us", "given_up_count", "stuck_s", "behind_s",
             "repeated_msgs", "polls_count"),
            "Nothing was polled.",
        ),
        sorted_by=("session", "rank"),
        max_rows_count=48,
    ),
)  # fmt: skip
