"""Answer 14: what was changed in the configuration before it got worse."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Answer, Given, consumer_text, finding, time_text
from natstui.analysis.gold.lag import LAG_PERIOD
from natstui.analysis.gold.redelivery import CHANGE_WINDOW_US, HOT_SPOT
from natstui.analysis.gold.stuck import STUCK as STUCK_TABLE
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION, Table, columns
from natstui.model.findings.catalogue.consumers import PAUSED

SLACK_US = 10_000_000
"""What got worse may seem to begin so long before the change: it is seen by the next poll only."""
FIELDS = (
    "replicas_count", "retention", "discard", "max_msgs", "max_bytes", "max_age_ns", "pull",
    "ack_policy", "max_ack_pending_msgs", "max_deliver_count", "filtered",
)  # fmt: skip
OTHER = "other settings"
STUCK, LAGGING, REDELIVERY = "stuck", "lagging", "redelivery"
_WEIGHTS = {STUCK: 58, LAGGING: 44, REDELIVERY: 42}

CHANGE = Table(
    "change",
    "Problems that began within five minutes after a change of the consumer or its stream.",
    columns(
        SESSION,
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


def change(given: Given) -> DataFrame:
    """Return `change`: one row per problem, with the newest change before it."""
    troubles = _troubles(given, given.thresholds)
    changes = _changes(given.silver.configuration)
    near = F.col("changed_at_us") > F.col("start_at_us") - CHANGE_WINDOW_US
    near &= F.col("changed_at_us") <= F.col("latest_at_us")
    of_consumer = F.col("of").isNull() | (F.col("of") == F.col("consumer"))
    rows = troubles.join(changes, ["session", "stream"]).where(near & of_consumer)
    newest = F.struct("changed_at_us", F.col("of").isNotNull().alias("own"), "change")
    rows = rows.groupBy("session", "stream", "consumer", "trouble", "start_at_us", "detail").agg(
        F.max(newest).alias("newest")
    )
    rows = rows.select("*", "newest.*")
    after_us = F.greatest(F.col("start_at_us") - F.col("changed_at_us"), F.lit(0))
    changed = F.when(F.col("own"), "consumer").otherwise("stream")
    return CHANGE.contract(rows.withColumns({"after_s": after_us / 1e6, "changed": changed}))


def _troubles(given: Given, thresholds: Thresholds) -> DataFrame:
    """Return what got worse, and until when a change can be its reason."""
    stuck = given.gold("stuck").where(F.col("cause") != PAUSED.word)
    late = F.format_string("up to %d pending", "pending_max_msgs")
    again = F.format_string("%d messages again", "repeated_msgs")
    start, spot = F.col("start_at_us"), F.col("bucket_at_us")
    parts = (
        _trouble(stuck, STUCK, start, F.lit(SLACK_US), F.col("cause")),
        _trouble(given.gold("lag_period"), LAGGING, start, F.lit(SLACK_US), late),
        _trouble(
            _begun(given.gold("redelivery_hot_spot"), thresholds),
            REDELIVERY, spot, F.lit(thresholds.bucket_us), again,
        ),
    )  # fmt: skip
    return reduce(lambda rows, more: rows.unionAll(more), parts)


def _begun(spots: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return the first of hot spots that follow each other: later ones did not get worse there."""
    order = Window.partitionBy("session", "stream", "consumer").orderBy("bucket_at_us")
    apart = F.col("bucket_at_us") - F.lag("bucket_at_us").over(order)
    rows = spots.withColumn("apart", apart)
    return rows.where(F.coalesce(F.col("apart") > thresholds.bucket_us, F.lit(True)))


def _trouble(
    rows: DataFrame, trouble: str, start: Column, slack_us: Column, detail: Column
) -> DataFrame:
    return rows.select(
        "session", "stream", "consumer",
        F.lit(trouble).alias("trouble"),
        start.alias("start_at_us"),
        (start + slack_us).alias("latest_at_us"),
        detail.alias("detail"),
    )  # fmt: skip


def _changes(configuration: DataFrame) -> DataFrame:
    """Return when a stream or consumer was changed, and what of it."""
    asset = Window.partitionBy("session", "stream", "consumer", "created_at_us").orderBy("at_us")
    parts = []
    for name in FIELDS:
        before, now = F.lag(name).over(asset), F.col(name)
        texts = [F.coalesce(one.cast("string"), F.lit("none")) for one in (before, now)]
        text = F.concat(F.lit(f"{name} "), texts[0], F.lit(" → "), texts[1])
        parts.append(F.when(~before.eqNullSafe(now), text))
    words = F.concat_ws(", ", *parts)
    rows = configuration.withColumn("words", words).where(F.col("change_count") > 0)
    return rows.select(
        "session", "stream",
        F.col("consumer").alias("of"),
        F.col("at_us").alias("changed_at_us"),
        F.when(F.col("words") == "", OTHER).otherwise(F.col("words")).alias("change"),
    )  # fmt: skip


def worse_after(rows: DataFrame) -> DataFrame:
    """Return a finding for each thing that got worse after a change."""
    weights = F.create_map(*(F.lit(x) for pair in _WEIGHTS.items() for x in pair))
    sentence = F.concat(
        F.col("trouble"), F.lit(" "), time_text("after_s"), F.lit(" after its "),
        F.when(F.col("changed") == "stream", "stream").otherwise("configuration"),
        F.lit(" was changed: "), F.col("change"),
    )  # fmt: skip
    words = (sentence, F.col("detail"))
    trouble = F.col("trouble")
    return finding(rows, "change", consumer_text(), weights[trouble], words, trouble)


PLACE = 50
ANSWERS = (
    Answer(
        CHANGE,
        change,
        needs=("stuck", "lag_period", "redelivery_hot_spot"),
        made_of=(STUCK_TABLE, LAG_PERIOD, HOT_SPOT),
        findings=(worse_after,),
        section=Section(
            "What was changed before it got worse",
            ("session", "stream", "consumer", "trouble", "start_at_us", "after_s", "changed",
             "change", "detail"),
            "Nothing got worse within five minutes after a change.",
            optional=True,
        ),
        sorted_by=("session", "start_at_us", "stream", "consumer"),
        most_rows_count=50,
    ),
)  # fmt: skip
