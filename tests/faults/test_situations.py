"""The fault lab: its situations are complete, its judge is strict, and one of each kind is made.

`make faults` makes all of them. Here time is a value wherever it can be.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from natstui.values import replace
from tests.faults.__main__ import chosen, recorded_findings_of
from tests.faults.grounds import GROUPS
from tests.faults.healthy import AFTER_RESTART_S, WORKLOADS, Quarter, report_of
from tests.faults.judge import MEANS, Course, Poll, Seen, judge_findings, judge_live
from tests.faults.lab import Run, Times, run_plans
from tests.faults.report import Row, rows_of, table
from tests.faults.situations import CHANGED, FAULTS, SITUATIONS, Situation
from tests.faults.stories import LASTING, STORIES

KEYS = [situation.key for situation in SITUATIONS]
CRASHED = next(each for each in FAULTS if each.key == "worker-crashed")
FINE = next(each for each in SITUATIONS if each.key == "fine-idle")
BROKEN_S, FIXED_S = 100.0, 150.0

NO_PULLS = Seen("NT-C07", "critical", "WORKER_CRASHED", "C", "", "no open pulls: nobody pulls")
STALLED = Seen("NT-C11", "critical", "WORKER_CRASHED", "C", "", "stalled: nothing is delivered")
SLOW = Seen("NT-C23", "warning", "WORKER_CRASHED", "C", "", "lagging: messages come faster")
OTHER = Seen("NT-C07", "critical", "OTHER", "C", "", "no open pulls: nobody pulls")


def test_at_least_a_hundred_faults_are_listed_each_once() -> None:
    assert len(FAULTS) >= 100
    assert len(set(KEYS)) == len(KEYS)
    assert {key for key, _ in CHANGED} <= set(KEYS)


def test_every_situation_has_one_story_and_one_ground() -> None:
    grounds = [key for group in GROUPS for plan in group for key in plan.keys]
    assert sorted(grounds) == sorted(KEYS)
    assert set(STORIES) == set(KEYS)
    assert set(KEYS) >= LASTING


def test_every_label_has_its_words() -> None:
    labels = {label for each in SITUATIONS for label in (each.cause, *each.also) if label}
    assert labels == set(MEANS)


def test_twenty_workloads_are_healthy() -> None:
    assert len({workload.__name__ for workload in WORKLOADS}) == len(WORKLOADS) == 20


def course_of(
    *spans: tuple[float, float, Seen], situation: Situation = CRASHED, fixed_s: float = FIXED_S
) -> Course:
    """Return a course in which findings were open from one second after the break to another."""
    polls = [
        Poll(BROKEN_S + at_s, tuple(seen for a, b, seen in spans if a <= at_s <= b))
        for at_s in range(-5, 60)
    ]
    return Course(situation, polls, broken_s=BROKEN_S, fixed_s=fixed_s)


def test_a_cause_named_in_time_is_right_with_how_soon_it_opened_and_closed() -> None:
    judged = judge_live(course_of((10, 52, NO_PULLS)))
    assert judged.verdict == "right"
    assert (judged.opened_s, judged.closed_s, judged.changes_count) == (10, 3, 0)


@pytest.mark.parametrize(
    ("spans", "verdict"),
    [
        ([], "silent"),
        ([(0, 50, OTHER)], "silent"),
        ([(0, 50, SLOW)], "partly"),
        ([(30, 50, NO_PULLS)], "partly"),
        ([(5, 50, NO_PULLS), (5, 50, STALLED)], "partly"),
        ([(5, 50, NO_PULLS), (5, 6, STALLED)], "right"),
        ([(5, 50, STALLED)], "wrong"),
        ([(at_s, at_s, NO_PULLS) for at_s in range(5, 50, 3)], "partly"),
    ],
)
def test_what_is_said_late_beside_or_instead_is_not_right(
    spans: list[tuple[float, float, Seen]], verdict: str
) -> None:
    assert judge_live(course_of(*spans)).verdict == verdict


def test_closing_is_compared_with_three_polls_and_with_the_hold_of_its_fact() -> None:
    def closing(until_s: float, code: str = "NT-C07") -> str:
        return judge_live(course_of((10, until_s, NO_PULLS._replace(code=code)))).closing

    # Fixed after 50 s, and watched for nine more.
    assert closing(52) == "within 3 polls"
    assert closing(57) == closing(60) == "late"
    assert closing(57, "NT-C22") == "after its hold"
    assert closing(60, "NT-C12") == "still held"
    lasting = course_of((10, 60, NO_PULLS))
    lasting.fixed_s = None
    assert judge_live(lasting).closing == "not fixed"


def test_what_nobody_can_know_is_neither_silent_nor_partly_right() -> None:
    unknown = replace(CRASHED, known=False)
    for spans in ([], [(0, 50, SLOW)]):
        assert judge_live(course_of(*spans, situation=unknown)).verdict == "cannot be known"
    assert judge_live(course_of((5, 50, STALLED), situation=unknown)).verdict == "wrong"
    assert {each.key for each in SITUATIONS if not each.known} <= {key for key, _ in CHANGED}


def test_of_a_meta_group_only_what_names_it_is_judged() -> None:
    lost = Course(next(each for each in FAULTS if each.key == "two-killed-meta"))
    down = Seen("NT-V01", "critical", "", "", "server n2", "server down: it has stopped replying")
    group = Seen(
        "NT-V02", "critical", "", "", "meta group", "meta group without quorum: it has none"
    )
    assert judge_findings(lost, [down, group]).verdict == "right"
    assert judge_findings(lost, [down]).verdict == "silent"


def test_nothing_above_info_may_be_said_of_what_works() -> None:
    loud = SLOW._replace(stream="FINE_IDLE")
    assert judge_live(course_of((0, 50, SLOW), situation=FINE)).verdict == "right"
    assert judge_live(course_of((0, 50, loud), situation=FINE)).verdict == "wrong"
    info = loud._replace(severity="info")
    assert judge_live(course_of((0, 50, info), situation=FINE)).verdict == "right"


def test_a_cause_of_another_situation_of_the_same_entity_is_not_wrong() -> None:
    sibling = replace(CRASHED, key="stalled", cause="messages terminated")
    terminated = NO_PULLS._replace(code="NT-C22", text="terminated: the client terminates")
    course = Course(CRASHED, siblings=(sibling,))
    assert judge_findings(course, [terminated]).verdict == "silent"
    assert judge_findings(Course(CRASHED), [terminated]).verdict == "wrong"


def test_that_natstui_is_not_connected_is_no_other_cause_of_a_server() -> None:
    restarts = Course(next(each for each in FAULTS if each.key == "restarts"))
    away = Seen("NT-M01", "critical", "", "", "", "not connected: natstui is not connected")
    assert judge_findings(restarts, [away]).verdict == "partly"


def test_what_a_restart_causes_may_be_said_until_ten_seconds_after_it() -> None:
    polls = [Poll(float(at_s), (SLOW,) if 30 <= at_s <= 48 else ()) for at_s in range(100)]
    quarter = Quarter(began_s=0.0, polls=polls, restarts_s=[(30.0, 40.0)])
    assert quarter.false_findings() == []
    later = dataclasses.replace(quarter, restarts_s=[(30.0, 40.0 - AFTER_RESTART_S)])
    assert [each.seen for each in later.false_findings()] == [SLOW]
    fresh = dataclasses.replace(quarter, fresh=[(60.0, (NO_PULLS,))])
    assert [each.seen for each in fresh.false_findings()] == [NO_PULLS]


def test_a_false_finding_is_reported_with_how_long_the_machine_held_up_the_lab_before_it() -> None:
    info = SLOW._replace(severity="info", code="NT-C40")
    polls = [Poll(100.0 + at_s, (SLOW, info) if at_s == 60 else ()) for at_s in range(0, 90, 2)]
    held_up = [(20.0, 9.0), (55.0, 3.0), (70.0, 8.0)]
    lines = report_of(Quarter(100.0, polls, held_up=held_up)).splitlines()
    assert lines[1].startswith("read 45 times in 88 s, 2.0 s apart at most; 0 times by a process")
    assert "info, while nodes restart as well: NT-C40 in 1" in lines
    assert lines[-2].startswith("NT-C23 warning WORKER_CRASHED C")
    assert lines[-2].endswith("60…60 s; held up for 3.0 s before")
    assert lines[-1] == "1 false findings, 0 of them critical"


ONE_OF_EACH = ("push-no-subscriber", "paused", "full-max-msgs", "consumer-deleted",
               "stream-deleted", "fine-idle")  # fmt: skip


KILLED = ("node-killed-stream", "node-killed-replica")


def _rows_made(names: tuple[str, ...], times: Times, folder: Path) -> list[Row]:
    """Make situations and return what natstui said of each."""
    said: list[str] = []

    async def run() -> list[Row]:
        runs: list[Run] = await run_plans(chosen(list(names)), times, folder, said.append)
        return rows_of(runs, await recorded_findings_of(runs))

    rows = asyncio.run(run())
    assert set(names) <= {row.course.situation.key for row in rows}, said
    (folder / "table.txt").write_text(table(rows))
    return rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """One situation of each kind that a shared server has, side by side."""
    times = Times(healthy_s=3, broken_s=15, fresh_s=(25,), fixed_s=6)
    return _rows_made(ONE_OF_EACH, times, tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """What becomes of a cluster of which a node is killed."""
    times = Times(healthy_s=3, broken_s=20, fresh_s=(25,), fixed_s=3)
    return _rows_made(KILLED, times, tmp_path_factory.mktemp("killed"))


def _assert_named(key: str, rows: list[Row]) -> None:
    row = next(row for row in rows if row.course.situation.key == key)
    assert not row.course.failed
    assert row.live.verdict != "wrong" and row.recorded.verdict == "right", row
    if row.course.situation.cause:
        assert row.live.opened_s is not None, row.live
        assert row.fresh.verdict in ("right", "cannot be known"), row.fresh


@pytest.mark.long
@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("fault lab")
@pytest.mark.parametrize("key", ONE_OF_EACH)
def test_one_of_each_kind_is_named_live_afterwards_and_in_the_recording(
    key: str, made: list[Row]
) -> None:
    _assert_named(key, made)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.xdist_group("fault lab of a cluster")
@pytest.mark.parametrize("key", KILLED)
def test_what_a_killed_node_takes_along_is_named_even_by_who_comes_afterwards(
    key: str, killed: list[Row]
) -> None:
    _assert_named(key, killed)
