"""Where tables are put: what a killed run left is removed or put back, and nothing else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from natstui.analysis.defaults import Thresholds
from natstui.analysis.result_cache import gold_fingerprint
from natstui.analysis.silver import tables as silver_tables
from natstui.analysis.spark.store import PART_COLUMN, TableStore
from natstui.analysis.tables import Table, columns, data_dictionary
from natstui.errors import AnalysisError
from natstui.values import replace
from tests.analysis.test_silver import nothing_can_be_deleted

pytestmark = pytest.mark.spark


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_run_left_is_removed_and_what_is_not_ours_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in (
        "gold",
        "gold.0123abcd",
        "rows.0123abcd",
        "gold.89abcdef.old",
        "gold.mine",
        "gold.backup",
    ):
        (tmp_path / name).mkdir()
    staging = tmp_path / "silver" / "poll" / ".spark-staging-1"
    staging.mkdir(parents=True)
    TableStore(spark, str(tmp_path), "ffffffff").delete_leftovers()
    assert names(tmp_path) == ["gold", "gold.backup", "gold.mine", "silver"]
    assert not staging.exists()


def test_tables_that_a_killed_run_had_moved_aside_are_put_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = tmp_path / "gold.89abcdef.old"
    old.mkdir()
    (old / "DICTIONARY.md").write_text("of the run before")
    TableStore(spark, str(tmp_path), "ffffffff").delete_leftovers()
    assert names(tmp_path) == ["gold"]
    assert (tmp_path / "gold" / "DICTIONARY.md").read_text() == "of the run before"


def test_new_tables_take_the_place_of_the_old_ones(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("gold", "gold.ffffffff"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "which").write_text(name)
    TableStore(spark, str(tmp_path), "ffffffff").publish((), "0")
    assert names(tmp_path) == ["gold"]
    assert (tmp_path / "gold" / "which").read_text() == "gold.ffffffff"


def test_tables_at_a_url_that_no_analysis_has_written_are_not_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, f"file://{tmp_path}", "ffffffff")
    store.check_own_gold()
    (tmp_path / "gold").mkdir()
    (tmp_path / "gold" / "orders").write_text("precious")
    with pytest.raises(AnalysisError, match="it has gold already, which natstui did not write"):
        store.check_own_gold()
    (tmp_path / "gold" / "_made_of-parquet-0").touch()
    store.check_own_gold()


def test_what_somebody_put_beside_the_tables_is_not_replaced_with_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = (silver_tables.POLL, silver_tables.SEGMENT)
    store = TableStore(spark, str(tmp_path), "ffffffff")
    for table in tables:
        store.write_gold(table, spark.createDataFrame([], table.ddl()))
    store.publish(tables, "0")
    store.check_no_other_files(tables)
    for name in ("my_summary/part-0.parquet", "notes.md", "poll/notes.md"):
        file = tmp_path / "gold" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("precious")
        what = "my_summary" if name.startswith("my_summary") else name
        with pytest.raises(AnalysisError, match=f"it has gold/{what} already, which natstui did"):
            store.check_no_other_files(tables)
        assert file.read_text() == "precious"
        file.unlink()
        if name.startswith("my_summary"):
            file.parent.rmdir()


FILES = Table(
    "file",
    "Files that were read.",
    columns(("session", "string", "Folder name"), ("segment", "string", "File name")),
    key=("session", "segment"),
)


def test_where_nothing_can_be_deleted_what_is_dropped_has_no_rows_any_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_can_be_deleted(monkeypatch)
    store, sessions = TableStore(spark, str(tmp_path), "1"), ["dropped", "kept"]
    store.set_parts({name: name for name in sessions}, sessions)
    store.drop_silver(FILES, set())
    assert store.silver(FILES, None).collect() == [] and store.pieces(FILES, sessions) is None

    def piece_names() -> set[str]:
        pieces = store.pieces(FILES, sessions)
        assert pieces is not None
        return {row[PART_COLUMN] for row in pieces.collect()}

    written = [(name, "records-000001.jsonl.gz") for name in sessions]
    rows = store.create_rows(FILES, written)
    store.write_silver(FILES, rows)
    store.write_bronze(FILES.name, rows, 0)
    store.delete_incomplete_pieces("nothing", FILES.name)
    dropped, kept = (store.piece_name(name, segment, 0) for name, segment in written)
    assert piece_names() == {dropped, kept}
    store.drop_silver(FILES, {"kept"})
    store.drop_bronze(FILES.name, {dropped, "never/written-0"})
    assert [tuple(row) for row in store.silver(FILES, sessions).collect()] == written[1:]
    assert piece_names() == {kept}


def test_answers_are_kept_when_all_tables_are_there_and_have_the_same_fingerprint(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = (silver_tables.POLL, silver_tables.SEGMENT)
    mark = gold_fingerprint({"one": "1:abc"}, Thresholds())
    first = TableStore(spark, str(tmp_path), "ffffffff")
    for table in tables:
        first.write_gold(table, spark.createDataFrame([], table.ddl()))
    first.publish(tables, mark)
    assert TableStore(spark, str(tmp_path), "0").use_published_gold(tables, mark)
    assert not TableStore(spark, str(tmp_path), "0").use_published_gold(
        (*tables, silver_tables.EVENT), mark
    )
    for other in (
        gold_fingerprint({"one": "1:abd"}, Thresholds()),
        gold_fingerprint({}, Thresholds()),
    ):
        assert not TableStore(spark, str(tmp_path), "0").use_published_gold(tables, other)
    longer = gold_fingerprint({"one": "1:abc"}, Thresholds(stuck_after_s=60.0))
    assert not TableStore(spark, str(tmp_path), "0").use_published_gold(tables, longer)


def test_rows_that_are_known_here_are_read_without_python_beside_the_jvm(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path), "run")
    table = Table(
        "any",
        "Every type there is.",
        columns(
            ("name", "string", "Text"),
            ("at_us", "bigint", "A whole number"),
            ("rate_per_s", "double", "A fraction"),
            ("open", "boolean", "A truth value"),
        ),
    )
    rows = [
        ("", 0, 0.1, True),
        ("\"\\\n\x00é\u2028😀'`", 2**63 - 1, 1 / 3, False),
        ("none", -(2**63), None, None),
        ("far", None, math.inf, None),
        ("small", 1, 5e-324, None),
    ]
    found = store.create_rows(table, rows)
    assert [tuple(row) for row in found.collect()] == rows
    assert "ExistingRDD" not in plan(found)
    nan = store.create_rows(table, [("nan", 1, math.nan, None)]).first()
    assert nan is not None and math.isnan(nan["rate_per_s"])
    store.delete_run_folders()
    assert names(tmp_path) == []


def test_a_table_no_session_ever_had_rows_for_is_known_to_be_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    for table in silver_tables.TABLES:
        nothing = TableStore(spark, str(tmp_path), "run").silver(table, ["a"])
        assert table.conform(nothing).collect() == []
        assert nothing.columns == [column.name for column in table.columns]
        assert "LocalTableScan <empty>" in plan(nothing.groupBy("session").count())


def test_a_moment_is_written_in_microseconds_and_as_a_timestamp(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table("t", "", columns(("begun_at_us", "bigint", ""), ("lasted_us", "bigint", "")))
    rows = [(1_795_455_558_023_120, 7), (None, 8)]
    store = TableStore(spark, str(tmp_path), "run")
    store.write_gold(table, store.create_rows(table, rows))
    written = spark.read.parquet(f"{tmp_path}/gold.run/t").orderBy("lasted_us")
    assert dict(written.dtypes) == {
        "begun_at_us": "bigint",
        "lasted_us": "bigint",
        "begun_at": "timestamp",
    }
    moments = [row["us"] for row in written.selectExpr("unix_micros(begun_at) AS us").collect()]
    assert moments == [1_795_455_558_023_120, None]
    assert store.gold(table).columns == ["begun_at_us", "lasted_us"]
    assert "| begun_at | timestamp |" in data_dictionary([table])
    assert "One row per `begun_at_us`." in data_dictionary([replace(table, key=("begun_at_us",))])


def test_a_column_that_is_named_by_its_unit_alone_has_that_unit() -> None:
    """`at_us` was told as a duration, and had no timestamp."""
    moment, count = columns(("at_us", "bigint", ""), ("msgs", "bigint", ""))
    assert (moment.unit, moment.timestamp_name) == ("UTC microseconds since 1970", "at")
    assert count.unit == "messages"


def plan(rows: DataFrame) -> str:
    """Return what Spark is going to do."""
    return str(rows._jdf.queryExecution().executedPlan().toString())


def test_a_table_written_without_rows_is_there_and_is_not_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = silver_tables.EVENT
    store = TableStore(spark, str(tmp_path), "run")
    assert not store.is_empty(table)
    store.write_empty_gold(table)
    assert store.is_empty(table) and "FileScan" not in plan(store.gold(table))
    store.publish((table,), "mark")
    written = spark.read.parquet(f"{tmp_path}/gold/{table.name}")
    assert written.collect() == [] and written.columns[: len(table.columns)] == [
        column.name for column in table.columns
    ]
    # Another run has to look.
    assert not TableStore(spark, str(tmp_path), "next").is_empty(table)


_BY_DAY = Table(
    "by_day",
    "A table in folders.",
    columns(("session", "string", "A text"), ("begun_at_us", "bigint", "A moment")),
    day_column="begun_at_us",
)
_MIDNIGHT_US = 1_795_478_400_000_000


def test_rows_of_each_day_and_server_lie_in_a_folder_that_alone_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path), "run")
    store.servers = {"a": "eu/1", "b": "us", "c": ""}
    rows = [
        ("a", _MIDNIGHT_US - 1), ("a", _MIDNIGHT_US), ("b", _MIDNIGHT_US), ("b", None),
        ("c", 2**62), ("of nobody", -1),
    ]  # fmt: skip
    store.write_gold(_BY_DAY, store.create_rows(_BY_DAY, rows))
    folder, nowhere = tmp_path / "gold.run" / "by_day", "__HIVE_DEFAULT_PARTITION__"
    assert {str(path.parent.relative_to(folder)) for path in folder.rglob("*.parquet")} == {
        "day=2026-11-23/server=eu%2F1",
        "day=2026-11-24/server=eu%2F1",
        "day=2026-11-24/server=us",
        f"day={nowhere}/server=us",
        f"day={nowhere}/server={nowhere}",
    }
    assert sorted(store.gold(_BY_DAY).collect(), key=repr) == sorted(rows, key=repr)
    wanted = folder / "day=2026-11-24" / "server=eu%2F1"
    for path in folder.rglob("*.parquet"):
        if path.parent != wanted:
            path.write_bytes(b"not read")
    written = spark.read.schema(_BY_DAY.ddl()).parquet(str(folder))
    found = written.where("day = '2026-11-24' AND server = 'eu/1'")
    assert [(row["session"], row["begun_at_us"]) for row in found.collect()] == [rows[1]]
    assert "| day | date |" in data_dictionary([_BY_DAY])
    store.write_gold(_BY_DAY, store.create_rows(_BY_DAY, []))
    assert spark.read.parquet(str(folder)).columns == ["session", "begun_at_us", "begun_at"]
