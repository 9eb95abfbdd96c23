"""Table of the problems that began shortly after a change of the configuration."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.gold_table import (
    GoldInputs,
    GoldTable,
    build_findings,
    consumer_text,
    duration_text,
)
from natstui.analysis.gold.lag import LAG_PERIOD
from natstui.analysis.gold.redelivery import CHANGE_WINDOW_US, HOT_SPOT
from natstui.analysis.gold.stuck import STUCK as STUCK_TABLE
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION_COLUMN, Table, columns
from natstui.model.findings.catalogue.consumers import PAUSED

CHANGE_TOLERANCE_US = 10_000_000
"""Maximum time from a problem to the poll that first shows the change that caused it."""
COMPARED_FIELDS = (
    "replicas_count", "retention", "discard", "max_msgs", "max_bytes", "max_age_ns", "pull",
    "ack_policy", "max_ack_pending_msgs", "max_deliver_count", "filtered",
)  # fmt: skip
OTHER_SETTINGS = "other settings"
STUCK, LAGGING, REDELIVERY = "stuck", "lagging", "redelivery"
_WEIGHT_BY_PROBLEM = {STUCK: 58, LAGGING: 44, REDELIVERY: 42}

CHANGE = Table(
    "change",
    "Problems that began within five minutes after a change of the consumer or its stream.",
    columns(
        SESSION_COLUMN,
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "The consumer that got worse"),
        ("trouble", "string", "Kind of problem: stuck, lagging or redelivery"),
        ("start_at_us", "bigint", "When that began"),
        ("detail", "string", "More about it"),
        ("changed_at_us", "bigint", "When the last change before the problem was seen"),
        ("changed", "string", "What was changed: stream or consumer"),
        ("change", "string", "The settings that differ, before and after"),
        ("after_s", "double", "Time from the change to the problem"),
    ),
    key=("session", "stream", "consumer", "trouble", "start_at_us", "detail"),
)


def compute_change(inputs: GoldInputs) -> DataFrame:
    """Return `change`: one row per problem after a change, with the newest such change."""
    problems = _collect_problems(inputs, inputs.thresholds)
    changes = configuration_changes(inputs.silver.configuration)
    is_shortly_before = F.col("changed_at_us") > F.col("start_at_us") - CHANGE_WINDOW_US
    is_shortly_before &= F.col("changed_at_us") <= F.col("latest_at_us")
    is_of_consumer = F.col("changed_consumer").isNull() | (
        F.col("changed_consumer") == F.col("consumer")
    )
    rows = problems.join(changes, ["session", "stream"]).where(is_shortly_before & is_of_consumer)
    is_consumer_change = F.col("changed_consumer").isNotNull()
    change = F.struct("changed_at_us", is_consumer_change.alias("is_consumer_change"), "change")
    rows = rows.groupBy("session", "stream", "consumer", "trouble", "start_at_us", "detail").agg(
        F.max(change).alias("newest")
    )
    rows = rows.select("*", "newest.*")
    time_since_change_us = F.greatest(F.col("start_at_us") - F.col("changed_at_us"), F.lit(0))
    changed_asset_kind = F.when(F.col("is_consumer_change"), "consumer").otherwise("stream")
    return CHANGE.conform(
        rows.withColumns({"after_s": time_since_change_us / 1e6, "changed": changed_asset_kind})
    )


def _collect_problems(inputs: GoldInputs, thresholds: Thresholds) -> DataFrame:
    """Return the problems of consumers, a row each: stuck, lagging, or many redeliveries.

    `latest_at_us` is the latest time at which a change that caused the problem can first appear in
    a poll.
    """
    stuck_periods = inputs.gold("stuck").where(F.col("cause") != PAUSED.word)
    lag_text = F.format_string("up to %d pending", "pending_max_msgs")
    redelivery_text = F.format_string("%d messages again", "repeated_msgs")
    start_us, bucket_start_us = F.col("start_at_us"), F.col("bucket_at_us")
    problem_tables = (
        _problem_rows(stuck_periods, STUCK, start_us, F.lit(CHANGE_TOLERANCE_US), F.col("cause")),
        _problem_rows(
            inputs.gold("lag_period"), LAGGING, start_us, F.lit(CHANGE_TOLERANCE_US), lag_text
        ),
        _problem_rows(
            _first_hot_spots(inputs.gold("redelivery_hot_spot"), thresholds),
            REDELIVERY, bucket_start_us, F.lit(thresholds.bucket_us), redelivery_text,
        ),
    )  # fmt: skip
    return reduce(lambda rows, part: rows.unionAll(part), problem_tables)


def _first_hot_spots(hot_spots: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the first hot spot of each sequence of consecutive hot spots of a consumer."""
    order = Window.partitionBy("session", "stream", "consumer").orderBy("bucket_at_us")
    distance_us = F.col("bucket_at_us") - F.lag("bucket_at_us").over(order)
    rows = hot_spots.withColumn("apart", distance_us)
    return rows.where(F.coalesce(F.col("apart") > thresholds.bucket_us, F.lit(True)))


def _problem_rows(
    rows: DataFrame, problem: str, start_us: Column, tolerance_us: Column, detail: Column
) -> DataFrame:
    return rows.select(
        "session", "stream", "consumer",
        F.lit(problem).alias("trouble"),
        start_us.alias("start_at_us"),
        (start_us + tolerance_us).alias("latest_at_us"),
        detail.alias("detail"),
    )  # fmt: skip


def configuration_changes(configuration: DataFrame) -> DataFrame:
    """Return the changes of configurations, with their time and the values before and after."""
    asset_order = Window.partitionBy("session", "stream", "consumer", "created_at_us").orderBy(
        "at_us"
    )
    change_texts = []
    for name in COMPARED_FIELDS:
        previous_value, current_value = F.lag(name).over(asset_order), F.col(name)
        texts = [
            F.coalesce(value.cast("string"), F.lit("none"))
            for value in (previous_value, current_value)
        ]
        text = F.concat(F.lit(f"{name} "), texts[0], F.lit(" → "), texts[1])
        change_texts.append(F.when(~previous_value.eqNullSafe(current_value), text))
    changes_text = F.concat_ws(", ", *change_texts)
    rows = configuration.withColumn("text", changes_text).where(F.col("change_count") > 0)
    return rows.select(
        "session", "stream",
        F.col("consumer").alias("changed_consumer"),
        F.col("at_us").alias("changed_at_us"),
        F.when(F.col("text") == "", OTHER_SETTINGS).otherwise(F.col("text")).alias("change"),
    )  # fmt: skip


def find_problems_after_changes(rows: DataFrame) -> DataFrame:
    """Return a finding for each row of `change`."""
    weights = F.create_map(*(F.lit(x) for pair in _WEIGHT_BY_PROBLEM.items() for x in pair))
    sentence = F.concat(
        F.col("trouble"), F.lit(" "), duration_text("after_s"), F.lit(" after its "),
        F.when(F.col("changed") == "stream", "stream").otherwise("configuration"),
        F.lit(" was changed: "), F.col("change"),
    )  # fmt: skip
    texts = (sentence, F.col("detail"))
    problem = F.col("trouble")
    return build_findings(rows, "change", consumer_text(), weights[problem], texts, problem)


REPORT_POSITION = 50
GOLD_TABLES = (
    GoldTable(
        CHANGE,
        compute_change,
        input_names=("stuck", "lag_period", "redelivery_hot_spot"),
        source_tables=(STUCK_TABLE, LAG_PERIOD, HOT_SPOT),
        findings=(find_problems_after_changes,),
        section=Section(
            "What was changed before it got worse",
            ("session", "stream", "consumer", "trouble", "start_at_us", "after_s", "changed",
             "change", "detail"),
            "Nothing got worse within five minutes after a change.",
            optional=True,
        ),
        sorted_by=("session", "start_at_us", "stream", "consumer"),
        max_rows_count=50,
    ),
)  # fmt: skip
