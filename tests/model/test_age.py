"""How old rows are, and from when on they are stale."""

from __future__ import annotations

import pytest

from natstui.model.live.age import is_stale, oldest_row_us, stale_after_us, state_at_poll_age
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.record import Unavailable
from natstui.values import replace
from tests.model.builders import snapshot

SECOND_US = 1_000_000


def every(interval_s: float, poll: Snapshot) -> Snapshot:
    return replace(poll, cost=replace(poll.cost, interval_us=round(interval_s * SECOND_US)))


@pytest.mark.parametrize(
    ("interval_s", "stale_s"), [(0.25, 5), (1, 5), (2, 6), (7, 11), (10, 14), (60, 64)]
)
def test_a_row_is_stale_when_a_poll_and_four_seconds_have_passed(
    interval_s: float, stale_s: float
) -> None:
    state = State().after(every(interval_s, snapshot(100, [{"name": "S"}])))
    sampled_us = state.streams.columns.sampled_mono_us[0]
    assert stale_after_us(state) == stale_s * SECOND_US
    assert not is_stale(state_at_poll_age(state, round(stale_s * SECOND_US)), sampled_us)
    assert is_stale(state_at_poll_age(state, round((stale_s + 1) * SECOND_US)), sampled_us)


def test_a_row_is_not_stale_before_its_turn_came_and_a_poll_is() -> None:
    poll = every(1, snapshot(100, [{"name": "S"}]))
    state = State().after(replace(poll, cost=replace(poll.cost, round_us=8 * SECOND_US)))
    sampled_us = state.streams.columns.sampled_mono_us[0]
    assert stale_after_us(state) == 5 * SECOND_US
    late = state_at_poll_age(state, 12 * SECOND_US)
    assert not is_stale(late, sampled_us) and is_stale(state_at_poll_age(late, 1), sampled_us)
    assert oldest_row_us(late) == late.now_mono_us - sampled_us


def test_other_records_make_a_state_newer_but_not_its_rows() -> None:
    polled = State().after(snapshot(100, [{"name": "S"}]))
    told = polled.after(Unavailable(polled.now_at_us + 8 * SECOND_US, "INFO", "no answer"))
    late = state_at_poll_age(told, 13 * SECOND_US)
    assert late.now_mono_us == polled.now_mono_us + 13 * SECOND_US
    assert late.now_at_us == polled.now_at_us + 13 * SECOND_US
    assert is_stale(late, late.streams.columns.sampled_mono_us[0])
