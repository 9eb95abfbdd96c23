"""What is known here, as a table or a column of Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.tables import Table


def local_rows(spark: SparkSession, table: Table, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Return rows as a table; without any, Spark leaves out whatever is made of them alone.

    `createDataFrame` would start Python beside the JVM to read them.
    """
    if not rows and getattr(spark, "_jsparkSession", None):
        return table.without_rows(spark)
    names = [column.name for column in table.columns]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    read = F.from_json(F.lit(text), f"array<struct<{_fields(table)}>>", {"mode": "FAILFAST"})
    found = spark.range(1).select(F.inline(read))
    return found if rows else found.where(F.lit(False))


def looked_up(key: Column, known: Mapping[str, str | int], type_text: str = "string") -> Column:
    """Return what is known of a key; null for one that is not known.

    As one text: a call into the JVM for each of some hundred words takes longer than the query.
    """
    text = json.dumps(dict(known))
    return F.from_json(F.lit(text), f"map<string,{type_text}>")[key]


def _fields(table: Table) -> str:
    return ", ".join(f"`{column.name}`: {column.type}" for column in table.columns)
