"""Analyses in the session of the tests: whole ones, and of the tables that a test asks for."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks._bench_run import bench_records
from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import judged, records, write_records, write_session
from natstui.analysis.bronze.sources import SessionSource, find_sources
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold import build as gold
from natstui.analysis.gold.findings import FINDINGS
from natstui.analysis.gold.gold_table import GoldInputs
from natstui.analysis.pipeline import analyse
from natstui.analysis.progress import Progress
from natstui.analysis.silver import build as silver
from natstui.analysis.silver.layer import Silver, read_silver
from natstui.analysis.spark.store import TableStore
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Configured, Record
from natstui.values import replace
from tests.analysis.alike import assert_alike

WEEK_US = 7 * 86_400_000_000
MAX_TABLE_ROWS_COUNT = 200
FAULTS = (
    Fault("no_pull", 1, 10, 80),
    Fault("poison", 3, 20, 60),
    Fault("recreate_stream", 2, 50),
    Fault("leader_change", 0, 40),
    Fault("idle", 5, 0),
)


def record(folder: Path) -> tuple[Path, Path]:
    """Write two sessions in which something happens for every table."""
    bench = bench_records(START_AT_US + 100_000_000, "run-1", 3)
    first = Plan(6, 8, 100, faults=FAULTS, gaps=((85, 95),))
    first = replace(first, extra=(*bench, _changed(first)))
    second = Plan(6, 8, 100, seed=2, started_at_us=START_AT_US + WEEK_US)
    return (
        write_session(
            folder / "20260921T141320Z-first", first, records_per_segment=60, findings=True
        ),
        write_records(
            folder / "20260928T141320Z-second",
            judged(map(_with_family, records(second))),
            second,
            records_per_segment=60,
        ),
    )


_FAMILY = {"billing-0000": "billing-0000", "report-0006": "billing-0006"}
"""Two consumers of one stream that are ephemeral in the second session, by their names before."""


def _with_family(record: Record) -> Record:
    if isinstance(record, Configured):
        consumers = tuple(
            replace(one, name=_FAMILY[one.name], durable=False) if one.name in _FAMILY else one
            for one in record.consumers
        )
        return replace(record, consumers=consumers)
    if isinstance(record, Snapshot):
        names = tuple(_FAMILY.get(name, name) for name in record.consumers.name)
        return replace(record, consumers=replace(record.consumers, name=names))
    return record


def _changed(plan: Plan) -> Record:
    """Return what is told when the consumer with the poison message is changed, just before."""
    (known,) = (record for record in records(plan) if isinstance(record, Configured))
    changed = replace(known.consumers[3], max_ack_pending_msgs=7, config_json='{"v":2}')
    return Configured(plan.started_at_us + 15_000_000, (), (changed,))


class Locally(Struct, frozen=True):
    """The recordings, the rows of every gold table, and the result of the run."""

    folders: tuple[Path, Path]
    tables: dict[str, list[dict[str, Any]]]
    result: dict[str, Any]

    def assert_same_tables(self, spark: SparkSession, out: Path) -> None:
        """Hold the gold tables in a folder to these."""
        found = read_tables(spark, out)
        for name, rows in self.tables.items():
            assert rows, f"{name} compares nothing with nothing"
            assert_alike(name, found[name], rows)


def analyse_locally(spark: SparkSession, folder: Path) -> Locally:
    """Write the sessions and analyse them."""
    folders, out = record(folder / "sessions"), folder / "out"
    result = analysed_into(spark, out, folders)
    return Locally(folders, read_tables(spark, out), result)


def analysed_into(spark: SparkSession, out: Path, folders: Iterable[Path]) -> dict[str, Any]:
    """Analyse sessions; return the result of the run."""
    words, progress = [str(path) for path in folders], Progress(lambda _: None, 1)
    store = TableStore(spark, str(out), "run")
    return analyse(spark, store, words, Thresholds(), progress, MAX_TABLE_ROWS_COUNT)


def read_tables(spark: SparkSession, out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every gold table."""
    frames = {t.name: spark.read.parquet(f"{out}/gold/{t.name}") for t in gold.TABLES}
    return {name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()}


class Answers:
    """The answers to several sessions, and what Spark had to do for them."""

    def __init__(
        self, store: TableStore, sources: Iterable[SessionSource], jobs_count: int
    ) -> None:
        self.store, self.jobs_count = store, jobs_count
        self._sources = {source.session: source for source in sources}
        self.silver = read_silver(store, [*self._sources])
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def frame(self, name: str) -> DataFrame:
        """Return the rows of a gold table."""
        return self.store.gold(GOLD_TABLES[name].table)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a gold table as dictionaries."""
        if name not in self._rows:
            self._rows[name] = [row.asDict() for row in self.frame(name).collect()]
        return self._rows[name]

    def source(self, session: str) -> SessionSource:
        """Return where a session is."""
        return self._sources[session]

    def folder(self, session: str) -> Path:
        """Return the folder of a session."""
        path = self._sources[session].path
        assert path is not None
        return path

    def of(self, *sessions: str, judged_by: Container[str] | None = None) -> AnswersOfSome:
        """Return the answers as they are for these sessions alone, all of their systems.

        Their verdict is of what is found in these tables, or in all: each takes time to plan.
        """
        systems = {name: self._sources[name].system for name in sessions}
        return AnswersOfSome(self, systems, judged_by)


GOLD_TABLES = {gold_table.table.name: gold_table for gold_table in gold.GOLD_TABLES}
OF_ALL_SESSIONS = {"picture", "delay", "verdict"}
"""Answers that are others without the other sessions: there is room for few rows of all."""


class AnswersOfSome:
    """The answers to some of the sessions, without computing again what is of each session."""

    def __init__(
        self,
        answers: Answers,
        systems: dict[str, tuple[str, str]],
        judged_by: Container[str] | None = None,
    ) -> None:
        self._answers, self._systems, self._judged_by = answers, systems, judged_by
        self.store = answers.store
        self.jobs_count = 0
        """What Spark had to do for the answers that were computed for these sessions."""
        self._rows: dict[str, list[dict[str, Any]]] = {}

    @cached_property
    def silver(self) -> Silver:
        """The silver tables of these sessions."""
        tables = {
            field: getattr(self._answers.silver, field) for field in Silver.__struct_fields__
        }
        return Silver(**{name: self._of_some(rows) for name, rows in tables.items()})

    def _of_some(self, rows: DataFrame) -> DataFrame:
        return rows.where(F.col(_session_column(rows.columns)).isin(*self._systems))

    def frame(self, name: str) -> DataFrame:
        """Return the rows of a gold table."""
        if name in OF_ALL_SESSIONS:
            rows = [tuple(row.values()) for row in self.rows(name)]
            return self.store.create_rows(GOLD_TABLES[name].table, rows)
        return self._of_some(self._answers.frame(name))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a gold table as dictionaries."""
        if name not in self._rows:
            self._rows[name] = [*self._some_rows(name)]
        return self._rows[name]

    def _some_rows(self, name: str) -> Iterator[dict[str, Any]]:
        if name in OF_ALL_SESSIONS:
            inputs = GoldInputs(
                self._systems, self.silver, Thresholds(), self.frame, self._is_empty,
                self.store.create_rows,
            )  # fmt: skip
            rows = GOLD_TABLES[name].rows(inputs)
            jobs_before_count = jobs_count(self.store.spark)
            yield from (row.asDict() for row in rows.collect())
            self.jobs_count += jobs_count(self.store.spark) - jobs_before_count
        else:
            for row in self._answers.rows(name):
                if row[_session_column(row)] in self._systems:
                    yield row

    def _is_empty(self, name: str) -> bool:
        # What was recorded is always judged by.
        if self._judged_by is not None and name != FINDINGS.name:
            return name not in self._judged_by
        return not self.rows(name)


def _session_column(columns: Container[str]) -> str:
    """Return the column with the session of a row: of a comparison the one that is compared."""
    return "session" if "session" in columns else "compared"


def answers_of(
    spark: SparkSession, out: Path, patterns: list[str], *, also_of_all: bool = True
) -> Answers:
    """Build silver and gold of the sessions that match patterns.

    `also_of_all` tells whether the answers that only some sessions are asked for are built too.
    """
    store, sources = TableStore(spark, str(out), "run"), find_sources(spark, patterns)
    jobs_before_count = jobs_count(spark)
    silver.build_silver(spark, store, sources, str)
    if also_of_all:
        gold.build_gold(store, sources, Thresholds(), str)
    else:
        _build_other_gold(store, sources)
    return Answers(store, sources, jobs_count(spark) - jobs_before_count)


def _build_other_gold(store: TableStore, sources: list[SessionSource]) -> None:
    """Build the answers that are the same with and without the other sessions."""
    systems = {source.session: source.system for source in sources}

    def rows(name: str) -> DataFrame:
        return store.gold(GOLD_TABLES[name].table)

    def is_empty(name: str) -> bool:
        return store.is_empty(GOLD_TABLES[name].table)

    layer = read_silver(store, [*systems])
    inputs = GoldInputs(systems, layer, Thresholds(), rows, is_empty, store.create_rows)
    input_names = {
        name: one.input_names for name, one in GOLD_TABLES.items() if name not in OF_ALL_SESSIONS
    }
    for name in TopologicalSorter(input_names).static_order():
        gold.write_gold_table(store, GOLD_TABLES[name], inputs)


def jobs_count(spark: SparkSession) -> int:
    """Return how many jobs a session has begun."""
    assert spark.sparkContext._jsc is not None
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
