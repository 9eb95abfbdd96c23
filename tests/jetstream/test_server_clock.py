"""When a row was made, by our clock: rates must not depend on how late an answer is."""

from __future__ import annotations

from natstui.jetstream.polling.server_clock import ServerClocks

HOUR_US = 3_600_000_000
SECOND_US = 1_000_000


def test_a_late_answer_is_placed_by_the_time_of_the_server_that_made_it() -> None:
    clocks = ServerClocks()
    # Its clock is an hour ahead; the first answer took 2 ms.
    quick = clocks.find_created_mono_us("n1", HOUR_US + 1_000, 0, 2_000)
    assert quick == 1_000
    # Asked at 1 s, written at once, held back until 5 s.
    assert (
        clocks.find_created_mono_us("n1", HOUR_US + 1_001_000, 1_000_000, 5_000_000) == 1_001_000
    )


def test_the_clocks_of_two_servers_are_not_mixed() -> None:
    clocks = ServerClocks()
    clocks.find_created_mono_us("n1", HOUR_US, 0, 0)
    clocks.find_created_mono_us("n2", 0, 0, 0)
    late = [
        clocks.find_created_mono_us(server, ts_us + 2 * SECOND_US, SECOND_US, 6 * SECOND_US)
        for server, ts_us in (("n1", HOUR_US), ("n2", 0))
    ]
    assert late == [2 * SECOND_US] * 2


def test_a_late_answer_of_a_server_that_is_not_known_has_no_time() -> None:
    clocks = ServerClocks()
    assert clocks.find_created_mono_us("n3", 7 * HOUR_US, 0, 4 * SECOND_US) is None
    assert clocks.find_created_mono_us("n3", 7 * HOUR_US, 5 * SECOND_US, 5_010_000) is not None
    assert (
        clocks.find_created_mono_us("n3", 7 * HOUR_US + SECOND_US, 5_000_000, 9_000_000)
        == 6_005_000
    )


def test_a_late_answer_of_nobody_knows_whom_is_never_dated_when_it_came() -> None:
    clocks = ServerClocks()
    # Without a leader any replica answers: made at 1.001 s, held back with the list until 5 s.
    late = (None, HOUR_US + 1_001_000, SECOND_US, 5 * SECOND_US)
    assert clocks.find_created_mono_us(*late) == SECOND_US
    clocks.find_created_mono_us("n1", HOUR_US, 0, 0)
    assert clocks.find_created_mono_us(*late) == 1_001_000
    # It cannot be of one whose clock says another hour; of several it may be the earliest.
    clocks.find_created_mono_us("n2", 0, 0, 0)
    clocks.find_created_mono_us("n3", HOUR_US - SECOND_US, 0, 0)
    assert clocks.find_created_mono_us(*late) == 1_001_000


def test_a_clock_that_was_set_gives_no_time_until_a_quick_answer() -> None:
    clocks = ServerClocks()
    clocks.find_created_mono_us("n1", 0, 0, 0)
    assert clocks.find_created_mono_us("n1", HOUR_US, SECOND_US, 5 * SECOND_US) is None
    assert (
        clocks.find_created_mono_us("n1", HOUR_US + SECOND_US, 6_000_000, 6_000_000) == 6_000_000
    )


def test_a_clock_that_drifts_is_followed() -> None:
    clocks = ServerClocks()
    for second in range(1000):
        ours_us = second * SECOND_US
        # It gains 50 µs a second, and each answer takes 1 ms.
        made_us = clocks.find_created_mono_us(
            "n1", ours_us + 50 * second, ours_us, ours_us + 1_000
        )
        assert made_us is not None and 0 <= made_us - ours_us <= 1_000


def test_a_server_that_tells_no_time_made_its_answer_when_it_came() -> None:
    assert ServerClocks().find_created_mono_us("n1", None, 0, 4_000_000) == 4_000_000


def test_an_answer_that_is_the_quickest_to_be_had_settles_the_clock() -> None:
    clocks = ServerClocks()
    assert clocks.find_created_mono_us("n1", 0, 0, 600_000, trusts_reply=True) == 300_000
    assert clocks.find_created_mono_us("n1", SECOND_US, 900_000, 5_000_000) == 1_300_000


def test_over_a_far_link_an_answer_is_quick_that_takes_no_longer_than_others() -> None:
    clocks = ServerClocks()
    assert clocks.find_created_mono_us("", HOUR_US, 0, 600_000) is None
    clocks.trip_us = 500_000
    assert clocks.find_created_mono_us("", HOUR_US + SECOND_US, SECOND_US, 1_600_000) == 1_300_000
