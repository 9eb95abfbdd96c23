"""Sums over consumers that were created again, short lives, empty queues and restarted engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from benchmarks._fleet import START_AT_US, Plan, advisory
from benchmarks._sessions import records, write_records
from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.gold import build as gold
from natstui.model.live.snapshot import ConsumerColumns, Snapshot
from natstui.model.records.record import Configured, Record
from natstui.model.records.recording import Gap
from natstui.session.files.info import read_info, write_info
from tests.analysis.alike import assert_keyed
from tests.analysis.locally import Answers
from tests.analysis.test_recorded import table

pytestmark = pytest.mark.spark

PLAN = Plan(2, 4, 180, replicas_share=0.0)
STREAM, CONSUMER = "ORDERS-000", "billing-0000"
"""The first stream, and its consumer that is created again."""
FILTERED, SHORT = 2, 3
"""The other consumer of that stream has a filter; the last one is many that live for 5 s."""
VIEW = "view-"
CREATED_AGAIN_TICK, RESTARTED_TICK, OUTAGE_S = 60, 90, 20
ADVISED = ((50, "nak"), (51, "nak"), (52, "max_deliver"), (70, "nak"), (71, "max_deliver"),
           (72, "max_deliver"))  # fmt: skip


def second(number: float) -> int:
    return START_AT_US + round(number * 1e6)


def tick_of(poll: Snapshot) -> int:
    return round((poll.taken_at_us - START_AT_US) / 1e6)


def with_row(columns: Any, row: int, **values: Any) -> Any:
    """Return columns with other values in one row."""

    def replaced(name: str, value: Any) -> tuple[Any, ...]:
        column = getattr(columns, name)
        return (*column[:row], value, *column[row + 1 :])

    return replace(columns, **{name: replaced(name, value) for name, value in values.items()})


def mixed(plan: Plan) -> Iterator[Record]:
    """Yield a consumer that is created again, one with a filter, short lives, and empty queues."""
    extra = tuple(
        advisory(second(at), kind, STREAM, CONSUMER, stream_seq=7, deliveries=2)
        for at, kind in ADVISED
    )
    for record in records(replace(plan, extra=extra)):
        if isinstance(record, Configured) and record.consumers:
            consumers = list(record.consumers)
            consumers[FILTERED] = replace(consumers[FILTERED], filter_subjects=("events.a",))
            yield replace(record, consumers=tuple(consumers))
        elif isinstance(record, Snapshot):
            tick = tick_of(record)
            consumers_now = short_lives(created_again(record.consumers, tick), tick)
            # Both streams are work queues: one is empty at most polls, the other at all.
            kept = 5 if tick % 10 == 0 else 0
            streams = replace(record.streams, stored_msgs=(kept, 0), stored_bytes=(kept * 80, 0))
            yield replace(record, streams=streams, consumers=consumers_now)
        else:
            yield record


def created_again(columns: ConsumerColumns, tick: int) -> ConsumerColumns:
    """Return the consumer as another one from a tick on, both with repeated deliveries."""
    repeated = min(max(tick - 40, 0), 15) * 2 + min(max(tick - 65, 0), 20) * 2
    values = {"delivered_consumer_seq": columns.delivered_consumer_seq[0] + repeated}
    if tick >= CREATED_AGAIN_TICK:
        values["created_at_us"] = second(CREATED_AGAIN_TICK - 0.5)
    return cast(ConsumerColumns, with_row(columns, 0, **values))


def short_lives(columns: ConsumerColumns, tick: int) -> ConsumerColumns:
    """Return consumers that are there for 5 s one after the other: 10 deliveries/s, 7 pending."""
    number, age = divmod(tick, 5)
    counters = ("delivered_consumer_seq", "delivered_stream_seq", "ack_floor_consumer_seq",
                "ack_floor_stream_seq")  # fmt: skip
    values = dict.fromkeys(counters, 10 * age) | {"pending_msgs": 7}
    values["created_at_us"] = second(tick - age - 0.5)
    return cast(ConsumerColumns, with_row(columns, SHORT, name=f"{VIEW}{number:06d}", **values))


def restarted(plan: Plan) -> Iterator[Record]:
    """Yield a recording that goes on after its machine was restarted, with a new clock."""
    told = False
    for record in records(plan):
        at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
        if at_us < second(RESTARTED_TICK):
            yield record
            continue
        later_us = OUTAGE_S * 1_000_000
        if not told:
            yield Gap(at_us + later_us, at_us, 0, "the recording engine was killed")
        told = True
        if isinstance(record, Snapshot):
            back_us = record.taken_mono_us - (at_us - second(RESTARTED_TICK)) - 1_000_000
            streams, consumers = (
                replace(each, sampled_mono_us=tuple(at - back_us for at in each.sampled_mono_us))
                for each in (record.streams, record.consumers)
            )
            yield replace(
                record, taken_mono_us=record.taken_mono_us - back_us,
                taken_at_us=at_us + later_us, streams=streams, consumers=consumers,
            )  # fmt: skip
        else:
            yield replace(record, at_us=at_us + later_us)


SESSIONS: dict[str, Callable[[Plan], Iterator[Record]]] = {"mixed": mixed, "restarted": restarted}


def write(folder: Path, plan: Plan, many: Iterable[Record]) -> None:
    """Write a session; one that goes on after a restart does so in a new segment."""
    known = list(many)
    gap = next((n for n, record in enumerate(known) if isinstance(record, Gap)), 100)
    write_records(folder, iter(known), plan, records_per_segment=gap)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("sessions")
    for name, many in SESSIONS.items():
        write(folder / name, PLAN, many(PLAN))
    return Answers(spark, tmp_path_factory.mktemp("out"), f"{folder}/*")


def rows(tables: Answers, name: str, session: str) -> list[dict[str, Any]]:
    return [row for row in table({"tables": tables}, name) if row["session"] == session]


def test_an_advisory_is_of_the_consumer_that_had_the_name_then(tables: Answers) -> None:
    counts = ("naks_count", "given_up_count", "terminated_count")
    redelivery = sorted(
        (row for row in rows(tables, "redelivery", "mixed") if row["consumer"] == CONSUMER),
        key=lambda row: row["created_at_us"],
    )
    assert [tuple(row[name] for name in counts) for row in redelivery] == [(2, 1, 0), (1, 2, 0)]
    given_up = [row["given_up_count"] for row in rows(tables, "hour", "mixed")]
    assert sum(given_up) == sum(row["given_up_count"] for row in redelivery) == 3
    spots = rows(tables, "redelivery_hot_spot", "mixed")
    assert len({row["created_at_us"] for row in spots}) == 2
    assert sum(row["naks_count"] for row in spots) == 3
    assert sum(row["given_up_count"] for row in spots) == 3


def test_redeliveries_are_no_share_of_deliveries_through_a_filter(tables: Answers) -> None:
    consumers = [row for row in rows(tables, "redelivery", "mixed") if row["stream"] == STREAM]
    known = [row for row in consumers if row["repeated_share"] is not None]
    assert len(known) == len(consumers) - 1
    (cost,) = (row for row in rows(tables, "redelivery_cost", "mixed") if row["stream"] == STREAM)
    repeated, delivered = (
        sum(row[name] for row in known) for name in ("repeated_msgs", "delivered_msgs")
    )
    assert cost["repeated_share"] == pytest.approx(repeated / delivered)


def test_what_a_stream_stored_counts_also_where_it_was_empty_at_the_poll(tables: Answers) -> None:
    polls = [record for record in mixed(PLAN) if isinstance(record, Snapshot)]
    sizes = rows(tables, "message_size", "mixed")
    for place, name in enumerate(polls[0].streams.name):
        stored = polls[-1].streams.last_seq[place] - polls[0].streams.last_seq[place]
        assert sum(row["published_msgs"] for row in sizes if row["stream"] == name) == stored
    assert {row["message_bytes"] for row in sizes} == {80.0, None}


def test_consumers_that_live_for_seconds_count_for_these_seconds(tables: Answers) -> None:
    full = rows(tables, "load", "mixed")[2]
    others = [
        row
        for row in rows(tables, "consumer_rate", "mixed")
        if not row["consumer"].startswith(VIEW) and row["bucket_at_us"] == full["bucket_at_us"]
    ]
    assert len(others) == 3
    for name, true in (("delivered_per_s", 10.0), ("pending_mean_msgs", 7.0)):
        total = sum(row[name] for row in others) + true
        assert full[name] == pytest.approx(total, rel=0.15)


def test_a_machine_that_was_restarted_is_a_gap_and_nothing_began_anew(tables: Answers) -> None:
    gaps = [row for row in rows(tables, "availability", "restarted") if row["kind"] == "gap"]
    assert [row["value"] for row in gaps] == [pytest.approx(OUTAGE_S + 1)]
    assert [row["kind"] for row in rows(tables, "availability", "restarted")] == ["gap"]
    for name in ("stream_rate", "consumer_rate"):
        assert sum(row["resets_count"] for row in rows(tables, name, "restarted")) == 0
    requests = [row["requests_count"] for row in rows(tables, "api_use", "restarted")]
    polls = [record for record in records(PLAN) if isinstance(record, Snapshot)]
    first, last = (poll.account for poll in (polls[0], polls[-1]))
    assert first is not None and last is not None
    assert sum(requests) == last.api_requests_count - first.api_requests_count


def test_no_two_rows_of_a_table_have_the_same_key(tables: Answers) -> None:
    for each in gold.TABLES:
        assert_keyed(each, [row.asDict() for row in tables.frame(each.name).collect()])


SYSTEMS = {
    # Name of the session, in the order of time: the server, what it was connected to, the account.
    "a": ("n1", "", "A"), "b": ("n9", "", "A"), "c": ("n1", "", "A"), "d": ("n9", "", "A"),
    "e": ("n1", "", "B"), "f": ("N" + 55 * "A", "here", "A"), "g": ("N" + 55 * "B", "here", "A"),
}  # fmt: skip
COMPARED = {("a", "c"), ("b", "d"), ("f", "g")}


def test_only_sessions_of_one_server_and_account_are_compared_unless_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number, (name, (server, target, account)) in enumerate(SYSTEMS.items()):
        started_at_us = START_AT_US + number * 3_600_000_000
        plan = Plan(1, 1, 120, seed=number, started_at_us=started_at_us, replicas_share=0.0)
        write_records(tmp_path / "sessions" / name, records(plan), plan)
        info = read_info(tmp_path / "sessions" / name)
        info = replace(info, server_name=server, target=target, account=account)
        write_info(tmp_path / "sessions" / name, info)
    answers = Answers(spark, tmp_path / "out", f"{tmp_path}/sessions/*")
    told = table({"tables": answers}, "comparison")
    assert {(row["baseline"], row["compared"]) for row in told} == COMPARED


@pytest.mark.slow
def test_of_many_sessions_at_a_url_each_is_found(spark: SparkSession, tmp_path: Path) -> None:
    count = 10_001
    plan = Plan(1, 1, 1, replicas_share=0.0)
    header = Path(write_records(tmp_path / "first", records(plan), plan), "session.json")
    for number in range(1, count):
        folder = tmp_path / f"{number:05d}"
        folder.mkdir()
        (folder / "session.json").write_bytes(header.read_bytes())
    assert len(find_sources(spark, [f"file://{tmp_path}/*"])) == count
