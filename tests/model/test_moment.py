"""When a record was: never before what came before it, unless the engine's clock was set."""

from __future__ import annotations

from natstui.model.live.state import State
from natstui.model.records.record import AckSample, Advisory, Noted, Unavailable, moment_us
from tests.model.builders import snapshot

SECOND_US = 1_000_000


def advisory(at_us: int) -> Advisory:
    return Advisory(at_us, "nak", "S", "C", "text", "{}")


def test_what_came_later_is_not_before() -> None:
    assert moment_us(10, 12) == 12
    assert moment_us(10, 10) == 10
    assert moment_us(10, 7) == 11


def test_an_announcement_that_was_on_its_way_during_a_poll_comes_after_it() -> None:
    polled = State().after(snapshot(5))
    told = polled.after(advisory(polled.now_at_us - 700))
    assert told.now_at_us == polled.now_at_us + 1
    assert told.after(advisory(polled.now_at_us - 600)).now_at_us == polled.now_at_us + 2
    assert told.after(snapshot(6)).now_at_us == polled.now_at_us + SECOND_US


def test_a_server_whose_clock_is_behind_does_not_turn_time_back() -> None:
    state = State().after(Noted(100 * SECOND_US, "here"))
    for record in (advisory(SECOND_US), AckSample(SECOND_US, "S", "C", 1, 1, 1, 1)):
        state = state.after(record)
    assert state.now_at_us == 100 * SECOND_US + 2


def test_time_goes_back_when_the_engine_s_clock_was_set_back() -> None:
    state = State().after(Noted(100 * SECOND_US, "here")).after(Noted(40 * SECOND_US, "there"))
    assert state.now_at_us == 40 * SECOND_US


def test_trouble_told_again_is_a_moment_too() -> None:
    state = State().after(Unavailable(5, "INFO", "no answer"))
    again = state.after(Unavailable(9, "INFO", "no answer"))
    assert (again.recent_events, again.now_at_us) == (state.recent_events, 9)
