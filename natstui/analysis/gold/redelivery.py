"""Tables of redeliveries: counts, hot spots, and poison messages."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.gold_table import GoldTable, build_findings, consumer_text, count_text
from natstui.analysis.gold.rates import SECOND_US, bucket_start
from natstui.analysis.gold.shared.harm import DROPPED_CAUSE
from natstui.analysis.section import Section
from natstui.analysis.silver.events import latest_configuration
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import (
    ACK_SAMPLE,
    ADVISORY,
    ONLY_FREQUENT_MESSAGES_MEANING,
)
from natstui.analysis.tables import CONSUMER_IDENTITY, CONSUMER_KEY, SESSION_COLUMN, Table, columns
from natstui.model.findings.thresholds import POISON_DELIVERIES, REPORTED_REDELIVERY_SHARE

CHANGE_WINDOW_US = 300_000_000
"""Maximum time from a configuration change to a hot spot that is reported with it."""
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
    "Intervals with several redeliveries of a consumer, with events around them.",
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
            "Last change of the configuration, at most 5 min before the end of the interval",
        ),
    ),
    key=(*CONSUMER_KEY, "bucket_at_us"),
)

MAX_DELIVER_KIND = "max_deliver"
"""Kind of the advisory about a message that was dropped after max deliver."""
TERMINATED_KIND = "terminated"
"""Kind of the advisory about a message that a client terminated."""
ELECTION_KINDS = ("stream_leader_elected", "consumer_leader_elected")
"""Kinds of the advisories about a new leader."""


def advisories_count(*kinds: str) -> Column:
    """Return the number of advisories of these kinds, including those recorded only as counts."""
    return F.coalesce(
        F.sum(F.when(F.col("kind").isin(*kinds), F.col("advisories_count"))), F.lit(0)
    )


def consumer_advisories(advisories: DataFrame, consumers: DataFrame) -> DataFrame:
    """Return the advisories about consumers, each with the `created_at_us` of its consumer.

    Of consumers with the same name, this is the one that existed at the time of the advisory. Both
    times are of the server's clock.
    """
    names = ["session", "stream", "consumer"]
    consumer_lifetimes = consumers.select(*names, "created_at_us").distinct()
    in_order = Window.partitionBy(*names).orderBy("created_at_us")
    consumer_lifetimes = consumer_lifetimes.withColumns(
        {
            "is_first": F.row_number().over(in_order) == 1,
            "next_created_at_us": F.lead("created_at_us").over(in_order),
        }
    )
    rows = advisories.join(consumer_lifetimes, names)
    server_at_us = F.col("server_at_us")
    is_after_creation = F.col("is_first") | (server_at_us >= F.col("created_at_us"))
    is_of_next_consumer = F.coalesce(server_at_us >= F.col("next_created_at_us"), F.lit(False))
    return rows.where(is_after_creation & ~is_of_next_consumer)


def compute_redelivery(silver: Silver, consumer_rate: DataFrame) -> DataFrame:
    """Return `redelivery`: one row per consumer, from its rates and advisories."""
    rows = consumer_rate.groupBy("series_id", *CONSUMER_KEY).agg(
        F.coalesce(F.sum("delivered_msgs"), F.lit(0)).alias("delivered_msgs"),
        F.coalesce(F.sum("repeated_msgs"), F.lit(0)).alias("repeated_msgs"),
        F.max("redelivered_max_msgs").alias("redelivered_max_msgs"),
    )
    counts = consumer_advisories(silver.advisory, rows).groupBy(*CONSUMER_KEY)
    counts = counts.agg(
        advisories_count("nak").alias("naks_count"),
        advisories_count(MAX_DELIVER_KIND).alias("given_up_count"),
        advisories_count(TERMINATED_KIND).alias("terminated_count"),
    )
    rows = rows.join(counts, [*CONSUMER_KEY], "left")
    rows = rows.na.fill(0, ["naks_count", "given_up_count", "terminated_count"])
    configurations = latest_configuration(silver.configuration, F.col("consumer").isNotNull())
    rows = rows.join(configurations.select(*CONSUMER_KEY, "filtered"), [*CONSUMER_KEY], "left")
    # With a filter the sequence also advances over messages that are not the consumer's.
    is_countable = ~F.coalesce("filtered", F.lit(False)) & (F.col("delivered_msgs") > 0)
    share = F.when(is_countable, F.col("repeated_msgs") / F.col("delivered_msgs"))
    return REDELIVERY.conform(rows.withColumn("repeated_share", share))


def compute_hot_spot(
    silver: Silver, consumer_rate: DataFrame, thresholds: Thresholds
) -> DataFrame:
    """Return `redelivery_hot_spot`: one row per consumer and interval with many redeliveries."""
    rows = consumer_rate.where(F.col("repeated_msgs") >= thresholds.hot_msgs)
    bucket = bucket_start("at_us", thresholds.bucket_us)
    advisories = silver.advisory.withColumn("bucket_at_us", bucket)
    keys = [*CONSUMER_KEY, "bucket_at_us"]
    consumer_counts = consumer_advisories(advisories, consumer_rate).groupBy(*keys)
    consumer_counts = consumer_counts.agg(
        advisories_count("nak").alias("naks_count"),
        advisories_count(MAX_DELIVER_KIND).alias("given_up_count"),
        advisories_count(*ELECTION_KINDS).alias("own_count"),
    )
    rows = rows.join(consumer_counts, keys, "left")
    keys = ["session", "stream", "bucket_at_us"]
    stream_advisories = advisories.where(F.col("consumer").isNull()).groupBy(*keys)
    rows = rows.join(
        stream_advisories.agg(advisories_count(*ELECTION_KINDS).alias("stream_count")),
        keys,
        "left",
    )
    counts = ["naks_count", "given_up_count", "own_count", "stream_count"]
    rows = rows.na.fill(0, counts).withColumn(
        "leader_changes_count", F.col("own_count") + F.col("stream_count")
    )
    return HOT_SPOT.conform(_with_configured_at(rows, silver, thresholds))


def _with_configured_at(rows: DataFrame, silver: Silver, thresholds: Thresholds) -> DataFrame:
    has_changed = (F.col("change_count") > 0) & F.col("consumer").isNotNull()
    changes = silver.configuration.where(has_changed)
    changes = changes.groupBy(*CONSUMER_KEY).agg(F.sort_array(F.collect_list("at_us")).alias("at"))
    rows = rows.join(changes, [*CONSUMER_KEY], "left")
    end_us = F.col("bucket_at_us") + thresholds.bucket_us
    recent_changes = F.filter("at", lambda at: (at < end_us) & (at >= end_us - CHANGE_WINDOW_US))
    return rows.withColumn("configured_at_us", F.array_max(recent_changes))


POISON = Table(
    "poison",
    f"Messages that were delivered again and again, or dropped; {ONLY_FREQUENT_MESSAGES_MEANING}.",
    columns(
        SESSION_COLUMN,
        ("stream", "string", "Name of the stream"),
        ("consumer", "string", "Name of the consumer"),
        ("stream_seq", "bigint", "The message"),
        ("deliveries_count", "bigint", "Most deliveries announced"),
        ("naks_count", "bigint", "Negative acknowledgements announced"),
        ("given_up", "boolean", "Whether the message reached max deliver"),
        ("terminated", "boolean", "Whether the client terminated the message"),
        (
            "acked",
            "boolean",
            "Whether a sampled ack shows that the message was acked; null if later acks of the "
            "consumer are recorded only as counts, without their messages",
        ),
        ("first_at_us", "bigint", "First announcement"),
        ("last_at_us", "bigint", "Last announcement"),
    ),
    key=("session", "stream", "consumer", "stream_seq"),
)


def compute_poison(silver: Silver) -> DataFrame:
    """Return `poison`: one row per message, from advisories and sampled acks."""
    advisories = silver.advisory.where(F.col("stream_seq").isNotNull()).select(
        "session", "stream", "consumer", "stream_seq", "deliveries_count", "at_us", "kind",
        "advisories_count",
    )  # fmt: skip
    sampled_acks = silver.ack_sample.where(F.col("deliveries_count") > 1).select(
        "session", "stream", "consumer", "stream_seq", "deliveries_count", "at_us",
        F.lit("ack").alias("kind"), F.lit(1).cast("bigint").alias("advisories_count"),
    )  # fmt: skip
    rows = advisories.unionAll(sampled_acks).groupBy("session", "stream", "consumer", "stream_seq")
    messages = rows.agg(
        F.max("deliveries_count").alias("deliveries_count"),
        advisories_count("nak").alias("naks_count"),
        F.bool_or(F.col("kind") == MAX_DELIVER_KIND).alias("given_up"),
        F.bool_or(F.col("kind") == TERMINATED_KIND).alias("terminated"),
        F.bool_or(F.col("kind") == "ack").alias("acked"),
        F.min("at_us").alias("first_at_us"),
        F.max("at_us").alias("last_at_us"),
    )
    is_redelivered_often = F.col("deliveries_count") >= POISON_DELIVERIES
    messages = messages.where(is_redelivered_often | F.col("given_up"))
    return POISON.conform(_with_unknown_acks(messages, silver.ack_time))


def _with_unknown_acks(messages: DataFrame, ack_times: DataFrame) -> DataFrame:
    """Return messages with `acked` null if an ack after their last announcement may be theirs.

    Acks without a message are counted acks of redelivered messages, and acks that were not read.
    """
    has_unknown_messages = F.col("counted") & (
        F.col("repeated_count") + F.col("left_out_count") > 0
    )
    last_unknown_acks = ack_times.where(has_unknown_messages).groupBy(
        "session", "stream", "consumer"
    )
    last_unknown_acks = last_unknown_acks.agg(F.max("at_us").alias("unknown_ack_at_us"))
    rows = messages.join(last_unknown_acks, ["session", "stream", "consumer"], "left")
    is_known = F.col("acked") | ~F.coalesce(
        F.col("unknown_ack_at_us") + SECOND_US > F.col("last_at_us"), F.lit(False)
    )
    return rows.withColumn("acked", F.when(is_known, F.col("acked")))


def find_redelivering_consumers(consumers: DataFrame) -> DataFrame:
    """Return findings about consumers with many redeliveries."""
    rows = consumers.where(F.col("repeated_share") > REPORTED_REDELIVERY_SHARE)
    weight = 35 + F.col("repeated_share") * 30
    sentence = F.format_string("%.1f %% of deliveries were repeats", F.col("repeated_share") * 100)
    evidence = F.format_string("%d of %d deliveries", "repeated_msgs", "delivered_msgs")
    return build_findings(rows, "redelivery", consumer_text(), weight, (sentence, evidence))


def find_terminating_consumers(consumers: DataFrame) -> DataFrame:
    """Return findings about consumers whose clients terminated messages."""
    rows, count = consumers.where(F.col("terminated_count") > 0), F.col("terminated_count")
    sentence = F.concat(count_text(count, "message"), F.lit(" terminated by the client"))
    evidence = F.lit("the client requested not to redeliver them")
    texts = (sentence, evidence)
    return build_findings(
        rows, "redelivery", consumer_text(), F.lit(32), texts, F.lit(TERMINATED_KIND)
    )


def find_dropping_consumers(consumers: DataFrame) -> DataFrame:
    """Return findings about consumers that dropped messages after max deliver.

    Dropped messages are counted by advisories, some of which do not name their message.
    """
    rows, count = consumers.where(F.col("given_up_count") > 0), F.col("given_up_count")
    sentence = F.concat(count_text(count, "message"), F.lit(" dropped after max deliver"))
    first_deliveries = F.greatest(F.col("delivered_msgs") - F.col("repeated_msgs"), F.lit(0))
    share_text = F.when(
        first_deliveries >= count, F.format_string(" (%.1f %%)", count / first_deliveries * 100)
    )
    delivered_text = F.concat(
        F.lit("of "),
        count_text(first_deliveries, "message"),
        F.lit(" delivered"),
        F.coalesce(share_text, F.lit("")),
    )
    evidence = F.when(first_deliveries > 0, delivered_text).otherwise(
        "none was delivered for the first time"
    )
    weight = 63 + F.least(F.log10(count), F.lit(9)) / 10
    return build_findings(
        rows,
        "redelivery",
        consumer_text(),
        weight,
        (sentence, evidence),
        F.lit(DROPPED_CAUSE),
    )


def find_poison_messages(messages: DataFrame) -> DataFrame:
    """Return findings about messages that were delivered often, but never acked or terminated.

    Whether a dropped message was acked may be unknown: the server itself reported the drop.
    """
    is_not_acked = ~F.coalesce("acked", ~F.col("given_up"))
    rows = messages.where(is_not_acked & ~F.col("terminated"))
    rows = rows.withColumnsRenamed({"first_at_us": "start_at_us", "last_at_us": "end_at_us"})
    # The message with the most deliveries is shown as the example.
    frequency_weight = (
        F.least(F.log10(F.coalesce("deliveries_count", F.lit(0)) + 1), F.lit(9)) / 10
    )
    weight = F.when(F.col("given_up"), 62).otherwise(45) + frequency_weight
    outcome = F.when(F.col("given_up"), "was dropped after max deliver").otherwise(
        "is redelivered again and again"
    )
    sentence = F.format_string("message %d %s", F.col("stream_seq"), outcome)
    deliveries_count = F.coalesce("deliveries_count", F.lit(0))
    evidence = F.concat_ws(
        ", ",
        count_text(deliveries_count, "delivery", "deliveries"),
        count_text(F.col("naks_count"), "nak"),
    )
    return build_findings(rows, "poison", consumer_text(), weight, (sentence, evidence), outcome)


REPORT_POSITION = 90
GOLD_TABLES = (
    GoldTable(
        REDELIVERY,
        lambda inputs: compute_redelivery(inputs.silver, inputs.gold("consumer_rate")),
        input_names=("consumer_rate",),
        findings=(
            find_redelivering_consumers,
            find_terminating_consumers,
            find_dropping_consumers,
        ),
        section=Section(
            "Redelivery",
            ("session", "stream", "consumer", "delivered_msgs", "repeated_msgs",
             "repeated_share", "naks_count", "given_up_count", "terminated_count"),
            "No consumers.",
        ),
        sorted_by=("-repeated_msgs",),
    ),
    GoldTable(
        HOT_SPOT,
        lambda inputs: compute_hot_spot(
            inputs.silver, inputs.gold("consumer_rate"), inputs.thresholds
        ),
        input_names=("consumer_rate",),
        section=Section(
            "Redelivery hot spots",
            ("session", "stream", "consumer", "bucket_at_us", "repeated_msgs", "naks_count",
             "given_up_count", "leader_changes_count", "configured_at_us"),
            "No hot spots.",
        ),
        sorted_by=("-repeated_msgs",),
    ),
    GoldTable(
        POISON,
        lambda inputs: compute_poison(inputs.silver),
        source_tables=(ADVISORY, ACK_SAMPLE),
        findings=(find_poison_messages,),
        section=Section(
            "Poison messages",
            ("session", "stream", "consumer", "stream_seq", "deliveries_count", "naks_count",
             "given_up", "acked", "first_at_us"),
            "The server reported no poison message.",
        ),
        sorted_by=("-deliveries_count",),
    ),
)  # fmt: skip
