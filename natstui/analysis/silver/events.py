"""Tables of the small records: advisories, sampled acks, events, configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.silver.bench import bucket_middle_ns, bucket_of
from natstui.analysis.silver.index import of_kind, without_steps
from natstui.analysis.silver.tables import ACK_SAMPLE, ACK_TIME, ADVISORY, CONFIGURATION, EVENT
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    EngineStarted,
    Noted,
    Outcome,
    Restored,
    Unavailable,
    kind_of,
)
from natstui.model.records.recording import ClockStepped, Gap


def advisories(lines: DataFrame) -> DataFrame:
    """Return `advisory`: one row per advisory; of counted ones, one per message and one rest."""
    rows = of_kind(lines, "advisory")
    single = rows.select(
        "session",
        "line.*",
        F.col("line.type").alias("kind"),
        F.lit(1).alias("advisories_count"),
        _number_in_body("stream_seq").alias("stream_seq"),
        _number_in_body("deliveries").alias("deliveries_count"),
        F.get_json_object("line.body_json", "$.leader").alias("leader"),
    )
    return ADVISORY.contract(
        single.unionByName(_counted_advisories(lines), allowMissingColumns=True)
    )


def _counted_advisories(lines: DataFrame) -> DataFrame:
    """Return one row per named message of a count, and one for all others in it."""
    rows = of_kind(lines, "advisories_counted").select("session", "line.*")
    named = F.aggregate(
        "messages", F.lit(0).cast("bigint"), lambda n, message: n + message["said_count"]
    )
    named_messages = F.transform(
        "messages",
        lambda message: F.struct(
            message["stream_seq"].alias("stream_seq"),
            message["said_count"].alias("advisories_count"),
            F.nullif(message["deliveries_count"], F.lit(0)).alias("deliveries_count"),
        ),
    )
    others = F.struct(
        F.lit(None).cast("bigint").alias("stream_seq"),
        (F.col("said_count") - named).alias("advisories_count"),
        F.lit(None).cast("bigint").alias("deliveries_count"),
    )
    message_column = F.explode(F.concat(named_messages, F.array(others))).alias("each")
    rows = rows.select(
        "session", "stream", "consumer", "at_us", F.col("type").alias("kind"), message_column
    )
    return rows.where(F.col("each.advisories_count") > 0).select("*", "each.*").drop("each")


def _number_in_body(name: str) -> Column:
    """Return a number of the advisory's body; null if it is no number or out of range."""
    return F.get_json_object("line.body_json", f"$.{name}").try_cast("bigint")


def ack_samples(lines: DataFrame) -> DataFrame:
    """Return `ack_sample`: one row per sampled ack."""
    rows = of_kind(lines, "ack_sample")
    return ACK_SAMPLE.contract(rows.select("session", "line.*"))


_OF_ACK = ("session", "stream", "consumer", "at_us")


def ack_times(lines: DataFrame) -> DataFrame:
    """Return `ack_time`: one row per sampled ack, or per histogram bucket of counted ones."""
    nothing = F.lit(0)
    single = (
        of_kind(lines, "ack_sample")
        .select("session", "line.*")
        .select(
            *_OF_ACK,
            bucket_of(F.col("ack_ns")).alias("bucket_id"),
            F.lit(1).alias("latencies_count"),
            F.when(F.col("deliveries_count") > 1, 1).otherwise(nothing).alias("repeated_count"),
            nothing.alias("left_out_count"),
        )
    )
    counted = (
        of_kind(lines, "acks_counted")
        .select("session", "line.*")
        .select("*", F.posexplode_outer("times.buckets").alias("position", "bucket_id"))
    )
    first = F.coalesce(F.col("position"), nothing) == 0
    counted = counted.select(
        *_OF_ACK,
        "bucket_id",
        F.coalesce(F.get("times.counts", F.col("position")), nothing).alias("latencies_count"),
        *(
            F.when(first, F.col(name)).otherwise(nothing).alias(name)
            for name in ("repeated_count", "left_out_count")
        ),
    )
    rows = single.unionAll(counted)
    return ACK_TIME.contract(rows.withColumn("latency_ns", bucket_middle_ns(F.col("bucket_id"))))


EVENTS = (
    EngineStarted,
    LinkChanged,
    Unavailable,
    Restored,
    Gap,
    ClockStepped,
    Noted,
    Outcome,
)
"""Types of records that become rows of the table `event`."""


def events(lines: DataFrame) -> DataFrame:
    """Return `event`: one row per record about the recorder itself."""
    kinds = {kind_of(cls): {field.name for field in fields(cls)} for cls in EVENTS}
    rows = lines.where(F.col("kind").isin(*kinds) & F.col("readable"))
    return EVENT.contract(
        rows.select(
            "session",
            without_steps(lines, _first_known(kinds, "at_us")).alias("at_us"),
            "kind",
            _first_known(kinds, "state", "what", "status", "target").alias("what"),
            _first_known(kinds, "text", "reason", "natstui_version").alias("text"),
        )
    )


def _first_known(kinds: Mapping[str, set[str]], *names: str) -> Column:
    """Return the first of these fields that the record of a row has; null without one.

    `kinds` are the fields of each kind; the columns of the other kinds are null in a row.
    """
    values = (
        F.col(kind)[name] for kind, known in kinds.items() for name in names if name in known
    )
    return F.coalesce(*values)


def configurations(lines: DataFrame, first_keyframes: DataFrame) -> DataFrame:
    """Return `configuration`: one row per asset and change of its configuration.

    Later keyframes than the first one repeat configurations that are read from other lines.
    """
    news = of_kind(lines, "configured").select(
        "session", "line.at_us", "line.streams", "line.consumers"
    )
    known = first_keyframes.select(
        "session", "configured.at_us", "configured.streams", "configured.consumers"
    )
    rows = news.unionAll(known)
    consumers = _configuration_rows(rows, "consumers", "consumer")
    consumers = consumers.withColumn("filtered", F.size("filter_subjects") > 0)
    parts = (_configuration_rows(rows, "streams", "stream"), consumers)
    names = {*(column.name for column in CONFIGURATION.columns), "config_json"}
    # What one kind of asset does not have is null in its rows.
    streams, consumers = (part.select([n for n in part.columns if n in names]) for part in parts)
    return _number_configurations(streams.unionByName(consumers, allowMissingColumns=True))


def _configuration_rows(rows: DataFrame, where: str, name: str) -> DataFrame:
    """Return one row per configuration of streams or consumers; `name` is its name field."""
    rows = rows.select("session", "at_us", F.explode(where).alias("row"))
    return rows.select("session", "at_us", "row.*").withColumnRenamed("name", name)


def first_keyframes(lines: DataFrame) -> DataFrame:
    """Return one row per session: what its first keyframe has at the start of the recording.

    `configured` has the configurations and their time, `findings` the open findings and theirs.
    Without its oldest segments, a recording starts with the first remaining one.
    """
    configured = F.struct(
        "segment", "line.at_us", "line.configured.streams", "line.configured.consumers"
    )
    findings = F.struct("line.at_us", F.col("line.findings.findings").alias("findings"))
    return (
        of_kind(lines, "keyframe")
        .groupBy("session")
        .agg(
            F.min(configured).alias("configured"),
            F.min_by(findings, "segment").alias("findings"),
            F.bool_or(F.col("line.findings").isNotNull()).alias("has_findings"),
        )
    )


def _number_configurations(rows: DataFrame) -> DataFrame:
    """Number the configurations of each asset; a repeated configuration is not a change."""
    asset = Window.partitionBy("session", "stream", "consumer", "created_at_us").orderBy("at_us")
    same = F.col("config_json").eqNullSafe(F.lag("config_json").over(asset))
    rows = rows.withColumn("_same", same & (F.row_number().over(asset) > 1)).where(~F.col("_same"))
    number = F.row_number().over(asset) - 1
    return CONFIGURATION.contract(rows.withColumn("change_count", number))


def latest_configuration(configuration: DataFrame, condition: Column) -> DataFrame:
    """Return the newest configuration of each asset among those that meet `condition`."""
    rows = configuration.where(condition)
    rows = rows.groupBy("session", "stream", "consumer", "created_at_us")
    return rows.agg(F.expr("max_by(struct(*), at_us) AS newest")).select("newest.*")
