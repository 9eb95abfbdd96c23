"""Little to read: tables are held, written from here, and joined where they lie."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer
from natstui.analysis.report import result
from natstui.analysis.silver.tables import EVENT, POLL, TABLES
from natstui.analysis.spark import short_tables
from natstui.analysis.spark.little import HELD
from natstui.analysis.spark.local_rows import local_rows
from natstui.analysis.spark.parquet import write_table
from natstui.analysis.spark.store import PART, Store
from natstui.analysis.tables import Table, columns

pytestmark = pytest.mark.spark

_ALL = Table(
    "t",
    "Every type that is written from here.",
    columns(
        ("session", "string", "A text"),
        ("begun_at_us", "bigint", "A number that is a moment too"),
        ("rate_per_s", "double", "A fraction"),
        ("open", "boolean", "A truth"),
    ),
)
_SESSIONS = ["a=b", "50 %", "größe"]


def _rows(count: int) -> list[tuple[Any, ...]]:
    """Return rows of `_ALL`, nothing known here and there in each column."""
    return [
        (
            _SESSIONS[number % 3],
            None if number % 5 == 0 else number - 7,
            None if number % 7 == 0 else number / 3,
            None if number % 4 == 0 else number % 2 == 0,
        )
        for number in range(count)
    ]


def _plain(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows.collect()), key=repr)


@pytest.mark.parametrize("count", [0, 1, 8, 9, 700])
def test_a_table_that_is_written_from_here_is_the_one_that_spark_reads(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
    store = Store(spark, str(tmp_path), "run")
    store.write_gold(_ALL, local_rows(spark, _ALL, _rows(count)))
    assert (tmp_path / "gold.run" / "t" / "part-00000.parquet").is_file()
    written = spark.read.parquet(f"{tmp_path}/gold.run/t")
    assert dict(written.dtypes)["begun_at"] == "timestamp"
    assert written.schema["rate_per_s"].metadata == {"comment": "A fraction [per second]"}
    assert _plain(written.drop("begun_at")) == sorted(_rows(count), key=repr)
    moments = written.where("begun_at_us is not null and unix_micros(begun_at) <> begun_at_us")
    assert moments.collect() == []
    assert _plain(store.gold(_ALL)) == _plain(written.drop("begun_at"))


def test_long_lists_of_columns_and_texts_are_written(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(40)]
    row = [f"{name} " * 500 for name in names]
    write_table(tmp_path / "t", [(name, "string") for name in names], [row, row], {"k": "v"})
    found = spark.read.parquet(str(tmp_path / "t")).collect()
    assert [list(one) for one in found] == [row, row]


@pytest.mark.parametrize("most_rows_count", [0, 1000])
def test_silver_is_replaced_by_session_and_read_by_the_next_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_rows_count: int
) -> None:
    # Few rows are written from here, many by Spark: what is there afterwards is the same.
    monkeypatch.setattr(short_tables, "_MOST_ROWS_COUNT", most_rows_count)
    first = Store(spark, str(tmp_path), "first")
    first.write_silver(_ALL, local_rows(spark, _ALL, _rows(30)))
    first.is_fresh(_SESSIONS)
    assert _plain(first.silver(_ALL, _SESSIONS)) == sorted(_rows(30), key=repr)
    again = Store(spark, str(tmp_path), "again")
    assert _plain(again.silver(_ALL, _SESSIONS)) == sorted(_rows(30), key=repr)
    again.drop_silver(_ALL, set(_SESSIONS[1:]), _SESSIONS[:1])
    new = [(_SESSIONS[0], 1, 2.0, True)]
    again.write_silver(_ALL, local_rows(spark, _ALL, new))
    kept = [row for row in _rows(30) if row[0] != _SESSIONS[0]]
    assert _plain(again.silver(_ALL, _SESSIONS)) == sorted([*kept, *new], key=repr)
    assert not list(tmp_path.glob("silver/*/.spark-staging-*"))


def test_many_samples_are_read_from_the_files(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path), "run")
    spark.conf.set(HELD, "false")
    try:
        store.write_silver(_ALL, local_rows(spark, _ALL, _rows(30)), samples=True)
    finally:
        spark.conf.set(HELD, "true")
    store.is_fresh(_SESSIONS)
    rows = store.silver(_ALL, _SESSIONS)
    assert "FileScan" in str(rows._jdf.queryExecution().executedPlan().toString())
    assert _plain(rows) == sorted(_rows(30), key=repr)
    store.write_silver(EVENT, local_rows(spark, EVENT, ()))
    assert store.silver(EVENT, _SESSIONS).collect() == []


def test_a_table_of_which_every_part_is_gone_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    first = Store(spark, str(tmp_path), "run")
    first.write_silver(_ALL, local_rows(spark, _ALL, _rows(30)))
    first.drop_silver(_ALL, set(), _SESSIONS)
    again = Store(spark, str(tmp_path), "again")
    again.know_parts({session: session for session in _SESSIONS}, ())
    assert again.silver(_ALL, _SESSIONS).collect() == []


def test_what_is_dropped_is_held_no_more(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path), "run")
    store.write_silver(_ALL, local_rows(spark, _ALL, _rows(30)))
    store.is_fresh(_SESSIONS)
    store.drop_silver(_ALL, set(), _SESSIONS)
    assert store.silver(_ALL, _SESSIONS).collect() == []


def test_lists_are_written_from_here(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(
        "t", "Lists.", columns(("one", "array<string>", ""), ("two", "array<array<string>>", ""))
    )
    kinds: list[Any] = [None, [], ["a"], ["b", None, "", "größe"], [None]]
    lists: list[Any] = [None, [], [[]], [None, ["a"]], [["a", "b"], [], ["c", None]], kinds]
    rows = [(one, two) for two in lists for one in kinds]
    write_table(tmp_path, table.stored_columns(), rows, {})
    read = spark.read.parquet(str(tmp_path))
    assert [(field.name, field.dataType.simpleString()) for field in read.schema] == [
        (column.name, column.type) for column in table.columns
    ]
    assert [tuple(row) for row in read.collect()] == rows


def test_a_poll_is_written_from_here(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path), "run")
    store.write_gold(POLL, local_rows(spark, POLL, ()))
    assert store.gold(POLL).collect() == []
    assert (tmp_path / "gold.run" / "poll" / "part-00000.parquet").is_file()


def test_what_is_held_is_joined_and_sorted_where_it_lies(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path), "run")
    store.write_gold(_ALL, local_rows(spark, _ALL, _rows(30)))
    rows = store.gold(_ALL)
    order = Window.partitionBy("session").orderBy("begun_at_us")
    most = rows.groupBy("session").agg(F.max("rate_per_s").alias("most"))
    joined = rows.withColumn("place", F.row_number().over(order))
    joined = joined.join(F.broadcast(most), "session", "left").unionByName(
        joined.withColumn("most", F.lit(0.0))
    )
    plan = str(joined._jdf.queryExecution().executedPlan().toString())
    assert "Exchange" not in plan and joined.count() == 60


def test_rows_that_are_held_are_told_in_the_order_of_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    values = [None, math.nan, 2.0, -1.0, math.inf, -math.inf, 0.0]
    rows = [("s", number, value, None) for number, value in enumerate(values)]
    store = Store(spark, str(tmp_path), "run")
    store.write_gold(_ALL, local_rows(spark, _ALL, rows))
    for names in (("rate_per_s",), ("-rate_per_s",), ("open", "-session", "-begun_at_us")):
        answer = Answer(_ALL, lambda given: given.gold("t"), sorted_by=names)
        held = [row["begun_at_us"] for row in result.first_rows(store, answer, 5)]
        told = result.in_order(store.gold(_ALL), names).take(5)
        assert held == [row["begun_at_us"] for row in told]


def test_a_table_without_rows_is_known_to_be_empty(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path), "run")
    store.write_gold(EVENT, local_rows(spark, EVENT, ()))
    assert store.is_empty(EVENT)


def test_no_table_has_a_column_called_like_the_folders_of_its_parts() -> None:
    assert not [t.name for t in TABLES for column in t.columns if column.name == PART]
