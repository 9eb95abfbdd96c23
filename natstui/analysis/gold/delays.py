"""Table of the likely causes of backlogs: correlations of a consumer's backlog, with their delay.

The change of the backlog between buckets is correlated with stored messages, redeliveries and
elections, in the same bucket and up to five buckets before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.gold_table import (
    GoldInputs,
    GoldTable,
    build_findings,
    consumer_text,
    duration_text,
)
from natstui.analysis.gold.picture import picture_bucket_start
from natstui.analysis.gold.redelivery import ELECTION_KINDS
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

MAX_DELAY_BUCKETS = 5
"""Maximum delay from a cause to the growth of the backlog, in buckets."""
MIN_BUCKETS_COUNT = 8
MIN_EVENTS_COUNT = 3
"""Minimum number of events of a cause: fewer may coincide by chance."""
LARGEST_TO_EVENT_GROWTH_RATIO = 3
"""Divisor of a backlog's largest growth; the result is the minimum growth that is an event.

Fewer events than `MIN_EVENTS_COUNT` prove nothing: a single burst would correlate with every event
in its bucket.
"""
MIN_WAIT_S = 1.0
"""Minimum time to deliver the largest backlog if its growth is a delay."""
MIN_CORRELATION = 0.5
MIN_Z_SCORE = 4.5
"""Minimum z-score of a correlation: it is rarely reached by chance, even with many consumers."""
DRIVERS = {
    "bursts": "bursts of its stream",
    "repeats": "its own redeliveries",
    "elections": "elections of a leader",
}

DELAY = Table(
    "delay",
    "What the backlog of the worst consumers correlates with, with a time lag.",
    columns(
        SESSION_COLUMN,
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "Name of the consumer with the backlog"),
        ("driver", "string", f"Possible cause of the backlog: {', '.join(DRIVERS)}"),
        ("strength_ratio", "double", "Correlation with the change of the backlog, from -1 to 1"),
        ("after_s", "double", "Time lag at which the correlation is strongest"),
        ("width_s", "bigint", "Length of the compared intervals; shorter effects are not visible"),
        ("buckets_count", "bigint", "Number of compared pairs of intervals"),
        (
            "certain",
            "boolean",
            "Whether the correlation is strong, not by chance, and the backlog delays messages",
        ),
    ),
    key=("session", "stream", "consumer", "driver"),
)
_CONSUMER_COLUMNS = ["session", "stream", "consumer"]


def compute_delay(inputs: GoldInputs) -> DataFrame:
    """Return `delay`: one row per consumer in `picture` and possible cause of its backlog.

    The possible causes are the drivers of `DRIVERS`.
    """
    rows = _with_drivers(inputs).transform(_with_redelivery_counts)
    order = Window.partitionBy(*_CONSUMER_COLUMNS).orderBy("bucket_at_us")
    width_us = F.col("width_s") * 1_000_000

    def value_before(name: str, buckets_count: int) -> Column:
        """Return a column's value `buckets_count` buckets before; null if a bucket is missing."""
        if not buckets_count:
            return F.col(name)
        at_us = F.lag("bucket_at_us", buckets_count).over(order)
        is_consecutive = F.col("bucket_at_us") - at_us == buckets_count * width_us
        return F.when(is_consecutive, F.lag(name, buckets_count).over(order))

    rows = rows.withColumn("grown", F.col("pending_msgs") - value_before("pending_msgs", 1))
    largest_growth = F.max("grown").over(Window.partitionBy(*_CONSUMER_COLUMNS))
    rows = rows.withColumn(
        "grew",
        F.col("grown") * LARGEST_TO_EVENT_GROWTH_RATIO >= F.greatest(largest_growth, F.lit(1)),
    )
    earlier_values = {
        f"{name}_{n}": value_before(name, n)
        for name in DRIVERS
        for n in range(MAX_DELAY_BUCKETS + 1)
    }
    rows = rows.withColumns(earlier_values)
    rows = rows.groupBy(*_CONSUMER_COLUMNS, "width_s").agg(
        # Rounded, so that of delays with nearly equal correlations the shortest is reported.
        *(F.round(F.corr(name, "grown"), 9).alias(f"{name}_r") for name in earlier_values),
        *(F.count_if(F.col(name).isNotNull() & F.col("grown").isNotNull()).alias(f"{name}_n")
          for name in earlier_values),
        *(F.count_if(F.col(name) > 0).alias(f"{name}_events") for name in DRIVERS),
        F.count_if("grew").alias("growths_count"),
        F.sum("delivered_per_s").alias("taken_per_s"),
        (F.max("pending_msgs") / F.nullif(F.avg("delivered_per_s"), F.lit(0))).alias("wait_s"),
    )  # fmt: skip
    # A consumer without deliveries is stuck, not delayed.
    strongest_delays = _strongest_delays(rows.where(F.col("taken_per_s") > 0))
    # The backlog of a consumer that never caught up grows with the stream in any case.
    always_lagging_consumers = (
        inputs.gold("lag").where("never_caught_up").select("session", "stream", "consumer")
    )
    always_lagging_consumers = always_lagging_consumers.distinct().withColumn(
        "driver", F.lit("bursts")
    )
    key_columns = ["session", "stream", "consumer", "driver"]
    return DELAY.conform(strongest_delays.join(always_lagging_consumers, key_columns, "left_anti"))


def _with_drivers(inputs: GoldInputs) -> DataFrame:
    """Return the buckets of the consumers in `picture`, with the drivers `bursts` and `elections`.

    `bursts` is the rate at which messages were stored, `elections` is from `_with_elections`.
    """
    buckets = inputs.gold("picture").where(F.col("rank") > 0)
    streams = F.broadcast(buckets.select("session", "stream", "width_s").distinct())
    key = ["session", "stream", "bucket_at_us"]
    stored_rates = inputs.silver.stream_sample.join(streams, ["session", "stream"])
    stored_rates = stored_rates.withColumn("bucket_at_us", picture_bucket_start("at_us")).groupBy(
        *key
    )
    stored_rates = stored_rates.agg(
        (F.sum("published_msgs") / F.nullif(F.sum("elapsed_us"), F.lit(0))).alias("bursts")
    )
    return _with_elections(inputs, buckets.join(F.broadcast(stored_rates), key, "left"))


def _with_elections(inputs: GoldInputs, rows: DataFrame) -> DataFrame:
    """Add `elections`: 1 if a leader of stream or consumer was elected in the bucket, else 0."""
    bucket_widths = F.broadcast(rows.select("session", "width_s").distinct())
    advisories = inputs.silver.advisory.where(F.col("kind").isin(*ELECTION_KINDS))
    advisories = advisories.select("session", "stream", F.col("consumer").alias("of"), "at_us")
    changes = inputs.gold("availability").where(F.col("kind") == "leader_change")
    no_consumer = F.lit(None).cast("string").alias("of")
    leader_changes = changes.select(
        "session", "stream", no_consumer, F.col("start_at_us").alias("at_us")
    )
    elections = advisories.unionAll(leader_changes).join(bucket_widths, "session")
    elections = elections.withColumn("bucket_at_us", picture_bucket_start("at_us"))
    key = ["session", "stream", "bucket_at_us"]
    elected_consumers = elections.groupBy(*key).agg(
        F.collect_set(F.coalesce("of", F.lit(""))).alias("elected")
    )
    rows = rows.join(elected_consumers, key, "left")
    is_elected = F.array_contains("elected", "") | F.array_contains("elected", F.col("consumer"))
    return rows.withColumn("elections", F.coalesce(is_elected, F.lit(False)).cast("double"))


def _with_redelivery_counts(rows: DataFrame) -> DataFrame:
    """Add `repeats`, the number of redeliveries in the bucket."""
    return rows.withColumn("repeats", F.coalesce("repeated_msgs", F.lit(0)).cast("double"))


def _strongest_delays(rows: DataFrame) -> DataFrame:
    """Return the delay with the strongest correlation, per consumer and possible cause."""
    strongest_delay_by_driver = F.explode(F.array(*map(_strongest_delay, DRIVERS))).alias("best")
    rows = rows.select(
        *_CONSUMER_COLUMNS, "width_s", "wait_s", "growths_count", strongest_delay_by_driver
    )
    rows = rows.where(F.col("best").isNotNull()).select("*", "best.*")
    rows = rows.where(F.col("buckets_count") >= MIN_BUCKETS_COUNT)
    correlation = F.col("strength_ratio")
    # Fisher's transformation, which is infinite at 1.
    z_score = F.atanh(F.least(correlation, F.lit(0.999999))) * F.sqrt(F.col("buckets_count") - 3)
    is_certain_delay = (correlation >= MIN_CORRELATION) & (z_score >= MIN_Z_SCORE)
    has_events = F.least("events_count", "growths_count") >= MIN_EVENTS_COUNT
    is_relevant = has_events & (F.col("wait_s") >= MIN_WAIT_S)
    delay_s = -F.col("earlier") * F.col("width_s")
    return rows.withColumns({"certain": is_certain_delay & is_relevant, "after_s": delay_s})


def _strongest_delay(driver: str) -> Column:
    correlated_delays = F.array(
        *(
            F.struct(
                F.col(f"{driver}_{buckets_before}_r").alias("strength_ratio"),
                F.lit(-buckets_before).alias("earlier"),
                F.col(f"{driver}_{buckets_before}_n").alias("buckets_count"),
                F.lit(driver).alias("driver"),
                F.col(f"{driver}_events").alias("events_count"),
            )
            for buckets_before in range(MAX_DELAY_BUCKETS + 1)
        )
    )
    return F.array_max(
        F.filter(
            correlated_delays,
            lambda candidate: (
                candidate["strength_ratio"].isNotNull() & ~F.isnan(candidate["strength_ratio"])
            ),
        )
    )


def find_delayed_consumers(rows: DataFrame) -> DataFrame:
    """Return findings about backlogs whose growth is correlated with a possible cause."""
    names = F.create_map(
        *(F.lit(key_or_value) for pair in DRIVERS.items() for key_or_value in pair)
    )
    delay_text = F.when(
        F.col("after_s") > 0, F.concat(F.lit(" "), duration_text("after_s"), F.lit(" later"))
    ).otherwise("")
    sentence = F.concat(F.lit("its backlog grows with "), names[F.col("driver")], delay_text)
    evidence = F.format_string(
        "correlation %.2f over %d buckets of %d s", "strength_ratio", "buckets_count", "width_s"
    )
    rows, weight = rows.where("certain"), 24 + F.col("strength_ratio") * 10
    return build_findings(
        rows, "delay", consumer_text(), weight, (sentence, evidence), F.col("driver")
    )


REPORT_POSITION = 80
GOLD_TABLES = (
    GoldTable(
        DELAY,
        compute_delay,
        input_names=("picture", "availability", "lag"),
        findings=(find_delayed_consumers,),
        section=Section(
            "What delays whom",
            ("session", "stream", "consumer", "driver", "strength_ratio", "after_s",
             "buckets_count", "certain"),
            "No backlog was recorded for long enough.",
            optional=True,
        ),
        sorted_by=("-certain", "-strength_ratio", "session", "stream", "consumer", "driver"),
        max_rows_count=48,
    ),
)  # fmt: skip
