"""Many records at once: what a replay sends to build a moment is mostly events in long rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from natstui.model.record import AckSample, Advisory, Noted, Outcome, Record
from natstui.model.recording import ClockStepped, Gap
from natstui.model.state import EVENTS_KEPT, Happening, State


def folded(state: State, records: Iterable[Record]) -> State:
    """Return the state after records: the same as after one by one, in a tenth of the time."""
    happenings: list[Happening] = []
    samples: list[AckSample] = []
    now_at_us: int | None = None
    for record in records:
        match record:
            case AckSample():
                samples.append(record)
                now_at_us = record.at_us
            case Advisory() | Noted() | Outcome() | Gap() | ClockStepped():
                happenings.append(record)
                now_at_us = record.at_us
            case _:
                if now_at_us is not None:
                    state = _after_row(state, happenings, samples, now_at_us)
                    happenings, samples, now_at_us = [], [], None
                state = state.after(record)
    return state if now_at_us is None else _after_row(state, happenings, samples, now_at_us)


def _after_row(
    state: State, happenings: list[Happening], samples: list[AckSample], now_at_us: int
) -> State:
    """Take events that depend on nothing but their order."""
    return replace(
        state,
        happenings=(*state.happenings, *happenings)[-EVENTS_KEPT:],
        ack_samples=(*state.ack_samples, *samples)[-EVENTS_KEPT:],
        now_at_us=now_at_us,
    )
