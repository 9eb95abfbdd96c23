"""The queries of the analysis answer the cases that the live rules answer too."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
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
from natstui.analysis.gold.rates import CONSUMER_RATE, STREAM_RATE
from natstui.analysis.gold.shared.forecast import full_in_s
from natstui.analysis.gold.stuck import compute_stuck
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import (
    CONFIGURATION,
    CONSUMER_SAMPLE,
    STREAM_SAMPLE,
    TABLES,
)
from natstui.analysis.tables import Table
from tests.model.rule_cases import (
    BYTES_CASES,
    DRAIN_CASES,
    FULL_CASES,
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
    values = {field.name: getattr(one, field.name) for field in fields(one)}
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


def test_the_queries_find_when_a_backlog_is_drained_and_a_limit_is_reached(
    spark: SparkSession,
) -> None:
    drains = spark.createDataFrame(DRAIN_CASES, "pending long, trend double, expected double")
    found = drains.select(drain_s(F.col("pending"), F.col("trend"))).collect()
    assert [row[0] for row in found] == [expected for *_, expected in DRAIN_CASES]
    names = "used long, most long, growth double, expected double"
    fills = spark.createDataFrame(FULL_CASES, names)
    found = fills.select(full_in_s("most", "used", "growth")).collect()
    assert [row[0] for row in found] == [expected for *_, expected in FULL_CASES]
    kept = [(f.stored_msgs, f.stored_bytes, f.max_bytes, losing) for f, losing, _ in BYTES_CASES]
    names = "stored_msgs long, stored_bytes long, max_bytes long, losing boolean"
    full = spark.createDataFrame(kept, names).select(is_at_byte_limit())
    assert [bool(row[0]) for row in full.collect()] == [full for *_, full in BYTES_CASES]


MAX_MSGS = 24_000
SUBJECT_CASES = {
    # Name: subjects at first and at the end, messages per subject; when the stream is full.
    "free": (5, 5, None, 600.0),
    "subjects-full-before": (5, 5, 4_000, None),
    "room-in-each-subject": (5, 5, 6_000, 600.0),
    "more-and-more-subjects": (3, 5, 4_000, 600.0),
}


def test_a_stream_of_which_each_subject_is_full_before_is_never_full(spark: SparkSession) -> None:
    rows: dict[Table, list[Row]] = {STREAM_RATE: [], STREAM_SAMPLE: [], CONFIGURATION: []}
    for number, (name, (first, last, most, _)) in enumerate(SUBJECT_CASES.items()):
        who = {"session": "A", "stream": name, "created_at_us": 1, "series_id": number}
        limits = {"max_msgs": MAX_MSGS, "max_msgs_per_subject": most, "discard": "new"}
        rows[CONFIGURATION].append(who | limits | {"at_us": 1, "change_count": 0})
        for minute in range(30):
            moment = {"at_us": minute * 60_000_000, "mono_us": minute * 60_000_000}
            count = first if minute == 0 else last
            rows[STREAM_SAMPLE].append(who | moment | {"subjects_count": count})
            grown = 600 + (-1) ** minute
            rows[STREAM_RATE].append(
                who
                | {"bucket_at_us": moment["at_us"], "last_at_us": moment["at_us"] + 60_000_000}
                | {"covered_s": 60.0, "grown_msgs": grown, "published_msgs": grown}
                | {"stored_msgs": 600 * (minute + 1), "stored_bytes": 6_000 * (minute + 1)}
                | {"grown_bytes": 6_000, "resets_count": 0}
            )
    frames = {
        table.name: spark.createDataFrame(ordered(table, rows.get(table, [])), table.ddl())
        for table in TABLES
    }
    rates = spark.createDataFrame(ordered(STREAM_RATE, rows[STREAM_RATE]), STREAM_RATE.ddl())
    found = compute_capacity(Silver(**frames), rates, Thresholds()).collect()
    for row in found:
        expected = SUBJECT_CASES[row["stream"]][-1]
        assert row["msgs_full_in_s"] == (expected and pytest.approx(expected, rel=0.01))
        assert row["unseen_s"] == 0.0
    told = {
        row["subject"]
        for row in find_full_streams(spark.createDataFrame(found, CAPACITY.ddl())).collect()
    }
    assert told == {name for name, case in SUBJECT_CASES.items() if case[-1]}
