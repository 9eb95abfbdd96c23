"""What a recorder counted instead of storing it singly is part of every sum and verdict."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks._fleet import START_AT_US, Plan
from benchmarks._sessions import write_session
from natstui.analysis.gold.redelivery import MAX_DELIVER, advisories_count, poison, poison_messages
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import ACK_SAMPLE, TABLES
from natstui.model.live.message_counts import ROOM, MessageCount
from natstui.model.records.evidence import AdvisoriesCounted, MessageTrouble
from natstui.model.records.record import Advisory, Record
from tests.analysis.damaged import lines_of
from tests.analysis.locally import Answers
from tests.session.making import START_US, made

pytestmark = pytest.mark.spark

SECONDS = 6
KINDS: tuple[MessageTrouble, ...] = ("nak", "max_deliver", "terminated")


def storm(messages_count: int) -> list[Advisory]:
    """Return what a server announces of a few consumers, many times a second."""
    chance, deliveries = random.Random(7), defaultdict(int)
    found = []
    for number in range(SECONDS * 200):
        kind, consumer = chance.choice(KINDS), chance.choice("AB")
        seq = chance.randrange(1, messages_count + 1)
        deliveries[consumer, seq] += 1
        body = {"stream_seq": seq, "deliveries": deliveries[consumer, seq]}
        at_us = START_US + number * 5_000
        found.append(Advisory(at_us, kind, "S", consumer, "said", json.dumps(body)))
    return found


def folded(advisories: Iterable[Advisory]) -> list[Record]:
    """Return them as they are recorded when they come too fast: one count each second."""
    groups: dict[tuple[int, str, str | None], list[Advisory]] = defaultdict(list)
    for one in advisories:
        groups[one.at_us // 1_000_000, one.type, one.consumer].append(one)
    found: list[Record] = []
    for (second, kind, consumer), its in sorted(groups.items(), key=repr):
        said: dict[int, MessageCount] = {}
        for one in its:
            body = json.loads(one.body_json)
            seq = body["stream_seq"]
            before = said[seq].said_count if seq in said else 0
            said[seq] = MessageCount(seq, before + 1, 0, body["deliveries"])
        named = sorted(said.values(), key=lambda one: (-one.said_count, one.stream_seq))[:ROOM]
        at_us = (second + 1) * 1_000_000
        assert kind in KINDS and consumer is not None
        found.append(
            AdvisoriesCounted(at_us, kind, its[0].stream or "", consumer, len(its), tuple(named))
        )
    return sorted(found, key=lambda record: record.at_us)


def advisory(spark: SparkSession, folder: Path, records: Iterable[Record]) -> DataFrame:
    session = made(folder, records)
    return silver_events.advisories(lines_of(spark, session))


def sums(rows: DataFrame) -> dict[str, tuple[int, ...]]:
    counts = rows.groupBy("consumer").agg(*(advisories_count(kind) for kind in KINDS))
    return {row[0]: tuple(row[1:]) for row in counts.collect()}


def silver(spark: SparkSession, advisories: DataFrame) -> Silver:
    frames = {table.name: table.no_rows(spark) for table in TABLES}
    return Silver(**{**frames, "advisory": advisories, ACK_SAMPLE.name: ACK_SAMPLE.no_rows(spark)})


@pytest.mark.parametrize("messages_count", [ROOM, 20 * ROOM])
def test_advisories_recorded_as_counts_add_up_as_those_recorded_singly(
    spark: SparkSession, tmp_path: Path, messages_count: int
) -> None:
    said = storm(messages_count)
    single = advisory(spark, tmp_path / "single", said)
    counted = advisory(spark, tmp_path / "counted", folded(said))
    assert sums(counted) == sums(single)
    assert sum(map(sum, sums(counted).values())) == len(said)
    # Half of each: below so many a second they are recorded singly.
    half = len(said) // 2
    both = advisory(spark, tmp_path / "both", [*said[:half], *folded(said[half:])])
    assert sums(both) == sums(single)


WITHOUT = {"first_at_us", "last_at_us"}
"""A count is written at the end of its second."""


def test_no_answer_changes_when_what_was_announced_is_recorded_as_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = Plan(4, 6, 90)
    stream, consumer = "ORDERS-000", "billing-0000"
    begin_us, chance = START_AT_US + 30_000_000, random.Random(3)
    said = []
    for number in range(3_000):
        kind: MessageTrouble = "max_deliver" if number % 5 == 4 else "nak"
        body = {"stream_seq": 10 + chance.randrange(ROOM), "deliveries": number // ROOM + 1}
        at_us = begin_us + number * 10_000
        said.append(Advisory(at_us, kind, stream, consumer, "said", json.dumps(body)))
    ways = {"single": said, "counted": folded(said)}
    tables = ("redelivery", "redelivery_hot_spot", "poison", "finding_groups", "verdict")
    answers = {}
    for way, announced in ways.items():
        of_way = replace(plan, extra=tuple(announced))
        session = write_session(tmp_path / way / "20260921T141320Z-s", of_way)
        found = Answers(spark, tmp_path / f"out-{way}", str(session))
        answers[way] = {name: rows_of(found[name]) for name in tables}
    for name in tables:
        assert answers["counted"][name] == answers["single"][name], name
    (row,) = (row for row in answers["single"]["redelivery"] if row["consumer"] == consumer)
    assert (row["naks_count"], row["given_up_count"]) == (2_400, 600)


def rows_of(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table without the moments of single announcements."""
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    bare = [{name: row[name] for name in row if name not in WITHOUT} for row in rows]
    return sorted(bare, key=repr)


def test_each_message_that_a_count_names_has_the_same_row_of_poison(
    spark: SparkSession, tmp_path: Path
) -> None:
    said = storm(ROOM)
    names = ("consumer", "stream_seq", "deliveries_count", "naks_count", "given_up", "terminated")

    def rows(records: Iterable[Record], name: str) -> set[tuple[Any, ...]]:
        messages = poison(silver(spark, advisory(spark, tmp_path / name, records)))
        return {tuple(row) for row in messages.select(*names).collect()}

    assert rows(folded(said), "counted") == rows(said, "single")


def test_the_message_that_was_delivered_most_often_is_the_example_of_a_poison(
    spark: SparkSession, tmp_path: Path
) -> None:
    def given_up(seq: int, deliveries: int, at_s: int) -> Advisory:
        body = json.dumps({"stream_seq": seq, "deliveries": deliveries})
        return Advisory(START_US + at_s * 1_000_000, MAX_DELIVER, "S", "A", "said", body)

    few, most = given_up(7, 5, 90), given_up(3, 131, 10)
    rows = poison(silver(spark, advisory(spark, tmp_path, [most, few])))
    found = poison_messages(rows).orderBy("weight", ascending=False).first()
    assert found is not None and found["sentence"] == "message 3 was dropped after max deliver"
    assert found["evidence"].startswith("131 deliveries")
