"""One light pass over every line: polls and gaps, segments and their damage, small records."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.silver import schema
from natstui.analysis.silver.bronze import whole
from natstui.analysis.silver.tables import POLL, SEGMENT
from natstui.analysis.silver.unreadable import poll_head, records_of

GAP_INTERVALS = 3
"""A pause longer than this many poll intervals (and what the poll took) is a gap."""
GAP_LEAST_US = 2_000_000

_RECORD = ("session", "segment", "place")


def index_lines(lines: DataFrame, *, every_column: bool = False) -> DataFrame:
    """Return one small row per line: its length, the scalars of a snapshot, or its text.

    `every_column`: of a snapshot whose rows cannot be read there are no scalars either.
    """
    snapshot, value = F.col("kind") == "snapshot", F.col("value")
    head = poll_head(value, F.col("line_count"), every_column=every_column)
    return lines.withColumn("whole", whole(value)).select(
        *_RECORD,
        "kind",
        "line_count",
        "part_count",
        "parts_count",
        (F.octet_length("value") + 1).alias("length_bytes"),
        "whole",
        F.when(snapshot & F.col("whole"), head).alias("head"),
        F.when(~snapshot, value).alias("value"),
    )


def _sound(kinds: Iterable[str]) -> Column:
    """Return whether a line is a record, where no other kinds than these occur."""
    sound = F.lit(True)
    for kind in kinds:
        readable = (
            F.col("head").isNotNull() if kind == "snapshot" else F.size(records_of(kind)) > 0
        )
        sound = F.when(F.col("kind") == kind, readable).otherwise(sound)
    return F.col("whole") & sound


def left_out(index: DataFrame, kinds: set[str]) -> DataFrame:
    """Return the records that are left out, by session, segment and place.

    One line that cannot be read, or is not there, spoils the whole poll of which it is a part.
    """
    return _records(index, kinds).where("left_out").select(*_RECORD)


def without(rows: DataFrame, records: DataFrame) -> DataFrame:
    """Return the lines that belong to none of these records."""
    return rows.join(F.broadcast(records), list(_RECORD), "left_anti")


def _records(index: DataFrame, kinds: set[str]) -> DataFrame:
    """Return one row per record: its lines, and whether it is left out."""
    parts = F.coalesce("part_count", F.lit(0))
    known = F.col("kind").isin(*schema.KINDS)
    rows = index.withColumn("sound", _sound(sorted(kinds)))
    records = rows.groupBy(*_RECORD).agg(
        F.count("*").alias("lines_count"),
        F.sum("length_bytes").alias("length_bytes"),
        F.count_if(~F.col("sound")).alias("bad_lines_count"),
        F.count_if(F.col("sound") & ~known).alias("unknown_lines_count"),
        F.max("line_count").alias("line_count"),
        F.coalesce(F.max("parts_count"), F.lit(1)).alias("parts_count"),
        F.count_distinct(parts).alias("parts"),
        F.max(parts).alias("last_part"),
    )
    # Lines without a number stand for themselves.
    numbered = F.col("line_count").isNotNull()
    in_order = (F.col("lines_count") == F.col("parts")) & (F.col("last_part") < F.col("parts"))
    whole_record = in_order & (F.col("parts") == F.col("parts_count"))
    return records.withColumns(
        {
            "begun": numbered & in_order & (F.col("bad_lines_count") == 0) & ~whole_record,
            "left_out": (F.col("bad_lines_count") > 0) | (numbered & ~whole_record),
        }
    )


def kinds(index: DataFrame) -> set[str]:
    """Return the known kinds of line that occur: a table without lines is not written."""
    rows = index.where(F.col("kind").isin(*schema.KINDS)).select("kind").distinct()
    return {row["kind"] for row in rows.take(len(schema.KINDS))}


def polls(index: DataFrame) -> DataFrame:
    """Return the table `poll`."""
    first_part = F.coalesce("part_count", F.lit(0)) == 0
    rows = index.where(F.col("head").isNotNull() & first_part)
    rows = rows.select("session", "head.*").select(
        "session",
        F.col("taken_at_us").alias("at_us"),
        F.col("taken_mono_us").alias("mono_us"),
        "cost.*",
        "account.*",
    )
    before = Window.partitionBy("session").orderBy("mono_us")
    pause = F.try_subtract("mono_us", F.lag("mono_us").over(before))
    longest = F.greatest("interval_us", F.lag("interval_us").over(before))
    # Numbers that nobody measured may be too large to add: no pause is longer than those.
    normal = F.try_add(F.try_multiply(longest, F.lit(GAP_INTERVALS)), F.col("elapsed_us"))
    allowed = F.when(normal.isNotNull(), F.greatest(normal, F.lit(GAP_LEAST_US).cast("bigint")))
    return POLL.contract(rows.withColumn("gap_before_us", F.when(pause > allowed, pause)))


def gap_ends(poll: DataFrame) -> DataFrame:
    """Return, per session with gaps, the moments (mono_us) at which polling came back."""
    gaps = poll.where(F.col("gap_before_us").isNotNull())
    return gaps.groupBy("session").agg(F.collect_list("mono_us").alias("gap_ends"))


def segments(index: DataFrame, files: DataFrame, kinds: set[str]) -> DataFrame:
    """Return the table `segment`.

    A sealed segment is damaged when lines are missing between those that could be read, or when
    it ends with a length that does not fit what was read. The open one ends with what was being
    written: a line without its end, or the first parts of a poll.
    """
    read = _segments_read(_records(index, kinds))
    rows = files.join(read, ["session", "segment"], "left")
    rows = rows.na.fill(0, [name for name in read.columns if name.endswith(("_bytes", "_count"))])
    sealed = F.col("promised_bytes").isNotNull()
    no_end = (F.col("read_bytes") > F.col("size_bytes")) & (F.col("stray_lines") > 0)
    unfinished = F.coalesce("begun_lines", F.lit(0)) + F.when(no_end, 1).otherwise(0)
    numbered = F.col("last_line").isNotNull()
    missing = F.when(numbered & sealed, F.col("last_line") + 1 - F.col("places")).otherwise(0)
    too_long = F.col("promised_bytes") > F.col("read_bytes")
    differs = F.col("promised_bytes") != F.col("read_bytes") % 2**32
    wrong_length = F.when(numbered, too_long).otherwise(differs)
    corrupt = (missing > 0) | F.coalesce(wrong_length, F.lit(False))
    return SEGMENT.contract(
        rows.withColumns(
            {
                "missing_lines_count": missing,
                "unfinished_lines_count": F.when(sealed, 0).otherwise(unfinished),
                "corrupt": corrupt,
            }
        )
    )


def _segments_read(records: DataFrame) -> DataFrame:
    """Return what could be read of each segment, from its records."""
    left_out, lines = F.col("left_out"), F.col("lines_count")
    unknown = F.when(~left_out, F.col("unknown_lines_count")).otherwise(0)
    begun = F.max_by(F.when(F.col("begun"), lines), "line_count")
    return records.groupBy("session", "segment").agg(
        F.sum("length_bytes").alias("read_bytes"),
        F.sum("lines_count").alias("lines_count"),
        F.sum(F.when(left_out, lines).otherwise(0)).alias("torn_lines_count"),
        F.sum(unknown).alias("unknown_lines_count"),
        F.max("line_count").alias("last_line"),
        F.count("line_count").alias("places"),
        begun.alias("begun_lines"),
        F.count_if(F.col("line_count").isNull() & left_out).alias("stray_lines"),
    )
