"""What is told of a recording does not depend on how the wall clock was set, or on sleep."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks._fleet import START_AT_US
from benchmarks._sessions import MONO_US
from natstui.analysis.gold.availability import find_availability_problems
from natstui.analysis.gold.verdict import merge_equal_findings
from tests.analysis.clocks import (
    CLOCKS,
    CORRECTED,
    ENDED_US,
    FULL_US,
    HELD_US,
    KNOWN,
    PLAN,
    STEPPED_AT_US,
    WAITED_US,
    WAITING,
)
from tests.analysis.locally import Answers, AnswersOfSome

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def told(answers: Answers) -> AnswersOfSome:
    """What is found of a session per clock: the same minutes each time."""
    return answers.of(*CLOCKS, KNOWN)


def spans(told: AnswersOfSome, name: str, session: str) -> dict[tuple[Any, ...], Any]:
    rows = [row for row in told.rows(name) if row["session"] == session]
    return {(row["stream"], row["consumer"], row.get("code")): row for row in rows}


def test_what_was_stuck_lasted_as_long_and_began_when_it_did(told: AnswersOfSome) -> None:
    true = spans(told, "stuck", "steady")
    assert {consumer for _, consumer, _ in true} == {"mailer-0001", "archiver-0003"}
    for session in ("forward", "back"):
        found = spans(told, "stuck", session)
        assert found.keys() == true.keys(), session
        for who, row in true.items():
            assert found[who]["duration_s"] == pytest.approx(row["duration_s"], rel=0.02)
            assert found[who]["start_at_us"] == row["start_at_us"]
    for name, codes in (("lag_period", {None}), ("findings", {"NT-C27"})):
        lengths = [
            {who: row["duration_s"] for who, row in spans(told, name, session).items()
             if who[2] in codes}
            for session in ("steady", "forward", "back")
        ]  # fmt: skip
        assert lengths[0], name
        assert lengths[1] == lengths[2] == pytest.approx(lengths[0], rel=0.02), name


def test_a_session_is_as_long_as_it_was(told: AnswersOfSome) -> None:
    lengths = {row["session"]: row["duration_s"] for row in told.rows("session")}
    assert lengths["forward"] == lengths["back"] == pytest.approx(lengths["steady"], rel=0.02)
    assert lengths["slept"] == pytest.approx(lengths["steady"] + 3600, rel=0.02)


def test_a_step_of_the_clock_is_told_and_is_no_gap(told: AnswersOfSome) -> None:
    rows = [(r["session"], r["kind"], r["value"]) for r in told.rows("availability")]
    assert sorted(row for row in rows if row[1] in ("gap", "clock_step")) == [
        ("back", "clock_step", -7200.0),
        ("forward", "clock_step", 3600.0),
        ("slept", "gap", pytest.approx(3600.0 + PLAN.interval_s)),
    ]
    # Findings of one cause are one.
    found = find_availability_problems(told.frame("availability")).where("cause = 'clock_step'")
    (row,) = merge_equal_findings(found).collect()
    one = "the clock was set forward by 3600.0 s"
    assert row["sentence"] == f"{one}, and 1 more like this in 2 sessions"


def test_an_hour_asleep_is_no_rate(told: AnswersOfSome) -> None:
    most: dict[str, float] = {}
    for row in told.rows("load"):
        rate = row["published_per_s"] or 0.0
        most[row["session"]] = max(most.get(row["session"], 0.0), rate)
    assert most["slept"] < 1.5 * most["steady"]


def test_the_account_grows_over_the_time_that_passed_also_while_the_machine_slept(
    told: AnswersOfSome,
) -> None:
    growth = {row["session"]: row["growth_bytes_per_s"] for row in told.rows("account_capacity")}
    seconds = (PLAN.ticks_count - 1) * PLAN.interval_s
    assert growth["forward"] == growth["back"] == pytest.approx(growth["steady"], rel=0.01)
    awake = growth["steady"] * seconds
    assert growth["slept"] == pytest.approx(awake / (seconds + 3600), rel=0.01)
    storage = [row for row in told.rows("account_full") if row["what"] == "storage"]
    for row in storage:
        assert row["growth_bytes_per_s"] == pytest.approx(growth[row["session"]])


def ages_after_the_step(answers: Answers, session: str) -> list[tuple[Any, ...]]:
    """Return the ages of the times in each sample since the clock was set."""
    silver = answers.of(session).silver
    tables = {
        "consumer": (silver.consumer_sample, ("next_at_us", "delivered_at_us", "acked_at_us")),
        "stream": (silver.stream_sample, ("first_at_us", "last_at_us")),
    }
    return sorted(
        (
            (row[who], row["mono_us"], name, row[name] and row["at_us"] - row[name])
            for who, (rows, names) in tables.items()
            for row in rows.collect()
            if row["mono_us"] >= MONO_US + STEPPED_AT_US - START_AT_US
            for name in names
        ),
        key=str,
    )


def test_ages_are_right_as_soon_as_the_clock_of_the_recorder_is(answers: Answers) -> None:
    ages = ages_after_the_step(answers, WAITING)
    assert WAITED_US in {age for *_, name, age in ages if name == "next_at_us"}
    assert ages_after_the_step(answers, CORRECTED) == ages
    lags = {
        row["session"]: row["behind_last_s"]
        for row in answers.of(WAITING, CORRECTED).rows("lag")
        if row["consumer"] == "mailer-0001"
    }
    assert lags == {WAITING: WAITED_US / 1e6, CORRECTED: WAITED_US / 1e6}


def test_an_advisory_is_of_the_consumer_of_its_time_also_after_the_clock_was_set(
    answers: Answers,
) -> None:
    for session in (WAITING, CORRECTED):
        rows = [
            row
            for row in answers.of(session).rows("redelivery")
            if row["consumer"] == "billing-0000"
        ]
        rows.sort(key=lambda row: row["created_at_us"])
        assert [row["naks_count"] for row in rows] == [1, 0], session


def test_what_was_wrong_when_a_recording_began_is_found_since_when_it_was_wrong(
    told: AnswersOfSome,
) -> None:
    spans = {row["code"]: row for row in told.rows("findings") if row["session"] == KNOWN}
    assert set(spans) == {"NT-C09", "NT-S26"}
    held, past = spans["NT-C09"], spans["NT-S26"]
    assert (held["start_at_us"], held["open"]) == (HELD_US, True)
    assert (held["consumer"], held["evidence"]) == ("fraud-0000", "2 of 2 wait")
    assert (past["start_at_us"], past["end_at_us"]) == (FULL_US, ENDED_US)
