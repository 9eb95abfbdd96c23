"""How old rows and messages are: when a row is stale, what lag is. One rule for every place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from natstui.model.live.history import WINDOWS_S
from natstui.model.live.rates import stored_at_mono_us
from natstui.model.live.state import State

FRESH_US = 5_000_000
"""Nothing younger than this is stale."""
_LATE_US = 4_000_000
_SECOND_US = 1_000_000


def poll_interval_us(state: State) -> int:
    """Return the time from one poll to the next, as measured at the newest poll."""
    return state.costs[-1].cost.interval_us if state.costs else _SECOND_US


def stale_after_us(state: State) -> int:
    """Return the age from which a poll is stale: one more and 4 s, and never less than 5 s."""
    return max(FRESH_US, poll_interval_us(state) + _LATE_US)


def row_stale_after_us(state: State) -> int:
    """Return the age from which a row is stale: 4 s after its turn has come, and as a poll."""
    round_us = state.costs[-1].cost.round_us if state.costs else None
    return max(stale_after_us(state), (round_us or 0) + _LATE_US)


def is_stale(state: State, sampled_mono_us: int) -> bool:
    """Return whether a row that was sampled at this moment is stale now."""
    return state.now_mono_us - sampled_mono_us > row_stale_after_us(state)


def oldest_row_us(state: State) -> int | None:
    """Return the age of the oldest row whose leader answers; None without any."""
    streams, consumers = state.streams.columns, state.consumers.columns
    ages_us = (min(it.sampled_mono_us, default=None) for it in (streams, consumers))
    known = [at_us for at_us in ages_us if at_us is not None]
    return state.now_mono_us - min(known) if known else None


def stream_is_stale(state: State, row: int) -> bool:
    """Return whether a row of streams is stale: too old, or its leader does not answer."""
    name = state.streams.columns.name[row]
    sampled_mono_us = state.streams.columns.sampled_mono_us[row]
    return name in state.unreachable_streams or is_stale(state, sampled_mono_us)


def consumer_is_stale(state: State, row: int) -> bool:
    """Return whether a row of consumers is stale: too old, or its leader does not answer."""
    columns = state.consumers.columns
    away = (columns.stream[row], columns.name[row]) in state.unreachable_consumers
    return away or is_stale(state, columns.sampled_mono_us[row])


def polls_are_missing(state: State, late_us: int) -> bool:
    """Return whether the newest poll came so long ago that all of the state is stale."""
    return late_us > stale_after_us(state)


@dataclass(frozen=True, slots=True)
class Lag:
    """How old the next message is that a consumer will deliver; 0 with nothing pending."""

    time_s: float
    estimated: bool = False
    """By when the stream's last sequence passed it; else the message was looked up."""


def next_waits_s(state: State, row: int) -> float | None:
    """Return how old the next message of a consumer is; None when it was not looked up."""
    stored_at_us = state.consumers.columns.next_at_us[row]
    return None if stored_at_us is None else max(0.0, (state.now_at_us - stored_at_us) / 1e6)


def consumer_lag(state: State, row: int) -> Lag | None:
    """Return the lag of a consumer; None when its next message is older than the first poll."""
    columns = state.consumers.columns
    if columns.pending_msgs[row] == 0:
        return Lag(0.0)
    known_s = next_waits_s(state, row)
    if known_s is not None:
        return Lag(known_s)
    streams = state.streams.roster
    rows = streams.rows_of_stream.get(columns.stream[row])
    if not rows:
        return None
    points = state.stream_history.series(streams.keys[rows[-1]], "last_seq", WINDOWS_S[-1])
    mono_us = stored_at_mono_us(points, columns.delivered_stream_seq[row] + 1)
    return None if mono_us is None else Lag((state.now_mono_us - mono_us) / 1e6, estimated=True)


def since_poll_us(state: State) -> int:
    """Return how much later than its newest poll the newest record of a state came."""
    return max(0, state.now_at_us - state.costs[-1].at_us) if state.costs else 0


def at_moment(state: State, late_us: int) -> State:
    """Return the state as it stands `late_us` after its newest poll, by both clocks.

    Other records than polls make the state newer, but not its rows.
    """
    if not late_us:
        return state
    return replace(
        state,
        now_mono_us=state.now_mono_us + late_us,
        now_at_us=state.now_at_us + max(0, late_us - since_poll_us(state)),
    )


def activity_at_us(delivered_at_us: int | None, acked_at_us: int | None) -> int | None:
    """Return when a consumer last delivered or had something acked, UTC; None for never."""
    return max((at for at in (delivered_at_us, acked_at_us) if at is not None), default=None)
