"""What a recorder counted instead of storing it singly is part of every sum and verdict."""

from __future__ import annotations

from typing import Any

import pytest

from natstui.analysis.gold.redelivery import POISON, advisories_count, find_poison_messages
from natstui.model.live.advisory_counts import MAX_MESSAGES
from tests.analysis.locally import Answers
from tests.analysis.storms import GIVEN_UP, KINDS, MESSAGES_COUNTS, SEEDS, name_of, storm

pytestmark = pytest.mark.spark


def test_advisories_recorded_as_counts_add_up_as_those_recorded_singly(answers: Answers) -> None:
    ways = ("single", "counted", "both")
    names = [name_of(way, count) for count in MESSAGES_COUNTS for way in ways]
    counts = answers.of(*names).silver.advisory.groupBy("session", "consumer")
    found: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in names}
    for session, consumer, *sums in counts.agg(*map(advisories_count, KINDS)).collect():
        found[session][consumer] = tuple(sums)
    for messages_count in MESSAGES_COUNTS:
        single, counted, both = (found[name_of(way, messages_count)] for way in ways)
        assert counted == single
        assert sum(map(sum, counted.values())) == len(storm(messages_count))
        assert both == single


ANSWERS = (
    "redelivery", "redelivery_hot_spot", "poison", "hour", "stuck", "lag", "ack_time_summary",
    "findings", "finding_groups", "verdict",
)  # fmt: skip


def test_no_answer_changes_when_what_was_announced_is_recorded_as_counts(answers: Answers) -> None:
    ways = {way: [f"fleet-{seed}-{way}" for seed in SEEDS] for way in ("single", "counted")}
    single, counted = (answers.of(*names) for names in ways.values())
    for name in ANSWERS:
        rows = bare(single.rows(name))
        assert rows, f"{name} compares nothing with nothing"
        assert_same_within_a_second(bare(counted.rows(name)), rows)
    for seed in SEEDS:
        session = f"fleet-{seed}-counted"
        spots = [r for r in counted.rows("redelivery_hot_spot") if r["session"] == session]
        hours = [r for r in counted.rows("hour") if r["session"] == session]
        assert len({row["bucket_at_us"] for row in spots}) == len(hours) == 2
        assert all(row["given_up_count"] for row in hours)
        assert all(row["naks_count"] > 100 for row in spots)
    assert {row["kind"] for row in counted.rows("verdict")} >= {"hour"}


def bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by what they are about, without how the session was recorded."""
    bare = [
        {
            name: value.replace("-counted", "-single") if isinstance(value, str) else value
            for name, value in row.items()
            if name != "series_id"
        }
        for row in rows
    ]
    return sorted(bare, key=lambda row: repr([row[name] for name in row if name not in MOMENTS]))


MOMENTS = {"first_at_us", "last_at_us", "start_at_us", "end_at_us"}
"""Those of single advisories: of a count the middle of its second is known."""


def assert_same_within_a_second(
    rows: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        for name, value in other.items():
            if name in MOMENTS and value is not None:
                assert abs(row[name] - value) < 1_000_000, (name, row, other)
            else:
                assert row[name] == value, (name, row, other)


def test_no_message_is_accused_that_may_be_among_the_acks_that_were_only_counted(
    answers: Answers,
) -> None:
    for seed in SEEDS:
        accused, messages = {}, {}
        for way in ("single", "acks"):
            some = answers.of(f"fleet-{seed}-{way}")
            messages[way] = {
                (row["consumer"], row["stream_seq"]): row for row in some.rows("poison")
            }
            found = find_poison_messages(some.frame(POISON.name)).collect()
            accused[way] = {(row["subject"], row["sentence"]) for row in found}
        assert messages["acks"].keys() == messages["single"].keys()
        acked = {who for who, row in messages["single"].items() if row["acked"]}
        assert acked and {messages["acks"][who]["acked"] for who in acked} == {None}
        assert True not in {row["acked"] for row in messages["acks"].values()}
        # The server itself said of these that they were dropped.
        assert any("again and again" in text for _, text in accused["single"])
        for subject, text in accused["acks"]:
            who = (subject.split(" > ")[1], int(text.split()[1]))
            assert "was dropped" in text or messages["acks"][who]["acked"] is False, (who, text)
        assert {one for one in accused["single"] if "was dropped" in one[1]} <= accused["acks"]


def test_each_message_that_a_count_names_has_the_same_row_of_poison(answers: Answers) -> None:
    names = ("consumer", "stream_seq", "deliveries_count", "naks_count", "given_up", "terminated")

    def rows(way: str) -> set[tuple[Any, ...]]:
        messages = answers.of(name_of(way, MAX_MESSAGES)).rows("poison")
        return {tuple(row[name] for name in names) for row in messages}

    assert rows("counted") == rows("single") != set()


def test_the_message_that_was_delivered_most_often_is_the_example_of_a_poison(
    answers: Answers,
) -> None:
    rows = answers.of(GIVEN_UP).frame(POISON.name)
    found = find_poison_messages(rows).orderBy("weight", ascending=False).first()
    assert found is not None and found["sentence"] == "message 3 was dropped after max deliver"
    assert found["evidence"].startswith("131 deliveries")
