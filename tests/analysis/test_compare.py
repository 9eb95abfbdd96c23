"""Comparison: equal sessions are called equal, a tenth slower is found, both 19 times of 20."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import write_session
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.compare import (
    COMPARISON,
    SAMPLE_METRIC,
    find_sampled_comparisons,
    with_sample_column,
)
from natstui.analysis.gold.comparison.blocks import BLOCK_US, SAMPLE_HASH_SEED, summarize_metrics
from natstui.analysis.gold.comparison.verdicts import (
    ACK_TIME,
    NO_CHANGE,
    PENDING,
    THROUGHPUT,
    MetricSummary,
    compare,
)
from natstui.analysis.pipeline import analyse
from natstui.analysis.progress import Progress
from natstui.analysis.spark.store import TableStore
from natstui.model.records.record import AckSample
from tests.analysis.oracle_comparison import series_of
from tests.analysis.planted import FIRST, SECOND, WEEK_US, Analysed
from tests.analysis.test_recorded import table

pytestmark = pytest.mark.spark

PAIRS = 20
RTT, SENT, LATENCY = "api round trip (µs)", "bench sent (msg/s)", "bench ack latency (µs)"


def values(session: str, seed: int, factor: float) -> list[tuple[str, str, int, float]]:
    """An hour of three noisy metrics; neighbours resemble each other, as in life."""
    rng = random.Random(seed)
    rows = []
    for metric, usual, spread in ((RTT, 900, 0.12), (SENT, 50_000, 0.05), (LATENCY, 400, 0.15)):
        mean = usual / factor if metric == SENT else usual * factor
        drift = 0.0
        for block in range(360):
            drift = 0.4 * drift + rng.gauss(0, spread)
            rows.append((session, metric, block * BLOCK_US, mean * math.exp(drift)))
    return rows


IN_PART = ("stream string", "consumer string", "waiting boolean")
DDL = ", ".join(("session string, metric string, at_us bigint, value double", *IN_PART))


def in_full(rows: list[tuple[str, str, int, float]]) -> list[tuple[Any, ...]]:
    return [(*row, None, None, None) for row in rows]


@pytest.fixture(scope="module")
def reduced(spark: SparkSession) -> list[MetricSummary]:
    """20 baselines, 20 equal sessions and 20 that are a tenth slower, reduced by Spark."""
    series = defaultdict[tuple[str, str], list[float]](list)
    for pair in range(PAIRS):
        for number, (name, factor) in enumerate((("a", 1.0), ("b", 1.0), ("c", 1.1))):
            for *of, _, value in values(f"{pair:02d}-{name}", 3 * pair + number, factor):
                series[of[0], of[1]].append(value)
    # One row each: Python hands over every row by itself.
    rows = [(*of, many) for of, many in series.items()]
    frame = spark.createDataFrame(rows, "session string, metric string, many array<double>")
    blocks = frame.select("session", "metric", F.posexplode("many").alias("block", "value"))
    nothing = (f"CAST(NULL AS {type_}) {name}" for name, type_ in map(str.split, IN_PART))
    return summarize_metrics(
        blocks.selectExpr("session", "metric", f"block * {BLOCK_US}L at_us", "value", *nothing)
    )[0]


def verdicts(reduced: list[MetricSummary], pair: int, other: str) -> dict[str, str]:
    names = (f"{pair:02d}-a", f"{pair:02d}-{other}")
    rows = compare([one for one in reduced if one.session in names], ())
    return {row[2]: row[-1] for row in rows}


def test_equal_sessions_show_no_significant_change(reduced: list[MetricSummary]) -> None:
    equal = [set(verdicts(reduced, pair, "b").values()) == {NO_CHANGE} for pair in range(PAIRS)]
    assert sum(equal) >= 19


def test_a_tenth_slower_is_found(reduced: list[MetricSummary]) -> None:
    for metric in (RTT, SENT, LATENCY):
        found = [verdicts(reduced, pair, "c")[metric] == "slower" for pair in range(PAIRS)]
        assert sum(found) >= 19, metric


def test_the_recorded_sessions_differ_by_the_tenth_that_was_planted(analysed: Analysed) -> None:
    told = [row for row in analysed.gold["comparison"] if row["compared"] == SECOND]
    rows = {row["metric"]: row for row in told}
    assert {row["baseline"] for row in told} == {FIRST}
    for metric in (RTT, SENT, LATENCY):
        row = rows[metric]
        assert row["verdict"] == "slower"
        true = 1 / 1.1 - 1 if metric == SENT else 0.1
        assert row["low_change"] < true < row["high_change"]


def test_groups_are_pooled_and_compared(reduced: list[MetricSummary]) -> None:
    equal = [one for one in reduced if not one.session.endswith("c")]
    slower = [one for one in reduced if one.session.endswith("c")]
    baseline = tuple(one.session for one in equal)
    rows = compare(equal + slower, baseline)
    assert {row[2]: row[-1] for row in rows} == dict.fromkeys((RTT, SENT, LATENCY), "slower")


def test_spark_reduces_a_series_to_the_numbers_that_plain_python_finds(
    spark: SparkSession, reduced: list[MetricSummary]
) -> None:
    lines = values("00-a", 0, 1.0) + values("00-b", 1, 1.0)
    for one in reduced:
        series = [value for *of, _, value in lines if of == [one.session, one.metric]]
        if series:
            expected = series_of(series)
            assert to_builtins(one.series) == {k: pytest.approx(v) for k, v in expected.items()}
    of_few = [("s", RTT, n, float(n * n)) for n in range(4)]
    ((few,), _) = summarize_metrics(spark.createDataFrame(in_full(of_few), DDL))
    expected = series_of([0.0, 1.0, 4.0, 9.0])
    assert to_builtins(few.series) == {k: pytest.approx(v) for k, v in expected.items()}
    assert (few.waiting_share, few.first_at_us) == (None, 0)


EARLIER, LATER = "b-earlier", "a-later"
SLOWER, ACKED_LATER = ("AUDIT-003", "archiver-0011"), ("METRICS-002", "fraud-0004")


def two_sessions(folder: Path) -> str:
    """Write the same fleet twice: later one consumer is slower, another acknowledges later."""
    for name, started_us, ack_ns, faults in (
        (EARLIER, START_AT_US, 5_000_000, ()),
        (LATER, START_AT_US + WEEK_US, 6_000_000, (Fault("slow", 11, 0, 300),)),
    ):
        samples = tuple(
            AckSample(started_us + n * 150_000, *ACKED_LATER, n, n, 1, ack_ns + n % 7 * 400_000)
            for n in range(2000)
        )
        plan = Plan(8, 21, 300, faults=faults, started_at_us=started_us, extra=samples)
        write_session(folder / name, plan, records_per_segment=10_000)
    return f"{folder}/*"


@pytest.mark.long
def test_the_consumers_that_became_slower_are_named_and_no_others(
    spark: SparkSession, sessions: Path, tmp_path: Path
) -> None:
    store = TableStore(spark, str(tmp_path / "out"), "run")
    progress = Progress(lambda _: None, 1)
    result = analyse(spark, store, [two_sessions(sessions)], Thresholds(), progress, 500)
    told = table(result, "comparison")
    assert {(row["baseline"], row["compared"]) for row in told} == {(EARLIER, LATER)}
    worse = {(r["stream"], r["consumer"], r["metric"]): r for r in told
             if r["verdict"] in ("slower", "faster") and r["stream"]}  # fmt: skip
    # How far a backlog is that grows faster and faster, so few polls do not tell for sure.
    worse.pop((*SLOWER, PENDING), None)
    assert worse.keys() == {(*SLOWER, THROUGHPUT), (*ACKED_LATER, ACK_TIME)}
    assert {row["verdict"] for row in worse.values()} == {"slower"}
    slower, later = worse[*SLOWER, THROUGHPUT], worse[*ACKED_LATER, ACK_TIME]
    assert slower["low_change"] < -0.5 < slower["high_change"] < -0.4
    assert later["low_change"] < 1 / 6.2 < later["high_change"] < 0.2
    rows = table(result, "verdict")
    found = {row["subject"]: row for row in rows if row["kind"] == "comparison"}
    row = found[" > ".join(SLOWER)]
    assert row["sentence"].startswith(f"slower than {EARLIER}: ")
    assert "throughput -5" in row["sentence"]
    assert "throughput between -6" in row["evidence"]


def test_of_too_many_consumers_a_sample_is_compared_that_is_named(spark: SparkSession) -> None:
    rows: list[tuple[Any, ...]] = [
        (session, RTT, block, float(block), None, None, None)
        for session in "ab"
        for block in range(10)
    ]
    for session in "ab":
        more = 900 if session == "b" else 0
        rows += [
            (session, PENDING, block, float(block % 3 + more), "S", f"c-{number}", None)
            for number in range(100)
            for block in range(10)
        ]
    frame = spark.createDataFrame(rows, DDL)
    every, none = summarize_metrics(frame)
    assert (len(every), none) == (202, None)
    part, sample = summarize_metrics(frame, max_series_count=100)
    assert sample is not None and (sample.series_count, sample.seed) == (200, SAMPLE_HASH_SEED)
    assert sample.sampled_share == 0.5
    chosen = [{one.consumer for one in part if one.session == session} for session in "ab"]
    # The same in both, or there would be nothing to compare; and what is of everything.
    assert chosen[0] == chosen[1] and None in chosen[0] and 30 < len(chosen[0]) < 70
    told = with_sample_column(compare(part, ()), sample)
    words = "of 200 series of single streams and consumers a sample of 50 % was compared, seed 1"
    assert {row[-1] for row in told if row[3] or row[2] == SAMPLE_METRIC} == {words}
    found = find_sampled_comparisons(spark.createDataFrame(told, COMPARISON.ddl())).collect()
    assert [(row["session"], row["kind"], row["evidence"]) for row in found] == [
        ("b", "recording", words)
    ]
