"""Inputs of facts, the numbers that rules compare: settings, recent values, replicas, drops."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.facts.memory import ClientActivity
from natstui.model.live.history import History
from natstui.model.live.known_rows import RowKey
from natstui.model.live.snapshot import ConsumerColumns, Peer
from natstui.model.servers.replicas import has_lost_leader_contact

_US_PER_S = 1_000_000
_MIN_REPLY_DISTANCE_US = 500_000
"""Minimum distance of two replies whose order is certain."""


@lru_cache(maxsize=4096)
def settings_of(config_json: str) -> Mapping[str, object]:
    """Return the configuration in JSON of a server; empty if it is not a JSON object."""
    try:
        settings = json.loads(config_json)
    except (ValueError, RecursionError):
        # A recording with redacted texts has no configurations.
        return {}
    return settings if isinstance(settings, dict) else {}


def unreachable_replicas(peers: tuple[Peer, ...]) -> list[Peer]:
    """Return the replicas that have no contact with the leader."""
    return [peer for peer in peers if has_lost_leader_contact(peer)]


def replicas_count(leader: str | None, peers: tuple[Peer, ...]) -> int:
    """Return the number of replicas, with the leader if there is one."""
    return len(peers) + (0 if leader is None else 1)


def dropped_after_max_deliver(
    config: ConsumerConfiguration | None, redelivered: int, unacked: int, advisories_count: int
) -> int:
    """Return the minimum number of stored messages that were dropped after max deliver.

    `redelivered` and `unacked` are num_redelivered and num_ack_pending, `advisories_count` is the
    number of max deliver advisories. Dropped messages count as redelivered, not as ack pending.
    With `unacked` 0 the number is exact. With max deliver 1, only advisories show the messages.
    """
    if config is None or not config.max_deliver_count:
        return 0
    if config.max_deliver_count == 1:
        return advisories_count
    return max(0, redelivered - unacked, min(advisories_count, redelivered))


def unused_s(
    columns: ConsumerColumns,
    row: int,
    activity: ClientActivity | None,
    at_us: int,
    mono_us: int,
) -> float:
    """Return the seconds since a consumer had a client; 0 with a client.

    `at_us` and `mono_us` are the time of the sample, UTC and on the engine's clock; `activity` is
    that of the clients, None if unknown.
    """
    if columns.waiting_pulls_count[row] or columns.push_bound[row]:
        return 0.0
    if activity is not None:
        return max(0.0, (mono_us - activity.last_active_mono_us) / _US_PER_S)
    last_active_us = max(columns.created_at_us[row], columns.delivered_at_us[row] or 0)
    return max(0.0, (at_us - last_active_us) / _US_PER_S)


class _RowSample(NamedTuple):
    """The position of a row in the columns of one sample."""

    mono_us: int
    columns: Mapping[str, array[int]]
    row: int


class RowHistory:
    """The recent values of one row, read from the history on demand."""

    def __init__(self, history: History, key: RowKey, row: int) -> None:
        self._history = history
        self._key = key
        self._row = row
        self._read_so_far: list[_RowSample] = []
        """The samples of the row that were read so far, newest first."""
        self._unread_samples = self._read_samples()

    def _read_samples(self) -> Iterator[_RowSample]:
        """Yield each sample of the row, newest first, and store it for later calls of `values`."""
        recent = self._history.recent
        newest_roster = recent[-1].roster if recent else None
        latest_us = None
        # With many rows the first tier is short, and older tiers continue it.
        for sample in chain.from_iterable(reversed(tier.samples) for tier in self._history.tiers):
            row = (
                self._row
                if sample.roster is newest_roster
                else sample.roster.row_of.get(self._key)
            )
            if row is None:
                return
            mono_us = sample.columns["sampled_mono_us"][row]
            if latest_us is None or mono_us < latest_us:
                latest_us = mono_us
                self._read_so_far.append(_RowSample(mono_us, sample.columns, row))
                yield self._read_so_far[-1]

    def values(self, name: str, window_s: float, min_count: int = 2) -> list[tuple[int, int]]:
        """Return (time, value) of the column `name` in the samples of `window_s`, newest first.

        Times are of the steady clock in µs. With few samples in the window, older ones are added
        up to `min_count`, if the history has them.
        """
        samples: list[tuple[int, int]] = []
        for mono_us, columns, row in chain(self._read_so_far[:], self._unread_samples):
            samples.append((mono_us, columns[name][row]))
            if len(samples) >= min_count and samples[0][0] - mono_us >= window_s * _US_PER_S:
                break
        return samples

    def growth(self, name: str, window_s: float) -> int | None:
        """Return the growth of a counter within `window_s`; None with a single sample."""
        values = self.values(name, window_s)
        return values[0][1] - values[-1][1] if len(values) > 1 else None

    def value_before(self, name: str, mono_us: int) -> int | None:
        """Return the newest value that was certainly read before `mono_us` (µs, steady clock).

        None without one among the recent samples.
        """
        samples = self.values(name, 2 * _MIN_REPLY_DISTANCE_US / _US_PER_S, min_count=3)
        earlier_us = mono_us - _MIN_REPLY_DISTANCE_US
        return next((value for us, value in samples if us <= earlier_us), None)

    def last_change_us(self, name: str, window_s: float) -> int | None:
        """Return the time of the newest sample whose value differs from that of the older sample.

        In µs of the steady clock; None without such a sample within `window_s`.
        """
        for (mono_us, value), (_, older_value) in pairwise(self.values(name, window_s)):
            if value != older_value:
                return mono_us
        return None

    def above_zero_since(self, name: str, after_us: int) -> int | None:
        """Return the time (µs of the steady clock) since which a gauge is above zero.

        None if the gauge is zero now, or was above zero in all samples since `after_us`.
        """
        since_mono_us: int | None = None
        recent = self._history.recent
        newest_roster = recent[-1].roster if recent else None
        for sample in reversed(recent):
            row = (
                self._row
                if sample.roster is newest_roster
                else sample.roster.row_of.get(self._key)
            )
            if row is None:
                return None
            columns = sample.columns
            if columns[name][row] == 0:
                return since_mono_us
            since_mono_us = columns["sampled_mono_us"][row]
            if since_mono_us <= after_us:
                return None
        return None
