"""Why a consumer does not move: rules over its counters and their trend, each with evidence.

The first rule that holds names the state; the order is from "cannot move" to "is fine".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.configuration import ConsumerConfiguration
from natstui.model.rates import counter_per_s, rate_column, trend_column, trend_per_s
from natstui.model.state import State
from natstui.units import counted

Level = Literal["ok", "idle", "warn", "bad", "unknown"]

STALE_AFTER_POLLS = 3
"""A row older than this many poll intervals, and than 5 s, is stale."""

NO_PULLS_AFTER_US = 10_000_000
"""A consumer that fetches now and then has no request open in between: that is no trouble."""


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What a consumer is doing, in two words."""

    severity_level: int
    """Where it sorts: the worst has the highest."""
    level: Level
    word: str


UNREACHABLE = Standing(11, "bad", "unreachable")
NO_LEADER = Standing(10, "bad", "no leader")
ACK_LIMIT = Standing(9, "bad", "ack limit")
UNBOUND = Standing(8, "bad", "unbound")
NO_PULLS = Standing(7, "bad", "no pulls")
FALLING_BEHIND = Standing(6, "warn", "falling behind")
REDELIVERING = Standing(5, "warn", "redelivering")
PAUSED = Standing(4, "warn", "paused")
CATCHING_UP = Standing(3, "ok", "catching up")
WORKING = Standing(2, "ok", "working")
UP_TO_DATE = Standing(1, "ok", "up to date")
IDLE = Standing(0, "idle", "idle")


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

    def standing(
        self,
        row: int,
        pending_per_s: float | None,
        redelivered_per_s: float | None,
        delivered_per_s: float | None,
    ) -> Standing:
        """Return where a consumer stands that moves like this."""
        columns, key = self.columns, self._keys[row]
        consumers, streams = self._away
        if key[:2] in consumers or key[0] in streams:
            return UNREACHABLE
        if columns.leader[row] is None:
            return NO_LEADER
        if columns.paused[row]:
            return PAUSED
        pending, outstanding = columns.pending_msgs[row], columns.ack_pending_msgs[row]
        if held := self._held_back(row, pending, outstanding):
            return held
        if redelivered_per_s and redelivered_per_s > 0 and columns.redelivered_msgs[row]:
            return REDELIVERING
        if pending and pending_per_s:
            return FALLING_BEHIND if pending_per_s > 0 else CATCHING_UP
        if pending == 0 and outstanding == 0:
            return UP_TO_DATE if delivered_per_s else IDLE
        return WORKING

    def _held_back(self, row: int, pending: int, outstanding: int) -> Standing | None:
        """Name what keeps messages from being delivered, if anything does."""
        config = self.configuration(row)
        if config is None:
            return None
        limit = config.max_ack_pending_msgs
        if limit and outstanding >= limit and config.ack_policy != "none":
            return ACK_LIMIT
        if pending == 0:
            return None
        if not config.pull:
            return None if self.columns.push_bound[row] else UNBOUND
        if self.columns.waiting_pulls_count[row] == 0:
            quiet_us = self.quiet_us(row)
            return NO_PULLS if quiet_us is None or quiet_us > NO_PULLS_AFTER_US else None
        return None


def standings(state: State) -> list[Standing]:
    """Return where every consumer stands, column by column: for sorting many of them."""
    history = state.consumer_history
    moves = zip(
        trend_column(history, "pending_msgs"),
        trend_column(history, "redelivered_msgs"),
        rate_column(history, "delivered_consumer_seq"),
        strict=True,
    )
    standing = _Rules(state).standing
    return [standing(row, *each) for row, each in enumerate(moves)]


def consumer_verdict(state: State, row: int) -> Verdict:
    """Return why the consumer in `row` of `state.consumers` stands where it does."""
    history, key = state.consumer_history, state.consumers.roster.keys[row]
    rules, pending_per_s = _Rules(state), trend_per_s(history, key, "pending_msgs")
    standing = rules.standing(
        row,
        pending_per_s,
        trend_per_s(history, key, "redelivered_msgs"),
        counter_per_s(history, key, "delivered_consumer_seq"),
    )
    return Verdict(standing.level, standing.word, _evidence(rules, row, standing, pending_per_s))


_PLAIN_EVIDENCE = {
    UNREACHABLE: "its leader does not answer the server",
    NO_LEADER: "the cluster has elected no leader for it",
    PAUSED: "delivery is paused until it is resumed or expires",
    UP_TO_DATE: "nothing pending, nothing unacknowledged",
    IDLE: "nothing pending, nothing unacknowledged",
}


def _evidence(rules: _Rules, row: int, standing: Standing, pending_per_s: float | None) -> str:
    """Return the numbers behind a standing."""
    if standing in _PLAIN_EVIDENCE:
        return _PLAIN_EVIDENCE[standing]
    columns = rules.columns
    pending, outstanding = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    if standing is ACK_LIMIT:
        config = rules.configuration(row)
        limit = config.max_ack_pending_msgs if config else None
        wait = "message waits for its" if limit == 1 else "messages wait for their"
        text = f"{outstanding} of {limit} {wait} acknowledgement"
        return f"{text}: nothing more is delivered until one comes"
    if standing is UNBOUND:
        return f"{pending} pending, nobody subscribes to it"
    if standing is NO_PULLS:
        quiet_us = rules.quiet_us(row)
        if quiet_us is None:
            return f"{pending} pending, nobody ever pulled"
        text = f"{pending} pending, no pull request is open, the last delivery was"
        return f"{text} {quiet_us / 1e6:.0f} s ago"
    if standing is REDELIVERING:
        return f"{counted(columns.redelivered_msgs[row], 'message')} delivered again"
    if standing in (FALLING_BEHIND, CATCHING_UP):
        return f"{pending} pending, {pending_per_s or 0:+.1f} a second"
    return f"{pending} pending, {outstanding} waiting for their ack"
