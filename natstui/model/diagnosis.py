"""Why a consumer does not move: rules over its counters and their trend, each with evidence.

The first rule that holds names the state; the order is from "cannot move" to "is fine".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.rates import counter_per_s, rate_column, trend_column, trend_per_s
from natstui.model.state import State
from natstui.model.table import Key

Level = Literal["ok", "idle", "warn", "bad", "unknown"]

STALE_AFTER_POLLS = 3
"""A row older than this many poll intervals, and than 5 s, is stale."""

NO_PULLS_AFTER_US = 10_000_000
"""A consumer that fetches now and then has no request open in between: that is no trouble."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a consumer is doing, in two words, and the numbers that say so."""

    level: Level
    word: str
    evidence: str


def stale_after_us(state: State) -> int:
    """Return the age from which a row is stale, in µs."""
    interval_us = state.costs[-1].cost.interval_us if state.costs else 1_000_000
    return max(5_000_000, STALE_AFTER_POLLS * interval_us)


@dataclass(frozen=True, slots=True)
class Motion:
    """How a consumer moves: what the rules need besides its counters."""

    pending_per_s: float | None
    redelivered_per_s: float | None
    delivered_per_s: float | None


def motion(state: State, row: int) -> Motion:
    """Return how one consumer moves."""
    history, key = state.consumer_history, state.consumers.roster.keys[row]
    return Motion(
        trend_per_s(history, key, "pending_msgs"),
        trend_per_s(history, key, "redelivered_msgs"),
        counter_per_s(history, key, "delivered_consumer_seq"),
    )


def motions(state: State) -> list[Motion]:
    """Return how every consumer moves, column by column: for sorting many of them."""
    history = state.consumer_history
    pending = trend_column(history, "pending_msgs")
    redelivered = trend_column(history, "redelivered_msgs")
    delivered = rate_column(history, "delivered_consumer_seq")
    return list(map(Motion, pending, redelivered, delivered))


def consumer_verdict(state: State, row: int, moves: Motion | None = None) -> Verdict:
    """Return why the consumer in `row` of `state.consumers` stands where it does."""
    columns = state.consumers.columns
    key = state.consumers.roster.keys[row]
    if key[:2] in state.unreachable_consumers or key[0] in state.unreachable_streams:
        return Verdict("bad", "unreachable", "its leader does not answer the server")
    if columns.leader[row] is None:
        return Verdict("bad", "no leader", "the cluster has elected no leader for it")
    if columns.paused[row]:
        return Verdict("warn", "paused", "delivery is paused until it is resumed or expires")
    return _held_back(state, row, key) or _moving(state, row, moves or motion(state, row))


def _held_back(state: State, row: int, key: Key) -> Verdict | None:
    """Name what keeps messages from being delivered, if anything does."""
    columns = state.consumers.columns
    pending, outstanding = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    config = state.consumer_configurations.get((str(key[0]), str(key[1])))
    limit = config.max_ack_pending_msgs if config else None
    if limit and outstanding >= limit and config and config.ack_policy != "none":
        text = f"{outstanding} of {limit} messages wait for their acknowledgement"
        return Verdict("bad", "ack limit", f"{text}: nothing more is delivered until one comes")
    if config is None or pending == 0:
        return None
    if not config.pull and not columns.push_bound[row]:
        return Verdict("bad", "unbound", f"{pending} pending, nobody subscribes to it")
    at_us = columns.delivered_at_us[row]
    quiet_us = None if at_us is None else state.now_at_us - at_us
    if config.pull and columns.waiting_pulls_count[row] == 0:
        if quiet_us is None:
            return Verdict("bad", "no pulls", f"{pending} pending, nobody ever pulled")
        if quiet_us > NO_PULLS_AFTER_US:
            text = f"{pending} pending, no pull request is open, the last delivery was"
            return Verdict("bad", "no pulls", f"{text} {quiet_us / 1e6:.0f} s ago")
    return None


def _moving(state: State, row: int, moves: Motion) -> Verdict:
    """Name how a consumer that can deliver is doing."""
    columns = state.consumers.columns
    pending, outstanding = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    redelivered = columns.redelivered_msgs[row]
    redeliveries = moves.redelivered_per_s
    if redelivered and redeliveries is not None and redeliveries > 0:
        return Verdict("warn", "redelivering", f"{redelivered} messages were delivered again")
    trend = moves.pending_per_s
    if pending and trend is not None and trend > 0:
        return Verdict("warn", "falling behind", f"{pending} pending, {trend:+.1f} a second")
    if pending and trend is not None and trend < 0:
        return Verdict("ok", "catching up", f"{pending} pending, {trend:+.1f} a second")
    if pending == 0 and outstanding == 0:
        busy = moves.delivered_per_s
        word = "up to date" if busy else "idle"
        return Verdict("ok" if busy else "idle", word, "nothing pending, nothing unacknowledged")
    return Verdict("ok", "working", f"{pending} pending, {outstanding} waiting for their ack")
