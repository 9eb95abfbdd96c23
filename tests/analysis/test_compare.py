"""Answer 8: equal sessions are called equal, a tenth slower is found, both 19 times of 20."""

from __future__ import annotations

import math
import random

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.gold import statistics
from natstui.analysis.gold.compare import BLOCK_US, SAME, Reduced, compare, reduce
from tests.analysis.planted import FIRST, SECOND, Analysed

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


@pytest.fixture(scope="module")
def reduced(spark: SparkSession) -> list[Reduced]:
    """20 baselines, 20 equal sessions and 20 that are a tenth slower, reduced by Spark."""
    rows = []
    for pair in range(PAIRS):
        rows += values(f"{pair:02d}-a", 3 * pair, 1.0)
        rows += values(f"{pair:02d}-b", 3 * pair + 1, 1.0)
        rows += values(f"{pair:02d}-c", 3 * pair + 2, 1.1)
    ddl = "session string, metric string, at_us bigint, value double"
    return reduce(spark.createDataFrame(rows, ddl))


def verdicts(reduced: list[Reduced], pair: int, other: str) -> dict[str, str]:
    names = (f"{pair:02d}-a", f"{pair:02d}-{other}")
    rows = compare([one for one in reduced if one.session in names], ())
    return {row[2]: row[-1] for row in rows}


def test_equal_sessions_show_no_significant_change(reduced: list[Reduced]) -> None:
    equal = [set(verdicts(reduced, pair, "b").values()) == {SAME} for pair in range(PAIRS)]
    assert sum(equal) >= 19


def test_a_tenth_slower_is_found(reduced: list[Reduced]) -> None:
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


def test_groups_are_pooled_and_compared(reduced: list[Reduced]) -> None:
    equal = [one for one in reduced if not one.session.endswith("c")]
    slower = [one for one in reduced if one.session.endswith("c")]
    baseline = tuple(one.session for one in equal)
    rows = compare(equal + slower, baseline)
    assert {row[2]: row[-1] for row in rows} == dict.fromkeys((RTT, SENT, LATENCY), "slower")


def test_too_few_values_are_no_verdict() -> None:
    few = [Reduced(name, RTT, 3, 900.0, 10.0, None) for name in "ab"]
    assert [row[-1] for row in compare(few, ())] == ["unknown"]


def test_students_t_is_that_of_the_tables() -> None:
    assert statistics.t_quantile(0.975, 10) == pytest.approx(2.2281, abs=1e-4)
    assert statistics.t_quantile(0.995, 30) == pytest.approx(2.7500, abs=1e-4)
    assert statistics.two_sided_p(1.959964, 1e7) == pytest.approx(0.05, abs=1e-5)
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
