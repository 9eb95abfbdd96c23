"""Streams and consumers at one moment, by row: the state, and rates and findings read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar, cast

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.findings.catalogue.consumers import STANDSTILL
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.status import Status
from natstui.model.findings.finding import of_key
from natstui.model.findings.verdict import (
    Verdict,
    consumer_verdict,
    statuses,
    stream_statuses,
    stream_verdict,
)
from natstui.model.live.age import (
    at_moment,
    consumer_is_stale,
    row_stale_after_us,
    stream_is_stale,
)
from natstui.model.live.history import Point
from natstui.model.live.rates import (
    AckRate,
    StreamRates,
    ack_rate,
    backlog_trend_per_s,
    counter_per_s,
    stream_rates,
    trend_per_s,
)
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.state import State
from natstui.model.live.table import Key, Roster
from natstui.units import duration_text

T = TypeVar("T")


class Below(NamedTuple):
    """The worst of what is wrong with the consumers of a stream, and how many are so."""

    kind: Kind
    consumers_count: int
    are_stuck: bool
    """Nothing more is delivered to any of them, though messages are pending."""


def _severity_level(status: Status | Kind) -> int:
    """Return where a row sorts: what it does while nothing is wrong makes no difference."""
    return status.severity_level if isinstance(status, Kind) else 0


class View:
    """One state at one moment. `late_us` is how long ago its newest poll came."""

    def __init__(self, state: State, late_us: int = 0) -> None:
        self.state = at_moment(state, late_us)
        self.now_mono_us = self.state.now_mono_us
        self.now_at_us = self.state.now_at_us
        self._computed: dict[tuple[str, int], object] = {}

    def once(self, what: str, row: int, compute: Callable[[], T]) -> T:
        """Return what is computed of a row, computed once a frame."""
        if (what, row) not in self._computed:
            self._computed[what, row] = compute()
        return cast("T", self._computed[what, row])

    @cached_property
    def stale_us(self) -> int:
        """The age from which a row is stale."""
        return row_stale_after_us(self.state)

    def age_s(self, at_us: int | None) -> float | None:
        """Return how long ago a UTC time was, in seconds."""
        return None if at_us is None else max(0.0, (self.now_at_us - at_us) / 1e6)

    def age_text(self, at_us: int | None) -> str:
        """Return how long ago a UTC time was, for people."""
        return duration_text(self.age_s(at_us))


class StreamView(View):
    """Streams at one moment, by row."""

    def __init__(self, state: State, late_us: int = 0) -> None:
        super().__init__(state, late_us)
        self.columns: StreamColumns = self.state.streams.columns
        """The newest known rows."""

    def __len__(self) -> int:
        return len(self.state.streams)

    def rows(self) -> Sequence[int]:
        """Return the rows the view is about."""
        return range(len(self))

    @property
    def roster(self) -> Roster:
        """Who stands in which row."""
        return self.state.streams.roster

    def key(self, row: int) -> Key:
        """Return the identity of a row."""
        return self.state.streams.roster.keys[row]

    def config(self, row: int) -> StreamConfiguration | None:
        """Return the configuration of a row, if it is known."""
        return self.state.stream_configurations.get(self.columns.name[row])

    def configured(self, get: Callable[[StreamConfiguration], object]) -> list[object]:
        """Return one value of every row's configuration, for sorting."""
        known = (self.config(row) for row in range(len(self)))
        return [None if config is None else get(config) for config in known]

    def rates(self, row: int) -> StreamRates:
        """Return the rates of a row."""
        history = self.state.stream_history
        return self.once("rates", row, lambda: stream_rates(history, self.key(row)))

    def trend(self, row: int, name: str) -> float | None:
        """Return the change per second of a gauge over half a minute."""
        return trend_per_s(self.state.stream_history, self.key(row), name)

    def series(self, row: int, name: str, window_s: int = 60) -> list[Point]:
        """Return a counter's recent values."""
        return self.state.stream_history.series(self.key(row), name, window_s)

    def stale_s(self, row: int) -> float | None:
        """Return the age of a row that is stale, None for a fresh one."""
        if not stream_is_stale(self.state, row):
            return None
        return (self.now_mono_us - self.columns.sampled_mono_us[row]) / 1e6

    def verdict(self, row: int) -> Verdict:
        """Return what is wrong with a stream, or what it does."""
        return self.once("verdict", row, lambda: stream_verdict(self.state, row))

    @cached_property
    def _below(self) -> Mapping[str, tuple[int, int]]:
        return self.state.findings.open_counts().below_count

    def below(self, row: int) -> Below | None:
        """Return what is wrong with the consumers of a stream: the worst of it."""
        name = self.columns.name[row]
        if name not in self._below:
            return None
        state = self.state
        rows = state.consumers.roster.rows_of_stream.get(name, ())
        findings = [state.findings.worst(of_key(state.consumers.roster.keys[at])) for at in rows]
        wrong = [
            each.kind for each in findings if each is not None and each.kind.severity != "info"
        ]
        if not wrong:
            return None
        worst = max(wrong, key=lambda kind: kind.severity_level)
        alike = [kind for kind in wrong if kind.severity == worst.severity]
        return Below(worst, len(alike), all(kind in STANDSTILL for kind in alike))

    def severity_levels(self) -> list[int]:
        """Return how bad each row is, its consumers as well; 0 where nothing is wrong."""
        levels = [_severity_level(status) for status in stream_statuses(self.state)]
        for name in self._below:
            for row in self.state.streams.roster.rows_of_stream.get(name, ()):
                below = self.below(row)
                if below is not None:
                    levels[row] = max(levels[row], below.kind.severity_level)
        return levels

    def problem(self, row: int) -> bool:
        """Tell whether something is wrong with the stream or its consumers, or its row is old."""
        if self.verdict(row).level in ("bad", "warn") or self.columns.name[row] in self._below:
            return True
        return self.stale_s(row) is not None

    def search_text(self, row: int) -> str:
        """Return what a filter looks at: name and subjects."""
        config = self.config(row)
        return " ".join((self.columns.name[row], *(config.subjects if config else ())))


class ConsumerView(View):
    """Consumers at one moment, by row: all of them, or those of one stream."""

    def __init__(self, state: State, late_us: int = 0, stream: str | None = None) -> None:
        super().__init__(state, late_us)
        self.stream = stream
        self.columns: ConsumerColumns = self.state.consumers.columns
        """The newest known rows."""

    def rows(self) -> Sequence[int]:
        """Return the rows the view is about."""
        if self.stream is None:
            return range(len(self))
        return self.state.consumers.roster.rows_of_stream.get(self.stream, [])

    def __len__(self) -> int:
        return len(self.state.consumers)

    @property
    def roster(self) -> Roster:
        """Who stands in which row."""
        return self.state.consumers.roster

    def key(self, row: int) -> Key:
        """Return the identity of a row."""
        return self.state.consumers.roster.keys[row]

    def config(self, row: int) -> ConsumerConfiguration | None:
        """Return the configuration of a row, if it is known."""
        name = (self.columns.stream[row], self.columns.name[row])
        return self.state.consumer_configurations.get(name)

    def configured(self, get: Callable[[ConsumerConfiguration], object]) -> list[object]:
        """Return one value of every row's configuration, for sorting."""
        known = (self.config(row) for row in range(len(self)))
        return [None if config is None else get(config) for config in known]

    def stream_key(self, name: str) -> Key | None:
        """Return the identity of the stream that now has this name."""
        rows = self.state.streams.roster.rows_of_stream.get(name)
        return self.state.streams.roster.keys[rows[-1]] if rows else None

    def verdict(self, row: int) -> Verdict:
        """Return why a consumer stands where it does."""
        return self.once("verdict", row, lambda: consumer_verdict(self.state, row))

    def delivered_msgs_per_s(self, row: int) -> float | None:
        """Return how many messages a second are delivered, redeliveries included."""
        history, name = self.state.consumer_history, "delivered_consumer_seq"
        return self.once("delivered", row, lambda: counter_per_s(history, self.key(row), name))

    def acks(self, row: int) -> AckRate:
        """Return how many messages a second are acknowledged."""
        history = self.state.consumer_history
        return self.once("acks", row, lambda: ack_rate(history, self.key(row), self.config(row)))

    def backlog_trend_per_s(self, row: int) -> float | None:
        """Return by how much what is pending changes per second."""
        history = self.state.consumer_history
        return self.once("trend", row, lambda: backlog_trend_per_s(history, self.key(row)))

    def trend(self, row: int, name: str) -> float | None:
        """Return the change per second of a gauge over half a minute."""
        return trend_per_s(self.state.consumer_history, self.key(row), name)

    def series(self, row: int, name: str, window_s: int = 60) -> list[Point]:
        """Return a counter's recent values."""
        return self.state.consumer_history.series(self.key(row), name, window_s)

    def stale_s(self, row: int) -> float | None:
        """Return the age of a row that is stale, None for a fresh one."""
        if not consumer_is_stale(self.state, row):
            return None
        return (self.now_mono_us - self.columns.sampled_mono_us[row]) / 1e6

    def severity_levels(self) -> list[int]:
        """Return how bad each row is; 0 where nothing is wrong."""
        return [_severity_level(status) for status in statuses(self.state)]

    def problem(self, row: int) -> bool:
        """Return whether something holds the consumer back or it falls behind."""
        return self.verdict(row).level in ("bad", "warn") or self.stale_s(row) is not None

    def search_text(self, row: int) -> str:
        """Return what a filter looks at: stream, name and filter subjects."""
        config = self.config(row)
        filters = config.filter_subjects if config else ()
        return " ".join((self.columns.stream[row], self.columns.name[row], *filters))
