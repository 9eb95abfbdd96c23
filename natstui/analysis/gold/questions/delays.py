"""Answer 15: who delays whom: what a consumer's backlog follows, how strongly and how late.

The change of its backlog from bucket to bucket is correlated with what its stream stored, with
its repeated deliveries and with elections, now and up to five buckets before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer, Given, consumer_text, finding, time_text
from natstui.analysis.gold.redelivery import ELECTED
from natstui.analysis.gold.telling.picture import bucket_of
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION, Table, columns

MOST_LATER = 5
"""Buckets that a backlog may follow its reason."""
LEAST_BUCKETS = 8
LEAST_EVENTS = 3
"""Of what happened more rarely, once and together proves nothing."""
GROWTH_PART = 3
"""A backlog grew as well where it grew by this part of its most. One burst is followed once, and
goes along with all that happened in its interval."""
LEAST_WAIT_S = 1.0
"""A backlog that is delivered in less delays nobody."""
LEAST_STRENGTH = 0.5
LEAST_Z = 4.5
"""Many consumers are asked about three reasons at six delays: chance alone hardly comes so far."""
DRIVERS = {
    "bursts": "bursts of its stream",
    "repeats": "its own redeliveries",
    "elections": "elections of a leader",
}

DELAY = Table(
    "delay",
    "What the backlog of the worst consumers correlates with, with a time lag.",
    columns(
        SESSION,
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
_CONSUMER = ["session", "stream", "consumer"]


def delay(given: Given) -> DataFrame:
    """Return `delay`: one row per drawn consumer and driver, from `picture`."""
    rows = _followed(_with_drivers(given))
    order = Window.partitionBy(*_CONSUMER).orderBy("bucket_at_us")
    width_us = F.col("width_s") * 1_000_000

    def before(name: str, count: int) -> Column:
        """Return a value of so many buckets before; null where some are missing in between."""
        if not count:
            return F.col(name)
        at_us = F.lag("bucket_at_us", count).over(order)
        follows = F.col("bucket_at_us") - at_us == count * width_us
        return F.when(follows, F.lag(name, count).over(order))

    rows = rows.withColumn("grown", F.col("pending_msgs") - before("pending_msgs", 1))
    most = F.max("grown").over(Window.partitionBy(*_CONSUMER))
    rows = rows.withColumn("grew", F.col("grown") * GROWTH_PART >= F.greatest(most, F.lit(1)))
    pairs = {f"{name}_{n}": before(name, n) for name in DRIVERS for n in range(MOST_LATER + 1)}
    rows = rows.withColumns(pairs)
    rows = rows.groupBy(*_CONSUMER, "width_s").agg(
        # Rounded, so that of delays with the same correlation the shortest is told.
        *(F.round(F.corr(name, "grown"), 9).alias(f"{name}_r") for name in pairs),
        *(F.count_if(F.col(name).isNotNull() & F.col("grown").isNotNull()).alias(f"{name}_n")
          for name in pairs),
        *(F.count_if(F.col(name) > 0).alias(f"{name}_events") for name in DRIVERS),
        F.count_if("grew").alias("growths_count"),
        F.sum("delivered_per_s").alias("taken_per_s"),
        (F.max("pending_msgs") / F.nullif(F.avg("delivered_per_s"), F.lit(0))).alias("wait_s"),
    )  # fmt: skip
    # Whatever takes nothing has a backlog of all that is stored: it is stuck, not delayed.
    found = _strongest(rows.where(F.col("taken_per_s") > 0))
    # Of one that never caught up the backlog only grows: whatever grows too goes along with it.
    never = given.gold("lag").where("never_caught_up").select("session", "stream", "consumer")
    never = never.distinct().withColumn("driver", F.lit("bursts"))
    key = ["session", "stream", "consumer", "driver"]
    return DELAY.contract(found.join(never, key, "left_anti"))


def _with_drivers(given: Given) -> DataFrame:
    """Return the buckets of the consumers drawn, with what their streams stored and elected."""
    drawn = given.gold("picture").where(F.col("rank") > 0)
    streams = F.broadcast(drawn.select("session", "stream", "width_s").distinct())
    key = ["session", "stream", "bucket_at_us"]
    stored = given.silver.stream_sample.join(streams, ["session", "stream"])
    stored = stored.withColumn("bucket_at_us", bucket_of("at_us")).groupBy(*key)
    stored = stored.agg(
        (F.sum("published_msgs") / F.nullif(F.sum("elapsed_us"), F.lit(0))).alias("bursts")
    )
    return _elected(given, drawn.join(F.broadcast(stored), key, "left"))


def _elected(given: Given, rows: DataFrame) -> DataFrame:
    """Add whether a leader of the stream or of the consumer was elected in a bucket."""
    widths = F.broadcast(rows.select("session", "width_s").distinct())
    advised = given.silver.advisory.where(F.col("kind").isin(*ELECTED))
    advised = advised.select("session", "stream", F.col("consumer").alias("of"), "at_us")
    changes = given.gold("availability").where(F.col("kind") == "leader_change")
    nobody = F.lit(None).cast("string").alias("of")
    seen = changes.select("session", "stream", nobody, F.col("start_at_us").alias("at_us"))
    both = advised.unionAll(seen).join(widths, "session")
    both = both.withColumn("bucket_at_us", bucket_of("at_us"))
    key = ["session", "stream", "bucket_at_us"]
    who = both.groupBy(*key).agg(F.collect_set(F.coalesce("of", F.lit(""))).alias("elected"))
    rows = rows.join(who, key, "left")
    is_elected = F.array_contains("elected", "") | F.array_contains("elected", F.col("consumer"))
    return rows.withColumn("elections", F.coalesce(is_elected, F.lit(False)).cast("double"))


def _followed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("repeats", F.coalesce("repeated_msgs", F.lit(0)).cast("double"))


def _strongest(rows: DataFrame) -> DataFrame:
    """Return for each reason the delay at which the correlation is strongest."""
    best = F.explode(F.array(*map(_best, DRIVERS))).alias("best")
    rows = rows.select(*_CONSUMER, "width_s", "wait_s", "growths_count", best)
    rows = rows.where(F.col("best").isNotNull()).select("*", "best.*")
    rows = rows.where(F.col("buckets_count") >= LEAST_BUCKETS)
    strength = F.col("strength_ratio")
    # Fisher's transformation; at 1 it is without bound.
    z = F.atanh(F.least(strength, F.lit(0.999999))) * F.sqrt(F.col("buckets_count") - 3)
    certain = (strength >= LEAST_STRENGTH) & (z >= LEAST_Z)
    often = F.least("events_count", "growths_count") >= LEAST_EVENTS
    matters = often & (F.col("wait_s") >= LEAST_WAIT_S)
    after_s = -F.col("earlier") * F.col("width_s")
    return rows.withColumns({"certain": certain & matters, "after_s": after_s})


def _best(driver: str) -> Column:
    found = F.array(
        *(
            F.struct(
                F.col(f"{driver}_{n}_r").alias("strength_ratio"),
                F.lit(-n).alias("earlier"),
                F.col(f"{driver}_{n}_n").alias("buckets_count"),
                F.lit(driver).alias("driver"),
                F.col(f"{driver}_events").alias("events_count"),
            )
            for n in range(MOST_LATER + 1)
        )
    )
    return F.array_max(
        F.filter(
            found, lambda one: one["strength_ratio"].isNotNull() & ~F.isnan(one["strength_ratio"])
        )
    )


def follows(rows: DataFrame) -> DataFrame:
    """Return findings about backlogs that follow something for certain."""
    names = F.create_map(*(F.lit(x) for pair in DRIVERS.items() for x in pair))
    when = F.when(
        F.col("after_s") > 0, F.concat(F.lit(" "), time_text("after_s"), F.lit(" later"))
    ).otherwise("")
    sentence = F.concat(F.lit("its backlog grows with "), names[F.col("driver")], when)
    evidence = F.format_string(
        "correlation %.2f over %d buckets of %d s", "strength_ratio", "buckets_count", "width_s"
    )
    rows, weight = rows.where("certain"), 24 + F.col("strength_ratio") * 10
    return finding(rows, "delay", consumer_text(), weight, (sentence, evidence), F.col("driver"))


PLACE = 80
ANSWERS = (
    Answer(
        DELAY,
        delay,
        needs=("picture", "availability", "lag"),
        findings=(follows,),
        section=Section(
            "What delays whom",
            ("session", "stream", "consumer", "driver", "strength_ratio", "after_s",
             "buckets_count", "certain"),
            "No backlog was recorded for long enough.",
            optional=True,
        ),
        sorted_by=("-certain", "-strength_ratio", "session", "stream", "consumer", "driver"),
        most_rows_count=48,
    ),
)  # fmt: skip
