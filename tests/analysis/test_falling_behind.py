"""Who falls behind: shapes of a backlog with a known truth, healthy ones and others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct
from pyspark.sql import SparkSession

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.lag import LAG, compute_lag, find_lagging_consumers
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


def rates(
    session: str, shape: Shape, seed: int, minutes_count: int = MINUTES
) -> list[dict[str, Any]]:
    """Return the rows of `consumer_rate` of one consumer."""
    chance, rows = random.Random(seed), []
    name = f"{shape.__name__}-{seed}"
    for minute in range(minutes_count):
        mean = max(0.0, shape(minute, chance))
        rows.append(
            {
                "session": session, "stream": "S", "consumer": name, "created_at_us": 1,
                "series_id": hash((session, name)) % 2**62, "bucket_at_us": minute * 60_000_000,
                "last_at_us": minute * 60_000_000 + 59_000_000, "covered_s": 59.0,
                "samples_count": 60, "pending_mean_msgs": mean, "pending_first_msgs": round(mean),
                "pending_last_msgs": round(mean), "pending_min_msgs": int(mean),
                "pending_max_msgs": round(mean),
            }
        )  # fmt: skip
    return rows


HEALTHY_ONES, SICK_ONES, UNKNOWN, DELETED = "healthy", "sick", "of unknown age", "deleted"
FEW = {minutes_count: f"of {minutes_count} minutes" for minutes_count in (2, 3)}


def jump(minute: int, chance: random.Random) -> float:
    return 9_000.0 * (minute + 1) * (minute > 0)


def cases() -> Iterator[dict[str, Any]]:
    """Yield the rates of a session for each test."""
    for shapes, session in ((HEALTHY, HEALTHY_ONES), (SICK, SICK_ONES)):
        for shape in shapes:
            for seed in SEEDS:
                yield from rates(session, shape, seed)
    for shape in (one_in_flight, burst_at_the_end):
        yield from rates(UNKNOWN, shape, 1)
    for minutes_count, session in FEW.items():
        for shape in (caught_up_at_first, jump):
            yield from rates(session, shape, 1, minutes_count)
    yield from rates(DELETED, stays_far_behind, 1, 30)
    yield from rates(DELETED, stays_far_behind, 2)


class Judged(Struct, frozen=True):
    """What is known of the backlogs of all sessions, and what is told of them: rows."""

    lags: list[dict[str, Any]]
    told: list[dict[str, Any]]

    def consumers(self, session: str) -> set[str]:
        """Return all consumers of a session."""
        return {row["consumer"] for row in self.lags if row["session"] == session}

    def accused(self, session: str) -> dict[str, str]:
        """Return what is told of those that fall behind, or never caught up."""
        return {
            row["subject"].removeprefix("S > "): row["sentence"]
            for row in self.told
            if row["session"] == session
        }


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    """The sessions of all tests at once: each question to Spark takes a second or two."""
    rows = [*cases()]
    names = [column.name for column in CONSUMER_RATE.columns]
    values = [tuple(row.get(name) for name in names) for row in rows]
    consumers = spark.createDataFrame(values, CONSUMER_RATE.ddl())
    streams = [
        {"session": session, "stream": "S", "created_at_us": 1, "bucket_at_us": 1,
         "published_per_s": None if session == UNKNOWN else PER_S}
        for session in {row["session"] for row in rows}
    ]  # fmt: skip
    of_streams = [
        tuple(stream.get(column.name) for column in STREAM_RATE.columns) for stream in streams
    ]
    lags = compute_lag(
        consumers, spark.createDataFrame(of_streams, STREAM_RATE.ddl()), Thresholds()
    )
    known = [row.asDict() for row in lags.collect()]
    again = spark.createDataFrame(
        [tuple(row[column.name] for column in LAG.columns) for row in known], LAG.ddl()
    )
    return Judged(known, [row.asDict() for row in find_lagging_consumers(again).collect()])


def test_none_of_forty_healthy_consumers_is_accused(judged: Judged) -> None:
    assert len(judged.consumers(HEALTHY_ONES)) == 40
    assert judged.accused(HEALTHY_ONES) == {}


def test_every_backlog_that_grows_and_matters_is_told(judged: Judged) -> None:
    assert judged.accused(SICK_ONES).keys() == judged.consumers(SICK_ONES)
    assert len(judged.consumers(SICK_ONES)) == 16


def test_a_backlog_of_which_nobody_knows_the_age_matters_when_it_never_ended(
    judged: Judged,
) -> None:
    assert judged.accused(UNKNOWN).keys() == {"one_in_flight-1"}


@pytest.mark.parametrize("session", FEW.values())
def test_of_a_few_minutes_no_growth_is_told(judged: Judged, session: str) -> None:
    assert len(judged.consumers(session)) == 2
    assert judged.accused(session) == {}


def test_what_was_deleted_long_before_the_end_is_not_told_as_pending_at_the_end(
    judged: Judged,
) -> None:
    unseen = {r["consumer"]: r["unseen_s"] for r in judged.lags if r["session"] == DELETED}
    assert unseen == {"stays_far_behind-1": 1800.0, "stays_far_behind-2": 0.0}
    told = judged.accused(DELETED)
    assert told["stays_far_behind-1"].endswith(
        " pending when it was last seen, 30 min before the end"
    )
    assert told["stays_far_behind-2"].endswith(" pending at the end")
