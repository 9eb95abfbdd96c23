"""Bronze: read the recorded lines with a schema, and check each before its values are used."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.silver import schema
from natstui.analysis.silver.files import FILES
from natstui.analysis.silver.schema import PACKED_AS
from natstui.analysis.silver.unreadable import CORRUPT, OPTIONS, clamped, is_huge
from natstui.analysis.spark.failures import ERROR_MARK
from natstui.model.findings.thresholds import PEER_ACTIVE_S
from natstui.model.live.column_differences import NEAR_BELOW_US
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns, later_columns

IS_PACKED = "_packed"
"""Column that says, for each poll or sample, whether the five columns hold differences."""


def is_packed(row: Column) -> Column:
    """Return whether a poll was packed; one of its columns stands for all five."""
    return row[next(iter(PACKED_AS.values()))].isNotNull()


def recorded_column(row: Column, where: str, name: str, type_text: str) -> Column:
    """Return all values of a column, or the differences recorded in their place.

    A column that an older recording does not have is filled with the value for unknown.
    """
    column = row[name]
    if name in later_columns(_TABLES[where]):
        filled = F.array_repeat(_unknown(type_text), F.size(row["name"]))
        column = F.when(F.size(column) > 0, column).otherwise(filled)
    if where == "consumers" and name in PACKED_AS:
        return F.when(F.col(IS_PACKED), row[PACKED_AS[name]]).otherwise(column)
    return column


_TABLES = {"streams": StreamColumns, "consumers": ConsumerColumns}


def _unknown(type_text: str) -> Column:
    if type_text.endswith("?"):
        return F.lit(None).cast(schema.spark_type(type_text))
    return F.lit(False) if type_text == "boolean" else F.array().cast(type_text)


def unpacked(rows: DataFrame) -> DataFrame:
    """Turn the differences in the five columns into values where `_packed` says so.

    One row per consumer, with `taken_at_us`.
    """
    packed, consumer_seq = F.col(IS_PACKED), F.col("delivered_consumer_seq")
    ahead = F.when(packed, consumer_seq).otherwise(F.lit(0).cast("bigint"))
    stream_seq = F.col("delivered_stream_seq") + ahead
    delivered_us = _time("delivered_at_us", F.col("taken_at_us"))
    filled = {
        "delivered_stream_seq": stream_seq,
        "ack_floor_consumer_seq": _behind("ack_floor_consumer_seq", consumer_seq),
        "ack_floor_stream_seq": _behind("ack_floor_stream_seq", stream_seq),
        "delivered_at_us": delivered_us,
        "acked_at_us": _time("acked_at_us", F.coalesce(delivered_us, F.col("taken_at_us"))),
    }
    return rows.withColumns(filled).drop(IS_PACKED)


def _behind(name: str, seq: Column) -> Column:
    return F.when(F.col(IS_PACKED), seq - F.col(name)).otherwise(F.col(name))


def _time(near: str, base_us: Column) -> Column:
    """Return a time that may stand as its difference to another."""
    difference = F.col(IS_PACKED) & (F.col(near) < NEAR_BELOW_US)
    return F.when(difference, F.col(near) + base_us).otherwise(F.col(near))


_PLACE = r',"line":(\d{1,9})(?:,"part":(\d{1,6}),"parts_count":(\d{1,6}))?\}$'
"""The place of a line in its segment, and of a part of a large poll in its line."""

_BEGINS = r'^\{"kind":"[a-z_]{1,40}",("taken_mono_us":-?\d{1,19},)?"(taken_)?at_us":-?\d{1,19}'
"""How every line begins, as its other readers have it too."""
_ALL = "all_"
"""Begins the name of a column that still holds all values of a poll."""


def read_lines(spark: SparkSession, folders: list[str], skipped: list[str]) -> DataFrame:
    """Return the lines of sessions: session, segment, kind, place, value, and their numbers.

    `line_count`, `part_count` and `parts_count` are those at a line's end; `place` is the number
    of its record, or one of its own that is negative. `folders` are paths or URLs with Spark's
    glob characters escaped; `skipped` are segments, as `session/file`, that another one holds.
    """
    # Otherwise a stray carriage return would end a line too.
    reader = spark.read.option("ignoreCorruptFiles", value=True).option("lineSep", "\n")
    # A line of a large poll is long: in Spark's pieces of 4 kB it is put together slowly.
    reader = reader.option("io.file.buffer.size", 65536)
    # It is a URL: what is no letter in a folder's name stands there as a number.
    where = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    # Short pieces first, cut as bytes: cutting text counts the characters of a whole poll.
    head, tail = bytes_of(F.col("value"), 1, 60), bytes_of(F.col("value"), -60, 60)
    # By pattern: of a folder alone, Spark would read a subfolder called like `x=1` in its place.
    text = reader.text([f"{folder}/{FILES}" for folder in folders])
    lines = text.select(
        F.regexp_extract(where, r"([^/]+)/[^/]+$", 1).alias("session"),
        F.regexp_extract(where, r"([^/]+)$", 1).alias("segment"),
        F.regexp_extract(head, r'^\{"kind":"([a-z_0-9]+)"', 1).alias("kind"),
        _number(tail, 1, "line_count"),
        _number(tail, 2, "part_count"),
        _number(tail, 3, "parts_count"),
        "value",
    )
    without_number = -1 - F.abs(F.xxhash64("value") % 2**62)
    lines = lines.withColumn("place", F.coalesce("line_count", without_number))
    if skipped:
        lines = lines.where(~F.concat_ws("/", "session", "segment").isin(skipped))
    return lines


def bytes_of(text: Column, start: int | Column, length: int | Column) -> Column:
    """Return a part of a text by its bytes, the first is 1: characters would be counted first."""
    return F.substring(text.cast("binary"), start, length).cast("string")


def _number(tail: Column, group: int, name: str) -> Column:
    digits = F.regexp_extract(tail, _PLACE, group)
    return F.when(digits != "", digits.cast("int")).alias(name)


def parse(lines: DataFrame, ddl: str) -> DataFrame:
    """Return lines with the parsed struct `line`, null where unreadable, instead of `value`.

    Sequences beyond 64 signed bits are text in a recording; they are read as 2⁶³−1. No filter on
    `line` here: Spark would push it below the parsing and parse twice.
    """
    wanted, value = f"struct<{ddl},{CORRUPT}:string>", F.col("value")
    bad = F.col("line")[CORRUPT].isNotNull()
    again = F.from_json(clamped(value), wanted, OPTIONS)
    rows = lines.withColumn("line", F.from_json(value, wanted, OPTIONS))
    rows = rows.withColumn("line", F.when(bad & is_huge(value), again).otherwise(F.col("line")))
    return rows.withColumn("line", F.when(~bad, F.col("line"))).drop("value")


def whole(value: Column) -> Column:
    """Return whether a line has both its ends, and is text: a torn one has not."""
    return value.endswith("}") & bytes_of(value, 1, 140).rlike(_BEGINS) & F.is_valid_utf8(value)


def raised(sentence: Column) -> Column:
    """Fail the job with a sentence, to which the session's name is added."""
    return F.raise_error(F.concat(F.lit(ERROR_MARK), sentence, F.lit(" in session "), "session"))


def checked(row: Column, fields: schema.Fields) -> Column:
    """Return a parsed struct; a required field that is null is an error, unless all of it is."""
    names = schema.required(fields)
    absent = [row[name].isNull() for name in names]
    sentence = F.concat(
        F.lit("a required field is missing or null: "), _names_where(names, absent)
    )
    return F.when(row.isNotNull() & _any(absent), raised(sentence)).otherwise(row)


def exploded(rows: DataFrame, where: str, fields: schema.Fields) -> DataFrame:
    """Return one row per position of the columns in `line.<where>`, each column as `<name>`.

    Every column must be there and as long as the names; a required value must not be null. The
    checks are few expressions: the JVM does not compile a method that grows too long.
    """
    row, packed = F.col("line")[where], where == "consumers"
    kept = [name for name in rows.columns if name != "line"]
    if packed:
        rows = rows.withColumn(IS_PACKED, is_packed(row))
        kept.append(IS_PACKED)
    # Columns by themselves are looked up once per poll, inside `line` once per sample.
    rows = rows.select(
        *kept,
        F.col("line").isNotNull().alias("_read"),
        *(
            recorded_column(row, where, name, type_text).alias(_ALL + name)
            for name, type_text in fields.items()
        ),
    )
    # What needs a lambda, once per poll: Spark does not compile such a step.
    rows = rows.withColumn("_differ", _differing(fields))
    lists = {name: made for name, made in _OF_LISTS.items() if made.of in fields}
    of_lists = {_ALL + name: _of_list(made) for name, made in lists.items()}
    rows = rows.withColumns({_ALL + "name": _names(where, fields), **of_lists})
    picked = [
        name for name in fields if fields[name] in _NEVER or name not in schema.required(fields)
    ]
    rows = rows.select("*", F.posexplode(_ALL + "name").alias("_i", "_name"))
    # Picking by position is cheaper than arrays_zip, which builds an object per row.
    picks = (F.get(_ALL + name, F.col("_i")).alias(name) for name in (*picked, *lists))
    rows = rows.select(*kept, *picks)
    return _without_nulls(unpacked(rows) if packed else rows, where, fields)


class _OfList(NamedTuple):
    """What is read of a list that each sample has."""

    of: str
    made: Callable[[Column], Column]
    of_none: int | None
    """What is read of an empty one."""


def _away(peers: Column) -> Column:
    """Return the replicas that are away, as `model.servers.replicas.is_away` has it."""

    def is_away(one: Column) -> Column:
        heard_ns = F.nullif(one["active_ns"], F.lit(0))
        silent = F.coalesce(heard_ns > PEER_ACTIVE_S * 1e9, ~one["current"])
        # What cannot be read of a replica is no proof that it is there.
        return F.coalesce(one["offline"] | silent, F.lit(True))

    return F.filter(peers, is_away)


_OF_LISTS = {
    "peers_count": _OfList("peers", F.size, 0),
    "away_peers_count": _OfList("peers", lambda peers: F.size(_away(peers)), 0),
    "peer_lag_msgs": _OfList("peers", lambda peers: F.array_max(peers["lag_msgs"]), None),
    "upstream_lag_msgs": _OfList("upstreams", lambda all: F.array_max(all["lag_msgs"]), None),
}
"""Lists are not kept: what is read of them, as columns."""


def _of_list(read: _OfList) -> Column:
    lists = F.col(_ALL + read.of)
    made = F.transform(lists, read.made)
    none = F.array_repeat(F.lit(read.of_none), F.size(lists))
    # Most polls have none: a lambda takes its time with each sample.
    return F.when(F.size(F.flatten(lists)) == 0, none).otherwise(made)


def _differing(fields: schema.Fields) -> Column:
    """Return the names of the columns of a poll that are missing or have another length."""
    others = tuple(name for name in fields if name != "name")
    length = F.size(_ALL + "name")
    return _names_where(others, [~F.size(_ALL + name).eqNullSafe(length) for name in others])


def _names(where: str, fields: schema.Fields) -> Column:
    """Return the column of names; fail when a column is missing, too short, or lacks a list."""
    sentence = F.lit(f"a column of {where} is missing or has another length: ")
    differs, names = F.col("_read") & (F.col("_differ") != ""), F.col(_ALL + "name")
    lists = {made.of for made in _OF_LISTS.values()} & fields.keys()
    failed = F.when(differs, raised(F.concat(sentence, "_differ")))
    for name in sorted(lists):
        lacks = F.col("_read") & F.flatten(_ALL + name).isNull()
        failed = failed.when(lacks, _null_in(where, F.lit(name)))
    return failed.otherwise(names)


def _null_in(where: str, name: Column) -> Column:
    return raised(F.concat(F.lit(f"a required value of {where} is null: "), name))


_NEVER: dict[str, Any] = {"bigint": 0, "boolean": False, "string": ""}
"""What stands for a null that cannot be."""


def _without_nulls(rows: DataFrame, where: str, fields: schema.Fields) -> DataFrame:
    """Fail on a null in a required column; reading the first column runs the check."""
    names = [name for name in schema.required(fields) if fields[name] in _NEVER]
    numbers = [F.col(name) for name in names if fields[name] == "bigint"]
    # Null if any of them is null, in one short expression.
    together = reduce(lambda left, right: left.bitwiseOR(right), numbers)
    others = [F.col(name).isNull() for name in names if fields[name] != "bigint"]
    told = _first_where(names, [F.col(name).isNull() for name in names])
    failed = F.when(together.isNull() | _any(others), _null_in(where, told))
    first = names[0]
    checked = {name: F.col(name) for name in names} | {first: failed.otherwise(F.col(first))}
    # Spark learns that they are never null, and does not ask in all that follows.
    return rows.withColumns(
        {name: F.coalesce(one, F.lit(_NEVER[fields[name]])) for name, one in checked.items()}
    )


def _any(flags: list[Column]) -> Column:
    return reduce(lambda left, right: left | right, flags)


def _names_where(names: tuple[str, ...], flags: list[Column]) -> Column:
    """Return the names whose flag is set, as text.

    Not for samples: a lambda keeps Spark from compiling the whole step.
    """
    named = F.zip_with(
        F.array(*map(F.lit, names)), F.array(*flags), lambda name, flag: F.when(flag, name)
    )
    return F.array_join(named, ", ")


def _first_where(names: list[str], flags: list[Column]) -> Column:
    """Return the first name whose flag is set."""
    return F.coalesce(*(F.when(flag, name) for name, flag in zip(names, flags, strict=True)))
