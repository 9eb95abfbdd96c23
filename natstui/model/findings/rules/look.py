"""What rules look at: one row of streams or consumers, with its settings, past and evidence."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import chain

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.live.history import History
from natstui.model.live.snapshot import ConsumerColumns, Peer, StreamColumns
from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.model.records.evidence import Trouble
from natstui.model.servers.replicas import is_away

_US = 1_000_000


@lru_cache(maxsize=4096)
def settings_of(config_json: str) -> Mapping[str, object]:
    """Return a configuration as the server wrote it; empty when it cannot be read."""
    try:
        settings = json.loads(config_json)
    except ValueError:
        # A recording whose texts were redacted has none.
        return {}
    return settings if isinstance(settings, dict) else {}


class Past:
    """The recent values of one row."""

    def __init__(self, history: History, key: Key, row: int) -> None:
        self._history = history
        self._key = key
        self._row = row
        self._moments: list[tuple[int, Mapping[str, array[int]], int]] = []
        """When it was sampled, newest first, with the columns of then and its row in them."""
        self._older = self._find()

    def _find(self) -> Iterator[tuple[int, Mapping[str, array[int]], int]]:
        """Find the moments at which it was sampled, once for all who ask for its values."""
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

    def values(self, name: str, window_s: float, fewest: int = 2) -> list[tuple[int, int]]:
        """Return (sampled, value) over a window, newest first, and more where it has too few."""
        found: list[tuple[int, int]] = []
        for mono_us, columns, row in chain(self._moments[:], self._older):
            found.append((mono_us, columns[name][row]))
            if len(found) >= fewest and found[0][0] - mono_us >= window_s * _US:
                break
        return found

    def grown(self, name: str, window_s: float) -> int | None:
        """Return how much a counter grew within a window; None while nothing earlier is known."""
        values = self.values(name, window_s)
        return values[0][1] - values[-1][1] if len(values) > 1 else None

    def above_zero_since(self, name: str, after_us: int) -> int | None:
        """Return the engine's time since when a gauge is above zero.

        None where it was all along, as far back as samples go or until `after_us`: every consumer
        with a backlog is asked for this at every poll, and most have delivered something since.
        """
        since: int | None = None
        recent = self._history.recent
        newest = recent[-1].roster if recent else None
        for sample in reversed(recent):
            row = self._row if sample.roster is newest else sample.roster.row_of.get(self._key)
            if row is None:
                return None
            columns = sample.columns
            if columns[name][row] == 0:
                return since
            since = columns["sampled_mono_us"][row]
            if since <= after_us:
                return None
        return None


class ConsumerLook:
    """One consumer at the moment when its leader wrote its row."""

    def __init__(self, state: State, row: int, before: tuple[ConsumerColumns, int] | None) -> None:
        self.state = state
        self.row = row
        self.before = before
        """The row as it was judged last, if it was."""
        self.columns: ConsumerColumns = state.consumers.columns
        self.key = state.consumers.roster.keys[row]
        self.name = (self.columns.stream[row], self.columns.name[row])
        self.pending = self.columns.pending_msgs[row]
        self.unacked = self.columns.ack_pending_msgs[row]
        self.redelivered = self.columns.redelivered_msgs[row]
        self.mono_us = min(self.columns.sampled_mono_us[row], state.now_mono_us)
        self.at_us = state.now_at_us - (state.now_mono_us - self.mono_us)
        self.config: ConsumerConfiguration | None = state.consumer_configurations.get(self.name)

    @cached_property
    def trouble(self) -> Trouble | None:
        """What was announced of it since it was made."""
        trouble = self.state.evidence.of.get(self.name)
        if trouble is None or trouble.last_at_us < self.columns.created_at_us[self.row]:
            return None
        return trouble

    @cached_property
    def past(self) -> Past:
        """Its recent values."""
        return Past(self.state.consumer_history, self.key, self.row)

    @property
    def settings(self) -> Mapping[str, object]:
        """Its whole configuration."""
        return settings_of(self.config.config_json) if self.config else {}

    @cached_property
    def stream(self) -> StreamLook | None:
        """Its stream, as known."""
        rows = self.state.streams.roster.rows_of_stream.get(self.name[0])
        return StreamLook(self.state, rows[-1]) if rows else None

    @cached_property
    def waiting_since_us(self) -> int:
        """Since when messages wait and none is delivered, UTC; it was made then at the latest."""
        columns, row = self.columns, self.row
        since_us = columns.created_at_us[row]
        delivered_at_us = columns.delivered_at_us[row]
        if delivered_at_us is not None:
            since_us = max(since_us, delivered_at_us)
        known_mono_us = self.mono_us - (self.at_us - since_us)
        appeared_mono_us = self.past.above_zero_since("pending_msgs", known_mono_us)
        if appeared_mono_us is not None:
            since_us = max(since_us, self.at_us - (self.mono_us - appeared_mono_us))
        return min(since_us, self.at_us)

    @property
    def waiting_s(self) -> float:
        """How long messages have waited while none was delivered."""
        return (self.at_us - self.waiting_since_us) / _US

    @property
    def quiet_s(self) -> float | None:
        """How long ago something was delivered; None for never."""
        at_us = self.columns.delivered_at_us[self.row]
        return None if at_us is None else (self.at_us - at_us) / _US

    @property
    def idle_since_us(self) -> int:
        """When something was delivered or acknowledged last, or when it was made."""
        columns, row = self.columns, self.row
        times = (columns.delivered_at_us[row], columns.acked_at_us[row])
        return max((columns.created_at_us[row], *(at for at in times if at is not None)))

    @property
    def limit(self) -> int | None:
        """How many messages may wait for their acknowledgement."""
        config = self.config
        if config is None or config.ack_policy == "none":
            return None
        return config.max_ack_pending_msgs

    @property
    def served(self) -> bool | None:
        """Whether a pull request is open, or a subscriber is bound; None if that is not known."""
        if self.config is None:
            return None
        if self.config.pull:
            return self.columns.waiting_pulls_count[self.row] > 0
        return self.columns.push_bound[self.row]


class StreamLook:
    """One stream at the moment when its leader wrote its row."""

    def __init__(self, state: State, row: int) -> None:
        self.state = state
        self.row = row
        self.columns: StreamColumns = state.streams.columns
        self.key = state.streams.roster.keys[row]
        self.name = self.columns.name[row]
        self.mono_us = min(self.columns.sampled_mono_us[row], state.now_mono_us)
        self.at_us = state.now_at_us - (state.now_mono_us - self.mono_us)
        self.config: StreamConfiguration | None = state.stream_configurations.get(self.name)

    @cached_property
    def trouble(self) -> Trouble | None:
        """What was announced of it since it was made."""
        trouble = self.state.evidence.of.get((self.name, ""))
        if trouble is None or trouble.last_at_us < self.columns.created_at_us[self.row]:
            return None
        return trouble

    @cached_property
    def past(self) -> Past:
        """Its recent values."""
        return Past(self.state.stream_history, self.key, self.row)

    @property
    def settings(self) -> Mapping[str, object]:
        """Its whole configuration."""
        return settings_of(self.config.config_json) if self.config else {}

    def consumers(self) -> list[ConsumerConfiguration] | None:
        """Return the settings of its consumers; None while not all of them are known."""
        rows = self.state.consumers.roster.rows_of_stream.get(self.name, [])
        if len(rows) != self.columns.consumers_count[self.row]:
            return None
        keys, known = self.state.consumers.roster.keys, self.state.consumer_configurations
        found = [known.get((self.name, str(keys[row][1]))) for row in rows]
        return None if None in found else [one for one in found if one is not None]


def away(peers: tuple[Peer, ...]) -> list[Peer]:
    """Return the replicas that the leader does not hear of."""
    return [peer for peer in peers if is_away(peer)]
