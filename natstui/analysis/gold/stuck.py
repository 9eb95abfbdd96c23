"""Table of the periods in which consumers were stuck, with the cause.

A consumer is stuck if its ack floor did not move while messages were outstanding. Each period has
the evidence and the most likely cause. Labels, thresholds and order of the causes are those of
`natstui.model.findings`, as in the live rules.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.findings import FINDINGS
from natstui.analysis.gold.gold_table import (
    TIMELINE_ROWS_COUNT,
    GoldInputs,
    GoldTable,
    build_findings,
    consumer_text,
    count_text,
    duration_text,
)
from natstui.analysis.gold.rates import samples_of_long_periods
from natstui.analysis.gold.session import SESSION_SUMMARY
from natstui.analysis.gold.shared.recorded_findings import explain_stuck_periods
from natstui.analysis.section import Section
from natstui.analysis.silver.events import latest_configuration
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import CONSUMER_IDENTITY, CONSUMER_KEY, Table, columns
from natstui.model.findings.catalogue.consumers import (
    MAX_ACK_PENDING_REACHED,
    NO_LEADER,
    NO_PULLS,
    NO_SUBSCRIBER,
    NOT_ACKED_WITHIN_ACK_WAIT,
    PAUSED,
    POISON,
    REDELIVERING,
    STUCK_CAUSES,
)
from natstui.model.findings.catalogue.status import UNEXPLAINED
from natstui.model.findings.thresholds import (
    MOST_SAMPLES_OF_PERIOD_SHARE,
    NO_PULLS_AFTER_S,
    POISON_DELIVERIES,
)

STUCK = Table(
    "stuck",
    "Every period of at least `--stuck-after` in which a consumer's ack floor did not move "
    "although messages were outstanding.",
    CONSUMER_IDENTITY
    + columns(
        ("start_at_us", "bigint", "First sample at this ack floor"),
        ("end_at_us", "bigint", "Last sample at this ack floor"),
        ("duration_s", "double", "Between the two"),
        ("open", "boolean", "Whether the period lasted until the recording of the consumer ended"),
        (
            "cause",
            "string",
            "The finding at that time, otherwise the most likely cause: "
            + ", ".join(cause.word for cause in STUCK_CAUSES),
        ),
        (
            "ack_floor_stream_seq",
            "bigint",
            "Ack floor during the period; the message after it is the cause",
        ),
        ("pending_max_msgs", "bigint", "Most unprocessed"),
        ("pending_end_msgs", "bigint", "Unprocessed messages at the end"),
        ("ack_pending_max_msgs", "bigint", "Largest number of unacknowledged messages"),
        ("max_ack_pending_msgs", "bigint", "Max ack pending; null: unlimited or unknown"),
        ("delivered_msgs", "bigint", "Deliveries meanwhile"),
        ("fresh_msgs", "bigint", "Advance of the delivered sequence during the period"),
        (
            "redelivered_max_msgs",
            "bigint",
            "Largest number of redelivered messages that were not acked",
        ),
        ("no_pull_share", "double", "Share of samples without an open pull or a subscriber"),
        ("paused_share", "double", "Share of samples in which it was paused"),
        ("leaderless_share", "double", "Share of samples without a leader"),
        ("samples_count", "bigint", "Samples in the period"),
    ),
    key=(*CONSUMER_KEY, "start_at_us"),
)


def compute_stuck(silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return `stuck`: one row per consumer and period in which the ack floor did not move."""
    periods = _stuck_periods(silver.consumer_sample, thresholds)
    consumers = latest_configuration(silver.configuration, F.col("consumer").isNotNull()).select(
        *CONSUMER_KEY, "max_ack_pending_msgs", "ack_policy", "pull"
    )
    periods = periods.join(consumers, [*CONSUMER_KEY], "left")
    last = consumer_rate.groupBy("series_id").agg(F.max("last_at_us").alias("last_at_us"))
    periods = periods.join(last, "series_id")
    periods = periods.withColumn("open", F.col("end_at_us") == F.col("last_at_us"))
    return STUCK.conform(periods.withColumn("cause", _likely_cause()))


def _stuck_periods(samples: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return one row per consumer and period without progress of at least `stuck_after_s`."""
    rows = samples_of_long_periods(samples, "stuck_since_us", thresholds.stuck_after_s)
    has_no_pull = (F.col("waiting_pulls_count") == 0) & ~F.col("push_bound")
    time_since_delivery_us = F.col("at_us") - F.col("delivered_at_us")
    is_long_without_delivery = F.coalesce(
        time_since_delivery_us > NO_PULLS_AFTER_S * 1e6, F.lit(True)
    )
    # The change of the first sample of a period happened before the period.
    is_after_period_start = F.col("at_us") > F.col("stuck_since_us")
    start = F.col("stuck_since_us").alias("start_at_us")
    periods = rows.groupBy("series_id", *CONSUMER_KEY, start).agg(
        F.max("at_us").alias("end_at_us"),
        F.count("*").alias("samples_count"),
        F.max("ack_floor_stream_seq").alias("ack_floor_stream_seq"),
        F.max("pending_msgs").alias("pending_max_msgs"),
        F.max_by("pending_msgs", "at_us").alias("pending_end_msgs"),
        F.max("ack_pending_msgs").alias("ack_pending_max_msgs"),
        F.coalesce(F.sum(F.when(is_after_period_start, F.col("delivered_msgs"))), F.lit(0)).alias(
            "delivered_msgs"
        ),
        F.coalesce(F.sum(F.when(is_after_period_start, F.col("fresh_msgs"))), F.lit(0)).alias(
            "fresh_msgs"
        ),
        F.max("redelivered_msgs").alias("redelivered_max_msgs"),
        _share_of_samples(has_no_pull).alias("no_pull_share"),
        _share_of_samples(has_no_pull & is_long_without_delivery).alias("unserved_share"),
        _share_of_samples(F.col("paused")).alias("paused_share"),
        _share_of_samples(F.col("leader").isNull()).alias("leaderless_share"),
    )
    duration_s = (F.col("end_at_us") - F.col("start_at_us")) / 1e6
    return periods.withColumn("duration_s", duration_s)


def _share_of_samples(condition: Column) -> Column:
    return F.count_if(condition) / F.count("*")


def _likely_cause() -> Column:
    """Return the label of the first cause that applies, in the order of `STUCK_CAUSES`."""
    has_no_pull = F.col("no_pull_share") > MOST_SAMPLES_OF_PERIOD_SHARE
    has_neither_pull_nor_delivery = F.col("unserved_share") > MOST_SAMPLES_OF_PERIOD_SHARE
    has_pending, is_push = F.col("pending_max_msgs") > 0, F.col("pull") == F.lit(False)
    is_at_max_ack_pending = F.col("ack_pending_max_msgs") >= F.col("max_ack_pending_msgs")
    redelivered_msgs = F.col("delivered_msgs") - F.col("fresh_msgs")
    is_redelivering = (redelivered_msgs > 0) & (F.col("redelivered_max_msgs") > 0)
    # If only one message may be unacknowledged, all redeliveries are of this message, and its
    # first delivery precedes them.
    allows_single_ack_pending = F.coalesce(F.col("max_ack_pending_msgs") == 1, F.lit(False))
    condition_by_cause = {
        NO_LEADER: F.col("leaderless_share") > MOST_SAMPLES_OF_PERIOD_SHARE,
        PAUSED: F.col("paused_share") > MOST_SAMPLES_OF_PERIOD_SHARE,
        POISON: allows_single_ack_pending
        & is_redelivering
        & (redelivered_msgs + 1 >= POISON_DELIVERIES),
        MAX_ACK_PENDING_REACHED: is_at_max_ack_pending & (F.col("ack_policy") != "none"),
        REDELIVERING: is_redelivering,
        NO_SUBSCRIBER: has_no_pull & is_push & has_pending,
        NO_PULLS: has_neither_pull_nor_delivery & ~F.coalesce(is_push, F.lit(False)) & has_pending,
        NOT_ACKED_WITHIN_ACK_WAIT: F.col("ack_pending_max_msgs") > 0,
        UNEXPLAINED: F.lit(True),
    }
    return F.coalesce(*(F.when(condition_by_cause[cause], cause.word) for cause in STUCK_CAUSES))


def find_stuck_consumers(periods: DataFrame) -> DataFrame:
    """Return findings about the periods in which consumers were stuck."""
    duration_weight = F.least(F.col("duration_s") / 3600, F.lit(1.0)) * 30
    is_paused = F.col("cause") == PAUSED.word
    weight = F.when(is_paused, 30 + duration_weight / 2).otherwise(60 + duration_weight)
    sentence = F.concat(F.lit("stuck for "), duration_text("duration_s"))
    evidence = F.format_string(
        "ack floor %d, %d pending, %d of %s unacknowledged, %s meanwhile",
        "ack_floor_stream_seq",
        "pending_max_msgs",
        "ack_pending_max_msgs",
        F.coalesce(F.col("max_ack_pending_msgs").cast("string"), F.lit("unlimited")),
        count_text(F.col("delivered_msgs"), "delivery", "deliveries"),
    )
    return build_findings(
        periods, "stuck", consumer_text(), weight, (sentence, evidence), F.col("cause")
    )


def _compute_stuck_with_recorded_causes(inputs: GoldInputs) -> DataFrame:
    rows = compute_stuck(inputs.silver, inputs.gold("consumer_rate"), inputs.thresholds)
    if inputs.is_empty(FINDINGS.name):
        return rows
    finding_periods, sessions = inputs.gold(FINDINGS.name), inputs.gold(SESSION_SUMMARY.name)
    return STUCK.conform(explain_stuck_periods(rows, finding_periods, sessions))


REPORT_POSITION = 60
GOLD_TABLES = (
    GoldTable(
        STUCK,
        _compute_stuck_with_recorded_causes,
        input_names=("consumer_rate", FINDINGS.name, SESSION_SUMMARY.name),
        findings=(find_stuck_consumers,),
        section=Section(
            "Stuck consumers",
            ("session", "stream", "consumer", "cause", "start_at_us", "duration_s",
             "ack_floor_stream_seq", "pending_max_msgs", "ack_pending_max_msgs"),
            "No consumer was stuck.",
        ),
        sorted_by=("-duration_s",),
        min_rows_count=TIMELINE_ROWS_COUNT,
    ),
)  # fmt: skip
