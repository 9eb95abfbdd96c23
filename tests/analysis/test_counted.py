"""What a recorder counted instead of storing it singly is part of every sum and verdict."""

from __future__ import annotations

from typing import Any

import pytest

from natstui.analysis.gold.redelivery import POISON, advisories_count, find_poison_messages
from natstui.model.live.advisory_counts import MAX_MESSAGES
from tests.analysis.locally import Answers
from tests.analysis.storms import (
    CONSUMER,
    GIVEN_UP,
    KINDS,
    MESSAGES_COUNTS,
    name_of,
    storm,
)

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


WITHOUT = {"session", "first_at_us", "last_at_us"}
"""A count is written at the end of its second."""


def test_no_answer_changes_when_what_was_announced_is_recorded_as_counts(answers: Answers) -> None:
    single, counted = (answers.of(f"fleet-{way}") for way in ("single", "counted"))
    # The verdict is made of what is found in these.
    for name in ("redelivery", "redelivery_hot_spot", "poison", "findings", "finding_groups"):
        assert bare(counted.rows(name)) == bare(single.rows(name)), name
    (row,) = (row for row in single.rows("redelivery") if row["consumer"] == CONSUMER)
    assert (row["naks_count"], row["given_up_count"]) == (800, 200)


def bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the session and the moments of single announcements."""
    bare = [{name: row[name] for name in row if name not in WITHOUT} for row in rows]
    return sorted(bare, key=repr)


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
