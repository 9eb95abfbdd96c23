"""Write the lines of new and changed segments to bronze; those of unchanged segments are kept.

Each line is parsed into the column of its kind. An invalid line is a row in which all of these
columns are null: it is counted, and left out.

A piece of bronze has segments read by one run, of one session or of many small ones. It is
written completely, with the list of its segments last, and dropped completely: if a segment has
changed or is deleted, all segments of its piece are read again. An open segment is in a separate
piece, so that only new segments of a growing session are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.files import (
    PIPELINE_VERSION,
    SEGMENT_FILE,
    SegmentFile,
    current_segments,
    with_promised_bytes,
)
from natstui.analysis.bronze.records import POLL, class_of, record, with_polls
from natstui.analysis.bronze.sources import Source
from natstui.analysis.folders import escape_glob
from natstui.analysis.spark.store import Store
from natstui.units import bytes_text, counted

LINE = "line"
"""Name of the bronze table with all lines."""
MOST_SEGMENTS = 20_000
"""Limit of segments read at a time: their names are in the plan, in the driver's memory."""

Step = Callable[[str], None]


def build_bronze(
    store: Store, sources: list[Source], files: list[SegmentFile], step: Step
) -> tuple[DataFrame, DataFrame, set[str]]:
    """Bring bronze up to date with `files`, the segments of the sources.

    Returns the rows of the tables `line` and `segment` of the sessions, and the known kinds of
    lines that may occur.
    """
    files = current_segments(files)
    store.tidy_bronze(SEGMENT_FILE.name, LINE)
    kept_pieces, dropped_pieces = _pieces(store, files)
    for table in (SEGMENT_FILE.name, LINE):
        store.drop_bronze(table, dropped_pieces)
    known_segments = {
        (row["session"], row["segment"]) for rows in kept_pieces.values() for row in rows
    }
    new_files = [file for file in files if (file.session, file.segment) not in known_segments]
    folders = {source.session: source for source in sources}
    size = bytes_text(sum(file.size_bytes for file in new_files))
    step(f"reading {len(new_files):,} of {counted(f'{len(files):,}', 'segment')}, {size}")
    pieces = set(kept_pieces)
    kinds = {
        kind for rows in kept_pieces.values() for row in rows for kind in row["kinds"].split()
    }
    for number, chunk in enumerate(_chunks(new_files)):
        paths = [f"{folders[f.session].folder}/{escape_glob(f.segment)}" for f in chunk]
        text = read_text(store.spark, paths)
        new_kinds = kinds_of(text)
        kinds |= new_kinds
        sized_files = with_promised_bytes(store.spark, chunk, folders, new_kinds)
        store.write_bronze(LINE, parse_lines(text, new_kinds), number)
        # Last: a piece without its list is not there.
        store.write_bronze(SEGMENT_FILE.name, store.known_rows(SEGMENT_FILE, sized_files), number)
        pieces |= {store.piece_of(file.session, file.segment, number) for file in chunk}
    names = list(folders)
    return (
        store.bronze(LINE, line_schema(), pieces, names),
        store.bronze(SEGMENT_FILE.name, SEGMENT_FILE.ddl(), pieces, names),
        kinds,
    )


def _pieces(store: Store, files: list[SegmentFile]) -> tuple[dict[str, list[Row]], set[str]]:
    """Return the pieces with unchanged segments, and the names of the pieces to drop."""
    size_by_segment = {(file.session, file.segment): file.size_bytes for file in files}
    rows_by_piece = store.pieces_of(SEGMENT_FILE, sorted({file.session for file in files}))

    def is_same(row: Row) -> bool:
        size_bytes: int = row["size_bytes"]
        is_same_version: bool = row["pipeline_version"] == PIPELINE_VERSION
        return (
            is_same_version and size_by_segment.get((row["session"], row["segment"])) == size_bytes
        )

    kept_pieces = {piece: rows for piece, rows in rows_by_piece.items() if all(map(is_same, rows))}
    return kept_pieces, rows_by_piece.keys() - kept_pieces.keys()


def _chunks(files: list[SegmentFile]) -> Iterator[list[SegmentFile]]:
    """Yield lists of at most about `MOST_SEGMENTS` segments, each with entire sessions."""
    for start in range(0, len(files), MOST_SEGMENTS):
        yield files[start : start + MOST_SEGMENTS]


_OF_LINE = (
    "session string, segment string, record_id bigint, kind string, line_number int, "
    "part_number int, parts_count int, length_bytes bigint, readable boolean"
)
KEPT = (
    "engine_started", "link_changed", "configured", POLL, "unavailable", "restored", "advisory",
    "advisories_counted", "findings_changed", "ack_sample", "acks_counted", "noted", "outcome",
    "gap", "clock_stepped", "benchmark_phase", "benchmark_report", "benchmark_finished",
    "keyframe",
)  # fmt: skip
"""The kinds of line from which silver tables are made; of the others, only the number is kept."""


def line_schema() -> str:
    """Return the columns of the table `line` as DDL: those of every line, and one per kind.

    `record_id` is the number of the record in its segment, or a unique negative number;
    `line_number`, `part_number` and `parts_count` are the numbers at a line's end.
    """
    fields = {kind: schema.ddl_fields(class_of(kind)) for kind in KEPT}
    fields[POLL] = schema.poll_fields()
    return ", ".join([_OF_LINE, *(f"`{kind}` struct<{text}>" for kind, text in fields.items())])


_PLACE = r',"line":(\d{1,9})(?:,"part":(\d{1,6}),"parts_count":(\d{1,6}))?\}$'
"""Pattern of the line number at the end of a line, with the part number of a large poll."""

_BEGINS = r'^\{"kind":"[a-z_]{1,40}",("taken_mono_us":-?\d{1,19},)?"(taken_)?at_us":-?\d{1,19}'
"""Pattern of the beginning of every line, as in the other readers."""


def read_lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the table `line` for files of records: paths or URLs, glob characters escaped."""
    text = read_text(spark, paths)
    return parse_lines(text, kinds_of(text))


def kinds_of(text: DataFrame) -> set[str]:
    """Return the known kinds of lines that occur.

    The checks of all kinds take seconds to plan, and few kinds occur.
    """
    kinds = text.where(F.col("kind").isin(*schema.KINDS)).select("kind").distinct()
    return {row["kind"] for row in kinds.take(len(schema.KINDS))}


def read_text(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the lines of files of records, with what is at their beginning and end."""
    # Otherwise a stray carriage return would end a line too.
    reader = spark.read.option("ignoreCorruptFiles", value=True).option("lineSep", "\n")
    # A line of a large poll is long: in Spark's pieces of 4 kB it is put together slowly.
    reader = reader.option("io.file.buffer.size", 65536)
    # It is a URL: what is no letter in a folder's name stands there as a number.
    where = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    # Short pieces first, cut as bytes: cutting text counts the characters of a whole poll.
    head, tail = _bytes_of(F.col("value"), 1, 60), _bytes_of(F.col("value"), -60, 60)
    lines = reader.text(paths).select(
        F.regexp_extract(where, r"([^/]+)/[^/]+$", 1).alias("session"),
        F.regexp_extract(where, r"([^/]+)$", 1).alias("segment"),
        F.regexp_extract(head, r'^\{"kind":"([a-z_0-9]+)"', 1).alias("kind"),
        _number(tail, 1, "line_number"),
        _number(tail, 2, "part_number"),
        _number(tail, 3, "parts_count"),
        (F.octet_length("value") + 1).alias("length_bytes"),
        _is_complete(F.col("value")).alias("whole"),
        "value",
    )
    without_number = -1 - F.abs(F.xxhash64("value") % 2**62)
    return lines.withColumn("record_id", F.coalesce("line_number", without_number))


def parse_lines(lines: DataFrame, kinds: set[str]) -> DataFrame:
    """Return the table `line` with each line parsed into the column of its kind.

    `kinds` are the known kinds that occur; the columns of the others are null.
    """
    rows = with_polls(lines) if POLL in kinds else lines
    others = sorted(kinds & {*KEPT} - {POLL})
    rows = rows.select("*", *(_of_kind(kind).alias(kind) for kind in others))
    # A line of a kind of tomorrow cannot be judged.
    readable = F.lit(True)
    for kind in sorted(kinds):
        is_record = (F.col(kind) if kind in KEPT else _of_kind(kind)).isNotNull()
        readable = F.when(F.col("kind") == kind, is_record).otherwise(readable)
    rows = rows.withColumn("readable", F.col("whole") & readable)
    columns, present_columns = StructType.fromDDL(line_schema()), rows.columns
    return rows.selectExpr(*(_without_marks(column, present_columns) for column in columns))


def _without_marks(column: StructField, present_columns: list[str]) -> str:
    """Return the SQL of a column without its line number and its field for corrupt JSON."""
    name, type_ = column.name, column.dataType
    if name not in present_columns:
        return f"CAST(NULL AS {type_.simpleString()}) AS `{name}`"
    if not isinstance(type_, StructType):
        return f"`{name}`"
    fields = ", ".join(f"'{field}', `{name}`.`{field}`" for field in type_.names)
    return f"IF(`{name}` IS NULL, NULL, named_struct({fields})) AS `{name}`"


def _of_kind(kind: str) -> Column:
    return F.when(F.col("whole") & (F.col("kind") == kind), record(class_of(kind)))


def _bytes_of(text: Column, start: int | Column, length: int | Column) -> Column:
    """Return a part of a text by byte offsets from 1, which is faster than by characters."""
    return F.substring(text.cast("binary"), start, length).cast("string")


def _number(tail: Column, group: int, name: str) -> Column:
    digits = F.regexp_extract(tail, _PLACE, group)
    return F.when(digits != "", digits.cast("int")).alias(name)


def _is_complete(value: Column) -> Column:
    """Return whether a line is complete, valid text, and not torn."""
    return value.endswith("}") & _bytes_of(value, 1, 140).rlike(_BEGINS) & F.is_valid_utf8(value)
