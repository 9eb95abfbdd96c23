"""Writes the lines of new and changed segments to bronze; keeps those of unchanged segments.

Each line is parsed into the column of its kind. An invalid line is a row in which all of these
columns are null: it is counted, and left out.

A piece of bronze has segments read by one run, of one session or of many small ones. It is
written completely, with the list of its segments last, and deleted completely: if a segment has
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
    segment_file_rows,
)
from natstui.analysis.bronze.records import POLL, class_of, parse_record, with_poll_column
from natstui.analysis.bronze.sources import SessionSource
from natstui.analysis.folders import escape_glob
from natstui.analysis.spark.store import TableStore
from natstui.units import bytes_text, counted

LINE_TABLE = "line"
"""Name of the bronze table with all lines."""
MAX_SEGMENTS_COUNT = 20_000
"""Maximum segments read by one query: their names are in the plan, in the driver's memory."""

ReportStep = Callable[[str], None]


def build_bronze(
    store: TableStore,
    sources: list[SessionSource],
    files: list[SegmentFile],
    report_step: ReportStep,
) -> tuple[DataFrame, DataFrame, set[str]]:
    """Write the lines of new and changed `files`, the segments of `sources`, to bronze.

    Returns the rows of the tables `line` and `segment` of the sources, and the known kinds of
    lines that may occur in them. `report_step` is called with a text at the start of a step.
    """
    files = current_segments(files)
    store.delete_incomplete_pieces(SEGMENT_FILE.name, LINE_TABLE)
    kept_pieces, dropped_pieces = _find_kept_pieces(store, files)
    for table in (SEGMENT_FILE.name, LINE_TABLE):
        store.drop_bronze(table, dropped_pieces)
    kept_segments = {
        (row["session"], row["segment"]) for rows in kept_pieces.values() for row in rows
    }
    changed_files = [file for file in files if (file.session, file.segment) not in kept_segments]
    source_by_session = {source.session: source for source in sources}
    size_text = bytes_text(sum(file.size_bytes for file in changed_files))
    report_step(
        f"reading {len(changed_files):,} of {counted(f'{len(files):,}', 'segment')}, {size_text}"
    )
    pieces = set(kept_pieces)
    kinds = {
        kind for rows in kept_pieces.values() for row in rows for kind in row["kinds"].split()
    }
    for number, chunk in enumerate(_split_files(changed_files)):
        paths = [
            f"{source_by_session[file.session].folder}/{escape_glob(file.segment)}"
            for file in chunk
        ]
        text_lines = read_text_lines(store.spark, paths)
        new_kinds = find_kinds(text_lines)
        kinds |= new_kinds
        segment_rows = segment_file_rows(store.spark, chunk, source_by_session, new_kinds)
        store.write_bronze(LINE_TABLE, parse_lines(text_lines, new_kinds), number)
        # Written last: a piece without this list is not read.
        store.write_bronze(
            SEGMENT_FILE.name, store.create_rows(SEGMENT_FILE, segment_rows), number
        )
        pieces |= {store.piece_name(file.session, file.segment, number) for file in chunk}
    session_names = list(source_by_session)
    return (
        store.bronze(LINE_TABLE, line_schema(), pieces, session_names),
        store.bronze(SEGMENT_FILE.name, SEGMENT_FILE.ddl(), pieces, session_names),
        kinds,
    )


def _find_kept_pieces(
    store: TableStore, files: list[SegmentFile]
) -> tuple[dict[str, list[Row]], set[str]]:
    """Return piece → rows of pieces without changed segments, and the names of other pieces."""
    size_by_segment = {(file.session, file.segment): file.size_bytes for file in files}
    rows_by_piece = store.read_pieces(SEGMENT_FILE, sorted({file.session for file in files}))

    def is_unchanged(row: Row) -> bool:
        size_bytes: int = row["size_bytes"]
        is_same_version: bool = row["pipeline_version"] == PIPELINE_VERSION
        return (
            is_same_version and size_by_segment.get((row["session"], row["segment"])) == size_bytes
        )

    kept_pieces = {
        piece: rows for piece, rows in rows_by_piece.items() if all(map(is_unchanged, rows))
    }
    return kept_pieces, rows_by_piece.keys() - kept_pieces.keys()


def _split_files(files: list[SegmentFile]) -> Iterator[list[SegmentFile]]:
    """Yield the files in lists of at most `MAX_SEGMENTS_COUNT`."""
    for start in range(0, len(files), MAX_SEGMENTS_COUNT):
        yield files[start : start + MAX_SEGMENTS_COUNT]


_LINE_COLUMNS = (
    "session string, segment string, record_id bigint, kind string, line_number int, "
    "part_number int, parts_count int, length_bytes bigint, readable boolean"
)
SILVER_LINE_KINDS = (
    "engine_started", "link_changed", "configured", POLL, "unavailable", "restored", "advisory",
    "advisories_counted", "findings_changed", "ack_sample", "acks_counted", "noted", "outcome",
    "gap", "clock_stepped", "benchmark_phase", "benchmark_report", "benchmark_finished",
    "keyframe",
)  # fmt: skip
"""Kinds of lines that are parsed, for the silver tables; other lines are only counted."""


def line_schema() -> str:
    """Return the columns of the table `line` as DDL: those of every line, and a struct per kind.

    `record_id` is the number of the record in its segment, or a unique negative number;
    `line_number`, `part_number` and `parts_count` are the numbers at a line's end.
    """
    fields = {kind: schema.ddl_fields(class_of(kind)) for kind in SILVER_LINE_KINDS}
    fields[POLL] = schema.poll_fields_ddl()
    return ", ".join(
        [_LINE_COLUMNS, *(f"`{kind}` struct<{fields_ddl}>" for kind, fields_ddl in fields.items())]
    )


_LINE_NUMBERS_PATTERN = r',"line":(\d{1,9})(?:,"part":(\d{1,6}),"parts_count":(\d{1,6}))?\}$'
"""Pattern of the line number at the end of a line, with the part number of a large poll."""

_LINE_START_PATTERN = (
    r'^\{"kind":"[a-z_]{1,40}",("taken_mono_us":-?\d{1,19},)?"(taken_)?at_us":-?\d{1,19}'
)
"""Pattern of the beginning of every line, as in the reader `natstui.lines`."""


def read_lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the table `line` for files of records: paths or URLs, glob characters escaped."""
    text_lines = read_text_lines(spark, paths)
    return parse_lines(text_lines, find_kinds(text_lines))


def find_kinds(text_lines: DataFrame) -> set[str]:
    """Return the known kinds of lines that occur in `text_lines`.

    Only lines of these kinds are parsed: a query for all kinds would take seconds to plan.
    """
    kinds = text_lines.where(F.col("kind").isin(*schema.LINE_KINDS)).select("kind").distinct()
    return {row["kind"] for row in kinds.take(len(schema.LINE_KINDS))}


def read_text_lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the lines of record files as text, each with the numbers at its end.

    Also with session, segment, kind and length in bytes. `paths` are paths or URLs with glob
    characters escaped.
    """
    # Otherwise a carriage return within a line would also end it.
    reader = spark.read.option("ignoreCorruptFiles", value=True).option("lineSep", "\n")
    # The line of a large poll is long: with Spark's buffer of 4 kB it is read slowly.
    reader = reader.option("io.file.buffer.size", 65536)
    # The path is a URL with escaped characters, in which + is no space.
    path = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    # Both ends of a line are cut as bytes: cutting text would count all characters of a poll.
    head, tail = _substring_bytes(F.col("value"), 1, 60), _substring_bytes(F.col("value"), -60, 60)
    text_lines = reader.text(paths).select(
        F.regexp_extract(path, r"([^/]+)/[^/]+$", 1).alias("session"),
        F.regexp_extract(path, r"([^/]+)$", 1).alias("segment"),
        F.regexp_extract(head, r'^\{"kind":"([a-z_0-9]+)"', 1).alias("kind"),
        _extract_number(tail, 1, "line_number"),
        _extract_number(tail, 2, "part_number"),
        _extract_number(tail, 3, "parts_count"),
        (F.octet_length("value") + 1).alias("length_bytes"),
        _is_complete_line(F.col("value")).alias("is_complete"),
        "value",
    )
    generated_id = -1 - F.abs(F.xxhash64("value") % 2**62)
    return text_lines.withColumn("record_id", F.coalesce("line_number", generated_id))


def parse_lines(text_lines: DataFrame, kinds: set[str]) -> DataFrame:
    """Return the table `line` with each line parsed into the column of its kind.

    `kinds` are the known kinds that occur; the columns of the others are null.
    """
    rows = with_poll_column(text_lines) if POLL in kinds else text_lines
    other_kinds = sorted(kinds & {*SILVER_LINE_KINDS} - {POLL})
    rows = rows.select("*", *(_parse_kind(kind).alias(kind) for kind in other_kinds))
    # A line of an unknown kind, of a later version, is readable.
    is_readable = F.lit(True)
    for kind in sorted(kinds):
        is_record = (F.col(kind) if kind in SILVER_LINE_KINDS else _parse_kind(kind)).isNotNull()
        is_readable = F.when(F.col("kind") == kind, is_record).otherwise(is_readable)
    rows = rows.withColumn("readable", F.col("is_complete") & is_readable)
    columns, present_columns = StructType.fromDDL(line_schema()), rows.columns
    return rows.selectExpr(*(_column_sql(column, present_columns) for column in columns))


def _column_sql(column: StructField, present_columns: list[str]) -> str:
    """Return the SQL that selects a column of the table `line`.

    Of a struct only the fields of its record are kept, without those that parsing adds. A column
    that is not in `present_columns` is null.
    """
    name, type_ = column.name, column.dataType
    if name not in present_columns:
        return f"CAST(NULL AS {type_.simpleString()}) AS `{name}`"
    if not isinstance(type_, StructType):
        return f"`{name}`"
    fields = ", ".join(f"'{field}', `{name}`.`{field}`" for field in type_.names)
    return f"IF(`{name}` IS NULL, NULL, named_struct({fields})) AS `{name}`"


def _parse_kind(kind: str) -> Column:
    return F.when(F.col("is_complete") & (F.col("kind") == kind), parse_record(class_of(kind)))


def _substring_bytes(text: Column, start: int | Column, length: int | Column) -> Column:
    """Return a part of a text; `start` (from 1 or from the end if negative) and `length` in bytes.

    This is faster than by characters.
    """
    return F.substring(text.cast("binary"), start, length).cast("string")


def _extract_number(tail: Column, group_number: int, column_name: str) -> Column:
    digits = F.regexp_extract(tail, _LINE_NUMBERS_PATTERN, group_number)
    return F.when(digits != "", digits.cast("int")).alias(column_name)


def _is_complete_line(line: Column) -> Column:
    """Return whether a line has a complete beginning and end, and is valid UTF-8."""
    return (
        line.endswith("}")
        & _substring_bytes(line, 1, 140).rlike(_LINE_START_PATTERN)
        & F.is_valid_utf8(line)
    )
