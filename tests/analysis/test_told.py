"""What happened to streams and consumers is told, and what did not happen is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.capacity import find_full_streams
from natstui.analysis.gold.lag import find_lagging_consumers
from natstui.analysis.gold.rates import compute_consumer_rate, compute_stream_rate
from natstui.analysis.silver.layer import Silver
from tests.analysis.happened import FORGOTTEN, LIMITED, LONG, SHORT, WAITING_MSGS, second
from tests.analysis.locally import Answers, AnswersOfSome

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def result(answers: Answers) -> AnswersOfSome:
    tables = ("availability", "capacity", "lag", "poison", "redelivery")
    return answers.of(LONG, SHORT, judged_by=tables)


def rows_of(result: AnswersOfSome, name: str, session: str = LONG) -> list[dict[str, Any]]:
    return [row for row in result.rows(name) if row["session"] == session]


def told(result: AnswersOfSome, kind: str) -> dict[str, tuple[str, str]]:
    rows = [row for row in rows_of(result, "verdict") if row["kind"] == kind]
    return {row["subject"]: (row["sentence"], row["evidence"]) for row in rows}


def test_what_was_made_again_and_what_began_anew_are_told(result: AnswersOfSome) -> None:
    found = told(result, "identity")
    assert found.keys() == {"ORDERS-000 > billing-0000", "EVENTS-001"}
    assert found["ORDERS-000 > billing-0000"][0] == "deleted and recreated"
    assert (
        found["EVENTS-001"][0]
        == "restarted its sequence 1 time: the messages it had stored are lost"
    )


def test_a_leader_that_does_not_answer_is_told_with_its_time(result: AnswersOfSome) -> None:
    rows = rows_of(result, "availability")
    assert {row["kind"] for row in rows} == {"unreachable"}
    found = {(row["stream"], row["consumer"]): row for row in rows}
    assert found.keys() == {("METRICS-002", "indexer-0002"), ("AUDIT-003", None)}
    for row in rows:
        assert (row["start_at_us"], row["duration_s"]) == (second(70), 60.0)
    assert told(result, "availability")["AUDIT-003"][0] == "unreachable for 60 s"


def test_a_message_that_the_client_terminated_is_not_given_up(result: AnswersOfSome) -> None:
    given_up = [(row["stream_seq"], row["terminated"]) for row in rows_of(result, "poison")]
    assert given_up == [(8, False)]
    who = "JOBS-004 > fraud-0004"
    sentence, evidence = told(result, "redelivery")[who]
    assert sentence == "1 message dropped after max deliver"
    also = "also: message 8 was dropped after max deliver; 1 message terminated by the client"
    assert evidence.startswith("of ") and evidence.endswith(also)
    assert who not in told(result, "poison")


def test_the_only_message_that_may_be_delivered_is_poison(result: AnswersOfSome) -> None:
    (row,) = rows_of(result, "stuck")
    assert (row["consumer"], row["cause"]) == ("search-0005", "poison message")


def test_what_one_bucket_cannot_show_is_unknown(result: AnswersOfSome) -> None:
    (found,) = find_lagging_consumers(
        result.frame("lag").where((F.col("session") == SHORT) & (F.col("consumer") == LIMITED))
    ).collect()
    growth = "the recording is too short to know its growth"
    assert found["evidence"] == f"{WAITING_MSGS} pending at the start, {growth}"
    # Whatever else is told of that consumer, this is told with it.
    rows = rows_of(result, "verdict", SHORT)
    (place,) = (one for one in rows if one["subject"] == found["subject"])
    assert found["sentence"] in f"{place['sentence']}; {place['evidence']}"


def test_a_short_recording_tells_why_and_foretells_nothing(result: AnswersOfSome) -> None:
    rows = rows_of(result, "verdict", SHORT)
    found = {(row["kind"], row["subject"]): row for row in rows}
    lag = found["lag", f"ORDERS-000 > {LIMITED}"]
    assert (lag["code"], lag["harm"]) == ("NT-C09", "stuck")
    text = f"never caught up, {WAITING_MSGS} messages pending at the end: max ack pending reached"
    assert lag["sentence"] == text
    assert lag["evidence"].startswith("2 of 2 wait; ") and "max ack pending" in lag["advice"]
    assert found["lag", f"EVENTS-001 > {FORGOTTEN}"]["code"] == "NT-C23"
    source = found["finding", "ORDERS-000"]
    assert (source["code"], source["sentence"]) == ("NT-S07", "source error (EU) for 67 s")
    assert not [row for row in rows if row["kind"] == "capacity"]
    foretold = find_full_streams(result.frame("capacity"))
    assert foretold.where(F.col("session") == SHORT).collect() == []


@pytest.mark.parametrize("rate", [compute_stream_rate, compute_consumer_rate])
def test_buckets_are_as_long_as_is_asked_for(
    result: AnswersOfSome, rate: Callable[[Silver, Thresholds], DataFrame]
) -> None:
    rows = rate(result.silver, Thresholds(bucket_s=600)).select("session", "bucket_at_us")
    bucket_at_us = second(0) - second(0) % 600_000_000
    assert {*rows.distinct().collect()} == {(LONG, bucket_at_us), (SHORT, bucket_at_us)}
