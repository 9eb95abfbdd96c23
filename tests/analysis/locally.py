"""Analyses in the session of the tests: whole ones, and of the tables that a test asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks._bench_run import bench_records
from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import judged, records, write_records, write_session
from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold import build as gold
from natstui.analysis.gold.answer import AnswerInputs
from natstui.analysis.pipeline import analyse
from natstui.analysis.progress import Progress
from natstui.analysis.silver import build as silver
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.store import Store
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Configured, Record
from tests.analysis.alike import assert_alike

WEEK_US = 7 * 86_400_000_000
ROWS_COUNT = 200
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


@dataclass(frozen=True)
class Locally:
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
    store = Store(spark, str(out), "run")
    return analyse(spark, store, words, Thresholds(), progress, ROWS_COUNT)


def read_tables(spark: SparkSession, out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every gold table."""
    frames = {t.name: spark.read.parquet(f"{out}/gold/{t.name}") for t in gold.TABLES}
    return {name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()}


class Answers(dict[str, dict[str, Any]]):
    """Tables as a result has them, with all of their rows: each is computed when it is read."""

    def __init__(
        self, spark: SparkSession, out: Path, pattern: str, thresholds: Thresholds | None = None
    ) -> None:
        super().__init__()
        self._store = Store(spark, str(out), "run")
        sources = find_sources(spark, [pattern])
        silver.build_silver(spark, self._store, sources, str)
        names = [source.session for source in sources]
        self._given = AnswerInputs(
            {source.session: source.system for source in sources},
            read_silver(self._store, names), thresholds or Thresholds(), self.frame,
            self._is_empty, self._store.known_rows,
        )  # fmt: skip
        self._answers = {answer.table.name: answer for answer in gold.ANSWERS}
        self._written: set[str] = set()

    def frame(self, name: str) -> DataFrame:
        """Return the rows of an answer; it and those it needs are written at first."""
        answer = self._answers[name]
        if name not in self._written:
            for needed in answer.needs:
                self.frame(needed)
            gold.write_answer(self._store, answer, self._given)
            self._written.add(name)
        return self._store.gold(answer.table)

    def _is_empty(self, name: str) -> bool:
        return self._store.is_empty(self._answers[name].table)

    def __missing__(self, name: str) -> dict[str, Any]:
        rows = self.frame(name)
        columns = [{"name": name} for name in rows.columns]
        self[name] = {"columns": columns, "rows": [list(row) for row in rows.collect()]}
        return self[name]
