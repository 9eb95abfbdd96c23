"""The age of rows and messages: staleness and lag."""

from __future__ import annotations

from msgspec import Struct

from natstui.model.live.history import WINDOWS_S
from natstui.model.live.rates import stored_at_mono_us
from natstui.model.live.state import State
from natstui.values import replace

MIN_STALE_US = 5_000_000
"""Minimum age of stale data, in µs."""
_STALE_DELAY_US = 4_000_000
_SECOND_US = 1_000_000


def poll_interval_us(state: State) -> int:
    """Return the time from the newest poll to the next, in µs; 1 s before the first poll."""
    return state.costs[-1].cost.interval_us if state.costs else _SECOND_US


def stale_after_us(state: State) -> int:
    """Return the age above which a poll is stale, in µs: one interval and 4 s, at least 5 s."""
    return max(MIN_STALE_US, poll_interval_us(state) + _STALE_DELAY_US)


def row_stale_after_us(state: State) -> int:
    """Return the age above which a row is stale, in µs: 4 s after its turn to be polled.

    At least the age above which a poll is stale.
    """
    max_row_interval_us = state.costs[-1].cost.round_us if state.costs else None
    return max(stale_after_us(state), (max_row_interval_us or 0) + _STALE_DELAY_US)


def is_stale(state: State, sampled_mono_us: int) -> bool:
    """Return whether a row sampled at `sampled_mono_us` is stale."""
    return state.now_mono_us - sampled_mono_us > row_stale_after_us(state)


def oldest_row_us(state: State) -> int | None:
    """Return the age of the oldest row in µs; None without rows."""
    streams, consumers = state.streams.columns, state.consumers.columns
    oldest_times_us = [
        min(columns.sampled_mono_us) for columns in (streams, consumers) if columns.sampled_mono_us
    ]
    return state.now_mono_us - min(oldest_times_us) if oldest_times_us else None


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


def polls_are_missing(state: State, poll_age_us: int) -> bool:
    """Return whether the newest poll, `poll_age_us` old, is stale, and so the entire state."""
    return poll_age_us > stale_after_us(state)


class Lag(Struct, frozen=True):
    """The age of the next message that a consumer will deliver; 0 s with nothing pending."""

    time_s: float
    is_estimated: bool = False
    """Whether the age is estimated from the stream's last sequence; else the message was read."""


def next_message_age_s(state: State, row: int) -> float | None:
    """Return the age of a consumer's next message in s; None if the message was not read."""
    stored_at_us = state.consumers.columns.next_at_us[row]
    return None if stored_at_us is None else max(0.0, (state.now_at_us - stored_at_us) / 1e6)


def consumer_lag(state: State, row: int) -> Lag | None:
    """Return the lag of a consumer; None if unknown: its next message is older than all polls."""
    columns = state.consumers.columns
    if columns.pending_msgs[row] == 0:
        return Lag(0.0)
    age_s = next_message_age_s(state, row)
    if age_s is not None:
        return Lag(age_s)
    streams = state.streams.roster
    rows = streams.rows_of_stream.get(columns.stream[row])
    if not rows:
        return None
    points = state.stream_history.series(streams.keys[rows[-1]], "last_seq", WINDOWS_S[-1])
    mono_us = stored_at_mono_us(points, columns.delivered_stream_seq[row] + 1)
    return None if mono_us is None else Lag((state.now_mono_us - mono_us) / 1e6, is_estimated=True)


def time_since_poll_us(state: State) -> int:
    """Return the time from a state's newest poll to its newest record, in µs."""
    return max(0, state.now_at_us - state.costs[-1].at_us) if state.costs else 0


def state_at_poll_age(state: State, poll_age_us: int) -> State:
    """Return the state with its times set to `poll_age_us` after its newest poll."""
    if not poll_age_us:
        return state
    return replace(
        state,
        now_mono_us=state.now_mono_us + poll_age_us,
        now_at_us=state.now_at_us + max(0, poll_age_us - time_since_poll_us(state)),
    )


def activity_at_us(delivered_at_us: int | None, acked_at_us: int | None) -> int | None:
    """Return the time of a consumer's last delivery or ack, UTC; None for never."""
    return max(
        (time_us for time_us in (delivered_at_us, acked_at_us) if time_us is not None),
        default=None,
    )
