"""One light pass over every line: polls and gaps, segments and their damage, small records."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.silver import schema
from natstui.analysis.silver.bronze import checked, whole
from natstui.analysis.silver.tables import POLL, SEGMENT

GAP_INTERVALS = 3
"""A pause longer than this many poll intervals (and what the poll took) is a gap."""
GAP_LEAST_US = 2_000_000

_HEAD: schema.Fields = {"taken_mono_us": "bigint", "taken_at_us": "bigint"}
_HEAD_DDL = (
    f"struct<taken_mono_us:bigint,taken_at_us:bigint,account:{schema.struct(schema.ACCOUNT)},"
    f"cost:{schema.struct(schema.COST)},_corrupt_record:string>"
)


def index_lines(lines: DataFrame) -> DataFrame:
    """Return one small row per line: its length, the scalars of a snapshot, or its text."""
    snapshot = F.col("kind") == "snapshot"
    head = F.from_json("value", _HEAD_DDL, {"columnNameOfCorruptRecord": "_corrupt_record"})
    return lines.select(
        "session",
        "segment",
        "kind",
        "line_count",
        "part_count",
        (F.octet_length("value") + 1).alias("length_bytes"),
        whole(F.col("value")).alias("whole"),
        F.when(snapshot, head).alias("head"),
        F.when(~snapshot, F.col("value")).alias("value"),
    )


def kinds(index: DataFrame) -> set[str]:
    """Return the known kinds of line that occur: a table without lines is not written."""
    rows = index.where(F.col("kind").isin(*schema.KINDS)).select("kind").distinct()
    return {row["kind"] for row in rows.take(len(schema.KINDS))}


def polls(index: DataFrame) -> DataFrame:
    """Return the table `poll`."""
    head = F.col("head")
    # A line with a huge sequence is marked corrupt for its type only; its scalars are right.
    first_part = F.coalesce("part_count", F.lit(0)) == 0
    rows = index.where((F.col("kind") == "snapshot") & F.col("whole") & first_part)
    rows = rows.select("session", checked(head, _HEAD).alias("head"))
    rows = rows.select("session", "head.*").where(F.col("taken_mono_us").isNotNull())
    rows = rows.withColumn("cost", checked(F.col("cost"), schema.COST))
    rows = rows.withColumn("account", checked(F.col("account"), schema.ACCOUNT))
    rows = rows.select(
        "session",
        F.col("taken_at_us").alias("at_us"),
        F.col("taken_mono_us").alias("mono_us"),
        "cost.*",
        *(f"account.{name}" for name in schema.ACCOUNT),
    )
    before = Window.partitionBy("session").orderBy("mono_us")
    pause = F.col("mono_us") - F.lag("mono_us").over(before)
    longest = F.greatest("interval_us", F.lag("interval_us").over(before))
    allowed = F.greatest(
        GAP_INTERVALS * longest + F.col("elapsed_us"), F.lit(GAP_LEAST_US).cast("bigint")
    )
    return POLL.contract(rows.withColumn("gap_before_us", F.when(pause > allowed, pause)))


def gap_ends(poll: DataFrame) -> DataFrame:
    """Return, per session with gaps, the moments (mono_us) at which polling came back."""
    gaps = poll.where(F.col("gap_before_us").isNotNull())
    return gaps.groupBy("session").agg(F.collect_list("mono_us").alias("gap_ends"))


def segments(index: DataFrame, files: DataFrame) -> DataFrame:
    """Return the table `segment`.

    A sealed segment is damaged when lines are missing between those that could be read, or when
    it ends with a length that does not fit what was read.
    """
    unreadable = (F.col("kind") == "snapshot") & F.col("head.taken_mono_us").isNull()
    torn = ~F.col("whole") | unreadable
    known = F.col("kind").isin(*schema.KINDS)
    read = index.groupBy("session", "segment").agg(
        F.sum("length_bytes").alias("read_bytes"),
        F.count("*").alias("lines_count"),
        F.count_if(torn).alias("torn_lines_count"),
        F.count_if(~torn & ~known).alias("unknown_lines_count"),
        F.max("line_count").alias("last_line"),
        F.count_distinct("line_count").alias("places"),
    )
    rows = files.join(read, ["session", "segment"], "left")
    rows = rows.na.fill(0, [name for name in read.columns if name.endswith(("_bytes", "_count"))])
    sealed = F.col("promised_bytes").isNotNull()
    numbered = F.col("last_line").isNotNull()
    missing = F.when(numbered & sealed, F.col("last_line") + 1 - F.col("places")).otherwise(0)
    too_long = F.col("promised_bytes") > F.col("read_bytes")
    differs = F.col("promised_bytes") != F.col("read_bytes") % 2**32
    wrong_length = F.when(numbered, too_long).otherwise(differs)
    corrupt = (missing > 0) | F.coalesce(wrong_length, F.lit(False))
    return SEGMENT.contract(rows.withColumns({"missing_lines_count": missing, "corrupt": corrupt}))
