"""Rates, trends and forecasts from the counters of polls.

A rate is the growth of a counter between two polls of the same row, divided by the time between
the two samples. The rate is None, never 0, if the counter decreased, or the row was sampled once
or recreated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from msgspec import Struct

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.live.history import History, Point, Sample
from natstui.model.live.known_rows import RowKey
from natstui.model.live.limits import StreamFill, bytes_are_full, time_to_full_s
from natstui.model.live.state import TimedPollCost

TREND_WINDOW_S = 30
"""Time span of the trend of a backlog or a fill level, in seconds."""


def growth_per_s(older: Point | None, newer: Point | None) -> float | None:
    """Return the growth per second between two points of a counter; None if unknown."""
    if older is None or newer is None or older.value is None or newer.value is None:
        return None
    elapsed_us = newer.mono_us - older.mono_us
    if elapsed_us <= 0 or newer.value < older.value:
        return None
    return (newer.value - older.value) * 1e6 / elapsed_us


def _point_at(sample: Sample, row: int, name: str) -> Point:
    return Point(sample.columns["sampled_mono_us"][row], sample.columns[name][row])


class _RowPoll(NamedTuple):
    """A poll of a row: the sample and the number of the row in it."""

    sample: Sample
    row: int


class _TwoPolls(NamedTuple):
    """Two polls of a row."""

    older: _RowPoll
    newer: _RowPoll


def _find_two_polls(history: History, key: RowKey) -> _TwoPolls | None:
    """Return the two newest polls that read a row; None without two."""
    newer: _RowPoll | None = None
    for sample in reversed(history.recent):
        row = sample.roster.row_of.get(key)
        if row is None:
            if newer is not None:
                return None
            continue
        if newer is None:
            newer = _RowPoll(sample, row)
        elif (
            _point_at(sample, row, history.names[1]).mono_us
            < _point_at(*newer, history.names[1]).mono_us
        ):
            return _TwoPolls(_RowPoll(sample, row), newer)
    return None


def counter_per_s(history: History, key: RowKey, name: str) -> float | None:
    """Return the growth per second of a row's counter between its two newest polls.

    None if unknown.
    """
    rows = _find_two_polls(history, key)
    return growth_per_s(_point_at(*rows[0], name), _point_at(*rows[1], name)) if rows else None


class AckRate(Struct, frozen=True):
    """The acks per second of a consumer; None if unknown."""

    acks_per_s: float | None = None
    is_estimated: bool = False


_ACKS_SPAN_US = 4_000_000
"""Time span of the rate of acks with max deliver: redelivered messages are acked in this time.

A longer span would show a change of the rate later.
"""


def ack_rate(history: History, key: RowKey, config: ConsumerConfiguration | None) -> AckRate:
    """Return the acks per second of a consumer.

    A message is ack pending from its first delivery until its ack, so acks are the first
    deliveries less the growth of ack pending. Dropped messages stay in the number of redelivered
    ones, and are subtracted. Terminated, deleted and purged messages count as acked.
    """
    rows = _find_two_polls(history, key)
    if rows is None:
        return AckRate()
    max_deliver_count = config.max_deliver_count if config else None
    has_filter = config is None or bool(config.filter_subjects)
    has_redelivered = any(_point_at(*row, "redelivered_msgs").value for row in rows)
    if max_deliver_count is not None and has_redelivered:
        rows = _extend_to_ack_span(history, key, rows)
    elapsed_us, *counts = (_growth(rows, name) for name in _ACK_COLUMNS)
    if elapsed_us <= 0:
        return AckRate()
    acked_msgs = estimate_acked_msgs(*counts, has_delivery_limit=max_deliver_count is not None)
    is_estimated = has_redelivered and (
        has_filter or counts[0] < counts[1] or max_deliver_count is not None
    )
    acks_per_s = None if acked_msgs is None else acked_msgs * 1e6 / elapsed_us
    return AckRate(acks_per_s, is_estimated or max_deliver_count == 1)


_ACK_COLUMNS = (
    "sampled_mono_us",
    "delivered_consumer_seq",
    "delivered_stream_seq",
    "ack_pending_msgs",
    "redelivered_msgs",
)


def estimate_acked_msgs(
    deliveries: int,
    passed_seqs: int,
    ack_pending_growth: int,
    redelivered: int,
    *,
    has_delivery_limit: bool,
) -> int | None:
    """Return the number of acked messages, from the growth of a consumer's counters.

    The parameters are the growth of `_ACK_COLUMNS`; `has_delivery_limit`: max deliver is set.
    None if a sequence decreased.
    """
    if deliveries < 0 or passed_seqs < 0:
        return None
    # A redelivery moves only the first of the two, a gap in the stream only the second.
    acked_msgs = min(deliveries, passed_seqs) - ack_pending_growth
    return max(0, acked_msgs - redelivered if has_delivery_limit else acked_msgs)


def _growth(rows: _TwoPolls, name: str) -> int:
    (older, old_row), (newer, new_row) = rows
    return newer.columns[name][new_row] - older.columns[name][old_row]


def _extend_to_ack_span(history: History, key: RowKey, rows: _TwoPolls) -> _TwoPolls:
    """Return the newest poll of a row, and its oldest poll within `_ACKS_SPAN_US` before.

    `rows` are its two newest polls, which are returned if the history has no older one.
    """
    newest, row = rows.newer
    since_us = newest.columns["sampled_mono_us"][row] - _ACKS_SPAN_US
    for sample in history.recent:
        old_row = sample.roster.row_of.get(key)
        if old_row is not None and sample.columns["sampled_mono_us"][old_row] >= since_us:
            if sample is newest:
                return rows
            return _TwoPolls(_RowPoll(sample, old_row), rows.newer)
    return rows


def ack_rate_column(
    history: History, configs: Sequence[ConsumerConfiguration | None]
) -> list[float | None]:
    """Return the acks per second of every row of the newest sample, for sorting.

    Less exact than `ack_rate` with max deliver, as only the two newest polls are compared: the
    exact rate of 10,000 rows would take half a second.
    """
    recent = history.recent
    if not recent:
        return []
    newest = recent[-1]
    if len(recent) < 2 or recent[-2].roster is not newest.roster:
        pairs = zip(newest.roster.keys, configs, strict=True)
        return [ack_rate(history, key, config).acks_per_s for key, config in pairs]
    growths = (_growth_column(recent[-2], newest, name) for name in _ACK_COLUMNS)
    rates: list[float | None] = []
    for key, config, elapsed_us, *counts in zip(
        newest.roster.keys, configs, *growths, strict=True
    ):
        if elapsed_us <= 0:
            rates.append(ack_rate(history, key, config).acks_per_s)
            continue
        has_delivery_limit = config is not None and config.max_deliver_count is not None
        acked_msgs = estimate_acked_msgs(*counts, has_delivery_limit=has_delivery_limit)
        rates.append(None if acked_msgs is None else acked_msgs * 1e6 / elapsed_us)
    return rates


def _growth_column(older: Sample, newer: Sample, name: str) -> Iterator[int]:
    return map(sub, newer.columns[name], older.columns[name])


class StreamRates(Struct, frozen=True):
    """The rates of one stream; None if unknown."""

    in_msgs_per_s: float | None = None
    """Growth of the last sequence."""
    in_bytes_per_s: float | None = None
    removed_msgs_per_s: float | None = None
    """Messages removed by limits, acks, deletes or purges."""
    in_bytes_estimated: bool = False
    """Whether the rate of bytes is estimated, because messages were deleted meanwhile."""


class _StoredCounts(NamedTuple):
    """The stored messages and bytes of a stream at one poll."""

    stored_msgs: int
    stored_bytes: int


def _estimate_deleted_bytes(
    history: History, key: RowKey, stored: _StoredCounts, deleted_msgs: int
) -> float | None:
    """Return the estimated bytes of the messages deleted since the older of two polls.

    Stored messages are deleted first, with their mean size. Further messages were stored and
    deleted between the polls; they count with the mean size of the last minute, or hour. None if
    that is unknown.
    """
    if not deleted_msgs:
        return 0.0
    deleted_stored_msgs = min(deleted_msgs, stored.stored_msgs)
    deleted_stored_bytes = (
        deleted_stored_msgs * stored.stored_bytes / stored.stored_msgs
        if deleted_stored_msgs
        else 0.0
    )
    further_msgs = deleted_msgs - deleted_stored_msgs
    if not further_msgs:
        return deleted_stored_bytes
    mean_bytes = _mean_size_bytes(history, key)
    return None if mean_bytes is None else deleted_stored_bytes + further_msgs * mean_bytes


def _mean_size_bytes(history: History, key: RowKey) -> float | None:
    """Return the mean size of a stream's messages in the history; None if all polls were empty."""
    for tier in history.tiers:
        msgs = size_bytes = 0
        for sample in tier.samples:
            row = sample.roster.row_of.get(key)
            if row is not None:
                msgs += sample.columns["stored_msgs"][row]
                size_bytes += sample.columns["stored_bytes"][row]
        if msgs:
            return size_bytes / msgs
    return None


def stream_rates(history: History, key: RowKey) -> StreamRates:
    """Return the rates of a stream between its two newest polls."""
    rows = _find_two_polls(history, key)
    if rows is None:
        return StreamRates()
    older = {name: _point_at(*rows[0], name) for name in history.names}
    newer = {name: _point_at(*rows[1], name) for name in history.names}
    elapsed_s = (newer["last_seq"].mono_us - older["last_seq"].mono_us) / 1e6
    in_msgs_per_s = growth_per_s(older["last_seq"], newer["last_seq"])
    if in_msgs_per_s is None:
        return StreamRates()
    new_msgs, stored_growth_msgs = (
        (newer[name].value or 0) - (older[name].value or 0) for name in ("last_seq", "stored_msgs")
    )
    removed_msgs_per_s = max(0, new_msgs - stored_growth_msgs) / elapsed_s
    in_bytes_per_s = growth_per_s(older["stored_bytes"], newer["stored_bytes"])
    is_estimated = new_msgs > stored_growth_msgs
    if is_estimated:
        stored = _StoredCounts(
            int(older["stored_msgs"].value or 0), int(older["stored_bytes"].value or 0)
        )
        deleted_bytes = _estimate_deleted_bytes(
            history, key, stored, int(new_msgs - stored_growth_msgs)
        )
        stored_growth_bytes = (newer["stored_bytes"].value or 0) - stored.stored_bytes
        in_bytes_per_s = (
            None
            if deleted_bytes is None
            else max(0.0, stored_growth_bytes + deleted_bytes) / elapsed_s
        )
    return StreamRates(in_msgs_per_s, in_bytes_per_s, removed_msgs_per_s, is_estimated)


def rate_column(history: History, name: str) -> list[float | None]:
    """Return the growth per second of the counter `name`, as `counter_per_s`, of every row.

    Column by column: row by row, 100,000 rows would take half a second.
    """
    if not history.recent:
        return []
    *older_samples, newest = history.recent
    times, values = newest.columns["sampled_mono_us"], newest.columns[name]
    rates: list[float | None] = [None] * len(times)
    rows_without_older_poll: Sequence[int] = range(len(times))
    """Rows that no later sample read."""
    for older in reversed(older_samples):
        older_rows = _find_older_rows(older, newest, rows_without_older_poll)
        older_times, older_values = older.columns["sampled_mono_us"], older.columns[name]
        still_without_older_poll: list[int] = []
        for row, older_row in zip(rows_without_older_poll, older_rows, strict=True):
            if older_row is None:
                continue
            if older_times[older_row] >= times[row]:
                still_without_older_poll.append(row)
            elif values[row] >= older_values[older_row]:
                elapsed_us = times[row] - older_times[older_row]
                rates[row] = (values[row] - older_values[older_row]) * 1e6 / elapsed_us
        rows_without_older_poll = still_without_older_poll
        if not rows_without_older_poll:
            break
    return rates


def _find_older_rows(older: Sample, newer: Sample, rows: Sequence[int]) -> Iterable[int | None]:
    """Return the row numbers in an older sample of rows of a newer one; None where it has none."""
    if older.roster is newer.roster:
        return rows
    keys = newer.roster.keys
    return [older.roster.row_of.get(keys[row]) for row in rows]


def rates_of_series(points: Sequence[Point], longest_gap_us: int) -> list[Point]:
    """Return the growth per second between neighbouring points, at the time of the later one.

    None across a gap, or if the points are further apart than `longest_gap_us`.
    """
    rates: list[Point] = []
    for older, newer in pairwise(points):
        is_gap = newer.mono_us - older.mono_us > longest_gap_us
        rates.append(Point(newer.mono_us, None if is_gap else growth_per_s(older, newer)))
    return rates


def _trend_start(history: History, key: RowKey) -> _RowPoll | None:
    """Return the oldest poll of a row within the last `TREND_WINDOW_S`; None without one."""
    trend_from_us = history.recent[-1].mono_us - TREND_WINDOW_S * 1_000_000
    for sample in history.recent:
        if sample.mono_us >= trend_from_us:
            row = sample.roster.row_of.get(key)
            if row is not None:
                return _RowPoll(sample, row)
    return None


def trend_per_s(history: History, key: RowKey, name: str) -> float | None:
    """Return the mean change per second of a gauge over `TREND_WINDOW_S`; None if unknown."""
    if not history.recent:
        return None
    newest, start = history.recent[-1], _trend_start(history, key)
    row = newest.roster.row_of.get(key)
    if start is None or row is None:
        return None
    return _change_per_s(_point_at(*start, name), _point_at(newest, row, name))


def backlog_trend_per_s(history: History, key: RowKey) -> float | None:
    """Return the trend of a consumer's pending messages per second; None if it predicts nothing.

    A shrinking backlog predicts its end only if it also shrinks in the newest third of
    `TREND_WINDOW_S`, by more than it rises between two polls, and by deliveries, not by a purge.
    """
    pending_trend_per_s = trend_per_s(history, key, "pending_msgs")
    if pending_trend_per_s is None or pending_trend_per_s >= 0:
        return pending_trend_per_s
    polls = _backlog_polls(history, key)
    first, last = polls[0], polls[-1]
    consecutive_polls = list(pairwise(polls))
    newest_third_us = last.mono_us - (last.mono_us - first.mono_us) / 3
    newest_pending_msgs = [poll.pending_msgs for poll in polls if poll.mono_us >= newest_third_us]
    is_growing_at_end = newest_pending_msgs[-1] > newest_pending_msgs[0]
    largest_rise_msgs = max(
        newer.pending_msgs - older.pending_msgs for older, newer in consecutive_polls
    )
    is_noise = first.pending_msgs - last.pending_msgs <= largest_rise_msgs
    was_purged = any(
        older.pending_msgs - newer.pending_msgs > newer.deliveries - older.deliveries
        for older, newer in consecutive_polls
    )
    return None if is_growing_at_end or is_noise or was_purged else pending_trend_per_s


class _BacklogPoll(NamedTuple):
    """A consumer's counters at one poll."""

    mono_us: int
    pending_msgs: int
    deliveries: int


def _backlog_polls(history: History, key: RowKey) -> list[_BacklogPoll]:
    """Return the polls of a consumer within the last `TREND_WINDOW_S`, oldest first."""
    polls: list[_BacklogPoll] = []
    trend_from_us = history.recent[-1].mono_us - TREND_WINDOW_S * 1_000_000
    for sample in history.recent:
        row = sample.roster.row_of.get(key)
        if sample.mono_us < trend_from_us or row is None:
            continue
        columns = sample.columns
        us = columns["sampled_mono_us"][row]
        if not polls or us > polls[-1].mono_us:
            deliveries = columns["delivered_consumer_seq"][row]
            polls.append(_BacklogPoll(us, columns["pending_msgs"][row], deliveries))
    return polls


def _change_per_s(older: Point, newer: Point) -> float | None:
    elapsed_us = newer.mono_us - older.mono_us
    if elapsed_us <= 0 or older.value is None or newer.value is None:
        return None
    return (newer.value - older.value) * 1e6 / elapsed_us


def trend_column(history: History, name: str) -> list[float | None]:
    """Return the change per second of the gauge `name`, as `trend_per_s`, of every row."""
    if not history.recent:
        return []
    newest = history.recent[-1]
    trend_from_us = newest.mono_us - TREND_WINDOW_S * 1_000_000
    start = next(sample for sample in history.recent if sample.mono_us >= trend_from_us)
    if start.roster is not newest.roster:
        return [trend_per_s(history, key, name) for key in newest.roster.keys]
    times = zip(start.columns["sampled_mono_us"], newest.columns["sampled_mono_us"], strict=True)
    values = zip(start.columns[name], newest.columns[name], strict=True)
    return [
        (new - old) * 1e6 / (later_us - earlier_us) if later_us > earlier_us else None
        for (earlier_us, later_us), (old, new) in zip(times, values, strict=True)
    ]


def stream_full_in_s(history: History, key: RowKey, fill: StreamFill) -> float | None:
    """Return the seconds until a limit of a stream is reached, 0 if one is; None if unknown."""
    is_deleting = (trend_per_s(history, key, "first_seq") or 0.0) > 0
    if bytes_are_full(fill, is_deleting=is_deleting):
        return 0.0
    times = (
        time_to_full_s(fill.stored_msgs, fill.max_msgs, trend_per_s(history, key, "stored_msgs")),
        time_to_full_s(
            fill.stored_bytes, fill.max_bytes, trend_per_s(history, key, "stored_bytes")
        ),
    )
    return min((time_s for time_s in times if time_s is not None), default=None)


def stored_at_mono_us(last_seq: Sequence[Point], seq: int) -> int | None:
    """Return the time (µs, steady clock) when the sequence `seq` was stored.

    It is interpolated between the points of `last_seq`, a stream's last sequence over time; None
    if `seq` was stored before they begin, or is not stored yet.
    """
    known_points = [point for point in last_seq if point.value is not None]
    for older, newer in pairwise(known_points):
        low_value, high_value = older.value or 0, newer.value or 0
        if low_value < seq <= high_value:
            share = (seq - low_value) / (high_value - low_value)
            return round(older.mono_us + share * (newer.mono_us - older.mono_us))
    return None


_MINUTE_US = 60_000_000


def own_requests_per_s(costs: Sequence[TimedPollCost]) -> float | None:
    """Return natstui's API requests per second in the last minute, at least over two polls.

    None before the second poll.
    """
    recent = [cost for cost in costs if cost.mono_us > costs[-1].mono_us - _MINUTE_US]
    recent = recent if len(recent) > 1 else list(costs[-2:])
    elapsed_us = recent[-1].mono_us - recent[0].mono_us if recent else 0
    requests_count = sum(cost.cost.requests_count for cost in recent[1:])
    return requests_count * 1e6 / elapsed_us if elapsed_us > 0 else None
