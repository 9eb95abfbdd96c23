"""What is told of the time since a delivery does not depend on how the clock was set since."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import judged, records
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.findings import FindingsChanged
from natstui.model.records.record import Record
from natstui.model.records.recording import ClockStepped
from natstui.units import parse_duration_ns
from natstui.values import replace
from tests.model.builders import snapshot
from tests.model.findings.life import START_S, Life, at_us

STEPPED_TICK = 60
PLAN = Plan(4, 6, 120, faults=(Fault("no_pull", 1, 20, 110),))


def stepped(by_us: int) -> Iterator[Record]:
    """Yield what a recorder writes of whom the clock is set after a minute; no server's is."""
    at_us, told = START_AT_US + STEPPED_TICK * 1_000_000, False
    for record in records(PLAN):
        poll = isinstance(record, Snapshot)
        moment_us = record.taken_at_us if poll else record.at_us
        if moment_us < at_us:
            yield record
            continue
        if not told:
            yield ClockStepped(at_us + by_us, by_us)
            told = True
        name = "taken_at_us" if poll else "at_us"
        yield replace(record, **{name: moment_us + by_us})


@pytest.mark.parametrize("by_s", [3600, -7200])
def test_the_last_delivery_is_as_long_ago_as_polls_saw_it(by_s: int) -> None:
    told = [
        parse_duration_ns(found[1]) / 1e9
        for record in judged(stepped(by_s * 1_000_000))
        if isinstance(record, FindingsChanged)
        for finding in record.findings
        if (found := re.search(r"last delivery (\S+) ago", finding.text))
    ]
    assert told
    # It delivered until tick 20, and the recording ends 100 s later.
    assert all(5 <= ago_s <= 101 for ago_s in told), told
    assert max(told) >= STEPPED_TICK - 20


@pytest.mark.parametrize("by_s", [3600, -7200])
def test_a_client_that_stopped_is_missed_as_long_whatever_the_clock_was_set_to(by_s: int) -> None:
    life = Life()
    for second in range(20):
        life.poll(waiting_pulls_count=1, delivered_consumer_seq=second,
                  delivered_stream_seq=second, delivered_at_us=at_us(second))  # fmt: skip
    life.polls(30, waiting_pulls_count=0, pending_msgs=5)
    assert life.open.keys() == {"NT-C07"}
    for _ in range(80):
        life.second += 1
        poll = snapshot(START_S + life.second, [life.stream], [life.consumer])
        life.add(replace(poll, taken_at_us=poll.taken_at_us + by_s * 1_000_000))
        assert life.open.keys() == {"NT-C07"} and not life.over


def _is_pull_open(second: int) -> int:
    return int(second % 5 == 0)


def test_time_without_polls_is_no_pause_of_clients() -> None:
    life = Life()
    life.stream |= {"last_seq": 10_000, "stored_msgs": 10_000}
    idle = {"delivered_consumer_seq": 9, "delivered_stream_seq": 9,
            "delivered_at_us": at_us(-3600)}  # fmt: skip
    for second in range(60, 122):
        life.poll(waiting_pulls_count=_is_pull_open(second), **idle)
    # Ten hours later a message waits for the next pull.
    life.poll(step_s=36_000, pending_msgs=2, waiting_pulls_count=0)
    life.polls(3)
    assert life.open == {}
    # The longest pause is known as before, so the client is missed soon after it stops.
    for second in range(15):
        life.poll(waiting_pulls_count=_is_pull_open(second), pending_msgs=0,
                  delivered_consumer_seq=11, delivered_stream_seq=11,
                  delivered_at_us=at_us(life.second + 1 - second))  # fmt: skip
    life.polls(20, waiting_pulls_count=0, pending_msgs=3)
    assert life.open.keys() == {"NT-C07"}
    # One that is missed already stays so.
    life.poll(step_s=600)
    assert life.open.keys() == {"NT-C07"} and not life.over


def test_a_client_whose_pull_was_open_before_a_time_without_polls_has_not_paused() -> None:
    life = Life()
    life.polls(30, waiting_pulls_count=1, delivered_consumer_seq=9, delivered_stream_seq=9,
               delivered_at_us=at_us(-3600))  # fmt: skip
    life.poll(step_s=36_000, waiting_pulls_count=0, pending_msgs=2)
    life.polls(3)
    assert life.open == {}
    life.polls(20)
    assert life.words == {"no open pulls"}


def test_rows_that_are_planned_to_be_polled_once_an_hour_have_pauses_of_hours() -> None:
    life = Life()
    for hour in range(6):
        life.second = 3600.0 * hour
        life.consumer |= {"waiting_pulls_count": int(hour < 3), "pending_msgs": 5 * (hour > 2)}
        poll = snapshot(START_S + life.second, [life.stream], [life.consumer])
        life.add(replace(poll, cost=replace(poll.cost, interval_us=3_600_000_000)))
    assert life.words == {"no open pulls"}


def test_the_server_counts_a_consumer_as_unused_while_natstui_did_not_poll() -> None:
    life = Life({"inactive_threshold_ns": 24 * 3600 * 10**9})
    life.poll(waiting_pulls_count=1, delivered_consumer_seq=9, delivered_stream_seq=9,
              delivered_at_us=at_us(-2 * 86_400), created_at_us=at_us(-5 * 86_400))  # fmt: skip
    life.poll(waiting_pulls_count=0)
    for _ in range(60):
        life.poll(step_s=60)
    life.poll(step_s=20 * 3600)
    for _ in range(60):
        life.poll(step_s=60)
    assert [one.text for one in life.open.values()] == [
        "unused for 22h00m of 1d0h, after which the server deletes the consumer"
    ]


def _poll_at_interval(life: Life, interval_s: int) -> None:
    poll = snapshot(START_S + life.second, [life.stream], [life.consumer])
    life.add(replace(poll, cost=replace(poll.cost, interval_us=interval_s * 1_000_000)))


def test_the_last_of_the_planned_long_intervals_is_no_time_without_polls() -> None:
    life = Life()
    for hour, interval_s in enumerate((3600, 3600, 3600, 2)):
        life.second = 3600.0 * hour
        life.consumer |= {"waiting_pulls_count": int(hour == 0), "pending_msgs": 5 * (hour > 1)}
        _poll_at_interval(life, interval_s)
    (activity,) = life.state.findings.evaluation.memory.client_activity.values()
    assert activity.polled_since_mono_us == 0
    assert activity.last_active_mono_us == START_S * 1_000_000


def test_a_steady_clock_that_restarts_is_a_time_without_polls() -> None:
    life = Life()
    for second in range(60):
        life.poll(waiting_pulls_count=_is_pull_open(second), delivered_consumer_seq=9,
                  delivered_stream_seq=9, delivered_at_us=at_us(-3600))  # fmt: skip
    for second in range(3):
        mono_us = (50 + second) * 1_000_000
        poll = snapshot(50 + second, [life.stream], [life.consumer | {"pending_msgs": 2}])
        life.add(replace(poll, taken_at_us=at_us(7200 + second)))
        (activity,) = life.state.findings.evaluation.memory.client_activity.values()
        assert activity.polled_since_mono_us == 50_000_000
        assert activity.last_active_mono_us <= mono_us
        assert activity.last_seen_mono_us <= mono_us
    for second in range(3, 40):
        poll = snapshot(50 + second, [life.stream], [life.consumer | {"pending_msgs": 2}])
        life.add(replace(poll, taken_at_us=at_us(7200 + second)))
    assert life.words == {"no open pulls"}


def test_an_open_pull_after_a_restart_of_the_steady_clock_is_of_the_new_clock() -> None:
    life = Life()
    life.polls(60, waiting_pulls_count=1)
    life.poll(waiting_pulls_count=0)
    life.poll(waiting_pulls_count=1)
    for second in range(40):
        life.consumer |= {"waiting_pulls_count": int(second < 2), "pending_msgs": 2}
        poll = snapshot(50 + second, [life.stream], [life.consumer])
        life.add(replace(poll, taken_at_us=at_us(7200 + second)))
    assert life.words == {"no open pulls"}
