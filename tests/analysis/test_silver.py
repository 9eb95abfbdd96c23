"""Silver: sessions are added without touching others; one sort per series, and no Python."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from benchmarks._fleet import Plan
from benchmarks._sessions import records, write_records
from natstui.analysis.bronze import files as silver_files
from natstui.analysis.bronze import parts
from natstui.analysis.bronze.build import build_bronze, line_schema
from natstui.analysis.bronze.files import segment_files
from natstui.analysis.bronze.records import POLL as POLL_KIND
from natstui.analysis.bronze.sources import SessionSource, find_sources
from natstui.analysis.defaults import Thresholds
from natstui.analysis.folders import escape_glob
from natstui.analysis.gold import build as gold
from natstui.analysis.gold.rates import compute_consumer_rate
from natstui.analysis.silver import build as silver
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver import samples as silver_samples
from natstui.analysis.silver import tables as silver_tables
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.silver.tables import CONSUMER_SAMPLE, POLL
from natstui.analysis.spark import store as spark_store
from natstui.analysis.spark.store import PART_COLUMN, TableStore, partition_folder
from natstui.errors import AnalysisError
from natstui.lines import SCHEMA_VERSION
from natstui.model.records.record import Configured
from natstui.units import bytes_text
from tests.analysis.conftest import unset
from tests.analysis.damaged import (
    IN_ORDER,
    NAME,
    NO_CUTS,
    OPEN,
    REORDERED,
    lines_of,
    polls_only,
    small,
    without_polls,
)
from tests.analysis.locally import Answers, jobs_count
from tests.analysis.planted import Analysed

pytestmark = pytest.mark.spark


def persisted(spark: SparkSession) -> set[int]:
    """Return what the session keeps in memory or on disk."""
    assert spark.sparkContext._jsc is not None
    return {*spark.sparkContext._jsc.getPersistentRDDs()}


def files(out: Path) -> dict[str, int]:
    """Return every Parquet file of the samples with when it was written."""
    found = out.glob("silver/consumer_sample/*/*.parquet")
    return {str(path): path.stat().st_mtime_ns for path in found}


def plan(rows: DataFrame) -> str:
    """Return the physical plan as text."""
    return str(rows._jdf.queryExecution().executedPlan().toString())


def left_by_a_run(
    spark: SparkSession, out: Path, sources: list[SessionSource], rows_count: int
) -> None:
    """Write what a run leaves of sessions of which the small ones lie together: some tables."""
    store, files_of_all = TableStore(spark, str(out), "1"), segment_files(spark, sources)
    planned = parts.plan_sessions(files_of_all, {}, store.shared_part_name)
    store.set_parts(planned.part_by_session, planned.fingerprint_by_session_to_read.keys())
    for table in (POLL, CONSUMER_SAMPLE):
        unknown = (None,) * (len(table.columns) - 1)
        rows = [(one.session, *unknown) for one in sources] * rows_count
        store.write_silver(table, store.create_rows(table, rows))
    complete = [
        (
            one.session,
            planned.fingerprint_by_session_to_read[one.session],
            one.folder,
            planned.part_by_session[one.session],
        )
        for one in sources
    ]
    store.write_silver(silver.MANIFEST, store.create_rows(silver.MANIFEST, complete))


@pytest.mark.usefixtures("broadcasting")
@pytest.mark.parametrize("built", [False, pytest.param(True, marks=pytest.mark.long)])
def test_new_sessions_are_added_the_others_left_alone_and_those_that_lie_together_replaced(
    spark: SparkSession,
    sessions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    built: bool,
) -> None:
    # They may have any name and lie anywhere; those with files of their own have folders of it.
    names, other, alone = ("50%20 %", "größe + &#", "a b"), "{x}[2]*", "alone = 1"
    sessions = sessions / "{x}[2]* 50%20 größe + &#"
    folders = [polls_only(sessions, name, ticks=5) for name in names]
    small_bytes = max((folder / OPEN).stat().st_size for folder in folders)
    monkeypatch.setattr(parts, "MAX_SMALL_SESSION_BYTES", small_bytes)
    for name in (other, alone):
        polls_only(sessions, name, ticks=12)
    held, out = persisted(spark), tmp_path / "out"

    def sources(asked: set[str]) -> list[SessionSource]:
        return find_sources(spark, [escape_glob(str(sessions / name)) for name in asked])

    def build(run: str, asked: set[str], left_out: str) -> tuple[int, dict[str, int]]:
        """Return how many sessions a run reads, and the rows of each that are there then.

        `left_out` is none of the sessions that are read then.
        """
        store = TableStore(spark, str(out), run)
        count = silver.build_silver(spark, store, sources(asked), str)
        assert persisted(spark) == held
        rows = spark.read.parquet(f"{out}/silver/consumer_sample").groupBy("session")
        found = {row["session"]: row["count"] for row in rows.count().collect()}
        read = store.silver(CONSUMER_SAMPLE, [*asked - {left_out}])
        assert read.count() == sum(found.get(name, 0) for name in asked - {left_out})
        return count, found

    if built:
        counts = {**dict.fromkeys(names, 30), other: 72, alone: 72}
        assert build("1", {*names, other, alone}, names[1]) == (5, counts)
    else:
        # As such a run would: to build all tables takes ten times as long.
        left_by_a_run(spark, out, sources({*names, other, alone}), rows_count=72)
    first = files(out)
    assert len(first) == 3
    # One of those that lie together has changed, and of another one no poll is left that could
    # be read: nothing of the run before is kept, but for the one that nobody asked for.
    shutil.rmtree(sessions / names[0])
    polls_only(sessions, names[0], ticks=9)
    assert without_polls(sessions / other) == 12
    polls_only(sessions, "new", ticks=5)
    counts = {**dict(zip(names, (54, 30, 30), strict=True)), "new": 30, alone: 72}
    assert build("2", {*names, other, "new"}, names[1]) == (5, counts)
    (kept,) = first.items() & files(out).items()
    assert f"/{partition_folder(PART_COLUMN, alone)}/" in kept[0]
    rows = TableStore(spark, str(out), "other").silver(POLL, None)
    assert {row["session"] for row in rows.collect()} == {*names, "new", alone}
    # What that run has left is complete: another one reads nothing.
    store = TableStore(spark, str(out), "3")
    assert silver.build_silver(spark, store, sources({*names, other, "new", alone}), str) == 0
    assert silver.complete_sessions(store).keys() == {*names, other, "new", alone}
    # Another version knows of none of them.
    with monkeypatch.context() as patch:
        patch.setattr(silver_files, "PIPELINE_VERSION", 1000)
        assert silver.complete_sessions(store) == {}
    # A run that was killed has not written the mark that they are complete.
    shutil.rmtree(out / "silver" / "session")
    assert silver.complete_sessions(store) == {}


@pytest.mark.parametrize("can_delete", [True, pytest.param(False, marks=pytest.mark.long)])
def test_of_a_session_that_grows_only_new_segments_are_read(
    spark: SparkSession,
    sessions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    can_delete: bool,
) -> None:
    if not can_delete:
        nothing_can_be_deleted(monkeypatch)
    # Of polls alone: what else is in a session takes as long to plan.
    grown, out = polls_only(sessions, NAME, ticks=45), tmp_path / "out"
    complete = lines_read(lines_of(spark, grown))
    *_, sealed, recorded = sorted(grown.glob("records-*"))
    later = [path.rename(tmp_path / path.name) for path in (sealed, recorded)]
    begun = grown / sealed.name.removesuffix(".gz")
    begun.write_bytes(gzip.decompress(later[0].read_bytes())[:3000])

    def build(run: str) -> tuple[str, DataFrame]:
        """Return what a run says that it reads, and the lines that are there then."""
        store, told = TableStore(spark, str(out), run), []
        store.set_parts({grown.name: grown.name}, [grown.name])
        sources = find_sources(spark, [str(grown)])
        lines, *_ = build_bronze(store, sources, segment_files(spark, sources), told.append)
        return told[0], lines

    first, _ = build("1")
    assert first.startswith("reading 2 of 2 segments, ")
    begun.unlink()
    for path in later:
        path.rename(grown / path.name)
    size_bytes = sum((grown / path.name).stat().st_size for path in later)
    again, lines = build("2")
    assert again == f"reading 2 of 3 segments, {bytes_text(size_bytes)}"
    assert lines_read(lines) == complete
    # A piece without the list of its segments is of a run that was killed.
    (piece,) = (out / "bronze" / "segment").glob("*2-0")
    shutil.rmtree(piece)
    again, lines = build("3")
    assert again.startswith("reading 1 of 3 segments, ") and lines_read(lines) == complete


def lines_read(lines: DataFrame) -> list[Row]:
    """Return the lines of bronze in order, each with the content of its poll."""
    rows = lines.select("segment", "record_id", "kind", "readable", POLL_KIND).collect()
    return sorted(rows, key=lambda row: (row["segment"], row["record_id"]))


def test_a_text_is_read_once_where_an_index_has_the_kinds_of_its_lines(
    spark: SparkSession, sessions: Path, tmp_path: Path
) -> None:
    session = polls_only(sessions, NAME, ticks=45)
    (opened,) = session.glob("records-*.jsonl")
    opened.unlink()
    index = session / silver_files.INDEX_FILE
    correct = index.read_text()
    wrong = correct.replace('"snapshot":', '"noted":')
    assert wrong != correct
    indexes = {
        "correct": correct,
        "wrong": wrong,
        "torn": correct[:-9],
        "absent": "",
        "none": None,
    }
    counts, lines_by_index = {}, {}
    for name, text in indexes.items():
        index.unlink() if text is None else index.write_text(text)
        store = TableStore(spark, str(tmp_path / name), "1")
        store.set_parts({session.name: session.name}, [session.name])
        sources = find_sources(spark, [str(session)])
        segments, before_count = segment_files(spark, sources), jobs_count(spark)
        lines, *_ = build_bronze(store, sources, segments, str)
        counts[name] = jobs_count(spark) - before_count
        lines_by_index[name] = lines_read(lines)
    assert counts["correct"] < min(counts[name] for name in indexes if name != "correct")
    assert lines_by_index == dict.fromkeys(indexes, lines_by_index["correct"])
    assert any(row[POLL_KIND] for row in lines_by_index["correct"])


def nothing_can_be_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have stores that are made from now on no file system, as over Spark Connect."""
    monkeypatch.setattr(spark_store, "file_system", lambda spark, root: None)


def test_the_fields_of_a_poll_may_stand_in_any_order(answers: Answers) -> None:
    tables = ("poll", "stream_sample", "consumer_sample")
    in_order, reordered = (made_of_polls(answers, name) for name in (IN_ORDER, REORDERED))
    assert [len(in_order[name]) for name in tables] == [8, 32, 48]
    assert reordered == in_order


def test_the_samples_of_a_stream_have_the_number_of_gaps_before_them(analysed: Analysed) -> None:
    samples, polls = (analysed.answers.silver.stream_sample, analysed.answers.silver.poll)
    gaps = polls.where("gap_before_us IS NOT NULL").groupBy("session").count().collect()
    expected = dict.fromkeys(analysed.records, 0) | {row["session"]: row["count"] for row in gaps}
    assert {*expected.values()} > {0}
    counts = samples.groupBy("session").agg(F.min("gaps_count"), F.max("gaps_count")).collect()
    assert {session: (low, high) for session, low, high in counts} == {
        session: (0, count) for session, count in expected.items()
    }


def made_of_polls(answers: Answers, session: str) -> dict[str, list[str]]:
    """Return the rows that are made of the polls of a session, as text without its name."""
    silver = answers.of(session).silver
    tables = {"poll": silver.poll, "stream_sample": silver.stream_sample,
              "consumer_sample": silver.consumer_sample}  # fmt: skip
    return {
        name: sorted(str(row) for row in rows.drop("session", "series_id").collect())
        for name, rows in tables.items()
    }


@pytest.mark.long
def test_what_lies_below_a_session_is_no_part_of_it(spark: SparkSession, sessions: Path) -> None:
    session = small(sessions)

    def lines() -> list[tuple[str, int]]:
        rows = lines_of(spark, session).groupBy("session").count()
        return [(row["session"], row["count"]) for row in rows.collect()]

    alone = lines()
    for name in ("backup", "day=1"):
        shutil.copytree(session, session / name, ignore=shutil.ignore_patterns("backup"))
    assert lines() == alone and alone[0][0] == session.name


def stored_lines(spark: SparkSession, answers: Answers) -> DataFrame:
    """Return all lines as they are read from bronze."""
    return spark.read.schema(line_schema()).parquet(f"{answers.store.root}/bronze/line")


def test_samples_are_sorted_once_and_never_pass_through_python(
    spark: SparkSession, answers: Answers, much: None
) -> None:
    nothing = spark.createDataFrame([], NO_CUTS)
    text = plan(silver_samples.consumer_samples(stored_lines(spark, answers), nothing))
    assert len(re.findall(r"Exchange hashpartitioning\(series_id", text)) == 1
    assert len(re.findall(r"(?<!Broadcast)Exchange (?:hash|range|Round|Single)", text)) == 1
    assert "SortMergeJoin" not in text
    assert not re.search(r"Python|ArrowEval|BatchEval", text)


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Have Spark compile queries, as it does where there is more to read."""
    wanted = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    usual = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in usual.items():
            spark.conf.set(name, kept)


@pytest.mark.long
def test_every_step_over_samples_is_compiled_and_short_enough_for_the_jvm_to_compile_too(
    spark: SparkSession, answers: Answers, much: None
) -> None:
    lines, nothing = stored_lines(spark, answers), spark.createDataFrame([], NO_CUTS)
    debug = getattr(spark._jvm.org.apache.spark.sql.execution.debug, "package$")
    for samples in (silver_samples.consumer_samples, silver_samples.stream_samples):
        with compiled(spark):
            rows = samples(lines, nothing)
            executed = rows._jdf.queryExecution().executedPlan()
        found = getattr(debug, "MODULE$").codegenStringSeq(executed)
        steps = [found.apply(number) for number in range(found.size())]
        one = re.compile(
            r"\*\((\d+)\) Project \[xxhash64.*\*\(\1\) Generate posexplode", re.DOTALL
        )
        assert any(one.match(step._1()) for step in steps)
        assert max(step._3().maxMethodCodeSize() for step in steps) < 8000


def test_rates_are_one_aggregation_of_the_samples(
    analysed: Analysed, spark: SparkSession, much: None
) -> None:
    # Not as the run held them: as they are read from the files.
    root = analysed.answers.store.root
    # Of one part, nothing would be exchanged.
    with unset(spark, "spark.sql.shuffle.partitions"):
        layer = read_silver(TableStore(spark, root, "other"), list(analysed.records))
        text = plan(compute_consumer_rate(layer, Thresholds()))
    assert len(re.findall(r"Exchange hashpartitioning", text)) == 1
    # Fewer tasks than files would leave a cluster idle.
    assert not re.search(r"Join|Window|Python|Coalesce", text)


WITHOUT_UNIT = {
    # Positions and weights have none; of these, the metric or kind beside it tells.
    "rank", "level", "weight", "p_value", "value", "baseline_mean", "compared_mean",
}  # fmt: skip


def test_every_table_has_documented_columns_whose_numbers_carry_a_unit() -> None:
    for table in (*gold.TABLES, *silver_tables.TABLES):
        for column in table.columns:
            assert column.meaning, f"{table.name}.{column.name}"
            if column.type in ("bigint", "double"):
                assert column.unit or column.name in WITHOUT_UNIT, f"{table.name}.{column.name}"


def test_a_session_of_a_version_to_come_is_refused(spark: SparkSession, sessions: Path) -> None:
    folder = small(sessions)
    header = folder / "session.json"
    now = f'"schema_version": {SCHEMA_VERSION}'
    header.write_text(header.read_text().replace(now, '"schema_version": 99'))
    with pytest.raises(AnalysisError, match="schema version 99"):
        find_sources(spark, [str(folder)])


def test_two_sessions_of_one_name_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    small(tmp_path / "a")
    small(tmp_path / "b")
    with pytest.raises(AnalysisError, match="two sessions are called"):
        find_sources(spark, [f"{tmp_path}/*/*"])


def test_what_was_configured_before_the_recording_began_is_known_from_its_first_keyframe(
    spark: SparkSession, sessions: Path
) -> None:
    plan = Plan(4, 6, 1)
    configured = [record for record in records(plan) if isinstance(record, Configured)]
    meanwhile, before = (
        write_records(sessions / name, iter(configured), plan) for name in ("meanwhile", "before")
    )
    text = (before / OPEN).read_bytes()
    news = re.search(rb'\{"kind":"configured",("at_us".*),"line":\d+\}\n', text)
    assert news is not None
    known = re.sub(rb'"configured":\{[^}]*\}', b'"configured":{' + news[1] + b"}", text, count=1)
    (before / OPEN).write_bytes(known.replace(news[0], b"", 1))
    lines = lines_of(spark, meanwhile, before)
    rows = silver_events.configurations(lines, silver_events.keyframes(lines))
    known_of: dict[str, list[dict[str, Any]]] = {"meanwhile": [], "before": []}
    for row in rows.orderBy("stream", "consumer").collect():
        values = row.asDict()
        known_of[values.pop("session")].append(values)
    assert len(known_of["meanwhile"]) == 4 + 6
    assert known_of["before"] == known_of["meanwhile"]
