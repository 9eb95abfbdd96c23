"""The queries of the analysis answer the cases that the live rules answer too."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.capacity import (
    CAPACITY,
    compute_capacity,
    find_full_streams,
    is_at_byte_limit,
)
from natstui.analysis.gold.lag import drain_s
from natstui.analysis.gold.lag_share import compute_lag_share
from natstui.analysis.gold.rates import CONSUMER_RATE, STREAM_RATE
from natstui.analysis.gold.shared.harm import FULL_SOON_CAUSE, NEAR_CAUSE
from natstui.analysis.gold.stuck import compute_stuck
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import (
    CONFIGURATION,
    CONSUMER_SAMPLE,
    STREAM_SAMPLE,
    TABLES,
)
from natstui.analysis.tables import Table
from natstui.values import replace
from tests.model.rule_cases import (
    BYTES_CASES,
    DRAIN_CASES,
    SECONDS,
    STUCK_CASES,
    StuckCase,
    at_us,
)
from tests.session.scenario import consumer

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def ordered(table: Table, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return rows in the order of the columns; null where a row has no value."""
    return [tuple(row.get(column.name) for column in table.columns) for row in rows]


def identity(case: StuckCase) -> Row:
    return {
        "session": "A", "stream": "S", "consumer": case.name, "created_at_us": 1,
        "series_id": STUCK_CASES.index(case),
    }  # fmt: skip


def samples(case: StuckCase) -> list[Row]:
    """Return the rows of `consumer_sample`: stuck since the first of them."""
    rows = [
        identity(case)
        | case.columns(second)
        | {"at_us": at_us(second), "mono_us": at_us(second), "stuck_since_us": at_us(0)}
        for second in SECONDS
    ]
    for before, now in pairwise(rows):
        now["delivered_msgs"] = now["delivered_consumer_seq"] - before["delivered_consumer_seq"]
        now["fresh_msgs"] = now["delivered_stream_seq"] - before["delivered_stream_seq"]
    return rows


def configuration(case: StuckCase) -> Row:
    one = replace(consumer("S", case.name, 1), **case.config)
    values = {field: getattr(one, field) for field in one.__struct_fields__}
    return values | identity(case) | {"at_us": at_us(0), "change_count": 0}


def test_the_query_names_the_cause_of_each_stuck_consumer(spark: SparkSession) -> None:
    rows = {
        CONSUMER_SAMPLE: [row for case in STUCK_CASES for row in samples(case)],
        CONFIGURATION: [configuration(case) for case in STUCK_CASES],
    }
    frames = {
        table.name: spark.createDataFrame(ordered(table, rows.get(table, [])), table.ddl())
        for table in TABLES
    }
    ends = [identity(case) | {"last_at_us": at_us(SECONDS[-1])} for case in STUCK_CASES]
    rates = spark.createDataFrame(ordered(CONSUMER_RATE, ends), CONSUMER_RATE.ddl())
    found = (
        compute_stuck(Silver(**frames), rates, Thresholds()).select("consumer", "cause").collect()
    )
    assert {row["consumer"]: row["cause"] for row in found} == {
        case.name: case.recorded.word for case in STUCK_CASES
    }


def test_the_queries_find_when_a_backlog_is_drained_and_which_bytes_are_full(
    spark: SparkSession,
) -> None:
    drains = spark.createDataFrame(DRAIN_CASES, "pending long, trend double, expected double")
    found = drains.select(drain_s(F.col("pending"), F.col("trend"))).collect()
    assert [row[0] for row in found] == [expected for *_, expected in DRAIN_CASES]
    kept = [(f.stored_msgs, f.stored_bytes, f.max_bytes, losing) for f, losing, _ in BYTES_CASES]
    names = "stored_msgs long, stored_bytes long, max_bytes long, losing boolean"
    full = spark.createDataFrame(kept, names).select(is_at_byte_limit())
    assert [bool(row[0]) for row in full.collect()] == [full for *_, full in BYTES_CASES]


class GrowthCase(Struct, frozen=True):
    """A stream that stores 600 messages a minute, 18,000 after half an hour, and its limits."""

    full_in_s: float | None
    max_msgs: int = 24_000
    subjects: tuple[int, int] = (5, 5)
    """Its subjects at first and at the end."""
    max_msgs_per_subject: int | None = None
    max_age_s: int | None = None
    """Its oldest message is half an hour old at the end."""
    minutes: int = 30
    cause: str | None = FULL_SOON_CAUSE


GROWTH_CASES = {
    "free": GrowthCase(600.0),
    "near-its-limit": GrowthCase(300.0, max_msgs=21_000, cause=NEAR_CAUSE),
    "full": GrowthCase(0.0, max_msgs=18_000, cause="full"),
    "subjects-full-before": GrowthCase(None, max_msgs_per_subject=4_000),
    "room-in-each-subject": GrowthCase(600.0, max_msgs_per_subject=6_000),
    "more-and-more-subjects": GrowthCase(600.0, subjects=(3, 5), max_msgs_per_subject=4_000),
    "old-messages-go-before": GrowthCase(None, max_age_s=1_800 + 590),
    "old-messages-stay-until-then": GrowthCase(600.0, max_age_s=1_800 + 610),
    "messages-go-all-the-time": GrowthCase(None, max_age_s=1_800),
    "too-few-minutes-to-tell": GrowthCase(None, max_msgs=2_400, minutes=3),
}


def test_a_stream_is_full_when_its_growth_meets_a_limit_and_nothing_ends_it_before(
    spark: SparkSession,
) -> None:
    rows: dict[Table, list[Row]] = {STREAM_RATE: [], STREAM_SAMPLE: [], CONFIGURATION: []}
    for number, (name, case) in enumerate(GROWTH_CASES.items()):
        who = {"session": name, "stream": name, "created_at_us": 1, "series_id": number}
        limits = {
            "max_msgs": case.max_msgs, "max_msgs_per_subject": case.max_msgs_per_subject,
            "max_age_ns": case.max_age_s and case.max_age_s * 10**9, "discard": "new",
        }  # fmt: skip
        rows[CONFIGURATION].append(who | limits | {"at_us": 1, "change_count": 0})
        for minute in range(case.minutes):
            moment = {"at_us": minute * 60_000_000, "mono_us": minute * 60_000_000}
            count = case.subjects[minute > 0]
            rows[STREAM_SAMPLE].append(who | moment | {"subjects_count": count})
            grown = 600 + (-1) ** minute
            rows[STREAM_RATE].append(
                who
                | {"bucket_at_us": moment["at_us"], "last_at_us": moment["at_us"] + 60_000_000}
                | {"covered_s": 60.0, "grown_msgs": grown, "published_msgs": grown}
                | {"stored_msgs": 600 * (minute + 1), "stored_bytes": 6_000 * (minute + 1)}
                | {"grown_bytes": 6_000, "resets_count": 0, "first_at_us": 0}
            )
    frames = {
        table.name: spark.createDataFrame(ordered(table, rows.get(table, [])), table.ddl())
        for table in TABLES
    }
    rates = spark.createDataFrame(ordered(STREAM_RATE, rows[STREAM_RATE]), STREAM_RATE.ddl())
    found = compute_capacity(Silver(**frames), rates, Thresholds()).collect()
    assert {row["stream"] for row in found} == GROWTH_CASES.keys()
    for row in found:
        expected = GROWTH_CASES[row["stream"]].full_in_s
        assert row["msgs_full_in_s"] == (expected and pytest.approx(expected, rel=0.01)), row
        assert row["unseen_s"] == 0.0
    told = find_full_streams(spark.createDataFrame(found, CAPACITY.ddl())).collect()
    assert {row["subject"]: row["cause"] for row in told} == {
        name: case.cause for name, case in GROWTH_CASES.items() if case.full_in_s is not None
    }


def test_the_share_above_the_objective_is_of_the_time_and_not_of_the_samples(
    spark: SparkSession,
) -> None:
    who = {"session": "A", "stream": "S", "consumer": "C", "created_at_us": 1, "series_id": 1}
    # Seconds since the sample before, and for how long the next message waits; None: not known.
    steps = ((None, 0.0), (1, 0.0), (1, 0.0), (1, 0.0), (9, 20.0), (None, 20.0), (5, None))
    samples = [
        who
        | {"elapsed_us": elapsed_s and elapsed_s * 1_000_000, "mono_us": place}
        | {"at_us": 1_000_000_000, "pending_msgs": 0 if wait_s == 0 else 1}
        | {"next_at_us": None if wait_s is None else 1_000_000_000 - round(wait_s * 1e6)}
        for place, (elapsed_s, wait_s) in enumerate(steps)
    ]
    frames = {
        table.name: spark.createDataFrame(
            ordered(table, samples if table is CONSUMER_SAMPLE else []), table.ddl()
        )
        for table in TABLES
    }
    (row,) = compute_lag_share(Silver(**frames)).collect()
    assert (row["over_share"], row["known_count"]) == (9 / 12, 6)
