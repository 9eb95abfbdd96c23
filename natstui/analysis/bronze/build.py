"""Writes the lines of new and changed segments to bronze; keeps those of unchanged segments.

Each line is parsed into the column of its kind. An invalid line is a row in which all of these
columns are null: it is counted, and left out.

A piece of bronze has segments read by one run, of one session or of many small ones. It is
written completely, with the list of its segments last, and deleted completely: if a segment has
changed or is deleted, all segments of its piece are read again. An open segment is in a separate
piece, so that only new segments of a growing session are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.files import (
    PIPELINE_VERSION,
    SEGMENT_FILE,
    SegmentFile,
    current_segments,
    indexed_kinds,
    segment_file_rows,
)
from natstui.analysis.bronze.records import POLL, class_of, parse_record, with_poll_column
from natstui.analysis.bronze.sources import SessionSource
from natstui.analysis.folders import escape_glob
from natstui.analysis.spark.store import PART_COLUMN, TableStore
from natstui.analysis.tables import SESSION_COLUMN, Table, columns
from natstui.units import bytes_text, counted

_FILE = Table(
    "file",
    "Record files of the sessions of a run.",
    columns(
        SESSION_COLUMN,
        ("segment", "string", "File name"),
        ("size_bytes", "bigint", "Size on disk"),
    ),
)
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
    pieces, kinds, dropped_pieces, changed_files = _compare_with_pieces(store, files)
    for table in (SEGMENT_FILE.name, LINE_TABLE):
        store.drop_bronze(table, dropped_pieces)
    source_by_session = {source.session: source for source in sources}
    size_text = bytes_text(sum(file.size_bytes for file in changed_files))
    report_step(
        f"reading {len(changed_files):,} of {counted(f'{len(files):,}', 'segment')}, {size_text}"
    )
    for number, chunk in enumerate(_split_files(changed_files)):
        new_kinds = _write_lines(store, chunk, source_by_session, number)
        kinds |= new_kinds
        segment_rows = segment_file_rows(store.spark, chunk, source_by_session, new_kinds)
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


class _Pieces(NamedTuple):
    """What bronze has of the files of a run."""

    kept: set[str]
    """Names of the pieces without changed segments."""
    kinds: set[str]
    """Kinds of lines that may occur in them."""
    dropped: set[str]
    """Names of the other pieces."""
    changed_files: list[SegmentFile]
    """The files that are in no kept piece."""


def _compare_with_pieces(store: TableStore, files: list[SegmentFile]) -> _Pieces:
    """Return what bronze has of `files`; compared by Spark, because there may be many segments."""
    stored_rows = store.pieces(SEGMENT_FILE, sorted({file.session for file in files}))
    if stored_rows is None:
        return _Pieces(set(), set(), set(), files)
    file_key = ["session", "segment"]
    file_rows = store.create_rows(_FILE, files)
    rows = stored_rows.join(
        file_rows.withColumnRenamed("size_bytes", "current_bytes"), file_key, "left"
    )
    is_unchanged = (F.col("pipeline_version") == PIPELINE_VERSION) & F.col(
        "size_bytes"
    ).eqNullSafe(F.col("current_bytes"))
    # All segments of a piece have the kinds of the piece.
    pieces = rows.groupBy(PART_COLUMN).agg(
        F.bool_and(is_unchanged).alias("is_kept"), F.first("kinds").alias("kinds")
    )
    kinds_by_kept_piece, dropped_pieces = dict[str, str](), set[str]()
    for piece, is_kept, kinds in pieces.collect():
        if is_kept:
            kinds_by_kept_piece[piece] = kinds
        else:
            dropped_pieces.add(piece)
    kept_pieces = set(kinds_by_kept_piece)
    if kept_pieces:
        kept_rows = stored_rows.where(F.col(PART_COLUMN).isin(kept_pieces))
        changed_rows = file_rows.join(kept_rows, file_key, "left_anti")
        files = sorted(SegmentFile(*row) for row in changed_rows.toLocalIterator())
    kinds = {kind for kinds in kinds_by_kept_piece.values() for kind in kinds.split()}
    return _Pieces(kept_pieces, kinds, dropped_pieces, files)


def _write_lines(
    store: TableStore,
    files: list[SegmentFile],
    source_by_session: Mapping[str, SessionSource],
    number: int,
) -> set[str]:
    """Write the lines of `files` to bronze; return the known kinds that may occur in them.

    Only files without an index are read for their kinds before they are parsed. If an index lacks
    a kind that occurs, the files are parsed again.
    """
    kinds, files_without_index = indexed_kinds(files, source_by_session)
    if files_without_index:
        paths = _escaped_paths(files_without_index, source_by_session)
        kinds |= find_kinds(read_text_lines(store.spark, paths))
    text_lines = read_text_lines(store.spark, _escaped_paths(files, source_by_session))
    is_other_kind = F.col("kind").isin(*(kind for kind in schema.LINE_KINDS if kind not in kinds))
    other_lines = Observation()
    lines = parse_lines(text_lines, kinds).observe(
        other_lines, F.count_if(is_other_kind).alias("n")
    )
    store.write_bronze(LINE_TABLE, lines, number)
    if other_lines.get["n"]:
        kinds = find_kinds(text_lines)
        store.write_bronze(LINE_TABLE, parse_lines(text_lines, kinds), number)
    return kinds


def _escaped_paths(
    files: list[SegmentFile], source_by_session: Mapping[str, SessionSource]
) -> list[str]:
    return [
        f"{source_by_session[file.session].folder}/{escape_glob(file.segment)}" for file in files
    ]


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
    "servers_read", "keyframe",
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
