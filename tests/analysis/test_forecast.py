"""When a limit is reached: simulated levels whose truth is known, 200 of each kind."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.gold.shared.forecast import (
    CERTAINTY,
    growth_aggregates,
    is_growth_certain,
    number_parts,
    time_until_used_s,
    with_growth,
)

pytestmark = pytest.mark.spark

SERIES, PARTS, PART_S = 200, 60, 60.0
SHORTER = (30, 12)
"""Parts of shorter recordings of levels that grow; the account has 12 always."""
Steps = Callable[[random.Random], Iterator[float]]
"""How much a level grows from part to part, for ever."""
Told = dict[tuple[str, int], list[tuple[float, float | None, float, float | None]]]
"""By kind and number of parts: when it was full in truth, and what was told: when, at the
earliest, at the latest."""


def steady(chance: random.Random) -> Iterator[float]:
    while True:
        yield chance.gauss(10, 5)


def with_memory(chance: random.Random) -> Iterator[float]:
    noise = 0.0
    while True:
        noise = 0.5 * noise + chance.gauss(0, 3)
        yield 10 + noise


def accelerating(chance: random.Random) -> Iterator[float]:
    part = 0
    while True:
        part += 1
        yield 0.2 * part + chance.gauss(0, 1)


def plateau(chance: random.Random) -> Iterator[float]:
    part = 0
    while True:
        part += 1
        yield 100 * math.exp(-part / 8) + chance.gauss(0, 1)


def stopped(chance: random.Random) -> Iterator[float]:
    part = 0
    while True:
        part += 1
        yield chance.gauss(10, 2) if part < PARTS * 0.7 else chance.gauss(0, 0.5)


def oscillation(chance: random.Random) -> Iterator[float]:
    period, begin, part = chance.uniform(10, 55), chance.uniform(0, 6), 0
    while True:
        part += 1
        yield 50 * math.cos(begin + 2 * math.pi * part / period) + chance.gauss(0, 2)


def walk(chance: random.Random) -> Iterator[float]:
    while True:
        yield chance.gauss(0, 5)


GROWING: dict[Steps, float] = {steady: 700.0, with_memory: 700.0, accelerating: 600.0}
"""With the room that is left at the end of what was watched."""
OTHERS: dict[Steps, float] = {plateau: 300.0, stopped: 300.0, oscillation: 2_000.0, walk: 300.0}


def parts_until(room: float, growth: Iterator[float]) -> int:
    """Return after how many parts a level that grows is full."""
    level, after = 0.0, 0
    while level < room:
        level, after = level + next(growth), after + 1
    return after


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Told:
    rows, truth = [], {}
    for steps, room in {**GROWING, **OTHERS}.items():
        for count in (PARTS, *SHORTER) if steps in GROWING else (PARTS,):
            for number in range(SERIES):
                growth = steps(random.Random(f"{steps.__name__}-{number}"))
                name = f"{steps.__name__}/{count}/{number}"
                rows.append((name, [next(growth) / PART_S for _ in range(count)], room))
                if steps in GROWING:
                    truth[name] = PART_S * parts_until(room, growth)
    frame = spark.createDataFrame(rows, "name string, paces array<double>, room double")
    paces = frame.select("name", "room", F.posexplode("paces").alias("part", "pace"))
    parts = number_parts(paces, ["name"], "part", ["pace"])
    series = parts.groupBy("name").agg(
        F.max("room").alias("room"), *growth_aggregates("pace", "part")
    )
    ends = with_growth(series, ["pace"], PART_S).select(
        "name",
        F.when(is_growth_certain("pace"), time_until_used_s("pace", F.col("room"), PART_S)),
        time_until_used_s("pace", F.col("room"), PART_S, "_most"),
        time_until_used_s("pace", F.col("room"), PART_S, "_least"),
    )
    found: Told = defaultdict(list)
    for name, *ends_s in ends.collect():
        kind, count, _ = name.split("/")
        found[kind, int(count)].append((truth.get(name, math.inf), *ends_s))
    return found


@pytest.mark.parametrize("parts_count", (PARTS, *SHORTER))
@pytest.mark.parametrize("kind", [one.__name__ for one in GROWING])
def test_a_limit_is_reached_in_the_interval_that_is_told(
    told: Told, kind: str, parts_count: int
) -> None:
    rows = [row for row in told[kind, parts_count] if row[1] is not None]
    # Of what was recorded for a short time, less is certain.
    assert len(rows) >= (0.9 if parts_count == PARTS else 0.2) * SERIES
    inside = [
        earliest <= truth <= (math.inf if latest is None else latest)
        for truth, _, earliest, latest in rows
    ]
    assert sum(inside) / len(rows) >= CERTAINTY
    # An interval without an end is no forecast.
    assert sum(latest is not None for *_, latest in rows) >= 0.95 * len(rows)


@pytest.mark.parametrize("kind", [one.__name__ for one in OTHERS])
def test_what_does_not_go_on_is_not_foreseen(told: Told, kind: str) -> None:
    certain = [row for row in told[kind, PARTS] if row[1] is not None and row[3] is not None]
    assert len(certain) <= 0.05 * SERIES
