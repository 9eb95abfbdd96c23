"""The rules of the budget, without a clock: moments are values here."""

from __future__ import annotations

import pytest

from natstui.jetstream.connection.client import TimedReply
from natstui.jetstream.connection.transport import Arrival
from natstui.jetstream.polling.budget.requests import LinkThroughput
from natstui.jetstream.polling.budget.shares import (
    FIRST_VIEW_WORK_S,
    MAX_OPEN_COUNT,
    RequestWindow,
    ResourceShare,
    WorkMeter,
)
from natstui.jetstream.polling.sweep import (
    ACTIVE_TURN_INTERVAL_S,
    MAX_TURN_INTERVAL_S,
    ConsumerListOrder,
    turn_interval_s,
)
from tests.jetstream.stream_rows import stream_row

SHARE = 0.05


def spent_in_a_minute(share: ResourceShare, piece_s: float, step_s: float = 0.5) -> float:
    """Return what somebody uses in a minute who takes a piece whenever there is room."""
    spent_s, now_s = 0.0, 0.0
    while now_s < 60:
        while share.left_s(now_s) > 0:
            share.spend(piece_s, now_s)
            spent_s += piece_s
        now_s += step_s
    return spent_s


def test_a_minute_with_its_first_view_costs_no_more_than_the_share_of_it() -> None:
    spent_s = spent_in_a_minute(ResourceShare(SHARE, FIRST_VIEW_WORK_S, 0.0), 0.002)
    assert spent_s == pytest.approx(60 * SHARE, rel=0.05)


def test_a_first_view_may_cost_its_credit_at_once() -> None:
    share = ResourceShare(SHARE, FIRST_VIEW_WORK_S, 0.0)
    share.spend(0.9 * FIRST_VIEW_WORK_S, 0.1)
    assert share.left_s(0.1) > 0
    share.spend(0.2 * FIRST_VIEW_WORK_S, 0.2)
    assert share.left_s(0.2) < 0


def test_what_was_used_too_much_is_rested_off() -> None:
    share = ResourceShare(SHARE, 0.0, 0.0)
    share.spend(0.080, 0.0)
    assert share.due_in_s(0.0) == pytest.approx(1.6)
    assert share.left_s(1.6) == pytest.approx(0.0)


def test_a_long_rest_saves_no_more_than_two_seconds_of_the_share() -> None:
    share = ResourceShare(SHARE, 0.0, 0.0)
    share.left_s(1.0)
    for at_s in range(2, 100):
        share.left_s(float(at_s))
    assert share.left_s(100.0) == pytest.approx(2 * SHARE)


def test_a_few_slow_answers_make_no_slow_server_and_many_do() -> None:
    meter = WorkMeter()
    usual_us = meter.work_us("STREAM.LIST", 100_000, 0)
    for _ in range(20):
        assert meter.work_us("STREAM.LIST", 100_000, 80_000) == usual_us
    for _ in range(20):
        meter.work_us("STREAM.LIST", 100_000, 80_000)
    assert meter.work_us("STREAM.LIST", 100_000, 80_000) == pytest.approx(80_000)
    for _ in range(32):
        meter.work_us("STREAM.LIST", 100_000, 0)
    assert meter.work_us("STREAM.LIST", 100_000, 0) == usual_us


def test_answers_that_come_together_took_their_time_together() -> None:
    meter = WorkMeter()
    for _ in range(40):
        meter.work_us("CONSUMER.LIST", 1000, 10 * 70)
        for _ in range(9):
            meter.work_us("CONSUMER.LIST", 1000, None)
    assert meter.slowness == pytest.approx(1.0)


def test_the_window_doubles_until_answers_are_slow_and_then_grows_by_one() -> None:
    window, counts, now_s = RequestWindow(), [], 0.0
    for _ in range(4):
        counts.append(window.count)
        requested_s = now_s
        now_s += 0.001
        for _ in range(window.count):
            window.record_reply(0.001, 0.001, requested_s, now_s)
    assert counts == [1, 2, 4, 8]
    for _ in range(MAX_OPEN_COUNT):
        window.record_reply(0.001, 0.001, now_s, now_s)
    assert window.count == MAX_OPEN_COUNT
    requested_s = now_s
    for _ in range(MAX_OPEN_COUNT):
        now_s += 0.1
        window.record_reply(0.5, 0.001, requested_s, now_s)
    assert window.count == MAX_OPEN_COUNT // 2, "answers to one round halve it once"
    before_count, requested_s = window.count, now_s
    for _ in range(before_count):
        window.record_reply(0.001, 0.001, requested_s, now_s)
    assert window.count == before_count + 1 or window.count == before_count


def test_one_request_is_open_at_once_where_answers_fill_the_link() -> None:
    window, now_s = RequestWindow(), 0.0
    for _ in range(30):
        requested_s = now_s
        now_s += 0.2 * window.count
        # Each answer waits until those before it were carried.
        window.record_reply(0.2 * (window.count - 1) + 0.05, 0.05, requested_s, now_s)
    assert window.count <= 2


def order_of(count: int) -> ConsumerListOrder:
    order = ConsumerListOrder()
    order.update_streams({f"S{n}": stream_row(f"S{n}", last_seq=1) for n in range(count)}, ())
    return order


def test_streams_whose_turn_never_came_come_first_and_then_preferred_ones() -> None:
    order = order_of(4)
    assert order.find_due(0.0, MAX_TURN_INTERVAL_S, set()) == ["S0", "S1", "S2", "S3"]
    for name in ("S0", "S1", "S3"):
        order.end_turn(name, 0.0)
    assert order.find_due(1.0, MAX_TURN_INTERVAL_S, {"S1"}) == ["S2", "S1"]
    assert order.unlisted_count == 1


def test_a_stream_that_moves_has_its_turn_earlier_and_none_waits_for_ever() -> None:
    order = order_of(3)
    for name in ("S0", "S1", "S2"):
        order.end_turn(name, 0.0)
    order.store_progress("S1", 1)
    order.store_progress("S1", 2)
    assert order.find_due(ACTIVE_TURN_INTERVAL_S - 0.1, MAX_TURN_INTERVAL_S, set()) == []
    assert order.find_due(ACTIVE_TURN_INTERVAL_S, MAX_TURN_INTERVAL_S, set()) == ["S1"]
    order.end_turn("S1", 2.5 * MAX_TURN_INTERVAL_S - ACTIVE_TURN_INTERVAL_S)
    order.end_turn("S2", 1.5 * MAX_TURN_INTERVAL_S)
    assert order.find_due(2.5 * MAX_TURN_INTERVAL_S, MAX_TURN_INTERVAL_S, set()) == [
        "S0",
        "S1",
        "S2",
    ]


def test_streams_that_were_first_seen_all_at_once_are_seen_again_one_after_the_other() -> None:
    order, polls_count = order_of(900), round(MAX_TURN_INTERVAL_S)
    for number in range(900):
        order.end_turn(f"S{number}", 0.0)
    turns, oldest_s = [], 0.0
    listed_at_s = dict.fromkeys((f"S{number}" for number in range(900)), 0.0)
    for second in range(1, 5 * polls_count):
        due = order.find_due(float(second), MAX_TURN_INTERVAL_S, (), 1.0)
        turns.append(len(due))
        for name in due:
            oldest_s = max(oldest_s, second - listed_at_s[name])
            listed_at_s[name] = float(second)
            order.end_turn(name, float(second))
    assert oldest_s <= MAX_TURN_INTERVAL_S
    # From the second round on, each poll has the same part of the work.
    assert max(turns[2 * polls_count :]) <= 1.2 * 900 / MAX_TURN_INTERVAL_S, turns


def test_a_stream_that_stores_a_message_counts_as_moving() -> None:
    order = order_of(2)
    order.end_turn("S0", 0.0)
    order.end_turn("S1", 0.0)
    order.update_streams({f"S{n}": stream_row(f"S{n}", last_seq=1 + n) for n in range(2)}, ())
    assert order.find_due(ACTIVE_TURN_INTERVAL_S, MAX_TURN_INTERVAL_S, set()) == ["S1"]


def test_streams_that_come_and_go_are_forgotten() -> None:
    order = ConsumerListOrder()
    for number in range(100):
        order.update_streams({f"S{number}": stream_row(f"S{number}", last_seq=1)}, ())
        order.end_turn(f"S{number}", 0.0)
    assert set(order._listed_states) == {"S99"}


def test_few_streams_are_listed_in_every_poll_and_thousands_within_the_rest() -> None:
    assert turn_interval_s(100, 0.000_140, SHARE) < 1.0
    assert 1.0 < turn_interval_s(800, 0.000_140, SHARE) < MAX_TURN_INTERVAL_S
    assert turn_interval_s(2_000, 0.000_140, SHARE) == MAX_TURN_INTERVAL_S


def answer_of(size_bytes: int, requested_us: int, began_us: int, ended_us: int) -> TimedReply:
    """An answer of which the first hundred bytes came at first; we computed nothing meanwhile."""
    return TimedReply(
        b"x" * size_bytes,
        requested_us,
        Arrival(
            silent_since_mono_us=requested_us,
            began_mono_us=began_us,
            ended_mono_us=ended_us,
            read_bytes=100,
            first_bytes=100,
            message_bytes=size_bytes,
            silent_since_thread_us=0,
            began_thread_us=0,
            ended_thread_us=0,
        ),
    )


def test_a_link_is_not_slow_where_only_the_process_waits_between_two_reads() -> None:
    speed = LinkThroughput()
    for requested_us in (0, 10_000, 20_000):
        speed.add_reply(answer_of(2_600, requested_us, requested_us + 1_000, requested_us + 6_000))
    assert speed.usual_bytes_per_s == 500_000
    # Pages that came in one piece cannot be measured so; but they came within 10 ms.
    speed.add_reply(answer_of(100_000, 100_000, 110_000, 110_000))
    speed.ensure_min_throughput(200_000, 0.01)
    assert speed.usual_bytes_per_s == speed.max_bytes_per_s == 20_000_000
    # A link that has become slow is seen to be slow.
    for requested_us in (200_000, 600_000, 1_000_000):
        speed.add_reply(
            answer_of(20_100, requested_us, requested_us + 1_000, requested_us + 201_000)
        )
        speed.ensure_min_throughput(20_100, 0.201)
    assert speed.usual_bytes_per_s == speed.max_bytes_per_s == 100_000
