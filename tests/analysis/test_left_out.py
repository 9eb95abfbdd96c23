"""Lines that cannot be read are left out, counted and told; everything else is analysed."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks._bench_run import bench_records
from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import write_session
from natstui.analysis.bronze.files import SEGMENT_FILE, segment_files, with_promised_bytes
from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.defaults import Thresholds
from natstui.analysis.pipeline import analyse
from natstui.analysis.progress import Progress
from natstui.analysis.silver import build as silver
from natstui.analysis.silver import index as silver_index
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.silver.tables import TABLES
from natstui.analysis.spark.store import Store
from natstui.model.records.benchmark import BenchmarkReport
from natstui.session.share.verify import verify
from tests.analysis.damaged import lines_of, small
from tests.session.any_record import KINDS, fields_of
from tests.session.making import made

pytestmark = pytest.mark.spark

OPEN = "records-000001.jsonl"
REPORTS_UNTIL_US = START_AT_US + 2_000_000
"""One line of a report is damaged: more of them would only be read."""
EVERYTHING = Plan(
    4, 6, 20, faults=(Fault("leader_change", 0, 10),), gaps=((12, 17),),
    extra=tuple(
        record for record in bench_records(START_AT_US, "run", 1)
        if not isinstance(record, BenchmarkReport) or record.at_us < REPORTS_UNTIL_US
    ),
)  # fmt: skip


def replaced(before: bytes, after: bytes, count: int = 1) -> Callable[[list[bytes]], None]:
    """Return what replaces text in the first lines, keyframe aside, that hold it."""

    def change(lines: list[bytes]) -> None:
        found = [n for n, line in enumerate(lines) if n and before in line][:count]
        assert len(found) == count, (before, len(found))
        for number in found:
            lines[number] = lines[number].replace(before, after, 1)

    return change


def appended(*more: bytes) -> Callable[[list[bytes]], None]:
    """Return what adds lines."""
    return lambda lines: lines.extend(more)


def glued(lines: list[bytes]) -> None:
    """Lose the end of one line."""
    lines[5:7] = [lines[5] + lines[6]]


def keyframe(lines: list[bytes]) -> None:
    """Break the line with which the segment begins."""
    lines[0] = lines[0].replace(b'"configured":{', b'"configured":{{')


DAMAGE: dict[str, tuple[int, Callable[[list[bytes]], None]]] = {
    "nothing": (0, appended()),
    "column-renamed": (3, replaced(b'"pending_msgs":', b'"pending_messages":', 3)),
    "column-longer": (1, replaced(b'"redelivered_msgs":[', b'"redelivered_msgs":[7,')),
    "difference-longer": (
        1, replaced(b'"ack_floor_stream_behind_seq":[', b'"ack_floor_stream_behind_seq":[7,')
    ),
    "time-renamed": (1, replaced(b'"acked_near_us":', b'"acked":')),
    "null-in-a-column": (2, replaced(b'"stored_msgs":[', b'"stored_msgs":[null,', 2)),
    "text-in-a-column": (1, replaced(b'"stored_msgs":[', b'"stored_msgs":["many",')),
    "poll-without-a-comma": (1, replaced(b',"waiting_pulls_count"', b'"waiting_pulls_count"')),
    "poll-without-cost": (1, replaced(b'"cost":', b'"price":')),
    "poll-without-time": (1, replaced(b'"taken_mono_us":', b'"taken_mono":')),
    "later-column-absent": (0, replaced(b'"paused":', b'"was_paused":', 2)),
    "report": (1, replaced(b'"cpu_ratio":', b'"cpu":')),
    "report-null": (1, replaced(b'"worker_id":0', b'"worker_id":null')),
    "report-bucket": (1, replaced(b'"buckets":[', b'"buckets":[9999,')),
    "result": (1, replaced(b'"verdict":', b'"judgement":')),
    "phase": (1, replaced(b'"phase":"steady"', b'"phase":"nonsense"')),
    "configuration": (1, replaced(b'"discard":', b'"discards":')),
    "advisory": (1, replaced(b'"body_json":', b'"body":')),
    "advisory-no-json": (1, replaced(b'"body_json":', b'"body_json"')),
    "ack-sample": (4, replaced(b'"ack_ns":2000000', b'"ack_ns":null', 4)),
    "event": (1, replaced(b'"reason":"no answer', b'"why":"no answer')),
    "never-parsed": (
        2, appended(b'{"kind":"benchmark_log","at_us":1,"run_id":[,"line":991}',
                    b'{"kind":"permitted","at_us":1,"line":992}'),
    ),
    "noise": (3, appended(b"noise", b"more \xff noise", b'{"kind":"noted"}')),
    "not-text": (1, replaced(b"end of the simulation", b"end of \xff\xfe simulation")),
    "of-tomorrow": (1, appended(b'{"kind":"of_tomorrow","at_us":1,"line":991}')),
    "huge": (0, replaced(b'"stream_seq":', b'"stream_seq":99999999999999')),
    "glued": (1, glued),
    "keyframe": (1, keyframe),
    "same-number-twice": (2, appended(b'{"kind":"noted","at_us":1,"text":"x","line":7}')),
}  # fmt: skip
"""What is done to the lines of an open segment, and how many of them cannot be read then."""


def damaged_session(sessions: Path, what: str) -> Path:
    """Write a session with one kind of damage."""
    folder = write_session(sessions / what, EVERYTHING, records_per_segment=10_000)
    lines = (folder / OPEN).read_bytes().splitlines()
    DAMAGE[what][1](lines)
    (folder / OPEN).write_bytes(b"\n".join(lines) + b"\n")
    return folder


def left_out_of(row: dict[str, Any]) -> int:
    """Return how many lines of a segment are left out, but for those still being written."""
    torn: int = row["torn_lines_count"] - row["unfinished_lines_count"]
    unknown: int = row["unknown_lines_count"]
    return torn + unknown


def build(spark: SparkSession, store: Store, folder: Path) -> int:
    return silver.build_silver(spark, store, find_sources(spark, [str(folder)]), str)


def counts(store: Store, sessions: list[str]) -> dict[str, dict[str, int]]:
    """Return, by session, the rows of every silver table and the lines left out."""
    layer = read_silver(store, sessions)
    frames = {table.name: getattr(layer, table.name) for table in TABLES}
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


def test_the_analysis_leaves_out_the_lines_that_verify_reports(
    spark: SparkSession, sessions: Path
) -> None:
    folders = {what: damaged_session(sessions, what) for what in DAMAGE}
    expected = {what: lines_count for what, (lines_count, _) in DAMAGE.items()}
    verified = {what: verify(folder).unreadable_lines_count for what, folder in folders.items()}
    assert verified == expected
    sources = find_sources(spark, [f"{sessions}/*"])
    by_name = {source.session: source for source in sources}
    rows = with_promised_bytes(spark, segment_files(spark, sources), by_name)
    files = spark.createDataFrame(rows, SEGMENT_FILE.ddl())
    rows = silver_index.segments(lines_of(spark, *folders.values()), files).collect()
    assert {row["session"]: left_out_of(row.asDict()) for row in rows} == expected


@pytest.mark.usefixtures("broadcasting")
def test_what_is_left_out_is_all_that_the_tables_lack_and_nothing_of_the_run_before_is_kept(
    spark: SparkSession, sessions: Path, tmp_path: Path
) -> None:
    store = Store(spark, str(tmp_path / "out"), "run")
    grown = small(sessions)
    assert build(spark, store, sessions / "*") == 1
    segments = read_silver(store, [grown.name]).segment.collect()
    assert [left_out_of(row.asDict()) for row in segments] == [0] * 5
    # No poll is left of it that could be read, so that most tables get no rows.
    polls_count = without_polls(grown)
    damages = ("nothing", "column-renamed", "ack-sample", "later-column-absent", "report")
    expected = {what: DAMAGE[what][0] for what in damages}
    for what in damages:
        damaged_session(sessions, what)
    lost, parts_count = without_a_part(sessions)
    expected |= {grown.name: polls_count, lost.name: parts_count - 1, "unfinished": 0}
    assert build(spark, store, sessions / "*") == len(expected)
    found = counts(store, list(expected))
    assert {what: rows["left_out"] for what, rows in found.items()} == expected
    for name in (grown.name, lost.name, "unfinished"):
        assert verify(sessions / name).unreadable_lines_count == expected[name]
    rows = found[grown.name]
    assert (rows["poll"], rows["stream_sample"], rows["consumer_sample"]) == (0, 0, 0)
    # One part that is lost takes its whole poll along.
    for name in (lost.name, "unfinished"):
        assert found[name]["poll"] == 2
        assert found[name]["consumer_sample"] == 2 * 600
    whole = found["nothing"]
    polls, streams = whole["poll"], whole["stream_sample"]
    assert found["column-renamed"]["poll"] == polls - 3
    assert found["column-renamed"]["stream_sample"] == streams - 3 * 4
    assert found["ack-sample"]["ack_sample"] == whole["ack_sample"] - 4
    assert found["later-column-absent"]["consumer_sample"] == whole["consumer_sample"]
    assert found["report"] == {
        **whole, "left_out": 1, "bench_interval": whole["bench_interval"] - 1,
        "bench_latency": found["report"]["bench_latency"],
    }  # fmt: skip
    assert build(spark, store, sessions / "*") == 0


def without_polls(folder: Path) -> int:
    """Rename a column in every poll; return how many there are."""
    polls_count = 0
    for path in folder.glob("records-*"):
        sealed = path.suffix == ".gz"
        text = gzip.decompress(path.read_bytes()) if sealed else path.read_bytes()
        text, here_count = re.subn(rb'"delivered_consumer_seq":', b'"delivered":', text)
        polls_count += here_count
        path.write_bytes(gzip.compress(text) if sealed else text)
    assert polls_count == 40
    return polls_count


def without_a_part(sessions: Path) -> tuple[Path, int]:
    """Write a session whose first poll lacks a part, and one whose last was being written.

    Returns the first one, and of how many parts a poll consists.
    """
    folder = write_session(sessions / "lost", Plan(60, 600, 3), records_per_segment=10_000)
    path = folder / OPEN
    lines = path.read_bytes().splitlines(keepends=True)
    numbers = [re.search(rb'"line":(\d+),"part":(\d+)', line[-60:]) for line in lines]
    parts = [n for n, found in enumerate(numbers) if found]
    polls = [[n for n in parts if numbers[n][1] == one] for one in {numbers[n][1] for n in parts}]  # type: ignore[index]
    first, *_, last = sorted(polls)
    assert len(first) > 2
    shutil.copytree(folder, sessions / "unfinished")
    path.write_bytes(b"".join(line for n, line in enumerate(lines) if n != first[1]))
    # Its first parts are left out too, and are no damage.
    (sessions / "unfinished" / OPEN).write_bytes(b"".join(lines[: last[-1]]))
    return folder, len(first)


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


def test_lines_of_every_kind_with_any_content_are_read(
    spark: SparkSession, sessions: Path
) -> None:
    records = any_records(14)
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
    store = Store(spark, str(tmp_path / "out"), "run")
    thresholds = Thresholds(stuck_after_s=10)
    result = analyse(spark, store, [str(folder)], thresholds, Progress(lambda _: None, 1), 50)
    names = [column["name"] for column in result["tables"]["verdict"]["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in result["tables"]["verdict"]["rows"]]
    assert len(rows) == 10
    (row,) = (row for row in rows if row["kind"] == "recording")
    assert row["sentence"] == "3 lines could not be read and are left out"
    assert row["evidence"] == f"{OPEN}: 3 lines"
