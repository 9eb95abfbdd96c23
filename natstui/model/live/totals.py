"""Totals of a system: rates, pending messages, storage, and the rows with the largest values."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, pairwise
from typing import NamedTuple

from msgspec import Struct

from natstui.model.live.history import History, Point, Sample
from natstui.model.live.known_rows import Roster, RowKey
from natstui.model.live.rates import rate_column, trend_column
from natstui.model.live.state import State

_SAMPLE_TIME_COLUMN = "sampled_mono_us"
_MAX_SUMMED_ROWS = 20_000
"""Limit of rows whose rates are summed: of more, the history is mostly shorter than the time in
which every row is polled, so that many rates are unknown.
"""
_MEAN_POLLS_COUNT = 8
"""Number of polls of which a total is the mean where the rates of some rows are unknown."""


class Total(NamedTuple):
    """A value of the entire system: the current one, None if unknown, and its last minute."""

    current_value: float | None
    points: tuple[Point, ...]


class StorageUse(Struct, frozen=True):
    """The stored bytes, and their limit; `max_bytes` is None if unlimited."""

    used_bytes: int
    max_bytes: int | None

    @property
    def share(self) -> float | None:
        """Return the used bytes as a share of the limit; None without a limit."""
        return self.used_bytes / self.max_bytes if self.max_bytes else None


def stored_per_s(state: State) -> Total:
    """Return the messages per second that publishers store in all streams.

    Streams without subjects, as mirrors, do not count: they copy messages of other streams.
    """
    configurations = state.stream_configurations

    def is_published_to(key: RowKey) -> bool:
        config = configurations.get(str(key[0]))
        return config is None or bool(config.subjects)

    return _total_growth(state.stream_history, "last_seq", is_published_to)


def delivered_per_s(state: State) -> Total:
    """Return the deliveries per second of all consumers, including redeliveries."""
    return _total_growth(state.consumer_history, "delivered_consumer_seq", lambda _key: True)


def pending_msgs(state: State) -> Total:
    """Return the pending messages of all consumers."""
    samples = state.consumer_history.recent
    points = [Point(sample.mono_us, sum(sample.columns["pending_msgs"])) for sample in samples]
    is_total_known = bool(state.costs) and can_read_consumers(state)
    return Total(
        float(sum(state.consumers.columns.pending_msgs)) if is_total_known else None, tuple(points)
    )


def can_read_streams(state: State) -> bool:
    """Return whether the streams are known; False if they cannot be listed."""
    return bool(len(state.streams)) or not _find_unavailable_lists(state, "STREAM.LIST")


def can_read_consumers(state: State) -> bool:
    """Return whether the consumers of every stream are known."""
    unavailable_lists = _find_unavailable_lists(state, "CONSUMER.LIST")
    if not unavailable_lists:
        return can_read_streams(state)
    known_streams = set(state.consumers.columns.stream)
    return all(verb.removeprefix("CONSUMER.LIST.") in known_streams for verb in unavailable_lists)


def _find_unavailable_lists(state: State, api_verb: str) -> list[str]:
    return [verb for verb in state.unavailable if verb.startswith(api_verb)]


def storage_use(state: State) -> StorageUse | None:
    """Return the file storage used by the account; by all servers if the account has no limit.

    None if neither is known.
    """
    account = state.account
    if account is not None and account.max_storage_bytes:
        return StorageUse(account.storage_bytes, account.max_storage_bytes)
    newest = state.servers.newest
    file_storages = [row.jetstream.file for row in newest.rows if row.jetstream] if newest else []
    if file_storages and all(file.max_bytes > 0 for file in file_storages):
        return StorageUse(
            sum(file.used_bytes for file in file_storages),
            sum(file.max_bytes for file in file_storages),
        )
    return None if account is None else StorageUse(account.storage_bytes, None)


def busiest_streams(state: State, max_count: int) -> list[int]:
    """Return the rows of the streams that stored most messages in `TREND_WINDOW_S`, most first."""
    return _find_largest(
        range(len(state.streams)), trend_column(state.stream_history, "last_seq"), max_count
    )


def lagging_consumers(state: State, max_count: int) -> list[int]:
    """Return the rows of the consumers with the most pending messages, the most first."""
    pending = state.consumers.columns.pending_msgs
    return _find_largest((row for row, count in enumerate(pending) if count), pending, max_count)


def _find_largest(
    rows: Iterable[int], values: Sequence[float | None], max_count: int
) -> list[int]:
    """Return the `max_count` rows with the largest values; unknown values come last."""

    def value(row: int) -> float:
        value_of_row = values[row] if row < len(values) else None
        return -1.0 if value_of_row is None else float(value_of_row)

    return heapq.nsmallest(max_count, rows, key=lambda row: (-value(row), row))


def _total_growth(history: History, name: str, is_counted: Callable[[RowKey], bool]) -> Total:
    """Return the growth per second of a counter, summed over rows that `is_counted` accepts."""
    samples = list(history.recent[:1])
    for sample in history.recent[1:]:
        # A poll without new rows does not show a growth.
        if (
            sample.roster is not samples[-1].roster
            or sample.columns[_SAMPLE_TIME_COLUMN] != samples[-1].columns[_SAMPLE_TIME_COLUMN]
        ):
            samples.append(sample)
    if not samples:
        return Total(None, ())
    mask_by_roster_id: dict[int, list[bool]] = {}

    def counted_rows_mask(roster: Roster) -> list[bool]:
        if id(roster) not in mask_by_roster_id:
            mask_by_roster_id[id(roster)] = [is_counted(key) for key in roster.keys]
        return mask_by_roster_id[id(roster)]

    counter_sums = [
        sum(compress(sample.columns[name], counted_rows_mask(sample.roster))) for sample in samples
    ]
    points: list[Point] = []
    growths: list[tuple[int, int]] = []
    """Growth and time (µs) of each point with a value."""
    for index, (older, newer) in enumerate(pairwise(samples)):
        growth = (
            counter_sums[index + 1] - counter_sums[index]
            if older.roster is newer.roster
            else _summed_growth(older, newer, name, counted_rows_mask(newer.roster))
        )
        elapsed_us = newer.mono_us - older.mono_us
        if growth is None or growth < 0 or elapsed_us <= 0:
            points.append(Point(newer.mono_us, None))
            continue
        growths.append((growth, elapsed_us))
        points.append(Point(newer.mono_us, growth * 1e6 / elapsed_us))
    newest = samples[-1]
    if len(newest.roster.keys) <= _MAX_SUMMED_ROWS:
        rates = list(compress(rate_column(history, name), counted_rows_mask(newest.roster)))
        known_rates = [rate for rate in rates if rate is not None]
        if len(known_rates) == len(rates):
            return Total(sum(known_rates) if known_rates else None, tuple(points))
    return Total(_mean_per_s(growths[-_MEAN_POLLS_COUNT:]), tuple(points))


def _mean_per_s(growths: Sequence[tuple[int, int]]) -> float | None:
    """Return the mean growth per second; `growths` are pairs of growth and time (µs)."""
    if not growths:
        return None
    return sum(growth for growth, _ in growths) * 1e6 / sum(us for _, us in growths)


def _summed_growth(older: Sample, newer: Sample, name: str, mask: Sequence[bool]) -> int | None:
    """Return the growth of a counter, summed over the rows of `mask` that are in both samples.

    None if none of these rows was read for the newer sample.
    """
    growth, is_read = 0, False
    for row, key in enumerate(newer.roster.keys):
        older_row = older.roster.row_of.get(key)
        if mask[row] and older_row is not None:
            growth += newer.columns[name][row] - older.columns[name][older_row]
            is_read = is_read or (
                newer.columns[_SAMPLE_TIME_COLUMN][row]
                > older.columns[_SAMPLE_TIME_COLUMN][older_row]
            )
    return growth if is_read else None
