"""Lines that cannot be read are left out, counted and told; everything else is analysed."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks._fleet import Fault, Plan
from benchmarks._sessions import write_session
from natstui.analysis.defaults import Thresholds
from natstui.analysis.pipeline import analyse
from natstui.analysis.progress import Progress
from natstui.analysis.silver import index as silver_index
from natstui.analysis.silver.tables import TABLES
from natstui.analysis.spark.store import TableStore
from natstui.session.share.verify import verify
from tests.analysis.damaged import (
    DAMAGE,
    OPEN,
    UNFINISHED,
    WITHOUT_A_PART,
    WITHOUT_POLLS,
    lines_of,
)
from tests.analysis.locally import Answers
from tests.session.any_record import KINDS, fields_of
from tests.session.making import made

pytestmark = pytest.mark.spark


def left_out_of(row: dict[str, Any]) -> int:
    """Return how many lines of a segment are left out, but for those still being written."""
    torn: int = row["torn_lines_count"] - row["unfinished_lines_count"]
    unknown: int = row["unknown_lines_count"]
    return torn + unknown


def test_the_analysis_leaves_out_the_lines_that_verify_reports(answers: Answers) -> None:
    expected = {what: lines_count for what, (lines_count, _) in DAMAGE.items()}
    verified = {what: verify(answers.folder(what)).unreadable_lines_count for what in DAMAGE}
    assert verified == expected
    rows = answers.of(*DAMAGE).silver.segment.collect()
    assert {row["session"]: left_out_of(row.asDict()) for row in rows} == expected


def test_what_is_left_out_is_all_that_the_tables_lack(answers: Answers) -> None:
    of_parts = (WITHOUT_POLLS, WITHOUT_A_PART, UNFINISHED)
    found = counts(answers, ["nothing", "column-renamed", "ack-sample", "later-column-absent",
                             "report", *of_parts])  # fmt: skip
    for what, rows in found.items():
        verified = verify(answers.folder(what))
        assert rows["left_out"] == verified.unreadable_lines_count
    # No poll is left of it that could be read.
    rows = found[WITHOUT_POLLS]
    assert (rows["poll"], rows["stream_sample"], rows["consumer_sample"]) == (0, 0, 0)
    assert rows["left_out"] == 40 and found[UNFINISHED]["left_out"] == 0
    # One part that is lost takes its whole poll along.
    for name in (WITHOUT_A_PART, UNFINISHED):
        assert found[name]["poll"] == 2
        assert found[name]["consumer_sample"] == 2 * 600
    assert found[WITHOUT_A_PART]["left_out"] > 1
    whole = found["nothing"]
    polls, streams = whole["poll"], whole["stream_sample"]
    assert found["column-renamed"]["poll"] == polls - 3
    assert found["column-renamed"]["stream_sample"] == streams - 3 * 2
    assert found["ack-sample"]["ack_sample"] == whole["ack_sample"] - 4
    assert found["later-column-absent"]["consumer_sample"] == whole["consumer_sample"]
    assert found["report"] == {
        **whole, "left_out": 1, "bench_interval": whole["bench_interval"] - 1,
        "bench_latency": found["report"]["bench_latency"],
    }  # fmt: skip


def counts(answers: Answers, sessions: list[str]) -> dict[str, dict[str, int]]:
    """Return, by session, the rows of every silver table and the lines left out."""
    frames = {table.name: getattr(answers.silver, table.name) for table in TABLES}
    lines = F.expr("torn_lines_count - unfinished_lines_count + unknown_lines_count")
    parts = [frames["segment"].select("session", F.lit("left_out"), lines)]
    parts += [rows.select("session", F.lit(name), F.lit(1)) for name, rows in frames.items()]
    rows = reduce(DataFrame.unionAll, parts).toDF("session", "name", "count")
    sums = rows.groupBy("session", "name").agg(F.sum("count")).collect()
    found = {(session, name): count for session, name, count in sums}
    names = ("left_out", *frames)
    return {
        session: {name: found.get((session, name), 0) for name in names} for session in sessions
    }


def any_records(each_count: int) -> list[Any]:
    """Return so many of every kind, with extreme numbers and hostile text, in any order."""
    drawn: list[Any] = []

    @settings(
        max_examples=each_count,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*(fields_of(kind) for kind in KINDS)).flatmap(st.permutations))
    def draw(records: list[Any]) -> None:
        drawn.extend(records)

    draw()
    return drawn


@pytest.mark.long
def test_lines_of_every_kind_with_any_content_are_read(
    spark: SparkSession, sessions: Path
) -> None:
    records = any_records(each_count=14)
    assert len({type(record) for record in records}) == len(KINDS)
    folder = made(sessions, records)
    assert verify(folder).unreadable_lines_count == 0
    assert silver_index.left_out_records(lines_of(spark, folder)).collect() == []


@pytest.mark.long
def test_what_is_left_out_is_among_the_ten_findings_however_many_weigh_more(
    spark: SparkSession, sessions: Path, tmp_path: Path
) -> None:
    # Apart from each other: what begins at the same time is one finding.
    faults = tuple(Fault("no_pull", n, 10 + 40 * n, 50 + 40 * n) for n in range(12))
    folder = write_session(
        sessions / "many", Plan(10, 40, 520, faults=faults), records_per_segment=10_000
    )
    path = folder / OPEN
    path.write_bytes(path.read_bytes() + b"noise\n" * 3)
    store = TableStore(spark, str(tmp_path / "out"), "run")
    thresholds = Thresholds(stuck_after_s=10)
    result = analyse(spark, store, [str(folder)], thresholds, Progress(lambda _: None, 1), 50)
    names = [column["name"] for column in result["tables"]["verdict"]["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in result["tables"]["verdict"]["rows"]]
    assert len(rows) == 10
    (row,) = (row for row in rows if row["kind"] == "recording")
    assert row["sentence"] == "3 lines could not be read and are left out"
    assert row["evidence"] == f"{OPEN}: 3 lines"
