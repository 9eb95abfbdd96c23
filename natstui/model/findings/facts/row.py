"""Inputs of facts: the settings and the recent values of a row."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.facts.memory import PullPace
from natstui.model.live.history import History
from natstui.model.live.snapshot import ConsumerColumns, Peer
from natstui.model.live.table import Key
from natstui.model.servers.replicas import is_away

_US = 1_000_000


@lru_cache(maxsize=4096)
def settings_of(config_json: str) -> Mapping[str, object]:
    """Return a configuration as the server sent it; empty if it cannot be read."""
    try:
        settings = json.loads(config_json)
    except (ValueError, RecursionError):
        # A recording whose texts were redacted has none.
        return {}
    return settings if isinstance(settings, dict) else {}


def unreachable_replicas(peers: tuple[Peer, ...]) -> list[Peer]:
    """Return the replicas that have no contact with the leader."""
    return [peer for peer in peers if is_away(peer)]


def replicas_count(leader: str | None, peers: tuple[Peer, ...]) -> int:
    """Return the number of replicas; without a leader, the peers are all of them."""
    return len(peers) + (0 if leader is None else 1)


def dropped_after_max_deliver(
    config: ConsumerConfiguration | None, redelivered: int, unacked: int, announced: int
) -> int:
    """Return how many of a consumer's stored messages were dropped after max deliver, at least.

    `redelivered` and `unacked` are num_redelivered and num_ack_pending, `announced` the advisories
    of max deliver. Dropped messages stay in the first and leave the second, where others are that
    were delivered once: it is the number only if `unacked` is 0. Where max deliver is 1, only the
    advisories show them.
    """
    if config is None or not config.max_deliver_count:
        return 0
    if config.max_deliver_count == 1:
        return announced
    return max(0, redelivered - unacked, min(announced, redelivered))


def unused_s(columns: ConsumerColumns, row: int, pace: PullPace | None, at_us: int) -> float:
    """Return for how many seconds a consumer has had no client; 0 with one.

    `at_us` is the time of the sample in UTC µs, `pace` the activity of its clients, if known.
    """
    if columns.waiting_pulls_count[row] or columns.push_bound[row]:
        return 0.0
    seen_us = max(
        columns.created_at_us[row],
        columns.delivered_at_us[row] or 0,
        pace.seen_at_us if pace is not None else 0,
    )
    return max(0.0, (at_us - seen_us) / _US)


class Past:
    """The recent values of a row."""

    def __init__(self, history: History, key: Key, row: int) -> None:
        self._history = history
        self._key = key
        self._row = row
        self._moments: list[tuple[int, Mapping[str, array[int]], int]] = []
        """Times of its samples, newest first, each with the columns and its row in them."""
        self._older = self._find()

    def _find(self) -> Iterator[tuple[int, Mapping[str, array[int]], int]]:
        """Find the times of its samples, once for all of its values."""
        recent = self._history.recent
        newest = recent[-1].roster if recent else None
        latest_us = None
        # With many rows the first tier is short, and older ones go on.
        for sample in chain.from_iterable(reversed(tier.samples) for tier in self._history.tiers):
            row = self._row if sample.roster is newest else sample.roster.row_of.get(self._key)
            if row is None:
                return
            mono_us = sample.columns["sampled_mono_us"][row]
            if latest_us is None or mono_us < latest_us:
                latest_us = mono_us
                self._moments.append((mono_us, sample.columns, row))
                yield self._moments[-1]

    def values(self, name: str, window_s: float, fewest_count: int = 2) -> list[tuple[int, int]]:
        """Return (time, value) of samples, newest first, over `window_s` and at least
        `fewest_count`.

        Times are of the steady clock in µs. There are fewer if the history has no more.
        """
        samples: list[tuple[int, int]] = []
        for mono_us, columns, row in chain(self._moments[:], self._older):
            samples.append((mono_us, columns[name][row]))
            if len(samples) >= fewest_count and samples[0][0] - mono_us >= window_s * _US:
                break
        return samples

    def grown(self, name: str, window_s: float) -> int | None:
        """Return the growth of a counter within `window_s`; None without an earlier value."""
        values = self.values(name, window_s)
        return values[0][1] - values[-1][1] if len(values) > 1 else None

    def above_zero_since(self, name: str, after_us: int) -> int | None:
        """Return the time of the steady clock in µs since which a gauge is above zero.

        None if it is zero now, or was above zero in all samples back to `after_us`, where the
        search stops: it runs for every consumer with a backlog at every poll.
        """
        since_mono_us: int | None = None
        recent = self._history.recent
        newest = recent[-1].roster if recent else None
        for sample in reversed(recent):
            row = self._row if sample.roster is newest else sample.roster.row_of.get(self._key)
            if row is None:
                return None
            columns = sample.columns
            if columns[name][row] == 0:
                return since_mono_us
            since_mono_us = columns["sampled_mono_us"][row]
            if since_mono_us <= after_us:
                return None
        return None
