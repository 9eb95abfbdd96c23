"""What is derived from counters follows one stated rule, and is absent where it does not hold."""

from typing import Any

import pytest

from natstui.model.live.history import Point
from natstui.model.live.limits import StreamFill, time_to_drain_s, time_to_full_s
from natstui.model.live.rates import (
    AckRate,
    ack_rate,
    ack_rate_column,
    backlog_trend_per_s,
    counter_per_s,
    rate_column,
    rates_of_series,
    stored_at_mono_us,
    stream_full_in_s,
    stream_rates,
    trend_column,
    trend_per_s,
)
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from tests.model.builders import large_history, snapshot
from tests.model.test_state import folded

CONSUMER = ("A", "c", 1)


def points(*values: int | None, every_s: float = 1) -> list[Point]:
    return [Point(round(at * every_s * 1e6), value) for at, value in enumerate(values)]


def test_a_recreated_stream_has_no_rate_rather_than_a_negative_one() -> None:
    state = folded(
        snapshot(1, [{"name": "A", "created_at_us": 1, "last_seq": 100}]),
        snapshot(2, [{"name": "A", "created_at_us": 2, "last_seq": 5}]),
    )
    assert state.streams.roster.keys == (("A", 2),)
    assert stream_rates(state.stream_history, ("A", 2)).in_msgs_per_s is None
    assert rate_column(state.stream_history, "last_seq") == [None]


def test_rates_are_growth_over_the_time_between_two_replies() -> None:
    state = folded(
        snapshot(1, [{"name": "A", "last_seq": 100, "stored_msgs": 100, "stored_bytes": 1000}]),
        snapshot(3, [{"name": "A", "last_seq": 300, "stored_msgs": 150, "stored_bytes": 1500}]),
    )
    rates = stream_rates(state.stream_history, ("A", 1))
    assert rates.in_msgs_per_s == 100
    assert rates.removed_msgs_per_s == 75
    assert rates.in_bytes_estimated
    assert rates.in_bytes_per_s == 1000


def test_bytes_in_are_exact_while_nothing_leaves() -> None:
    state = folded(
        snapshot(1, [{"name": "A", "last_seq": 1, "stored_msgs": 1, "stored_bytes": 10}]),
        snapshot(2, [{"name": "A", "last_seq": 3, "stored_msgs": 3, "stored_bytes": 60}]),
    )
    rates = stream_rates(state.stream_history, ("A", 1))
    assert (rates.in_bytes_per_s, rates.in_bytes_estimated) == (50, False)


def queue(at_s: float, last_seq: int, msgs: int, size_bytes: int) -> Snapshot:
    row = {"name": "A", "last_seq": last_seq, "stored_msgs": msgs, "stored_bytes": size_bytes}
    return snapshot(at_s, [row])


def test_bytes_in_of_a_queue_that_is_empty_now_count_what_was_seen_before() -> None:
    polls = [queue(1, 10, 2, 240), queue(2, 110, 0, 0), queue(3, 210, 1, 90), queue(4, 310, 0, 0)]
    rates = stream_rates(folded(*polls).stream_history, ("A", 1))
    # One of 90 bytes was stored before; the 100 that came and left were 110 bytes each: 330 / 3.
    assert rates.in_bytes_per_s == pytest.approx(100 * 110)
    assert rates.in_bytes_estimated
    assert rates.removed_msgs_per_s == 101


def test_a_purge_of_large_messages_does_not_count_as_bytes_in() -> None:
    polls = [queue(1, 1000, 1000, 9_000_000), queue(2, 1010, 5, 500)]
    rates = stream_rates(folded(*polls).stream_history, ("A", 1))
    assert rates.in_bytes_per_s == pytest.approx(500 + 5 * (9_000_500 / 1005))


def test_bytes_in_of_a_queue_never_seen_filled_are_not_known() -> None:
    rates = stream_rates(folded(queue(1, 10, 0, 0), queue(2, 20, 0, 0)).stream_history, ("A", 1))
    assert (rates.in_msgs_per_s, rates.in_bytes_per_s) == (10, None)


def test_bytes_in_of_a_full_stream_follow_a_change_of_size_at_once() -> None:
    polls = [queue(1, 1000, 1000, 100_000), queue(2, 1100, 1000, 190_000)]
    rates = stream_rates(folded(*polls).stream_history, ("A", 1))
    assert rates.in_bytes_per_s == pytest.approx(100 * 1000)


def test_a_counter_that_goes_backwards_gives_no_rate() -> None:
    rows = [{"stream": "A", "name": "c", "delivered_consumer_seq": n} for n in (9, 3)]
    state = folded(snapshot(1, [{"name": "A"}], rows[:1]), snapshot(2, [{"name": "A"}], rows[1:]))
    assert counter_per_s(state.consumer_history, CONSUMER, "delivered_consumer_seq") is None


def test_a_row_that_was_not_polled_keeps_the_rate_between_its_own_two_polls() -> None:
    def tick(at_s: float, seq: int | None) -> Snapshot:
        rows = [{"stream": "A", "name": "c", "delivered_consumer_seq": seq}]
        return snapshot(
            at_s,
            [{"name": "A"}],
            rows if seq is not None else [],
            consumers_complete=False,
            swept_streams=("A",) if seq is not None else (),
        )

    state = folded(tick(1, 10), tick(2, None), tick(3, 30), tick(4, None), tick(5, None))
    assert counter_per_s(state.consumer_history, CONSUMER, "delivered_consumer_seq") == 10
    assert rate_column(state.consumer_history, "delivered_consumer_seq") == [10]


def test_of_very_many_rows_each_keeps_the_rate_between_its_own_two_polls() -> None:
    history = large_history(20_010, polls_count=8, round_count=3)
    assert set(rate_column(history, "delivered_consumer_seq")) == {1}


def test_a_row_that_was_not_polled_keeps_its_rate_when_another_is_added() -> None:
    def tick(at_s: float, *rows: dict[str, Any]) -> Snapshot:
        return snapshot(at_s, [{"name": "A"}], [*rows], consumers_complete=False)

    first, then = ({"stream": "A", "name": "c", "delivered_consumer_seq": seq} for seq in (10, 30))
    new = {"stream": "A", "name": "new", "delivered_consumer_seq": 5}
    state = folded(tick(1, first), tick(3, then), tick(4, new), tick(5, new))
    assert rate_column(state.consumer_history, "delivered_consumer_seq") == [10, 0]


def test_a_gap_in_polling_is_a_gap_in_the_rates() -> None:
    series = [Point(0, 0), Point(1_000_000, 5), Point(9_000_000, 50), Point(10_000_000, 60)]
    assert [p.value for p in rates_of_series(series, 3_000_000)] == [5, None, 10]


def test_a_trend_is_the_mean_change_over_half_a_minute_signed() -> None:
    state = folded(
        *(
            snapshot(at, [{"name": "A"}], [{"stream": "A", "name": "c", "pending_msgs": v}])
            for at, v in ((0, 999), (40, 100), (50, 90), (60, 80))
        )
    )
    assert trend_per_s(state.consumer_history, CONSUMER, "pending_msgs") == -1
    assert trend_column(state.consumer_history, "pending_msgs") == [-1]


def test_one_poll_has_no_trend() -> None:
    state = folded(snapshot(1, [{"name": "A"}], [{"stream": "A", "name": "c"}]))
    assert trend_per_s(state.consumer_history, CONSUMER, "pending_msgs") is None


def test_drain_time_follows_the_trend_and_is_unknown_while_the_backlog_grows() -> None:
    assert time_to_drain_s(80, -10.0) == pytest.approx(8)
    assert time_to_drain_s(80, 10.0) is None
    assert time_to_drain_s(80, 0.0) is None
    assert time_to_drain_s(80, None) is None
    assert time_to_drain_s(0, None) == 0


@pytest.mark.parametrize(
    ("pending", "delivered_per_s", "trend"),
    [
        ([100 - 3 * second for second in range(30)], 5, -3.0),
        # It grows again, it was purged, it only wavers.
        ([*range(100, 50, -4), *range(50, 67)], 9, None),
        ([100] * 20 + [10] * 9, 2, None),
        ([40 + 12 * (second % 3) for second in range(29)][::-1], 30, None),
        ([2 * second for second in range(20)], 5, 2.0),
    ],
)
def test_a_backlog_says_when_it_is_delivered_only_where_it_is_delivered(
    pending: list[int], delivered_per_s: int, trend: float | None
) -> None:
    polls = [
        snapshot(second, [], [{"stream": "A", "name": "c", "pending_msgs": msgs,
                               "delivered_consumer_seq": delivered_per_s * second}])
        for second, msgs in enumerate(pending, 1)
    ]  # fmt: skip
    found = backlog_trend_per_s(folded(*polls).consumer_history, CONSUMER)
    assert found == (None if trend is None else pytest.approx(trend))


def test_a_purge_of_more_than_half_a_minute_ago_says_nothing_of_a_backlog() -> None:
    # It was purged of 900 before those, and another consumer was listed alone at first.
    other = {"stream": "A", "name": "d"}
    polls = [
        snapshot(second, [], [{"stream": "A", "name": "c", "pending_msgs": msgs,
                               "delivered_consumer_seq": 5 * second}, other])
        for second, msgs in ((1, 1000), *((20 + at, 100 - 3 * at) for at in range(30)))
    ]  # fmt: skip
    history = folded(snapshot(0, [], [other]), *polls).consumer_history
    assert backlog_trend_per_s(history, CONSUMER) == pytest.approx(-3)


def test_fill_time_follows_the_trend_and_is_unknown_without_a_limit_or_growth() -> None:
    assert time_to_full_s(100, 150, 10.0) == pytest.approx(5)
    assert time_to_full_s(100, 150, 0.0) is None
    assert time_to_full_s(100, None, 10.0) is None
    assert time_to_full_s(150, 150, None) == 0


def test_when_a_sequence_was_stored_is_interpolated_and_unknown_before_the_series() -> None:
    series = points(100, 200, 300)
    assert stored_at_mono_us(series, 250) == 1_500_000
    assert stored_at_mono_us(series, 50) is None
    assert stored_at_mono_us(series, 301) is None


def _held(at_s: float, first_seq: int, stored_bytes: int) -> Snapshot:
    row = {"name": "A", "first_seq": first_seq, "last_seq": first_seq + 99}
    return snapshot(at_s, [{**row, "stored_msgs": 100, "stored_bytes": stored_bytes}])


def test_a_stream_whose_next_message_has_no_room_is_full_now() -> None:
    state = folded(_held(1, 1, 9_900), _held(2, 1, 9_950))
    history, key = state.stream_history, ("A", 1)
    assert stream_full_in_s(history, key, StreamFill(100, 9_950, None, 10_000)) == 0
    assert stream_full_in_s(history, key, StreamFill(100, 9_950, None, 20_000)) == pytest.approx(
        201
    )


def test_a_stream_that_its_limit_of_bytes_makes_forget_is_full_though_it_wavers() -> None:
    # Messages of 50 to 150 bytes: after a long one there is room for a short one again.
    state = folded(_held(1, 1, 9_830), _held(2, 11, 9_880), _held(3, 21, 9_860))
    history, key = state.stream_history, ("A", 1)
    assert stream_full_in_s(history, key, StreamFill(100, 9_860, None, 10_000)) == 0


def test_a_stream_that_only_drains_near_its_limit_of_messages_is_not_full() -> None:
    state = folded(_held(1, 1, 500), _held(2, 11, 500))
    history, key = state.stream_history, ("A", 1)
    assert stream_full_in_s(history, key, StreamFill(100, 500, 1_000, 10_000)) is None
    assert stream_full_in_s(history, key, StreamFill(1_000, 500, 1_000, None)) == 0


def acked(*rows: tuple[int, int, int, int]) -> State:
    """Return a state after polls, 1 s apart, with a consumer's counters as columns of `rows`."""
    names = ("delivered_consumer_seq", "delivered_stream_seq", "ack_pending_msgs")
    columns = (*names, "redelivered_msgs")
    values = [dict(zip(columns, row, strict=True)) for row in rows]
    who = {"stream": "A", "name": "c", "created_at_us": 1}
    return folded(
        *(snapshot(at, [{"name": "A"}], [{**who, **one}]) for at, one in enumerate(values, 1))
    )


def test_acks_a_second_do_not_wait_for_the_ack_floor() -> None:
    state = acked((10, 10, 1, 0), (30, 30, 6, 0))
    history = state.consumer_history
    assert ack_rate(history, CONSUMER, None) == AckRate(15.0, is_estimated=False)
    assert ack_rate_column(history, [None]) == [15.0]


def test_a_redelivery_is_no_ack_and_with_a_filter_that_is_estimated() -> None:
    history = acked((10, 10, 1, 0), (25, 20, 1, 1)).consumer_history
    assert ack_rate(history, CONSUMER, None) == AckRate(10.0, is_estimated=True)


def test_a_consumer_that_was_reset_has_no_ack_rate() -> None:
    assert (
        ack_rate(acked((10, 10, 1, 0), (2, 2, 1, 0)).consumer_history, CONSUMER, None) == AckRate()
    )
