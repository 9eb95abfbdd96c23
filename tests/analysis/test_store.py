"""Where tables are put: what a killed run left is removed or put back, and nothing else."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayClient
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.fingerprint import answers_fingerprint
from natstui.analysis.silver import tables as silver_tables
from natstui.analysis.spark import short_tables
from natstui.analysis.spark.local_rows import local_rows
from natstui.analysis.spark.lookups import remember_lookups
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table, columns, dictionary

pytestmark = pytest.mark.spark


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_run_left_is_removed_and_what_is_not_ours_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("gold", "gold.0123abcd", "gold.89abcdef.old", "gold.mine", "gold.backup"):
        (tmp_path / name).mkdir()
    staging = tmp_path / "silver" / "poll" / ".spark-staging-1"
    staging.mkdir(parents=True)
    Store(spark, str(tmp_path), "ffffffff").tidy()
    assert names(tmp_path) == ["gold", "gold.backup", "gold.mine", "silver"]
    assert not staging.exists()


def test_tables_that_a_killed_run_had_moved_aside_are_put_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = tmp_path / "gold.89abcdef.old"
    old.mkdir()
    (old / "DICTIONARY.md").write_text("of the run before")
    Store(spark, str(tmp_path), "ffffffff").tidy()
    assert names(tmp_path) == ["gold"]
    assert (tmp_path / "gold" / "DICTIONARY.md").read_text() == "of the run before"


def test_new_tables_take_the_place_of_the_old_ones(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("gold", "gold.ffffffff"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "which").write_text(name)
    Store(spark, str(tmp_path), "ffffffff").publish((), "0")
    assert names(tmp_path) == ["gold"]
    assert (tmp_path / "gold" / "which").read_text() == "gold.ffffffff"


def test_answers_are_kept_when_all_tables_are_there_and_have_the_same_fingerprint(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = (silver_tables.POLL, silver_tables.SEGMENT)
    mark = answers_fingerprint({"one": "1:abc"}, Thresholds())
    first = Store(spark, str(tmp_path), "ffffffff")
    for table in tables:
        first.write_gold(table, spark.createDataFrame([], table.ddl()))
    first.publish(tables, mark)
    assert Store(spark, str(tmp_path), "0").keep_gold(tables, mark)
    assert not Store(spark, str(tmp_path), "0").keep_gold((*tables, silver_tables.EVENT), mark)
    for other in (
        answers_fingerprint({"one": "1:abd"}, Thresholds()),
        answers_fingerprint({}, Thresholds()),
    ):
        assert not Store(spark, str(tmp_path), "0").keep_gold(tables, other)
    longer = answers_fingerprint({"one": "1:abc"}, Thresholds(stuck_after_s=60.0))
    assert not Store(spark, str(tmp_path), "0").keep_gold(tables, longer)


def test_rows_that_are_known_here_are_read_without_python_beside_the_jvm(
    spark: SparkSession,
) -> None:
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
    found = local_rows(spark, table, rows)
    assert [tuple(row) for row in found.collect()] == rows
    assert "ExistingRDD" not in plan(found)
    nan = local_rows(spark, table, [("nan", 1, math.nan, None)]).first()
    assert nan is not None and math.isnan(nan["rate_per_s"])


def test_a_table_no_session_ever_had_rows_for_is_known_to_be_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    for table in silver_tables.TABLES:
        nothing = Store(spark, str(tmp_path), "run").silver(table, ["a"])
        assert table.contract(nothing).collect() == []
        assert nothing.columns == [column.name for column in table.columns]
        assert "LocalTableScan <empty>" in plan(nothing.groupBy("session").count())


def test_a_moment_is_written_in_microseconds_and_as_a_timestamp(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table("t", "", columns(("begun_at_us", "bigint", ""), ("lasted_us", "bigint", "")))
    rows = [(1_795_455_558_023_120, 7), (None, 8)]
    store = Store(spark, str(tmp_path), "run")
    store.write_gold(table, local_rows(spark, table, rows))
    written = spark.read.parquet(f"{tmp_path}/gold.run/t").orderBy("lasted_us")
    assert dict(written.dtypes) == {
        "begun_at_us": "bigint",
        "lasted_us": "bigint",
        "begun_at": "timestamp",
    }
    moments = [row["us"] for row in written.selectExpr("unix_micros(begun_at) AS us").collect()]
    assert moments == [1_795_455_558_023_120, None]
    assert store.gold(table).columns == ["begun_at_us", "lasted_us"]
    assert "| begun_at | timestamp |" in dictionary([table])


def plan(rows: DataFrame) -> str:
    """Return what Spark is going to do."""
    return str(rows._jdf.queryExecution().executedPlan().toString())


def test_a_table_written_without_rows_is_there_and_is_not_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = silver_tables.EVENT
    store = Store(spark, str(tmp_path), "run")
    assert not store.is_empty(table)
    store.write_no_gold(table)
    assert store.is_empty(table) and "FileScan" not in plan(store.gold(table))
    store.publish((table,), "mark")
    written = spark.read.parquet(f"{tmp_path}/gold/{table.name}")
    assert written.collect() == [] and written.columns[: len(table.columns)] == [
        column.name for column in table.columns
    ]
    # Another run has to look.
    assert not Store(spark, str(tmp_path), "next").is_empty(table)


def test_the_jvm_is_asked_once_for_each_name(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    F.col("a").cast("bigint")
    F.concat("a", *map(F.lit, range(13)))
    asked: list[str] = []
    send = GatewayClient.send_command

    def counted(client: GatewayClient, command: str, *words: object) -> object:
        asked.append(command)
        return send(client, command, *words)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    kept = [F.col("a").cast("bigint") for _ in range(50)]
    # The call of `cast`, no question beside it; deletions come when they come.
    assert len(kept) == 50
    calls = [command for command in asked if not command.startswith("m\n")]
    assert len(calls) == 50 and all(command.startswith("c\n") for command in calls)
    asked.clear()
    joined = F.concat("a", *map(F.lit, range(13)))
    # A list of so many items in two parts, the list of Scala made of it, and the call.
    calls = [command for command in asked if not command.startswith("m\n")]
    assert len(calls) <= 8, calls
    row = spark.range(1).select(F.lit("a").alias("a")).select(joined.alias("all")).first()
    assert row is not None and row["all"] == "a0123456789101112"


def test_what_is_sent_to_the_jvm_is_the_same_and_of_the_same_type(spark: SparkSession) -> None:
    values = (True, 1, 1.0, "1", False, 0, 0.0, -0.0, "", None)
    row = (
        spark.range(1).select(*(F.lit(one).alias(f"c{i}") for i, one in enumerate(values))).first()
    )
    assert row is not None and list(map(repr, row)) == list(map(repr, values))
    row = spark.range(1).select(F.array(*map(F.lit, [None, 1])).alias("known")).first()
    assert row is not None and row["known"] == [None, 1]
    many = {f"key{i}": str(i) for i in range(13)}
    jvm = SparkContext._jvm
    assert jvm is not None
    sent = jvm.java.util.TreeMap(many)
    assert {key: sent[key] for key in many} == many and sent.size() == 13
    assert jvm.java.util.ArrayList([1, None, "a"]).size() == 3


def test_to_start_spark_needs_no_numpy_pandas_or_pyarrow() -> None:
    code = (
        "import sys, tempfile; from pathlib import Path\n"
        "from natstui.analysis.spark.session import SparkSettings, open_session\n"
        "spark = open_session(SparkSettings(Path(tempfile.mkdtemp()), 'local[1]', small=True))\n"
        "print(sorted({'numpy', 'pandas', 'pyarrow'} & sys.modules.keys()))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[0] == "[]"


def test_a_table_is_made_as_its_contract_wants_once(spark: SparkSession) -> None:
    rows = _BY_DAY.contract(spark.sql("SELECT 1 AS begun_at_us, 'a' AS session"))
    assert _BY_DAY.contract(rows) is rows
    other = Table("other", "Another one.", _BY_DAY.columns[:1])
    assert other.contract(rows).columns == ["session"]
    nothing = local_rows(spark, _BY_DAY, ())
    assert nothing.dtypes == rows.dtypes and nothing.collect() == []
    comments = [field.metadata for field in nothing.schema]
    assert comments == [field.metadata for field in rows.schema] and all(comments)


def test_a_process_that_analyses_once_does_not_tell_the_jvm_what_it_may_forget(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SparkContext._gateway is not None
    settings = SparkContext._gateway._gateway_client.gateway_property
    # Put back at the end: this process analyses again and again.
    monkeypatch.setattr(settings, "enable_memory_management", True)
    remember_lookups(keep_objects=False)
    assert settings.enable_memory_management
    remember_lookups(keep_objects=True)
    assert not settings.enable_memory_management


_BY_DAY = Table(
    "by_day",
    "A table in folders.",
    columns(("session", "string", "A text"), ("begun_at_us", "bigint", "A moment")),
    day_of="begun_at_us",
)
_MIDNIGHT_US = 1_795_478_400_000_000


@pytest.mark.parametrize("held", [True, False])
def test_rows_of_each_day_and_server_lie_in_a_folder_that_alone_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    if not held:
        monkeypatch.setattr(short_tables, "_MOST_ROWS_COUNT", 0)
    store = Store(spark, str(tmp_path), "run")
    store.servers = {"a": "eu/1", "b": "us", "c": ""}
    rows = [
        ("a", _MIDNIGHT_US - 1), ("a", _MIDNIGHT_US), ("b", _MIDNIGHT_US), ("b", None),
        ("c", 2**62), ("of nobody", -1),
    ]  # fmt: skip
    store.write_gold(_BY_DAY, local_rows(spark, _BY_DAY, rows))
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
    assert "| day | date |" in dictionary([_BY_DAY])
    store.write_gold(_BY_DAY, local_rows(spark, _BY_DAY, []))
    assert spark.read.parquet(str(folder)).columns == ["session", "begun_at_us", "begun_at"]
