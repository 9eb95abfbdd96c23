"""Tables with named, typed and documented columns, and their data dictionary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct
from pyspark.sql import Column as ColumnOfSpark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

UNIT_BY_SUFFIX = {
    "_at_us": "UTC microseconds since 1970",
    "_mono_us": "monotonic microseconds",
    "_since_us": "UTC microseconds since 1970",
    "_per_s": "per second",
    "_per_min": "messages per minute",
    "_us": "microseconds",
    "_ns": "nanoseconds",
    "_s": "seconds",
    "_bytes": "bytes",
    "_msgs": "messages",
    "_per_subject": "messages per subject",
    "_seq": "sequence",
    "_count": "count",
    "_share": "share, 0 to 1",
    "_ratio": "ratio",
    "_change": "share, 0.1 is 10 % more",
    "_id": "identifier",
}


_SPARK_TYPE_BY_NAME: dict[str, DataType] = {
    "array<array<string>>": ArrayType(ArrayType(StringType())),
    "array<string>": ArrayType(StringType()),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "double": DoubleType(),
    "string": StringType(),
}
"""Name of a column type → its Spark type; to parse the name would be a call into the JVM."""


class Column(Struct, frozen=True):
    """A column of a table; the end of its name is its unit."""

    name: str
    type: str
    meaning: str

    @property
    def unit(self) -> str:
        """Return the unit, by the end of the name; empty for text, booleans and bare numbers."""
        if self.type in ("string", "boolean"):
            return ""
        # A column may be named by its unit alone, such as at_us.
        name = f"_{self.name}"
        return next((unit for end, unit in UNIT_BY_SUFFIX.items() if name.endswith(end)), "")

    @property
    def timestamp_name(self) -> str:
        """Return the name of the added timestamp column; empty if this column is no time."""
        return self.name.removesuffix("_us") if self.unit == UNIT_BY_SUFFIX["_at_us"] else ""


class Table(Struct, frozen=True):
    """A table of a layer: its name, meaning, columns and key."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    """The columns that identify a row; empty for rows without identity, such as events."""
    day_column: str = ""
    """Time column: rows are stored in a folder per UTC day of it and server. Empty: one folder."""

    def conform(self, rows: DataFrame) -> DataFrame:
        """Return rows with exactly the columns of this table, ordered, typed and commented."""
        return rows.to(self.schema())

    def empty_dataframe(self, spark: SparkSession) -> DataFrame:
        """Return a DataFrame with the columns of this table, without rows."""
        return self.conform(spark.sql("SELECT NULL WHERE false"))

    def with_timestamps(self, rows: DataFrame) -> DataFrame:
        """Return rows of this table with a timestamp column added for each time in µs."""
        timestamps = (
            f"timestamp_micros(`{c.name}`) AS `{c.timestamp_name}`"
            for c in self.columns
            if c.timestamp_name
        )
        return rows.selectExpr("*", *timestamps)

    def schema(self) -> StructType:
        """Return the Spark schema; the comment of a column is its meaning."""
        return StructType(
            [
                StructField(
                    c.name, _SPARK_TYPE_BY_NAME[c.type], True, {"comment": _column_comment(c)}
                )
                for c in self.columns
            ]
        )

    def ddl(self) -> str:
        """Return the schema as DDL."""
        return ", ".join(f"`{c.name}` {c.type}" for c in self.columns)


def columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """Return columns from triples of name, type and meaning."""
    return tuple(Column(*row) for row in rows)


def _column_comment(column: Column) -> str:
    return f"{column.meaning} [{column.unit}]" if column.unit else column.meaning


def lookup_value(
    key: ColumnOfSpark, values: Mapping[str, str | int], type_text: str = "string"
) -> ColumnOfSpark:
    """Return the column with the value of a key in `values`; null for an unknown key.

    The values are passed as a single JSON text: a call into the JVM for each of them would take
    longer than the query.
    """
    text = json.dumps(dict(values))
    return F.from_json(F.lit(text), f"map<string,{type_text}>")[key]


DAY_COLUMN, SERVER_COLUMN = "day", "server"
_SERVER_MEANING = "Cluster that was recorded, or single server"
SESSION_COLUMN = ("session", "string", "Folder name of the recording")
STREAM_IDENTITY = columns(
    SESSION_COLUMN,
    ("stream", "string", "Name of the stream"),
    (
        "created_at_us",
        "bigint",
        "Creation time of the stream; identifies it together with the name",
    ),
)
STREAM_KEY = tuple(column.name for column in STREAM_IDENTITY)
CONSUMER_IDENTITY = columns(
    SESSION_COLUMN,
    ("stream", "string", "Name of the stream"),
    ("consumer", "string", "Name of the consumer"),
    (
        "created_at_us",
        "bigint",
        "Creation time of the consumer; identifies it together with the names",
    ),
)
CONSUMER_KEY = tuple(column.name for column in CONSUMER_IDENTITY)


def series_id(key: tuple[str, ...]) -> ColumnOfSpark:
    """Return `series_id`, a hash of `key` that identifies the samples of a stream or consumer."""
    return F.xxhash64(*key).alias("series_id")


def data_dictionary(tables: Iterable[Table]) -> str:
    """Return the data dictionary of tables as Markdown."""
    lines: list[str] = ["# Data dictionary\n"]
    for table in tables:
        lines.append(f"## {table.name}\n\n{table.meaning}\n")
        if table.key:
            lines.append(f"One row per {', '.join(f'`{name}`' for name in table.key)}.\n")
        lines.append("| column | type | unit | meaning |")
        lines.append("| --- | --- | --- | --- |")
        lines += [f"| {c.name} | {c.type} | {c.unit} | {c.meaning} |" for c in table.columns]
        lines += [
            f"| {c.timestamp_name} | timestamp | | `{c.name}` as a time |"
            for c in table.columns
            if c.timestamp_name
        ]
        if table.day_column:
            lines.append(
                f"| {DAY_COLUMN} | date | | UTC day of `{table.day_column}`: a folder each |"
            )
            lines.append(f"| {SERVER_COLUMN} | string | | {_SERVER_MEANING}: a folder each |")
        lines.append("")
    return "\n".join(lines)
