"""The small records: advisories, sampled acknowledgements, events, configurations."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.silver import schema
from natstui.analysis.silver.bronze import checked, parse
from natstui.analysis.silver.tables import ACK_SAMPLE, ADVISORY, CONFIGURATION, EVENT


def advisories(index: DataFrame) -> DataFrame:
    """Return the table `advisory`."""
    rows = of_kind(index, "advisory", schema.ADVISORY)
    return ADVISORY.contract(
        rows.select(
            "session",
            "line.*",
            F.col("line.type").alias("kind"),
            _number_in_body("stream_seq").alias("stream_seq"),
            _number_in_body("deliveries").alias("deliveries_count"),
            F.get_json_object("line.body_json", "$.leader").alias("leader"),
        )
    )


def _number_in_body(name: str) -> Column:
    """Return a number of the announcement itself; null where it is none, or is absurd."""
    return F.get_json_object("line.body_json", f"$.{name}").try_cast("bigint")


def ack_samples(index: DataFrame) -> DataFrame:
    """Return the table `ack_sample`."""
    rows = of_kind(index, "ack_sample", schema.ACK_SAMPLE)
    return ACK_SAMPLE.contract(rows.select("session", "line.*"))


def events(index: DataFrame) -> DataFrame:
    """Return the table `event`: the records that are about the recorder itself."""
    every: schema.Fields = {}
    for fields in schema.EVENTS.values():
        every |= fields
    ddl = ",".join(f"`{name}`:{schema.spark_type(text)}" for name, text in every.items())
    lines = index.where(F.col("whole") & F.col("kind").isin(*schema.EVENTS))
    rows = parse(lines.select("session", "kind", "value"), ddl)
    line = F.col("line")
    for kind, fields in schema.EVENTS.items():
        line = F.when(F.col("kind") == kind, checked(F.col("line"), fields)).otherwise(line)
    rows = rows.select("session", "kind", line.alias("line"))
    return EVENT.contract(
        rows.select(
            "session",
            "line.at_us",
            "kind",
            F.coalesce("line.state", "line.what", "line.status", "line.target").alias("what"),
            F.coalesce("line.text", "line.reason", "line.natstui_version").alias("text"),
        ).where(F.col("at_us").isNotNull())
    )


def configurations(index: DataFrame) -> DataFrame:
    """Return the table `configuration`, numbered by change."""
    fields = {
        "at_us": "bigint",
        "streams": f"array<{schema.struct(schema.STREAM_CONFIGURATION)}>",
        "consumers": f"array<{schema.struct(schema.CONSUMER_CONFIGURATION)}>",
    }
    news = of_kind(index, "configured", fields)
    news = news.select("session", *(f"line.{name}" for name in fields))
    rows = news.unionByName(_known_at_first(index, fields))
    nothing = F.lit(None)
    streams = rows.select("session", "at_us", F.explode("streams").alias("row")).select(
        "session",
        "at_us",
        checked(F.col("row"), schema.STREAM_CONFIGURATION).alias("row"),
    )
    streams = streams.select("session", "at_us", "row.*").withColumnsRenamed({"name": "stream"})
    for name in ("consumer", "pull", "ack_policy", "max_ack_pending_msgs", "max_deliver_count"):
        streams = streams.withColumn(name, nothing)
    consumers = rows.select("session", "at_us", F.explode("consumers").alias("row")).select(
        "session",
        "at_us",
        checked(F.col("row"), schema.CONSUMER_CONFIGURATION).alias("row"),
    )
    consumers = consumers.select("session", "at_us", "row.*").withColumnsRenamed(
        {"name": "consumer"}
    )
    consumers = consumers.withColumn("filtered", F.size("filter_subjects") > 0)
    for name in ("retention", "discard", "max_msgs", "max_bytes", "max_age_ns"):
        consumers = consumers.withColumn(name, nothing)
    streams = streams.withColumn("filtered", nothing)
    names = [column.name for column in CONFIGURATION.columns if column.name != "change_count"]
    names.append("config_json")
    return _numbered(streams.select(names).unionAll(consumers.select(names)))


def _known_at_first(index: DataFrame, fields: schema.Fields) -> DataFrame:
    """Return the configurations known when the recording began, often long after the connection.

    They are in the keyframe of its first segment; later keyframes repeat what is read anyway.
    """
    keyframes = index.where(F.col("kind") == "keyframe")
    first = keyframes.groupBy("session").agg(F.min("segment").alias("segment"))
    keyframes = keyframes.join(F.broadcast(first), ["session", "segment"], "left_semi")
    known = {"at_us": "bigint", "configured": schema.struct(fields)}
    rows = of_kind(keyframes, "keyframe", known)
    configured = checked(F.col("line.configured"), fields)
    rows = rows.select("session", F.col("line.at_us").alias("at_us"), configured.alias("row"))
    return rows.select("session", "at_us", "row.streams", "row.consumers")


def _numbered(rows: DataFrame) -> DataFrame:
    """Number the configurations of each asset; the same one seen again is not a change."""
    asset = Window.partitionBy("session", "stream", "consumer", "created_at_us").orderBy("at_us")
    same = F.col("config_json").eqNullSafe(F.lag("config_json").over(asset))
    rows = rows.withColumn("_same", same & (F.row_number().over(asset) > 1)).where(~F.col("_same"))
    number = F.row_number().over(asset) - 1
    return CONFIGURATION.contract(rows.withColumn("change_count", number))


def of_kind(index: DataFrame, kind: str, fields: schema.Fields) -> DataFrame:
    """Return the readable lines of a kind: session and the checked struct `line`."""
    ddl = ",".join(f"`{name}`:{schema.spark_type(text)}" for name, text in fields.items())
    lines = index.where(F.col("whole")).select("session", "kind", "value")
    rows = parse(lines.where(F.col("kind") == kind), ddl).where(F.col("line").isNotNull())
    return rows.select("session", checked(F.col("line"), fields).alias("line"))


def latest_configuration(configuration: DataFrame, condition: Column) -> DataFrame:
    """Return the newest configuration of each asset that fulfils the condition."""
    asset = ["session", "stream", "consumer", "created_at_us"]
    values = [name for name in configuration.columns if name not in asset]
    newest = F.max_by(F.struct(*values), "at_us").alias("newest")
    rows = configuration.where(condition).groupBy(*asset).agg(newest)
    return rows.select(*asset, "newest.*")
