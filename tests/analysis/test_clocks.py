"""What is told of a recording does not depend on how the wall clock was set, or on sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import judged, records, write_records
from natstui.analysis.gold.availability import availability_findings
from natstui.analysis.gold.verdict import merge_equal
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.findings import FindingsChanged, FindingTold
from natstui.model.records.record import Record
from natstui.model.records.recording import ClockStepped
from tests.analysis.locally import Answers
from tests.analysis.test_recorded import table

pytestmark = pytest.mark.spark

HOUR_US = 3_600_000_000
STEPPED_AT_US = START_AT_US + 60_000_000
FAULTS = (Fault("no_pull", 1, 20, 100), Fault("paused", 3, 10, 90))
PLAN = Plan(4, 6, 120, faults=FAULTS)
BORN_US, HELD_US, FULL_US, ENDED_US = (
    START_AT_US + second * 1_000_000 for second in (-1000, -100, -50, 19)
)


def at_us(record: Record) -> int:
    return record.taken_at_us if isinstance(record, Snapshot) else record.at_us


def moved(record: Record, by_us: int) -> Record:
    """Return what the recorder writes with its clock set by so much; the server's clock stays."""
    if isinstance(record, Snapshot):
        return replace(record, taken_at_us=record.taken_at_us + by_us)
    return replace(record, at_us=record.at_us + by_us)


def stepped(by_us: int) -> Callable[[Record], Iterator[Record]]:
    """Return what sets the clock in the middle, and notes it."""
    told = False

    def change(record: Record) -> Iterator[Record]:
        nonlocal told
        if at_us(record) < STEPPED_AT_US:
            yield record
            return
        if not told:
            yield ClockStepped(STEPPED_AT_US + by_us, by_us)
        told = True
        yield moved(record, by_us)

    return change


def slept(record: Record) -> Iterator[Record]:
    """Sleep for an hour, as recorders before wrote it: their clock stood still meanwhile.

    Meanwhile 72,000 messages came.
    """
    later = moved(record, HOUR_US) if at_us(record) >= STEPPED_AT_US else record
    if isinstance(later, Snapshot) and later is not record:
        streams = later.streams
        more = tuple(seq + 72_000 for seq in streams.last_seq)
        later = replace(later, streams=replace(streams, last_seq=more))
    yield later


CLOCKS: dict[str, Callable[[Record], Iterator[Record]]] = {
    "steady": lambda record: iter((record,)),
    "forward": stepped(HOUR_US),
    "back": stepped(-2 * HOUR_US),
    "slept": slept,
}


def write_known(folder: Path) -> None:
    """Write a session that began when something was wrong already, of which one part ends."""
    limit = FindingTold("NT-C09", "JOBS-000", "fraud-0000", BORN_US, "", HELD_US, "2 of 2 wait")
    full = FindingTold("NT-S26", "JOBS-001", "", BORN_US, "", FULL_US, "full in 1 h")
    over = FindingsChanged(ENDED_US + 1_000_000, (replace(full, until_at_us=ENDED_US),))
    plan = Plan(2, 2, 40, replicas_share=0.0, extra=(over,))
    write_records(folder, records(plan), plan, records_per_segment=30, known=(limit, full))


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is found of a session per clock: the same minutes each time."""
    folder = tmp_path_factory.mktemp("clocks")
    for name, change in CLOCKS.items():
        many = (new for record in records(PLAN) for new in change(record))
        write_records(folder / name, judged(many), PLAN, records_per_segment=50)
    write_known(folder / "known")
    return {"tables": Answers(spark, tmp_path_factory.mktemp("out"), f"{folder}/*")}


def spans(told: dict[str, Any], name: str, session: str) -> dict[tuple[Any, ...], Any]:
    rows = [row for row in table(told, name) if row["session"] == session]
    return {(row["stream"], row["consumer"], row.get("code")): row for row in rows}


def test_what_was_stuck_lasted_as_long_and_began_when_it_did(told: dict[str, Any]) -> None:
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


def test_a_session_is_as_long_as_it_was(told: dict[str, Any]) -> None:
    lengths = {row["session"]: row["duration_s"] for row in table(told, "session")}
    assert lengths["forward"] == lengths["back"] == pytest.approx(lengths["steady"], rel=0.02)
    assert lengths["slept"] == pytest.approx(lengths["steady"] + 3600, rel=0.02)


def test_a_step_of_the_clock_is_told_and_is_no_gap(told: dict[str, Any]) -> None:
    rows = [(r["session"], r["kind"], r["value"]) for r in table(told, "availability")]
    assert sorted(row for row in rows if row[1] in ("gap", "clock_step")) == [
        ("back", "clock_step", -7200.0),
        ("forward", "clock_step", 3600.0),
        ("slept", "gap", pytest.approx(3601.0)),
    ]
    # Findings of one cause are one.
    found = availability_findings(told["tables"].frame("availability")).where(
        "cause = 'clock_step'"
    )
    (row,) = merge_equal(found).collect()
    one = "the clock was set forward by 3600.0 s"
    assert row["sentence"] == f"{one}, and 1 more like this in 2 sessions"


def test_an_hour_asleep_is_no_rate(told: dict[str, Any]) -> None:
    most: dict[str, float] = {}
    for row in table(told, "load"):
        rate = row["published_per_s"] or 0.0
        most[row["session"]] = max(most.get(row["session"], 0.0), rate)
    assert most["slept"] < 1.5 * most["steady"]


def test_the_account_grows_over_the_time_that_passed_also_while_the_machine_slept(
    told: dict[str, Any],
) -> None:
    growth = {row["session"]: row["growth_bytes_per_s"] for row in table(told, "account_capacity")}
    seconds = PLAN.ticks_count - 1
    assert growth["forward"] == growth["back"] == pytest.approx(growth["steady"], rel=0.01)
    awake = growth["steady"] * seconds
    assert growth["slept"] == pytest.approx(awake / (seconds + 3600), rel=0.01)
    storage = [row for row in table(told, "account_full") if row["what"] == "storage"]
    for row in storage:
        assert row["growth_bytes_per_s"] == pytest.approx(growth[row["session"]])


def test_what_was_wrong_when_a_recording_began_is_found_since_when_it_was_wrong(
    told: dict[str, Any],
) -> None:
    spans = {row["code"]: row for row in table(told, "findings") if row["session"] == "known"}
    assert set(spans) == {"NT-C09", "NT-S26"}
    held, past = spans["NT-C09"], spans["NT-S26"]
    assert (held["start_at_us"], held["open"]) == (HELD_US, True)
    assert (held["consumer"], held["evidence"]) == ("fraud-0000", "2 of 2 wait")
    assert (past["start_at_us"], past["end_at_us"]) == (FULL_US, ENDED_US)
