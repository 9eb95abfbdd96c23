"""A bounded history of counters: every recent poll, and fewer older polls.

A tier keeps one sample per period over a window. Samples have entire columns as machine integers,
so a new sample costs one copy per column and no work per row. With many rows a tier keeps fewer
samples with a longer period, over the same window.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from natstui.model.live.known_rows import AssetRows, Roster, RowKey
from natstui.model.live.past_polls import NUMBER_BYTES, to_numbers
from natstui.model.live.snapshot import ConsumerColumns, StreamColumns

STREAM_COLUMNS = ("sampled_mono_us", "last_seq", "first_seq", "stored_msgs", "stored_bytes")
CONSUMER_COLUMNS = (
    "sampled_mono_us",
    "delivered_consumer_seq",
    "delivered_stream_seq",
    "ack_floor_consumer_seq",
    "ack_floor_stream_seq",
    "pending_msgs",
    "ack_pending_msgs",
    "redelivered_msgs",
)
WINDOWS_S = (60, 300, 900, 3600)
"""The windows of charts in seconds; each has a tier."""

_MAX_SAMPLES_PER_TIER = 150
_MAX_CELLS_PER_TIER = 1_500_000
"""Limit of values (rows × columns × samples) in a tier: 12 MB."""
_MIN_SAMPLES_PER_TIER = 8


def max_samples_count(cells_count: int) -> int:
    """Return the maximum number of samples in a tier; `cells_count` is rows × columns."""
    return max(
        _MIN_SAMPLES_PER_TIER,
        min(_MAX_SAMPLES_PER_TIER, _MAX_CELLS_PER_TIER // max(1, cells_count)),
    )


def begins_period(last_mono_us: int, mono_us: int, window_s: int, samples_count: int) -> bool:
    """Return whether a poll at `mono_us` begins a new period after one at `last_mono_us`.

    A window of `window_s` has `samples_count` periods. They begin at fixed times of the engine's
    clock, so that a tier has the same polls whenever a viewer or a replay starts.
    """
    window_us = window_s * 1_000_000
    return mono_us * samples_count // window_us > last_mono_us * samples_count // window_us


class Sample(Struct, frozen=True):
    """The counters of all rows of a table at one poll."""

    mono_us: int
    at_us: int
    roster: Roster
    columns: Mapping[str, array[int]]


class Point(Struct, frozen=True):
    """One value of one row, at the time of its sample."""

    mono_us: int
    value: int | float | None
    """None for a gap: the row did not exist."""


class Tier(Struct, frozen=True):
    """Samples over one window, oldest first."""

    window_s: int
    samples: tuple[Sample, ...] = ()

    def after(self, sample: Sample) -> Tier:
        """Return the tier with the sample added if it begins a period, without expired samples."""
        max_count = max_samples_count(len(sample.roster.keys) * len(sample.columns))
        if self.window_s > WINDOWS_S[0] and self.samples:
            last_us = self.samples[-1].mono_us
            if not begins_period(last_us, sample.mono_us, self.window_s, max_count):
                return self
        oldest_us = sample.mono_us - self.window_s * 1_000_000 - 1
        first = max(0, len(self.samples) + 1 - max_count)
        while first < len(self.samples) and self.samples[first].mono_us <= oldest_us:
            first += 1
        return Tier(self.window_s, (*self.samples[first:], sample))


def _empty_tiers() -> tuple[Tier, ...]:
    return tuple(Tier(window_s) for window_s in WINDOWS_S)


class History(Struct, frozen=True):
    """The history of one table's counters, in tiers of different windows."""

    names: tuple[str, ...]
    tiers: tuple[Tier, ...] = field(default_factory=_empty_tiers)

    def after(
        self,
        table: AssetRows[StreamColumns] | AssetRows[ConsumerColumns],
        mono_us: int,
        at_us: int,
    ) -> History:
        """Return the history with the table's current counters as newest sample."""
        columns = {name: array("Q", getattr(table.columns, name)) for name in self.names}
        return self._add_sample(Sample(mono_us, at_us, table.roster, columns))

    def with_older_polls(
        self,
        columns: Mapping[str, bytes],
        roster: Roster,
        poll_times_us: Sequence[tuple[int, int]],
    ) -> History:
        """Return the history with older polls of the rows of `roster`, as in `PastPolls`.

        `poll_times_us` are (time on the engine's clock, UTC) of the polls. Raises ValueError if
        a column is missing or lacks rows.
        """
        row_bytes = len(roster.keys) * NUMBER_BYTES
        column_bytes = [columns.get(name, b"") for name in self.names]
        if any(len(text) != row_bytes * len(poll_times_us) for text in column_bytes):
            raise ValueError("polls of other rows than those known")
        history = self
        for number, (mono_us, at_us) in enumerate(poll_times_us):
            byte_range = slice(number * row_bytes, (number + 1) * row_bytes)
            numbers = [to_numbers(text[byte_range]) for text in column_bytes]
            sample = Sample(mono_us, at_us, roster, dict(zip(self.names, numbers, strict=True)))
            history = history._add_sample(sample)
        return history

    def _add_sample(self, sample: Sample) -> History:
        """Return the history with a sample added to each tier whose next period it begins."""
        return History(self.names, tuple(tier.after(sample) for tier in self.tiers))

    @property
    def recent(self) -> tuple[Sample, ...]:
        """Return the samples of all newest polls, oldest first."""
        return self.tiers[0].samples

    def series(self, key: RowKey, name: str, window_s: int = WINDOWS_S[0]) -> list[Point]:
        """Return the values of one row over a window, oldest first; gaps are None."""
        samples = next(tier.samples for tier in self.tiers if tier.window_s >= window_s)
        newest = self.recent[-1:] if samples[-1:] != self.recent[-1:] else ()
        points: list[Point] = []
        for sample in (*samples, *newest):
            row = sample.roster.row_of.get(key)
            if row is None:
                points.append(Point(sample.mono_us, None))
                continue
            mono_us = sample.columns["sampled_mono_us"][row]
            # A row that was not polled in between is one point, not several.
            if not points or points[-1].value is None or points[-1].mono_us < mono_us:
                points.append(Point(mono_us, sample.columns[name][row]))
        return points
