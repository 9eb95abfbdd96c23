"""Many records at once: what a replay sends to build a moment is mostly events in long rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from natstui.model.moment import now_us
from natstui.model.record import AckSample, Advisory, Noted, Outcome, Record
from natstui.model.recording import ClockStepped, Gap
from natstui.model.state import EVENTS_KEPT, Happening, State


def folded(state: State, records: Iterable[Record]) -> State:
    """Return the state after records: the same as after one by one, in a tenth of the time."""
    happenings: list[Happening] = []
    samples: list[AckSample] = []
    now_at_us = state.now_at_us
    for record in records:
        match record:
            case AckSample():
                samples.append(record)
                now_at_us = now_us(now_at_us, record)
            case Advisory() | Noted() | Outcome() | Gap() | ClockStepped():
                happenings.append(record)
                now_at_us = now_us(now_at_us, record)
            case _:
                state = _after_row(state, happenings, samples, now_at_us).after(record)
                happenings, samples, now_at_us = [], [], state.now_at_us
    return _after_row(state, happenings, samples, now_at_us)


def _after_row(
    state: State, happenings: list[Happening], samples: list[AckSample], now_at_us: int
) -> State:
    """Take events that depend on nothing but their order; the same state when there are none."""
    if not happenings and not samples:
        return state
    return replace(
        state,
        happenings=(*state.happenings, *happenings)[-EVENTS_KEPT:],
        ack_samples=(*state.ack_samples, *samples)[-EVENTS_KEPT:],
        now_at_us=now_at_us,
    )
