"""Sums over consumers that were created again, short lives, empty queues and restarted engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._fleet import Plan
from benchmarks._sessions import records, write_records
from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.gold import build as gold
from natstui.model.live.snapshot import Snapshot
from tests.analysis.alike import assert_keyed
from tests.analysis.locally import OF_ALL_SESSIONS, Answers, AnswersOfSome
from tests.analysis.truths import (
    ASLEEP,
    ASLEEP_TICK,
    ASLEEP_US,
    CONSUMER,
    MIXED,
    OUTAGE_S,
    PLAN,
    RESTARTED,
    STREAM,
    SYSTEMS,
    TROUBLE_TICKS,
    VIEW,
    mixed,
    second,
)
from tests.session import lost

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(answers: Answers) -> AnswersOfSome:
    return answers.of(MIXED, RESTARTED)


def rows(tables: AnswersOfSome, name: str, session: str) -> list[dict[str, Any]]:
    return [row for row in tables.rows(name) if row["session"] == session]


def test_an_advisory_is_of_the_consumer_that_had_the_name_then(tables: AnswersOfSome) -> None:
    counts = ("naks_count", "given_up_count", "terminated_count")
    redelivery = sorted(
        (row for row in rows(tables, "redelivery", MIXED) if row["consumer"] == CONSUMER),
        key=lambda row: row["created_at_us"],
    )
    assert [tuple(row[name] for name in counts) for row in redelivery] == [(2, 1, 0), (1, 2, 0)]
    given_up = [row["given_up_count"] for row in rows(tables, "hour", MIXED)]
    assert sum(given_up) == sum(row["given_up_count"] for row in redelivery) == 3
    spots = rows(tables, "redelivery_hot_spot", MIXED)
    assert len({row["created_at_us"] for row in spots}) == 2
    assert sum(row["naks_count"] for row in spots) == 3
    assert sum(row["given_up_count"] for row in spots) == 3


def test_redeliveries_are_no_share_of_deliveries_through_a_filter(tables: AnswersOfSome) -> None:
    consumers = [row for row in rows(tables, "redelivery", MIXED) if row["stream"] == STREAM]
    known = [row for row in consumers if row["repeated_share"] is not None]
    assert len(known) == len(consumers) - 1
    (cost,) = (row for row in rows(tables, "redelivery_cost", MIXED) if row["stream"] == STREAM)
    repeated, delivered = (
        sum(row[name] for row in known) for name in ("repeated_msgs", "delivered_msgs")
    )
    assert cost["repeated_share"] == pytest.approx(repeated / delivered)


def test_what_a_stream_stored_counts_also_where_it_was_empty_at_the_poll(
    tables: AnswersOfSome,
) -> None:
    polls = [record for record in mixed(PLAN) if isinstance(record, Snapshot)]
    sizes = rows(tables, "message_size", MIXED)
    for place, name in enumerate(polls[0].streams.name):
        stored = polls[-1].streams.last_seq[place] - polls[0].streams.last_seq[place]
        assert sum(row["published_msgs"] for row in sizes if row["stream"] == name) == stored
    assert {row["message_bytes"] for row in sizes} == {80.0, None}


def test_consumers_that_live_for_seconds_count_for_these_seconds(tables: AnswersOfSome) -> None:
    full = rows(tables, "load", MIXED)[2]
    others = [
        row
        for row in rows(tables, "consumer_rate", MIXED)
        if not row["consumer"].startswith(VIEW) and row["bucket_at_us"] == full["bucket_at_us"]
    ]
    assert len(others) == 3
    for name, true in (("delivered_per_s", 10.0), ("pending_mean_msgs", 7.0)):
        total = sum(row[name] for row in others) + true
        assert full[name] == pytest.approx(total, rel=0.15)


def test_a_machine_that_was_restarted_is_a_gap_and_nothing_began_anew(
    tables: AnswersOfSome,
) -> None:
    gaps = [row for row in rows(tables, "availability", RESTARTED) if row["kind"] == "gap"]
    assert [row["value"] for row in gaps] == [pytest.approx(OUTAGE_S + 1)]
    assert [row["kind"] for row in rows(tables, "availability", RESTARTED)] == ["gap"]
    for name in ("stream_rate", "consumer_rate"):
        assert sum(row["resets_count"] for row in rows(tables, name, RESTARTED)) == 0
    requests = [row["requests_count"] for row in rows(tables, "api_use", RESTARTED)]
    polls = [record for record in records(PLAN) if isinstance(record, Snapshot)]
    first, last = (poll.account for poll in (polls[0], polls[-1]))
    assert first is not None and last is not None
    assert sum(requests) == last.api_requests_count - first.api_requests_count


def test_what_changed_while_records_were_lost_is_known_from_the_keyframe_after_them(
    answers: Answers,
) -> None:
    tables = answers.of(lost.LOST)
    spans = {
        (row["code"], row["start_at_us"]): (row["end_at_us"], row["open"], row["evidence"])
        for row in tables.rows("findings")
    }
    assert spans == {
        ("NT-S26", lost.STAYS.since_at_us): (None, True, "full in 1 h"),
        ("NT-S09", lost.ENDS.since_at_us): (lost.WRITTEN_US, False, "64 of 64 wait"),
        ("NT-S30", lost.RETURNS.since_at_us): (lost.WRITTEN_US, False, "once"),
        ("NT-S30", lost.at_us(45)): (None, True, "twice"),
        ("NT-C07", lost.BEGINS.since_at_us): (None, True, "nobody pulls"),
    }
    names = ("consumer", "at_us", "change_count", "max_bytes", "filtered", "durable")
    configured = tables.silver.configuration.where(F.col("stream") == lost.STREAM).collect()
    found = {tuple(row[name] for name in names) for row in configured}
    assert {row for row in found if row[0] in (None, lost.NEW)} == {
        (None, lost.at_us(0.00004), 0, None, None, None),
        (None, lost.KNOWN_US, 1, lost.MAX_BYTES, None, None),
        (lost.NEW, lost.KNOWN_US, 0, None, True, True),
    }
    # What the keyframe repeats is no change.
    assert [row[2] for row in found if row[0] not in (None, lost.NEW)] == [0, 0]
    limits = {row["stream"]: row["max_bytes"] for row in tables.rows("capacity")}
    assert limits == {"ORDERS-000": lost.MAX_BYTES, "ORDERS-001": None}


def test_of_the_time_of_a_gap_no_trouble_is_told(answers: Answers) -> None:
    tables = answers.of(ASLEEP)
    before, after = second(ASLEEP_TICK - 1), second(ASLEEP_TICK) + ASLEEP_US
    first, last = second(TROUBLE_TICKS[0]), second(TROUBLE_TICKS[-1]) + ASLEEP_US
    names = ("kind", "stream", "consumer", "start_at_us", "end_at_us")
    found = {
        tuple(row[name] for name in names)
        for row in tables.rows("availability")
        if row["kind"] in ("gap", "unreachable", "replica_away")
    }
    assert found == {
        ("gap", None, None, before, after),
        ("unreachable", "EVENTS-001", None, before, before),
        ("unreachable", STREAM, CONSUMER, before, before),
        ("unreachable", STREAM, CONSUMER, after, after + 1_000_000),
        ("replica_away", STREAM, None, first, before),
        ("replica_away", STREAM, None, after, last),
    }
    periods = {
        (row["start_at_us"], row["end_at_us"])
        for row in tables.rows("lag_period")
        if row["consumer"] == CONSUMER
    }
    assert periods == {(first, before), (after, last)}
    assert sum(row["behind_s"] for row in tables.rows("hour")) == pytest.approx(
        sum(row["duration_s"] for row in tables.rows("lag_period"))
    )


def test_no_two_rows_of_a_table_have_the_same_key(answers: Answers) -> None:
    for each in gold.TABLES:
        if each.name not in OF_ALL_SESSIONS:
            assert_keyed(each, answers.rows(each.name))


COMPARED = {("a", "c"), ("b", "d"), ("f", "g")}


def test_only_sessions_of_one_server_and_account_are_compared_unless_told(
    answers: Answers,
) -> None:
    told = answers.of(*SYSTEMS).rows("comparison")
    assert {(row["baseline"], row["compared"]) for row in told} == COMPARED


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_001, pytest.param(10_001, marks=pytest.mark.long)])
def test_of_many_sessions_at_a_url_each_is_found(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
    plan = Plan(1, 1, 1, replicas_share=0.0)
    header = Path(write_records(tmp_path / "first", records(plan), plan), "session.json")
    for number in range(1, count):
        folder = tmp_path / f"{number:05d}"
        folder.mkdir()
        (folder / "session.json").write_bytes(header.read_bytes())
    assert len(find_sources(spark, [f"file://{tmp_path}/*"])) == count
