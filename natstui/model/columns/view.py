"""Streams and consumers at one time, by row: state, rates and findings, computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar, cast

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.findings.catalogue.consumers import STUCK_KINDS
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.status import Status
from natstui.model.findings.finding import entity_of_key
from natstui.model.findings.verdict import (
    Verdict,
    consumer_statuses,
    consumer_verdict,
    stream_statuses,
    stream_verdict,
)
from natstui.model.live.age import (
    consumer_is_stale,
    row_stale_after_us,
    state_at_poll_age,
    stream_is_stale,
)
from natstui.model.live.history import History, Point
from natstui.model.live.known_rows import AssetRows, Roster, RowKey
from natstui.model.live.rates import (
    trend_per_s,
)
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns
from natstui.model.live.state import State
from natstui.units import duration_text

ResultT = TypeVar("ResultT")


class ConsumersStatus(NamedTuple):
    """The worst finding of a stream's consumers, and the number of consumers that have it."""

    kind: Kind
    consumers_count: int
    are_stuck: bool
    """Whether delivery to all these consumers has stopped, though messages are pending."""


def _severity_level(status: Status | Kind) -> int:
    """Return the severity of a row's status for sorting; 0 without a finding."""
    return status.severity_level if isinstance(status, Kind) else 0


class View:
    """The state at one time; `poll_age_us` is the age of its newest poll at that time."""

    def __init__(self, state: State, poll_age_us: int = 0) -> None:
        self.state = state_at_poll_age(state, poll_age_us)
        self.now_mono_us = self.state.now_mono_us
        self.now_at_us = self.state.now_at_us
        self._result_by_name_and_row: dict[tuple[str, int], object] = {}

    def compute_once(self, name: str, row: int, compute: Callable[[], ResultT]) -> ResultT:
        """Return the result of `compute` for a row, called once per view and `name`."""
        if (name, row) not in self._result_by_name_and_row:
            self._result_by_name_and_row[name, row] = compute()
        return cast("ResultT", self._result_by_name_and_row[name, row])

    @cached_property
    def stale_us(self) -> int:
        """Return the age in µs above which a row is stale."""
        return row_stale_after_us(self.state)

    def age_s(self, at_us: int | None) -> float | None:
        """Return the seconds since a time (UTC); None if the time is None."""
        return None if at_us is None else max(0.0, (self.now_at_us - at_us) / 1e6)

    def age_text(self, at_us: int | None) -> str:
        """Return the duration since a time (UTC) as text."""
        return duration_text(self.age_s(at_us))


class AssetView(View):
    """Streams or consumers at one time, by row: keys, ages and trends."""

    _table: AssetRows[StreamColumns] | AssetRows[ConsumerColumns]
    _history: History

    def __len__(self) -> int:
        return len(self._table)

    def rows(self) -> Sequence[int]:
        """Return the indexes of the rows of this view."""
        return range(len(self))

    @property
    def roster(self) -> Roster:
        """Return the keys of all rows."""
        return self._table.roster

    def key(self, row: int) -> RowKey:
        """Return the key of a row."""
        return self._table.roster.keys[row]

    def trend(self, row: int, name: str) -> float | None:
        """Return the change per second of the column `name` of a row, over 30 s.

        None if unknown.
        """
        return trend_per_s(self._history, self.key(row), name)

    def series(self, row: int, name: str, window_s: int = 60) -> list[Point]:
        """Return the values of the column `name` of a row in the last `window_s` seconds."""
        return self._history.series(self.key(row), name, window_s)

    def sampled_ago_s(self, row: int) -> float:
        """Return the age of a row in seconds."""
        return (self.now_mono_us - self._table.columns.sampled_mono_us[row]) / 1e6


class StreamView(AssetView):
    """Streams at one time, by row."""

    def __init__(self, state: State, poll_age_us: int = 0) -> None:
        super().__init__(state, poll_age_us)
        self._table, self._history = state.streams, state.stream_history
        self.columns: StreamColumns = self.state.streams.columns
        """The newest known rows."""

    def config(self, row: int) -> StreamConfiguration | None:
        """Return the configuration of a row; None if unknown."""
        return self.state.stream_configurations.get(self.columns.name[row])

    def stale_s(self, row: int) -> float | None:
        """Return the age of a stale row in seconds; None for a fresh row."""
        return self.sampled_ago_s(row) if stream_is_stale(self.state, row) else None

    def verdict(self, row: int) -> Verdict:
        """Return the status of a stream: its worst finding, or its activity."""
        return self.compute_once("verdict", row, lambda: stream_verdict(self.state, row))

    @cached_property
    def _consumer_counts_by_stream(self) -> Mapping[str, tuple[int, int]]:
        return self.state.findings.count_open_findings().consumers_by_stream_count

    def consumers_status(self, row: int) -> ConsumersStatus | None:
        """Return the worst finding of a stream's consumers; None without a warning or worse."""
        name = self.columns.name[row]
        if name not in self._consumer_counts_by_stream:
            return None
        state = self.state
        rows = state.consumers.roster.rows_of_stream.get(name, ())
        findings = [
            state.findings.find_worst_finding(
                entity_of_key(state.consumers.roster.keys[consumer_row])
            )
            for consumer_row in rows
        ]
        kinds = [
            finding.kind
            for finding in findings
            if finding is not None and finding.kind.severity != "info"
        ]
        if not kinds:
            return None
        worst_kind = max(kinds, key=lambda kind: kind.severity_level)
        worst_kinds = [kind for kind in kinds if kind.severity == worst_kind.severity]
        return ConsumersStatus(
            worst_kind,
            len(worst_kinds),
            all(kind in STUCK_KINDS for kind in worst_kinds),
        )

    def severity_levels(self) -> list[int]:
        """Return the severity of each row, including its consumers; 0 without findings."""
        levels = [_severity_level(status) for status in stream_statuses(self.state)]
        for name in self._consumer_counts_by_stream:
            for row in self.state.streams.roster.rows_of_stream.get(name, ()):
                status = self.consumers_status(row)
                if status is not None:
                    levels[row] = max(levels[row], status.kind.severity_level)
        return levels

    def has_problem(self, row: int) -> bool:
        """Return whether a stream or its consumers have a critical finding or a warning.

        True also if the row is stale.
        """
        if (
            self.verdict(row).level in ("bad", "warn")
            or self.columns.name[row] in self._consumer_counts_by_stream
        ):
            return True
        return self.stale_s(row) is not None

    def search_text(self, row: int) -> str:
        """Return the text that a filter searches: name and subjects."""
        config = self.config(row)
        return " ".join((self.columns.name[row], *(config.subjects if config else ())))


class ConsumerView(AssetView):
    """Consumers at one time, by row: all, or only of one stream."""

    def __init__(self, state: State, poll_age_us: int = 0, stream: str | None = None) -> None:
        super().__init__(state, poll_age_us)
        self._table, self._history = state.consumers, state.consumer_history
        self.stream = stream
        self.columns: ConsumerColumns = self.state.consumers.columns
        """The newest known rows."""

    def rows(self) -> Sequence[int]:
        """Return the indexes of the rows of this view."""
        if self.stream is None:
            return super().rows()
        return self.roster.rows_of_stream.get(self.stream, [])

    def config(self, row: int) -> ConsumerConfiguration | None:
        """Return the configuration of a row; None if unknown."""
        name = (self.columns.stream[row], self.columns.name[row])
        return self.state.consumer_configurations.get(name)

    def stale_s(self, row: int) -> float | None:
        """Return the age of a stale row in seconds; None for a fresh row."""
        return self.sampled_ago_s(row) if consumer_is_stale(self.state, row) else None

    def stream_key(self, name: str) -> RowKey | None:
        """Return the key of the stream with this name; None without one."""
        rows = self.state.streams.roster.rows_of_stream.get(name)
        return self.state.streams.roster.keys[rows[-1]] if rows else None

    def verdict(self, row: int) -> Verdict:
        """Return the status of a consumer: its worst finding, or its activity."""
        return self.compute_once("verdict", row, lambda: consumer_verdict(self.state, row))

    def severity_levels(self) -> list[int]:
        """Return the severity of each row; 0 without findings."""
        return [_severity_level(status) for status in consumer_statuses(self.state)]

    def has_problem(self, row: int) -> bool:
        """Return whether a consumer has a critical finding or a warning, or a stale row."""
        return self.verdict(row).level in ("bad", "warn") or self.stale_s(row) is not None

    def search_text(self, row: int) -> str:
        """Return the text that a filter searches: stream, name and filter subjects."""
        config = self.config(row)
        filters = config.filter_subjects if config else ()
        return " ".join((self.columns.stream[row], self.columns.name[row], *filters))
