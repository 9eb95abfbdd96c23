"""Values that are valid from a change to the next one, compared with plain Python."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.silver.index import clock_steps, spans, with_span_values

pytestmark = pytest.mark.spark


def test_a_row_has_the_values_of_the_last_change_at_or_before_its_position(
    spark: SparkSession,
) -> None:
    rng = random.Random(1)
    changes = [(rng.choice("ab"), rng.randint(0, 60), number) for number in range(40)]
    positions = [(rng.choice("abc"), rng.randint(-5, 70), number) for number in range(200)]
    change_rows = spark.createDataFrame(changes, "session string, from_position int, value int")
    rows = spark.createDataFrame(positions, "session string, position int, number int")
    found = with_span_values(rows, spans(change_rows, "session"), F.col("position"), "session")
    assert found.columns == ["session", "position", "number", "value"]

    def last_value(session: str, position: int) -> int | None:
        before = [(at, value) for name, at, value in changes if name == session and at <= position]
        return max(before, default=(None, None))[1]

    expected = {number: last_value(session, at) for session, at, number in positions}
    assert len({*expected.values()}) > 20
    assert {row["number"]: row["value"] for row in found.collect()} == expected
    assert found.count() == len(positions)


def test_a_jump_has_the_nearest_step_of_its_session(spark: SparkSession) -> None:
    rng = random.Random(2)
    steps = [(rng.choice("ab"), rng.randint(-(10**9), 10**9)) for _ in range(30)] * 2
    jumps = [(rng.choice("abc"), rng.uniform(-2e9, 2e9), number) for number in range(200)]
    lines = spark.createDataFrame(
        [("clock_stepped", session, (5, step_us)) for session, step_us in steps],
        "kind string, session string, clock_stepped struct<at_us: bigint, step_us: bigint>",
    ).withColumns({"segment": F.lit(""), "record_id": F.lit(1)})
    rows = spark.createDataFrame(jumps, "session string, jump double, number int")
    found = with_span_values(rows, clock_steps(lines), F.col("jump"), "session").collect()
    assert len(found) == len(jumps)
    for row in found:
        distances_us = [abs(us - row["jump"]) for name, us in steps if name == row["session"]]
        nearest_us = row["step_us"] and abs(row["step_us"] - row["jump"])
        assert nearest_us == min(distances_us, default=None)
