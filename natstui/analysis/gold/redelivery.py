"""Answer 4: what was delivered more than once: how much, when, which messages, after what."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Answer, consumer_text, counted, finding
from natstui.analysis.gold.rates import bucket_start
from natstui.analysis.gold.stuck import POISON_LEAST_COUNT
from natstui.analysis.gold.telling.harm import GAVE_UP
from natstui.analysis.section import Section
from natstui.analysis.silver.events import latest_configuration
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import ACK_SAMPLE, ADVISORY
from natstui.analysis.tables import CONSUMER_IDENTITY, CONSUMER_KEY, SESSION, Table, columns

CHANGE_WINDOW_US = 300_000_000
"""A configuration change this long before a hot spot is named with it."""
REDELIVERY = Table(
    "redelivery",
    "Redeliveries of each consumer over the entire session.",
    CONSUMER_IDENTITY
    + columns(
        ("delivered_msgs", "bigint", "Deliveries, redeliveries included"),
        (
            "repeated_msgs",
            "bigint",
            "Minimum redeliveries (deliveries minus the advance of the stream sequence)",
        ),
        (
            "repeated_share",
            "double",
            "Redeliveries per delivery; null with a filter, or without deliveries",
        ),
        (
            "redelivered_max_msgs",
            "bigint",
            "Largest number of redelivered messages that were not acked",
        ),
        ("naks_count", "bigint", "Negative acknowledgements announced"),
        ("given_up_count", "bigint", "Messages dropped after max deliver"),
        ("terminated_count", "bigint", "Messages that the client terminated"),
    ),
    key=CONSUMER_KEY,
)

HOT_SPOT = Table(
    "redelivery_hot_spot",
    "Intervals with redeliveries of a consumer, with events around them.",
    CONSUMER_IDENTITY
    + columns(
        ("bucket_at_us", "bigint", "Start of the interval"),
        (
            "repeated_msgs",
            "bigint",
            "Minimum redeliveries (deliveries minus the advance of the stream sequence)",
        ),
        ("naks_count", "bigint", "Naks in the interval"),
        ("given_up_count", "bigint", "Messages dropped after max deliver in the interval"),
        ("leader_changes_count", "bigint", "Elections for the consumer or stream in the interval"),
        (
            "configured_at_us",
            "bigint",
            "Last change of the configuration, at most 5 min before the interval",
        ),
    ),
    key=(*CONSUMER_KEY, "bucket_at_us"),
)

GIVEN_UP = "max_deliver"
"""The advisory that says that a message was delivered too often, and is not any more."""
TERMINATED = "terminated"
"""The advisory that says the same because the client wanted it."""
ELECTED = ("stream_leader_elected", "consumer_leader_elected")
"""The advisories that tell of a new leader."""


def advisories_count(*kinds: str) -> Column:
    """Return how many advisories of some kinds there were, those recorded as counts included."""
    return F.coalesce(
        F.sum(F.when(F.col("kind").isin(*kinds), F.col("advisories_count"))), F.lit(0)
    )


def of_consumers(advisories: DataFrame, consumers: DataFrame) -> DataFrame:
    """Return the advisories about consumers, each with the `created_at_us` of the one it is about.

    Of several consumers with one name after each other, that is the one that was there then.
    """
    names = ["session", "stream", "consumer"]
    lives = consumers.select(*names, "created_at_us").distinct()
    in_order = Window.partitionBy(*names).orderBy("created_at_us")
    lives = lives.withColumns(
        {
            "is_first": F.row_number().over(in_order) == 1,
            "next_created_at_us": F.lead("created_at_us").over(in_order),
        }
    )
    rows = advisories.join(lives, names)
    begun = F.col("is_first") | (F.col("at_us") >= F.col("created_at_us"))
    ended = F.coalesce(F.col("at_us") >= F.col("next_created_at_us"), F.lit(False))
    return rows.where(begun & ~ended)


def redelivery(silver: Silver, consumer_rate: DataFrame) -> DataFrame:
    """Return `redelivery`: one row per consumer, from its rates and the advisories about it."""
    rows = consumer_rate.groupBy("series_id", *CONSUMER_KEY).agg(
        F.coalesce(F.sum("delivered_msgs"), F.lit(0)).alias("delivered_msgs"),
        F.coalesce(F.sum("repeated_msgs"), F.lit(0)).alias("repeated_msgs"),
        F.max("redelivered_max_msgs").alias("redelivered_max_msgs"),
    )
    announced = of_consumers(silver.advisory, rows).groupBy(*CONSUMER_KEY)
    announced = announced.agg(
        advisories_count("nak").alias("naks_count"),
        advisories_count(GIVEN_UP).alias("given_up_count"),
        advisories_count(TERMINATED).alias("terminated_count"),
    )
    rows = rows.join(announced, [*CONSUMER_KEY], "left")
    rows = rows.na.fill(0, ["naks_count", "given_up_count", "terminated_count"])
    filtered = latest_configuration(silver.configuration, F.col("consumer").isNotNull())
    rows = rows.join(filtered.select(*CONSUMER_KEY, "filtered"), [*CONSUMER_KEY], "left")
    # With a filter the sequence also advances over messages that are not the consumer's.
    countable = ~F.coalesce("filtered", F.lit(False)) & (F.col("delivered_msgs") > 0)
    share = F.when(countable, F.col("repeated_msgs") / F.col("delivered_msgs"))
    return REDELIVERY.contract(rows.withColumn("repeated_share", share))


def hot_spot(silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return `redelivery_hot_spot`: one row per consumer and interval with enough repeats."""
    rows = consumer_rate.where(F.col("repeated_msgs") >= thresholds.hot_msgs)
    bucket = bucket_start("at_us", thresholds.bucket_us)
    advisories = silver.advisory.withColumn("bucket_at_us", bucket)
    keys = [*CONSUMER_KEY, "bucket_at_us"]
    of_consumer = of_consumers(advisories, consumer_rate).groupBy(*keys)
    of_consumer = of_consumer.agg(
        advisories_count("nak").alias("naks_count"),
        advisories_count(GIVEN_UP).alias("given_up_count"),
        advisories_count(*ELECTED).alias("own_count"),
    )
    rows = rows.join(of_consumer, keys, "left")
    keys = ["session", "stream", "bucket_at_us"]
    of_stream = advisories.where(F.col("consumer").isNull()).groupBy(*keys)
    rows = rows.join(of_stream.agg(advisories_count(*ELECTED).alias("stream_count")), keys, "left")
    counts = ["naks_count", "given_up_count", "own_count", "stream_count"]
    rows = rows.na.fill(0, counts).withColumn(
        "leader_changes_count", F.col("own_count") + F.col("stream_count")
    )
    return HOT_SPOT.contract(_with_change(rows, silver, thresholds))


def _with_change(rows: DataFrame, silver: Silver, thresholds: Thresholds) -> DataFrame:
    changed = (F.col("change_count") > 0) & F.col("consumer").isNotNull()
    changes = silver.configuration.where(changed)
    changes = changes.groupBy(*CONSUMER_KEY).agg(F.sort_array(F.collect_list("at_us")).alias("at"))
    rows = rows.join(changes, [*CONSUMER_KEY], "left")
    end_us = F.col("bucket_at_us") + thresholds.bucket_us
    near = F.filter("at", lambda at: (at < end_us) & (at >= end_us - CHANGE_WINDOW_US))
    return rows.withColumn("configured_at_us", F.array_max(near))


POISON = Table(
    "poison",
    "Messages that were delivered again and again, or dropped.",
    columns(
        SESSION,
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "Name of the consumer"),
        ("stream_seq", "bigint", "The message"),
        ("deliveries_count", "bigint", "Most deliveries announced"),
        ("naks_count", "bigint", "Negative acknowledgements announced"),
        ("given_up", "boolean", "Whether the message reached max deliver"),
        ("terminated", "boolean", "Whether the client terminated the message"),
        ("acked", "boolean", "Whether a sampled ack shows that the message was acked"),
        ("first_at_us", "bigint", "First announcement"),
        ("last_at_us", "bigint", "Last announcement"),
    ),
    key=("session", "stream", "consumer", "stream_seq"),
)


def poison(silver: Silver) -> DataFrame:
    """Return `poison`: one row per message, from advisories and sampled acknowledgements."""
    announced = silver.advisory.where(F.col("stream_seq").isNotNull()).select(
        "session", "stream", "consumer", "stream_seq", "deliveries_count", "at_us", "kind",
        "advisories_count",
    )  # fmt: skip
    acked = silver.ack_sample.where(F.col("deliveries_count") > 1).select(
        "session", "stream", "consumer", "stream_seq", "deliveries_count", "at_us",
        F.lit("ack").alias("kind"), F.lit(1).cast("bigint").alias("advisories_count"),
    )  # fmt: skip
    rows = announced.unionAll(acked).groupBy("session", "stream", "consumer", "stream_seq")
    messages = rows.agg(
        F.max("deliveries_count").alias("deliveries_count"),
        advisories_count("nak").alias("naks_count"),
        F.bool_or(F.col("kind") == GIVEN_UP).alias("given_up"),
        F.bool_or(F.col("kind") == TERMINATED).alias("terminated"),
        F.bool_or(F.col("kind") == "ack").alias("acked"),
        F.min("at_us").alias("first_at_us"),
        F.max("at_us").alias("last_at_us"),
    )
    often = F.col("deliveries_count") >= POISON_LEAST_COUNT
    return POISON.contract(messages.where(often | F.col("given_up")))


def repeated(consumers: DataFrame) -> DataFrame:
    """Return findings about consumers of whose deliveries many were repeats."""
    rows = consumers.where(F.col("repeated_share") > 0.05)
    weight = 35 + F.col("repeated_share") * 30
    sentence = F.format_string("%.1f %% of deliveries were repeats", F.col("repeated_share") * 100)
    evidence = F.format_string("%d of %d deliveries", "repeated_msgs", "delivered_msgs")
    return finding(rows, "redelivery", consumer_text(), weight, (sentence, evidence))


def terminated(consumers: DataFrame) -> DataFrame:
    """Return findings about consumers whose clients terminated messages, which may be meant."""
    rows, count = consumers.where(F.col("terminated_count") > 0), F.col("terminated_count")
    sentence = F.concat(counted(count, "message"), F.lit(" terminated by the client"))
    evidence = F.lit("the client asked not to redeliver them")
    words = (sentence, evidence)
    return finding(rows, "redelivery", consumer_text(), F.lit(32), words, F.lit(TERMINATED))


def gave_up(consumers: DataFrame) -> DataFrame:
    """Return findings about consumers that dropped messages after max deliver.

    Counted by advisories: of many at a time only the count is recorded, and no message is named.
    """
    rows, count = consumers.where(F.col("given_up_count") > 0), F.col("given_up_count")
    sentence = F.concat(counted(count, "message"), F.lit(" dropped after max deliver"))
    first = F.greatest(F.col("delivered_msgs") - F.col("repeated_msgs"), F.lit(0))
    share = F.when(first >= count, F.format_string(" (%.1f %%)", count / first * 100))
    delivered = F.concat(
        F.lit("of "), counted(first, "message"), F.lit(" delivered"), F.coalesce(share, F.lit(""))
    )
    evidence = F.when(first > 0, delivered).otherwise("none was delivered for the first time")
    weight = 63 + F.least(F.log10(count), F.lit(9)) / 10
    return finding(
        rows, "redelivery", consumer_text(), weight, (sentence, evidence), F.lit(GAVE_UP)
    )


def never_settled(messages: DataFrame) -> DataFrame:
    """Return findings about messages that were delivered often and never settled."""
    rows = messages.where(~F.col("acked") & ~F.col("terminated"))
    rows = rows.withColumnsRenamed({"first_at_us": "start_at_us", "last_at_us": "end_at_us"})
    # The most delivered one is the example of them all.
    often = F.least(F.log10(F.coalesce("deliveries_count", F.lit(0)) + 1), F.lit(9)) / 10
    weight = F.when(F.col("given_up"), 62).otherwise(45) + often
    fate = F.when(F.col("given_up"), "was dropped after max deliver").otherwise(
        "is redelivered again and again"
    )
    sentence = F.format_string("message %d %s", F.col("stream_seq"), fate)
    deliveries = F.coalesce("deliveries_count", F.lit(0))
    evidence = F.concat_ws(
        ", ", counted(deliveries, "delivery", "deliveries"), counted(F.col("naks_count"), "nak")
    )
    return finding(rows, "poison", consumer_text(), weight, (sentence, evidence), fate)


PLACE = 90
ANSWERS = (
    Answer(
        REDELIVERY,
        lambda given: redelivery(given.silver, given.gold("consumer_rate")),
        needs=("consumer_rate",),
        findings=(repeated, terminated, gave_up),
        section=Section(
            "Redelivery",
            ("session", "stream", "consumer", "delivered_msgs", "repeated_msgs",
             "repeated_share", "naks_count", "given_up_count", "terminated_count"),
            "No consumers.",
        ),
        sorted_by=("-repeated_msgs",),
    ),
    Answer(
        HOT_SPOT,
        lambda given: hot_spot(given.silver, given.gold("consumer_rate"), given.thresholds),
        needs=("consumer_rate",),
        section=Section(
            "Redelivery hot spots",
            ("session", "stream", "consumer", "bucket_at_us", "repeated_msgs", "naks_count",
             "given_up_count", "leader_changes_count", "configured_at_us"),
            "No hot spots.",
        ),
        sorted_by=("-repeated_msgs",),
    ),
    Answer(
        POISON,
        lambda given: poison(given.silver),
        made_of=(ADVISORY, ACK_SAMPLE),
        findings=(never_settled,),
        section=Section(
            "Poison messages",
            ("session", "stream", "consumer", "stream_seq", "deliveries_count", "naks_count",
             "given_up", "acked", "first_at_us"),
            "The server reported no poison message.",
        ),
        sorted_by=("-deliveries_count",),
    ),
)  # fmt: skip
