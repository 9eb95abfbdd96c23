"""One process analyses session after session: each run tells of its own, and leaves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from natstui.analysis.silver.tables import CONSUMER_SAMPLE
from natstui.analysis.spark.store import TableStore
from natstui.analysis.tables import Table, columns
from natstui.values import replace
from tests.analysis.locally import analysed_into
from tests.analysis.planted import Analysed
from tests.analysis.test_silver import persisted

pytestmark = pytest.mark.spark

SMALL = Plan(3, 5, 12)


def session(folder: Path, number: int) -> tuple[Path, Plan]:
    """Write a session that differs from all others in its name, its load and its length."""
    plan = replace(SMALL, seed=number, ticks_count=SMALL.ticks_count + number)
    return write_session(folder / f"2026092{number}T141320Z-session", plan), plan


def counted(rows: DataFrame) -> dict[str, int]:
    """Return how many rows each session has."""
    return {row["session"]: row["count"] for row in rows.groupBy("session").count().collect()}


@pytest.mark.long
def test_runs_in_one_process_tell_of_their_own_session_and_leave_nothing(
    spark: SparkSession, analysed: Analysed, tmp_path: Path
) -> None:
    """The run before is that of three other sessions."""
    before = persisted(spark)
    folder, plan = session(tmp_path / "sessions", 1)
    assert folder.name not in {other.name for other in analysed.folders}
    out = tmp_path / "out"
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
    assert persisted(spark) == before


def test_a_table_that_is_written_again_is_the_new_one(spark: SparkSession, tmp_path: Path) -> None:
    table = Table("t", "Any.", columns(("session", "string", "A text")))
    store = TableStore(spark, str(tmp_path), "run")
    store.write_gold(table, store.create_rows(table, [("first",)]))
    assert store.gold(table).collect() == [("first",)]
    store.write_gold(table, store.create_rows(table, [("second",), ("third",)]))
    assert sorted(store.gold(table).collect()) == [("second",), ("third",)]
    store.write_empty_gold(table)
    assert store.is_empty(table) and store.gold(table).collect() == []
    store.write_gold(table, store.create_rows(table, [("fourth",)]))
    assert not store.is_empty(table) and store.gold(table).collect() == [("fourth",)]
