"""The live rule: the status of a consumer from its counters and their trend, with evidence."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.status import (
    ACK_LIMIT,
    CATCHING_UP,
    FALLING_BEHIND,
    IDLE,
    NO_LEADER,
    NO_PULLS,
    NO_PULLS_AFTER_S,
    NO_SUBSCRIBER,
    PAUSED,
    REDELIVERING,
    UNREACHABLE,
    UP_TO_DATE,
    WORKING,
    Level,
    Status,
)
from natstui.model.live.rates import counter_per_s, rate_column, trend_column, trend_per_s
from natstui.model.live.state import State
from natstui.units import counted


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status of a consumer in two words, and the numbers that show it."""

    level: Level
    word: str
    evidence: str


class _Rules:
    """The rules over one state; what they look at is fetched once, for tables of 100,000 rows."""

    def __init__(self, state: State) -> None:
        self.columns = state.consumers.columns
        self._keys = state.consumers.roster.keys
        self._away = (state.unreachable_consumers, state.unreachable_streams)
        self._configurations = state.consumer_configurations
        self._now_at_us = state.now_at_us

    def configuration(self, row: int) -> ConsumerConfiguration | None:
        """Return the configuration of a row, if it is known."""
        return self._configurations.get(self._keys[row][:2])  # type: ignore[arg-type]

    def quiet_us(self, row: int) -> int | None:
        """Return how long ago something was delivered; None for never."""
        at_us = self.columns.delivered_at_us[row]
        return None if at_us is None else self._now_at_us - at_us

    def status(
        self,
        row: int,
        pending_per_s: float | None,
        redelivered_per_s: float | None,
        delivered_per_s: float | None,
    ) -> Status:
        """Return the status of a consumer whose counters move like this."""
        columns, key = self.columns, self._keys[row]
        consumers, streams = self._away
        if key[:2] in consumers or key[0] in streams:
            return UNREACHABLE
        if columns.leader[row] is None:
            return NO_LEADER
        if columns.paused[row]:
            return PAUSED
        pending, unacked = columns.pending_msgs[row], columns.ack_pending_msgs[row]
        if held := self._held_back(row, pending, unacked):
            return held
        if redelivered_per_s and redelivered_per_s > 0 and columns.redelivered_msgs[row]:
            return REDELIVERING
        if pending and pending_per_s:
            return FALLING_BEHIND if pending_per_s > 0 else CATCHING_UP
        if pending == 0 and unacked == 0:
            return UP_TO_DATE if delivered_per_s else IDLE
        return WORKING

    def _held_back(self, row: int, pending: int, unacked: int) -> Status | None:
        """Name what keeps messages from being delivered, if anything does."""
        config = self.configuration(row)
        if config is None:
            return None
        limit = config.max_ack_pending_msgs
        if limit and unacked >= limit and config.ack_policy != "none":
            return ACK_LIMIT
        if pending == 0:
            return None
        if not config.pull:
            return None if self.columns.push_bound[row] else NO_SUBSCRIBER
        if self.columns.waiting_pulls_count[row] == 0:
            quiet_us = self.quiet_us(row)
            return NO_PULLS if quiet_us is None or quiet_us > NO_PULLS_AFTER_S * 1e6 else None
        return None


def statuses(state: State) -> list[Status]:
    """Return the status of every consumer, column by column: for sorting many of them."""
    history = state.consumer_history
    moves = zip(
        trend_column(history, "pending_msgs"),
        trend_column(history, "redelivered_msgs"),
        rate_column(history, "delivered_consumer_seq"),
        strict=True,
    )
    status = _Rules(state).status
    return [status(row, *each) for row, each in enumerate(moves)]


def consumer_verdict(state: State, row: int) -> Verdict:
    """Return the status of the consumer in `row` of `state.consumers`, with its evidence."""
    history, key = state.consumer_history, state.consumers.roster.keys[row]
    rules, pending_per_s = _Rules(state), trend_per_s(history, key, "pending_msgs")
    status = rules.status(
        row,
        pending_per_s,
        trend_per_s(history, key, "redelivered_msgs"),
        counter_per_s(history, key, "delivered_consumer_seq"),
    )
    return Verdict(status.level, status.word, _evidence(rules, row, status, pending_per_s))


_WITHOUT_NUMBERS = (UNREACHABLE, NO_LEADER, PAUSED, UP_TO_DATE, IDLE)


def _evidence(rules: _Rules, row: int, status: Status, pending_per_s: float | None) -> str:
    """Return the numbers that show a status."""
    if status in _WITHOUT_NUMBERS:
        return status.sentence
    columns = rules.columns
    pending, unacked = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    if status is ACK_LIMIT:
        config = rules.configuration(row)
        limit = config.max_ack_pending_msgs if config else None
        wait = "message waits for its" if limit == 1 else "messages wait for their"
        text = f"{unacked} of {limit} {wait} acknowledgement"
        return f"{text}: nothing more is delivered until one comes"
    if status is NO_SUBSCRIBER:
        return f"{pending} pending, {status.sentence}"
    if status is NO_PULLS:
        quiet_us = rules.quiet_us(row)
        if quiet_us is None:
            return f"{pending} pending, nobody ever pulled"
        text = f"{pending} pending, {status.sentence}, the last delivery was"
        return f"{text} {quiet_us / 1e6:.0f} s ago"
    if status is REDELIVERING:
        return f"{counted(columns.redelivered_msgs[row], 'message')} delivered again"
    if status in (FALLING_BEHIND, CATCHING_UP):
        return f"{pending} pending, {pending_per_s or 0:+.1f} a second"
    return f"{pending} pending, {unacked} waiting for their ack"
