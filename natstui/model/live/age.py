"""The age of rows and messages: staleness and lag. One rule for every place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from natstui.model.live.history import WINDOWS_S
from natstui.model.live.rates import stored_at_mono_us
from natstui.model.live.state import State

FRESH_US = 5_000_000
"""Minimum age of stale data."""
_LATE_US = 4_000_000
_SECOND_US = 1_000_000


def poll_interval_us(state: State) -> int:
    """Return the time from one poll to the next, as measured at the newest poll."""
    return state.costs[-1].cost.interval_us if state.costs else _SECOND_US


def stale_after_us(state: State) -> int:
    """Return the age from which a poll is stale: one interval and 4 s, and at least 5 s."""
    return max(FRESH_US, poll_interval_us(state) + _LATE_US)


def row_stale_after_us(state: State) -> int:
    """Return the age from which a row is stale: 4 s after its turn, and at least that of a
    poll.
    """
    round_us = state.costs[-1].cost.round_us if state.costs else None
    return max(stale_after_us(state), (round_us or 0) + _LATE_US)


def is_stale(state: State, sampled_mono_us: int) -> bool:
    """Return whether a row sampled at this time is stale now."""
    return state.now_mono_us - sampled_mono_us > row_stale_after_us(state)


def oldest_row_us(state: State) -> int | None:
    """Return the age of the oldest row whose leader replies; None without any."""
    streams, consumers = state.streams.columns, state.consumers.columns
    ages_us = (
        min(table_columns.sampled_mono_us, default=None) for table_columns in (streams, consumers)
    )
    known_ages_us = [at_us for at_us in ages_us if at_us is not None]
    return state.now_mono_us - min(known_ages_us) if known_ages_us else None


def stream_is_stale(state: State, row: int) -> bool:
    """Return whether a row of streams is stale: too old, or its leader does not reply."""
    name = state.streams.columns.name[row]
    sampled_mono_us = state.streams.columns.sampled_mono_us[row]
    return name in state.unreachable_streams or is_stale(state, sampled_mono_us)


def consumer_is_stale(state: State, row: int) -> bool:
    """Return whether a row of consumers is stale: too old, or its leader does not reply."""
    columns = state.consumers.columns
    is_unreachable = (columns.stream[row], columns.name[row]) in state.unreachable_consumers
    return is_unreachable or is_stale(state, columns.sampled_mono_us[row])


def polls_are_missing(state: State, late_us: int) -> bool:
    """Return whether the newest poll is so old that the entire state is stale."""
    return late_us > stale_after_us(state)


@dataclass(frozen=True, slots=True)
class Lag:
    """The age of the next message that a consumer will deliver; 0 with nothing pending."""

    time_s: float
    estimated: bool = False
    """Whether it is estimated from the stream's last sequence; else the message was read."""


def next_waits_s(state: State, row: int) -> float | None:
    """Return the age of a consumer's next message; None if it was not read."""
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
    """Return the state as it is `late_us` after its newest poll, by both clocks.

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
    """Return the time of a consumer's last delivery or ack, UTC; None for never."""
    return max(
        (time_us for time_us in (delivered_at_us, acked_at_us) if time_us is not None),
        default=None,
    )
