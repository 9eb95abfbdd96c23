"""Bronze: the recorded lines, each parsed once into the column of its kind.

A line that is no record is a row without any of these columns: it is counted, and left out.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from natstui.analysis.bronze import schema
from natstui.analysis.bronze.records import POLL, class_of, record, with_polls

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
"""The kinds of line that tables of silver are made of; of the others nothing is kept but that they
are records."""


def line_schema() -> str:
    """Return the columns of the table `line` as DDL: what is known of each line, and each kind.

    `record_id` is the number of the record in its segment, or one of its own that is negative;
    `line_number`, `part_number` and `parts_count` are the numbers at a line's end.
    """
    fields = {kind: schema.ddl_fields(class_of(kind)) for kind in KEPT}
    fields[POLL] = schema.poll_fields()
    return ", ".join([_OF_LINE, *(f"`{kind}` struct<{text}>" for kind, text in fields.items())])


_PLACE = r',"line":(\d{1,9})(?:,"part":(\d{1,6}),"parts_count":(\d{1,6}))?\}$'
"""The place of a line in its segment, and of a part of a large poll in its line."""

_BEGINS = r'^\{"kind":"[a-z_]{1,40}",("taken_mono_us":-?\d{1,19},)?"(taken_)?at_us":-?\d{1,19}'
"""How every line begins, as its other readers have it too."""


def read_lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Return the table `line` of files of records: paths or URLs, glob characters escaped."""
    text = _read_text(spark, paths)
    # The checks of all kinds take seconds to plan, and few kinds occur.
    kinds = text.where(F.col("kind").isin(*schema.KINDS)).select("kind").distinct()
    return parsed(text, {row["kind"] for row in kinds.take(len(schema.KINDS))})


def _read_text(spark: SparkSession, paths: list[str]) -> DataFrame:
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
        _whole(F.col("value")).alias("whole"),
        "value",
    )
    without_number = -1 - F.abs(F.xxhash64("value") % 2**62)
    return lines.withColumn("record_id", F.coalesce("line_number", without_number))


def parsed(lines: DataFrame, kinds: set[str]) -> DataFrame:
    """Return the table `line` of lines with their text: each kind is parsed into its column.

    `kinds` are the known ones that occur; the columns of the others are null.
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
    columns, known = StructType.fromDDL(line_schema()), rows.columns
    return rows.selectExpr(*(_without_marks(column, known) for column in columns))


def _without_marks(column: StructField, known: list[str]) -> str:
    """Return a column without the number of its line and the mark of a corrupt one, as SQL."""
    name, type_ = column.name, column.dataType
    if name not in known:
        return f"CAST(NULL AS {type_.simpleString()}) AS `{name}`"
    if not isinstance(type_, StructType):
        return f"`{name}`"
    fields = ", ".join(f"'{field}', `{name}`.`{field}`" for field in type_.names)
    return f"IF(`{name}` IS NULL, NULL, named_struct({fields})) AS `{name}`"


def _of_kind(kind: str) -> Column:
    found = record(F.col("value"), class_of(kind), F.col("line_number"))
    return F.when(F.col("whole") & (F.col("kind") == kind), found)


def _bytes_of(text: Column, start: int | Column, length: int | Column) -> Column:
    """Return a part of a text by its bytes, the first is 1: characters would be counted first."""
    return F.substring(text.cast("binary"), start, length).cast("string")


def _number(tail: Column, group: int, name: str) -> Column:
    digits = F.regexp_extract(tail, _PLACE, group)
    return F.when(digits != "", digits.cast("int")).alias(name)


def _whole(value: Column) -> Column:
    """Return whether a line has both its ends, and is text: a torn one has not."""
    return value.endswith("}") & _bytes_of(value, 1, 140).rlike(_BEGINS) & F.is_valid_utf8(value)
