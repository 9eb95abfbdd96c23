"""How much happens in the demo, by values."""

from __future__ import annotations

from natstui.jetstream.testbed.shop.traffic import (
    MESSAGE_NUMBERS_PER_S,
    PUBLISHERS,
    DueMessages,
    RateWave,
    WarehouseWorkersRate,
    choose_ack,
)


def test_a_wave_swings_around_its_middle() -> None:
    wave = RateWave(10, swing_ratio=0.5, period_s=40)
    assert wave.msgs_per_s(0) == 10
    assert wave.msgs_per_s(10) == 15
    assert wave.msgs_per_s(30) == 5


def test_a_burst_comes_on_top_and_goes() -> None:
    wave = RateWave(10, swing_ratio=0, burst_per_s=30, burst_every_s=60, burst_s=5)
    assert [wave.msgs_per_s(at_s) for at_s in (1, 6, 59, 61)] == [40, 10, 10, 40]


def test_no_message_is_lost_to_rounding() -> None:
    clockwork = DueMessages(RateWave(0.3, swing_ratio=0))
    assert sum(clockwork.pop_due_count(tick / 2) for tick in range(1, 2001)) in (299, 300)


def test_a_long_sleep_of_the_machine_makes_no_flood() -> None:
    clockwork = DueMessages(RateWave(10, swing_ratio=0))
    clockwork.pop_due_count(1.0)
    assert clockwork.pop_due_count(10_000.0) <= 21


def test_help_comes_when_the_backlog_is_too_long_and_stays_until_it_is_gone() -> None:
    crew, helped = WarehouseWorkersRate(help_above_msgs=100, help_until_msgs=10), False
    seen = []
    for backlog_msgs in (50, 101, 50, 11, 10, 50):
        helped = crew.has_help(backlog_msgs, helped)
        seen.append(helped)
    assert seen == [False, True, True, True, False, False]
    assert crew.msgs_per_s(True) > crew.msgs_per_s(False)


def test_a_broken_payment_is_never_settled_and_a_good_one_at_last_is() -> None:
    assert choose_ack("NaN", 1) == b"-NAK"
    assert choose_ack("NaN", 3).startswith(b"-NAK")
    assert choose_ack(1201, 1) == b"+ACK"
    assert [choose_ack(12, n) for n in (1, 2)] == [b"-NAK", b"+ACK"]
    assert choose_ack(100, 1).startswith(b"+TERM")


def test_numbers_after_a_restart_are_ahead_of_all_that_were_used() -> None:
    for _, wave in PUBLISHERS:
        assert max(wave.msgs_per_s(at_s / 2) for at_s in range(2000)) < MESSAGE_NUMBERS_PER_S
