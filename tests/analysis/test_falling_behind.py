"""Who falls behind: shapes of a backlog with a known truth, healthy ones and others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.lag import lag, lagging_consumers
from natstui.analysis.gold.rates import CONSUMER_RATE, STREAM_RATE

pytestmark = pytest.mark.spark

PER_S = 100.0
"""Published, unless a shape says otherwise."""
MINUTES = 60
SEEDS = range(4)
Shape = Callable[[int, random.Random], float]


def noise(_: int, chance: random.Random) -> float:
    return chance.gauss(20, 5)


def one_in_flight(_: int, chance: random.Random) -> float:
    return 1 + chance.random() / 10


def nothing(_: int, chance: random.Random) -> float:
    return 0.0


def fetches_in_batches(minute: int, chance: random.Random) -> float:
    return 500.0 * (minute % 7) / 7 + chance.random()


def day_and_night(minute: int, chance: random.Random) -> float:
    return 300 + 250 * math.sin(minute / 8) + chance.gauss(0, 10)


def burst_that_was_delivered(minute: int, chance: random.Random) -> float:
    return max(0.0, 20_000 - 4_000 * abs(minute - 30)) + chance.random()


def burst_at_the_end(minute: int, chance: random.Random) -> float:
    return 600.0 if minute == MINUTES - 1 else chance.random()


def creeping(minute: int, chance: random.Random) -> float:
    return 5 + minute / 100 + chance.gauss(0, 1)


def with_the_load(minute: int, chance: random.Random) -> float:
    return 2 + minute * 5 + chance.gauss(0, 3)


def walk(minute: int, chance: random.Random) -> float:
    if minute == 0:
        walk.at = 100.0  # type: ignore[attr-defined]
    walk.at = abs(walk.at + chance.gauss(0, 10))  # type: ignore[attr-defined]
    return float(walk.at)  # type: ignore[attr-defined]


HEALTHY: tuple[Shape, ...] = (
    noise, one_in_flight, nothing, fetches_in_batches, day_and_night, burst_that_was_delivered,
    burst_at_the_end, creeping, with_the_load, walk,
)  # fmt: skip


def grows(minute: int, chance: random.Random) -> float:
    return 100 + 400.0 * minute + chance.gauss(0, 50)


def accelerates(minute: int, chance: random.Random) -> float:
    return 3.0 * minute**2 + chance.gauss(0, 20)


def stays_far_behind(_: int, chance: random.Random) -> float:
    return 50_000 + chance.gauss(0, 100)


def caught_up_at_first(minute: int, chance: random.Random) -> float:
    return max(0.0, (minute - 20) * 300.0) + chance.random()


SICK: tuple[Shape, ...] = (grows, accelerates, stays_far_behind, caught_up_at_first)


def rates(shape: Shape, seed: int, minutes_count: int = MINUTES) -> list[dict[str, Any]]:
    """Return the rows of `consumer_rate` of one consumer."""
    chance, rows = random.Random(seed), []
    name = f"{shape.__name__}-{seed}"
    for minute in range(minutes_count):
        mean = max(0.0, shape(minute, chance))
        rows.append(
            {
                "session": "A", "stream": "S", "consumer": name, "created_at_us": 1,
                "series_id": hash(name) % 2**62, "bucket_at_us": minute * 60_000_000,
                "last_at_us": minute * 60_000_000 + 59_000_000, "covered_s": 59.0,
                "samples_count": 60, "pending_mean_msgs": mean, "pending_first_msgs": round(mean),
                "pending_last_msgs": round(mean), "pending_min_msgs": int(mean),
                "pending_max_msgs": round(mean),
            }
        )  # fmt: skip
    return rows


def lags_of(
    spark: SparkSession, rows: list[dict[str, Any]], per_s: float | None = PER_S
) -> DataFrame:
    """Return the table `lag` of these rates."""
    names = [column.name for column in CONSUMER_RATE.columns]
    values = [tuple(row.get(name) for name in names) for row in rows]
    consumers = spark.createDataFrame(values, CONSUMER_RATE.ddl())
    stream = {"session": "A", "stream": "S", "created_at_us": 1, "bucket_at_us": 1}
    stream |= {"published_per_s": per_s}
    value = tuple(stream.get(column.name) for column in STREAM_RATE.columns)
    streams = spark.createDataFrame([value], STREAM_RATE.ddl())
    return lag(consumers, streams, Thresholds())


def accused(
    spark: SparkSession, rows: list[dict[str, Any]], per_s: float | None = PER_S
) -> set[str]:
    """Return the consumers that are told to fall behind, or never to have caught up."""
    found = lagging_consumers(lags_of(spark, rows, per_s)).collect()
    return {row["subject"].split(" > ")[1] for row in found}


def test_none_of_forty_healthy_consumers_is_accused(spark: SparkSession) -> None:
    rows = [row for shape in HEALTHY for seed in SEEDS for row in rates(shape, seed)]
    assert len({row["consumer"] for row in rows}) == 40
    assert accused(spark, rows) == set()


def test_every_backlog_that_grows_and_matters_is_told(spark: SparkSession) -> None:
    rows = [row for shape in SICK for seed in SEEDS for row in rates(shape, seed)]
    assert accused(spark, rows) == {row["consumer"] for row in rows}


def test_a_backlog_of_which_nobody_knows_the_age_matters_when_it_never_ended(
    spark: SparkSession,
) -> None:
    rows = [*rates(one_in_flight, 1), *rates(burst_at_the_end, 1)]
    assert accused(spark, rows, per_s=None) == {"one_in_flight-1"}


@pytest.mark.parametrize("minutes_count", [2, 3])
def test_of_a_few_minutes_no_growth_is_told(spark: SparkSession, minutes_count: int) -> None:
    assert accused(spark, rates(caught_up_at_first, 1, minutes_count)) == set()
    jump = rates(lambda minute, chance: 9_000.0 * (minute + 1) * (minute > 0), 1, minutes_count)
    assert accused(spark, jump) == set()


def test_what_was_deleted_long_before_the_end_is_not_told_as_pending_at_the_end(
    spark: SparkSession,
) -> None:
    gone, there = rates(stays_far_behind, 1, 30), rates(stays_far_behind, 2)
    lags = lags_of(spark, [*gone, *there])
    unseen = {row["consumer"]: row["unseen_s"] for row in lags.collect()}
    assert unseen == {"stays_far_behind-1": 1800.0, "stays_far_behind-2": 0.0}
    told = {row["subject"]: row["sentence"] for row in lagging_consumers(lags).collect()}
    assert told["S > stays_far_behind-1"].endswith(
        " pending when it was last seen, 30 min before the end"
    )
    assert told["S > stays_far_behind-2"].endswith(" pending at the end")
