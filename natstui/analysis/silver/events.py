"""Tables of advisories, sampled acks, events, servers and configurations."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.silver.bench import bucket_middle_ns, bucket_of
from natstui.analysis.silver.index import lines_of_kind, without_clock_steps
from natstui.analysis.silver.tables import (
    ACK_SAMPLE,
    ACK_TIME,
    ADVISORY,
    CONFIGURATION,
    EVENT,
    SERVER_SAMPLE,
)
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

_HALF_COUNTED_TIME_US = 500_000
"""Half of the time (µs) of a recorded count, which is written when its second is over."""


def _counted_at_us(at_us: Column) -> Column:
    """Return the middle of the second of a count that was written at `at_us`.

    So its events are in the interval in which they would be if they were recorded singly.
    """
    return at_us - _HALF_COUNTED_TIME_US


def advisories(lines: DataFrame) -> DataFrame:
    """Return `advisory`: one row per recorded advisory, and several rows per recorded count.

    A count of advisories becomes one row per named message, and one row for all other advisories.
    """
    rows = lines_of_kind(lines, "advisory")
    single_advisories = rows.select(
        "session",
        "line.*",
        F.col("recorded_at_us").alias("server_at_us"),
        F.col("line.type").alias("kind"),
        F.lit(1).alias("advisories_count"),
        _read_body_number("stream_seq").alias("stream_seq"),
        _read_body_number("deliveries").alias("deliveries_count"),
        F.get_json_object("line.body_json", "$.leader").alias("leader"),
    )
    return ADVISORY.conform(
        single_advisories.unionByName(_counted_advisories(lines), allowMissingColumns=True)
    )


def _counted_advisories(lines: DataFrame) -> DataFrame:
    """Return rows of recorded counts: one per named message, and one for the other advisories."""
    rows = lines_of_kind(lines, "advisories_counted").select(
        "session", "line.*", _counted_at_us(F.col("recorded_at_us")).alias("server_at_us")
    )
    named_advisories_count = F.aggregate(
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
    other_advisories = F.struct(
        F.lit(None).cast("bigint").alias("stream_seq"),
        (F.col("said_count") - named_advisories_count).alias("advisories_count"),
        F.lit(None).cast("bigint").alias("deliveries_count"),
    )
    message_column = F.explode(F.concat(named_messages, F.array(other_advisories))).alias("each")
    rows = rows.select(
        "session",
        "stream",
        "consumer",
        _counted_at_us(F.col("at_us")).alias("at_us"),
        "server_at_us",
        F.col("type").alias("kind"),
        message_column,
    )
    return rows.where(F.col("each.advisories_count") > 0).select("*", "each.*").drop("each")


def _read_body_number(name: str) -> Column:
    """Return field `name` of an advisory's body as integer; null if it is not one."""
    return F.get_json_object("line.body_json", f"$.{name}").try_cast("bigint")


def ack_samples(lines: DataFrame) -> DataFrame:
    """Return `ack_sample`: one row per sampled ack."""
    rows = lines_of_kind(lines, "ack_sample")
    return ACK_SAMPLE.conform(rows.select("session", "line.*"))


_ACK_COLUMNS = ("session", "stream", "consumer", "at_us")


def ack_times(lines: DataFrame) -> DataFrame:
    """Return `ack_time`: one row per sampled ack, or per histogram bucket of a recorded count."""
    zero = F.lit(0)
    single_acks = (
        lines_of_kind(lines, "ack_sample")
        .select("session", "line.*")
        .select(
            *_ACK_COLUMNS,
            bucket_of(F.col("ack_ns")).alias("bucket_id"),
            F.lit(1).alias("latencies_count"),
            F.when(F.col("deliveries_count") > 1, 1).otherwise(zero).alias("repeated_count"),
            zero.alias("left_out_count"),
            F.lit(False).alias("counted"),
        )
    )
    counted_acks = (
        lines_of_kind(lines, "acks_counted")
        .select("session", "line.*")
        .select("*", F.posexplode_outer("times.buckets").alias("position", "bucket_id"))
    )
    is_first_bucket = F.coalesce(F.col("position"), zero) == 0
    counted_acks = counted_acks.withColumn("at_us", _counted_at_us(F.col("at_us"))).select(
        *_ACK_COLUMNS,
        "bucket_id",
        F.coalesce(F.get("times.counts", F.col("position")), zero).alias("latencies_count"),
        *(
            F.when(is_first_bucket, F.col(name)).otherwise(zero).alias(name)
            for name in ("repeated_count", "left_out_count")
        ),
        F.lit(True).alias("counted"),
    )
    rows = single_acks.unionAll(counted_acks)
    return ACK_TIME.conform(rows.withColumn("latency_ns", bucket_middle_ns(F.col("bucket_id"))))


EVENT_CLASSES = (
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
    """Return `event`: one row per record of the types `EVENT_CLASSES`.

    Times are as if the wall clock had never been set.
    """
    kinds = {kind_of(cls): set(cls.__struct_fields__) for cls in EVENT_CLASSES}
    rows = lines.where(F.col("kind").isin(*kinds) & F.col("readable"))
    return EVENT.conform(
        rows.select(
            "session",
            without_clock_steps(lines, _first_field(kinds, "at_us")).alias("at_us"),
            "kind",
            _first_field(kinds, "state", "what", "status", "target").alias("what"),
            _first_field(kinds, "text", "reason", "natstui_version").alias("text"),
        )
    )


def _first_field(field_names_by_kind: Mapping[str, set[str]], *names: str) -> Column:
    """Return the first field of `names` that the record of a row has; null if it has none.

    `field_names_by_kind` has the field names of each kind of record.
    """
    field_columns = (
        F.col(kind)[name]
        for kind, field_names in field_names_by_kind.items()
        for name in names
        if name in field_names
    )
    return F.coalesce(*field_columns)


def server_samples(lines: DataFrame) -> DataFrame:
    """Return `server_sample`: one row per server and recorded reading of the servers."""
    rows = lines_of_kind(lines, "servers_read").select(
        "session", "line.at_us", F.explode("line.servers.rows").alias("row")
    )
    return SERVER_SAMPLE.conform(
        rows.select(
            "session", "at_us", "row.server_id", "row.name", "row.cluster", "row.version"
        ).withColumnRenamed("name", "server")
    )


def configurations(lines: DataFrame, keyframes: DataFrame) -> DataFrame:
    """Return `configuration`: one row per asset and change of its configuration.

    `keyframes` are from the function of this name.
    """
    changes = lines_of_kind(lines, "configured").select(
        "session", "line.at_us", "line.streams", "line.consumers"
    )
    rows = changes.unionAll(keyframes.select("session", "at_us", "streams", "consumers"))
    consumers = _configuration_rows(rows, "consumers", "consumer")
    consumers = consumers.withColumn("filtered", F.size("filter_subjects") > 0)
    asset_tables = (_configuration_rows(rows, "streams", "stream"), consumers)
    names = {*(column.name for column in CONFIGURATION.columns), "config_json"}
    # Columns that only streams, or only consumers, have are null in the other rows.
    streams, consumers = (
        asset_table.select([n for n in asset_table.columns if n in names])
        for asset_table in asset_tables
    )
    return _number_configurations(streams.unionByName(consumers, allowMissingColumns=True))


def _configuration_rows(rows: DataFrame, asset_kind: str, name: str) -> DataFrame:
    """Return one row per configuration in the list `asset_kind`, its name in column `name`."""
    rows = rows.select("session", "at_us", F.explode(asset_kind).alias("row"))
    return rows.select("session", "at_us", "row.*").withColumnRenamed("name", name)


def keyframes(lines: DataFrame) -> DataFrame:
    """Return the first keyframe of each session, and those of segments that begin after a loss.

    They have `streams` and `consumers`, the configurations, and the open `findings`. Other
    keyframes repeat these. `lost_from_at_us` is the time of the last record before a loss; null
    without one. `has_findings`: any keyframe of the session has findings. A recording whose oldest
    segments were deleted starts with the first remaining segment.
    """
    rows = lines_of_kind(lines, "keyframe")
    sessions = rows.groupBy("session").agg(
        F.min("segment").alias("first_segment"),
        F.bool_or(F.col("line.findings").isNotNull()).alias("has_findings"),
    )
    gaps = lines_of_kind(lines, "gap")
    losses = gaps.where((F.col("record_id") == 1) & (F.col("line.lost_records_count") > 0))
    losses = losses.select("session", "segment", F.col("line.from_at_us").alias("lost_from_at_us"))
    rows = rows.join(F.broadcast(sessions), "session")
    rows = rows.join(F.broadcast(losses), ["session", "segment"], "left")
    is_first_or_after_loss = (F.col("segment") == F.col("first_segment")) | F.col(
        "lost_from_at_us"
    ).isNotNull()
    return rows.where(is_first_or_after_loss).select(
        "session",
        "segment",
        "line.at_us",
        "lost_from_at_us",
        "line.configured.streams",
        "line.configured.consumers",
        F.col("line.findings.findings").alias("findings"),
        "has_findings",
    )


def _number_configurations(rows: DataFrame) -> DataFrame:
    """Return `configuration`: the changes of each asset numbered by time, without repetitions."""
    asset_order = Window.partitionBy("session", "stream", "consumer", "created_at_us").orderBy(
        "at_us"
    )
    is_same_config = F.col("config_json").eqNullSafe(F.lag("config_json").over(asset_order))
    rows = rows.withColumn("_same", is_same_config & (F.row_number().over(asset_order) > 1)).where(
        ~F.col("_same")
    )
    number = F.row_number().over(asset_order) - 1
    return CONFIGURATION.conform(rows.withColumn("change_count", number))


def latest_configuration(configuration: DataFrame, condition: Column) -> DataFrame:
    """Return the newest configuration of each asset, among the rows that meet `condition`."""
    rows = configuration.where(condition)
    rows = rows.groupBy("session", "stream", "consumer", "created_at_us")
    return rows.agg(F.expr("max_by(struct(*), at_us) AS newest")).select("newest.*")
