"""One process analyses session after session: each run tells of its own, and leaves nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.finalizer import ThreadSafeFinalizer
from pyspark.sql import DataFrame, SparkSession

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from natstui.analysis.silver import build as silver
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.silver.sources import find_sources
from natstui.analysis.silver.tables import CONSUMER_SAMPLE
from natstui.analysis.spark import little, short_tables
from natstui.analysis.spark.little import held
from natstui.analysis.spark.local_rows import local_rows
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table, columns
from tests.analysis.locally import analysed_into
from tests.session.making import wait_until

pytestmark = pytest.mark.spark

SMALL = Plan(3, 5, 12)
RUNS_COUNT = 2
MIB = 2**20


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Python does not look for rings: what is not let go of without that stays."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def known_objects() -> int:
    """Return how many objects of the JVM Python has, as it told the JVM."""
    return len(ThreadSafeFinalizer.finalizers)


def used_bytes(spark: SparkSession) -> int:
    """Return what the JVM needs after it has collected its garbage."""
    assert spark._jvm is not None
    spark._jvm.System.gc()
    runtime = spark._jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


@pytest.fixture
def tables(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every table that the driver comes to hold, as what the JVM may let go of."""
    assert spark._jvm is not None
    weak, found = spark._jvm.java.lang.ref.WeakReference, []

    def watched(rows: DataFrame) -> tuple[DataFrame, int]:
        frame, count = held(rows)
        found.append(weak(frame._jdf.queryExecution().logical()))
        return frame, count

    for module in (little, short_tables):
        monkeypatch.setattr(module, "held", watched)
    return found


def are_let_go_of(spark: SparkSession, tables: list[Any]) -> bool:
    """Return whether nothing in the JVM has any of the tables any more."""
    assert spark._jvm is not None
    spark._jvm.System.gc()
    return all(table.refersTo(None) for table in tables)


def session(folder: Path, number: int) -> tuple[Path, Plan]:
    """Write a session that differs from all others in its name, its load and its length."""
    plan = replace(SMALL, seed=number, ticks_count=SMALL.ticks_count + number)
    return write_session(folder / f"2026092{number}T141320Z-session", plan), plan


def counted(rows: DataFrame) -> dict[str, int]:
    """Return how many rows each session has."""
    return {row["session"]: row["count"] for row in rows.groupBy("session").count().collect()}


@pytest.mark.usefixtures("no_collector")
def test_runs_in_one_process_tell_of_their_own_session_and_leave_nothing(
    spark: SparkSession, tmp_path: Path, tables: list[Any]
) -> None:
    objects: list[int] = []
    for number in range(1, RUNS_COUNT + 1):
        folder, plan = session(tmp_path / "sessions", number)
        out = tmp_path / f"out{number}"
        result = analysed_into(spark, out, [folder])
        told: dict[str, Any] = {
            name: {row[place] for row in table["rows"]}
            for name, table in result["tables"].items()
            for place, column in enumerate(table["columns"])
            if column["name"] == "session"
        }
        assert set().union(*told.values()) == {folder.name} == told["session"]
        written = spark.read.parquet(f"{out}/silver/{CONSUMER_SAMPLE.name}")
        assert counted(written) == {folder.name: plan.ticks_count * plan.consumers_count}
        del result, written
        assert len(tables) > 20
        # Spark's own cleaner comes when it comes.
        wait_until(lambda: are_let_go_of(spark, tables))
        tables.clear()
        objects.append(known_objects())
    # The first run makes what all of them share.
    assert objects[-1] - objects[0] <= 20, objects


def test_one_store_gives_each_session_its_own_rows(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path / "out"), "run")
    first, second = (session(tmp_path / "sessions", number) for number in (1, 2))
    polls = {folder.name: plan.ticks_count for folder, plan in (first, second)}
    silver.build_silver(spark, store, find_sources(spark, [str(first[0])]), str)
    silver.build_silver(spark, store, find_sources(spark, [f"{tmp_path}/sessions/*"]), str)
    both = read_silver(store, list(polls))
    assert counted(both.poll) == polls
    for name, ticks_count in polls.items():
        assert counted(read_silver(store, [name]).poll) == {name: ticks_count}
    again = Store(spark, str(tmp_path / "again"), "run")
    silver.build_silver(spark, again, find_sources(spark, [f"{tmp_path}/sessions/*"]), str)
    for name, ticks_count in polls.items():
        assert counted(read_silver(again, [name]).poll) == {name: ticks_count}


def test_a_table_that_is_written_again_is_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    table = Table("t", "Any.", columns(("session", "string", "A text")))
    store = Store(spark, str(tmp_path), "run")
    store.write_gold(table, local_rows(spark, table, [("first",)]))
    assert store.gold(table).collect() == [("first",)]
    store.write_gold(table, local_rows(spark, table, [("second",), ("third",)]))
    assert sorted(store.gold(table).collect()) == [("second",), ("third",)]
    store.write_no_gold(table)
    assert store.is_empty(table) and store.gold(table).collect() == []
    store.write_gold(table, local_rows(spark, table, [("fourth",)]))
    assert not store.is_empty(table) and store.gold(table).collect() == [("fourth",)]


@pytest.mark.usefixtures("no_collector")
def test_rows_that_nobody_has_any_more_are_let_go_of(spark: SparkSession) -> None:
    def rows(count: int) -> DataFrame:
        return held(spark.range(count).selectExpr("id", "repeat('x', 1000) AS text"))[0]

    rows(1).count()
    before, objects = used_bytes(spark), known_objects()
    kept = rows(20_000)
    assert kept.count() == 20_000 and used_bytes(spark) - before > 15 * MIB
    del kept
    assert known_objects() <= objects + 5
    wait_until(lambda: used_bytes(spark) - before < 5 * MIB)
