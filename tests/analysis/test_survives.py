"""No damage ends an analysis: flipped bytes, torn lines, numbers that nobody can have measured."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks._bench_run import bench_records
from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import write_session
from natstui.analysis.defaults import Thresholds
from natstui.analysis.pipeline import analyse
from natstui.analysis.progress import Progress
from natstui.analysis.spark.store import TableStore
from natstui.model.bench.latency import from_latencies
from natstui.model.records.evidence import AcksCounted
from natstui.session.share.verify import verify
from tests.analysis.test_recorded import table

pytestmark = pytest.mark.spark

OPEN = "records-000001.jsonl"
FLIPPED, TORN = 12, 61
NUMBER = re.compile(
    rb'"([a-z_]+_(?:us|ns|s|msgs|bytes|count|seq|ratio|per_s))":(\[?)(-?\d+)(?=[,\]}])'
)


def plan(seed: int) -> Plan:
    counted = AcksCounted(START_AT_US, "ORDERS-000", "billing-0000", from_latencies([5, 9]), 1, 0)
    extra = (counted, *bench_records(START_AT_US, "run", seed)[:60])
    return Plan(3, 4, 40, seed=seed, faults=(Fault("poison", 1, 5, 35),), extra=extra)


def flipped(folder: Path, seed: int) -> None:
    """Flip two bytes anywhere."""
    path, rng = folder / OPEN, random.Random(seed)
    text = bytearray(path.read_bytes())
    for _ in range(2):
        text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    path.write_bytes(text)


def torn(folder: Path) -> None:
    """Cut off the ends of polls that follow each other."""
    path = folder / OPEN
    lines = path.read_bytes().splitlines()
    polls = [n for n, line in enumerate(lines) if b'"kind":"snapshot"' in line][20 : 20 + TORN]
    for number in polls:
        lines[number] = lines[number][: len(lines[number]) // 2]
    path.write_bytes(b"\n".join(lines) + b"\n")


def absurd(sessions: Path) -> None:
    """Write sessions with a few absurd numbers each, until every field has been absurd."""
    sample = write_session(sessions.parent / "sample", plan(1), records_per_segment=10_000)
    names = sorted({found[1] for found in NUMBER.finditer((sample / OPEN).read_bytes())})
    assert len(names) > 40
    written_count = 0
    for value in (b"9223372036854775807", b"-9223372036854775808"):
        for few in (names[start : start + 16] for start in range(0, len(names), 16)):
            name, written_count = f"absurd-{written_count:02d}", written_count + 1
            folder = write_session(sessions / name, plan(1), records_per_segment=10_000)
            text = (folder / OPEN).read_bytes()
            for one in few:
                places = [found for found in NUMBER.finditer(text) if found[1] == one]
                where = places[len(places) // 2]
                text = text[: where.start(3)] + value + text[where.end(3) :]
            (folder / OPEN).write_bytes(text)


@pytest.mark.long
def test_no_damage_ends_an_analysis(spark: SparkSession, sessions: Path, tmp_path: Path) -> None:
    for seed in range(FLIPPED):
        name = f"flipped-{seed:02d}"
        flipped(write_session(sessions / name, plan(seed), records_per_segment=10_000), seed)
    long = Plan(3, 4, 120)
    torn(write_session(sessions / "torn", long, records_per_segment=10_000))
    away = Plan(3, 4, 120, gaps=((20, 20 + TORN),))
    write_session(sessions / "away", away, records_per_segment=10_000)
    absurd(sessions)
    store = TableStore(spark, str(tmp_path / "out"), "run")
    progress = Progress(lambda _: None, 1)
    result = analyse(spark, store, [f"{sessions}/*"], Thresholds(), progress, 5000)
    summaries = {row["session"]: row for row in table(result, "session")}
    assert summaries.keys() == {path.name for path in sessions.iterdir()}
    # At most the lines that were hit are left out, and those that the other reader leaves out.
    for seed in range(FLIPPED):
        name = f"flipped-{seed:02d}"
        row = summaries[name]
        left_out = row["torn_lines_count"] + row["unknown_lines_count"]
        assert verify(sessions / name).unreadable_lines_count <= left_out <= 2, name
    gaps = gaps_of(result)
    assert gaps["away"] == [TORN + 1.0]
    assert "torn" not in gaps
    assert summaries["torn"]["damage"] == f"{OPEN}: {TORN} lines"


def gaps_of(result: dict[str, Any]) -> dict[str, list[float]]:
    gaps: dict[str, list[float]] = {}
    for row in table(result, "availability"):
        if row["kind"] == "gap":
            gaps.setdefault(row["session"], []).append(row["duration_s"])
    return gaps
