"""What happened to streams and consumers is told, and what did not happen is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._fleet import START_AT_US, Plan, advisory
from benchmarks._sessions import records, write_records
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.capacity import soon_full
from natstui.analysis.gold.lag import LAG, lagging_consumers
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.records.findings import FindingTold
from natstui.model.records.record import Configured, LinkChanged, Record
from tests.analysis.locally import Answers
from tests.analysis.test_recorded import table

pytestmark = pytest.mark.spark

AGAIN, ANEW, AWAY, POISONED, BEHIND, STREAM_AWAY = 0, 1, 2, 5, 7, 3
AWAY_TICKS = range(70, 130)
LONG, SHORT = "long", "short"
"""The two sessions: each is told of by itself."""
PLAN = Plan(6, 8, 200, replicas_share=0.0)


def second(number: int) -> int:
    return START_AT_US + number * 1_000_000


EXTRA = (
    advisory(second(90), "terminated", "JOBS-004", "fraud-0004", stream_seq=7, deliveries=1),
    advisory(second(91), "max_deliver", "JOBS-004", "fraud-0004", stream_seq=8, deliveries=1),
    advisory(second(92), "nak", "JOBS-004", "fraud-0004", stream_seq=8, deliveries=1),
    LinkChanged(second(200), "closed", None),
)


def changed(record: Record) -> Record:
    if isinstance(record, Configured) and record.consumers:
        configured = list(record.consumers)
        configured[POISONED] = replace(configured[POISONED], max_ack_pending_msgs=1)
        return replace(record, consumers=tuple(configured))
    if not isinstance(record, Snapshot):
        return record
    tick = round((record.taken_at_us - START_AT_US) / 1e6)
    streams, consumers = changed_streams(record.streams, tick), record.consumers
    changes = again(consumers, tick) | poison(consumers, tick)
    consumers = replace(consumers, **changes)
    if tick not in AWAY_TICKS:
        return replace(record, streams=streams, consumers=consumers)
    return replace(
        record,
        streams=without(streams, STREAM_AWAY),
        consumers=without(consumers, AWAY),
        unreachable_streams=(streams.name[STREAM_AWAY],),
        unreachable_consumers=((consumers.stream[AWAY], consumers.name[AWAY]),),
    )


FAR_MSGS = 30_000


def without(columns: Any, row: int) -> Any:
    values = {field.name: list(getattr(columns, field.name)) for field in fields(columns)}
    # A column that recorders of before did not have is empty.
    for one in filter(None, values.values()):
        del one[row]
    return type(columns)(**{name: tuple(one) for name, one in values.items()})


def changed_streams(columns: StreamColumns, tick: int) -> StreamColumns:
    """Restart the only server at tick 100, which calls itself something else then."""
    leaders = ("n1" if tick < 100 else "n7",) * len(columns.leader)
    last = list(columns.last_seq)
    if tick >= 60:
        last[ANEW] = tick
    return replace(columns, leader=leaders, last_seq=tuple(last))


def again(columns: ConsumerColumns, tick: int) -> dict[str, Any]:
    created = list(columns.created_at_us)
    if tick >= 50:
        created[AGAIN] = second(50)
    return {"created_at_us": tuple(created)}


def poison(columns: ConsumerColumns, tick: int) -> dict[str, Any]:
    """One message comes again every ten seconds, and no other one may be delivered."""
    constant = {
        "delivered_stream_seq": 11, "ack_floor_stream_seq": 10, "ack_floor_consumer_seq": 10,
        "delivered_consumer_seq": 11 + tick // 10, "ack_pending_msgs": 1, "redelivered_msgs": 1,
        "pending_msgs": 30,
    }  # fmt: skip
    found = {}
    for name, value in constant.items():
        values = list(getattr(columns, name))
        values[POISONED] = value
        if name == "pending_msgs":
            # It goes on, and is far behind: for minutes.
            values[BEHIND] = FAR_MSGS
        found[name] = tuple(values)
    return found


@pytest.fixture(scope="module")
def result(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("told")
    write_records(folder / LONG, many(), PLAN, records_per_segment=100)
    write_short(folder / SHORT)
    # One bucket: of a growth it shows nothing.
    thresholds = Thresholds(bucket_s=600)
    out = tmp_path_factory.mktemp("out")
    return {"tables": Answers(spark, out, f"{folder}/*", thresholds)}


def many() -> Iterator[Record]:
    return map(changed, records(replace(PLAN, extra=EXTRA)))


def rows_of(result: dict[str, Any], name: str, session: str = LONG) -> list[dict[str, Any]]:
    return [row for row in table(result, name) if row["session"] == session]


def told(result: dict[str, Any], kind: str) -> dict[str, tuple[str, str]]:
    rows = [row for row in rows_of(result, "verdict") if row["kind"] == kind]
    return {row["subject"]: (row["sentence"], row["evidence"]) for row in rows}


def test_what_was_made_again_and_what_began_anew_are_told(result: dict[str, Any]) -> None:
    found = told(result, "identity")
    assert found.keys() == {"ORDERS-000 > billing-0000", "EVENTS-001"}
    assert found["ORDERS-000 > billing-0000"][0] == "deleted and recreated"
    assert found["EVENTS-001"][0] == "began anew 1 time: the messages it had stored are lost"


def test_a_leader_that_does_not_answer_is_told_with_its_time(result: dict[str, Any]) -> None:
    rows = rows_of(result, "availability")
    assert {row["kind"] for row in rows} == {"unreachable"}
    found = {(row["stream"], row["consumer"]): row for row in rows}
    assert found.keys() == {("METRICS-002", "indexer-0002"), ("AUDIT-003", None)}
    for row in rows:
        assert (row["start_at_us"], row["duration_s"]) == (second(70), 60.0)
    assert told(result, "availability")["AUDIT-003"][0] == "unreachable for 60 s"


def test_a_message_that_the_client_terminated_is_not_given_up(result: dict[str, Any]) -> None:
    given_up = [(row["stream_seq"], row["terminated"]) for row in rows_of(result, "poison")]
    assert given_up == [(8, False)]
    who = "JOBS-004 > fraud-0004"
    sentence, evidence = told(result, "redelivery")[who]
    assert sentence == "1 message dropped after max deliver"
    also = "also: message 8 was dropped after max deliver; 1 message terminated by the client"
    assert evidence.startswith("of ") and evidence.endswith(also)
    assert who not in told(result, "poison")


def test_the_only_message_that_may_be_delivered_is_poison(result: dict[str, Any]) -> None:
    (row,) = rows_of(result, "stuck")
    assert (row["consumer"], row["cause"]) == ("search-0005", "poison message")


def test_what_one_bucket_cannot_show_is_unknown(
    spark: SparkSession, result: dict[str, Any]
) -> None:
    (row,) = (one for one in rows_of(result, "lag") if one["pending_last_msgs"] == FAR_MSGS)
    (found,) = lagging_consumers(spark.createDataFrame([tuple(row.values())], LAG.ddl())).collect()
    growth = "the recording is too short to know its growth"
    assert found["evidence"] == f"{FAR_MSGS} pending at the start, {growth}"
    # Whatever else is told of that consumer, this is told with it.
    (place,) = (one for one in rows_of(result, "verdict") if one["subject"] == found["subject"])
    assert found["sentence"] in f"{place['sentence']}; {place['evidence']}"


WAITING_MSGS = 30_000
LIMITED, FORGOTTEN = "billing-0000", "mailer-0001"
GROWING = "EVENTS-001"


def held_back(record: Record) -> Record:
    """Two consumers deliver nothing, and a stream will be full within ten minutes."""
    if isinstance(record, Configured) and record.streams:
        streams = [
            replace(one, max_msgs=10_000, discard="new") if one.name == GROWING else one
            for one in record.streams
        ]
        return replace(record, streams=tuple(streams))
    if not isinstance(record, Snapshot):
        return record
    tick = round((record.taken_at_us - START_AT_US) / 1e6)
    streams, consumers = record.streams, record.consumers
    stored = [
        10 * tick if name == GROWING else many
        for name, many in zip(streams.name, streams.stored_msgs, strict=True)
    ]
    still = {"pending_msgs": WAITING_MSGS, "ack_pending_msgs": 2, "ack_floor_stream_seq": 10}
    values = {
        name: tuple(
            value if who in (LIMITED, FORGOTTEN) else own
            for who, own in zip(consumers.name, getattr(consumers, name), strict=True)
        )
        for name, value in still.items()
    }
    return replace(
        record,
        streams=replace(streams, stored_msgs=tuple(stored)),
        consumers=replace(consumers, **values),
    )


def write_short(folder: Path) -> None:
    """Write 18 s: too short for a consumer to be stuck, and for a forecast."""
    plan = Plan(2, 2, 18, replicas_share=0.0)
    of_consumer = ("ORDERS-000", LIMITED, second(-1000), "")
    limit = FindingTold("NT-C09", *of_consumer, second(-100), "2 of 2 wait")
    alone = FindingTold("NT-S07", "ORDERS-000", "", second(-1000), "EU", second(-50), "no origin")
    many = map(held_back, records(plan))
    write_records(folder, many, plan, records_per_segment=30, known=(limit, alone))


def test_a_short_recording_tells_why_and_foretells_nothing(result: dict[str, Any]) -> None:
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
    foretold = soon_full(result["tables"].frame("capacity"))
    assert foretold.where(F.col("session") == SHORT).collect() == []
