"""Counters of two moments → rates, lag, and time left.

One rule for all: a rate is the growth of a counter between two polls of the same row, divided by
the time between the two replies. A counter that decreased, a row seen once, a row recreated under
the same name: no rate. Absent, never zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from typing import NamedTuple

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.live.history import History, Point, Sample
from natstui.model.live.limits import Fill, bytes_are_full, time_to_full_s
from natstui.model.live.state import Cost
from natstui.model.live.table import Key

TREND_S = 30
"""Time span of the trend of a backlog or a fill level."""


def per_s(older: Point | None, newer: Point | None) -> float | None:
    """Return the growth per second between two points of a counter, or None."""
    if older is None or newer is None or older.value is None or newer.value is None:
        return None
    elapsed_us = newer.mono_us - older.mono_us
    if elapsed_us <= 0 or newer.value < older.value:
        return None
    return (newer.value - older.value) * 1e6 / elapsed_us


def _at(sample: Sample, row: int, name: str) -> Point:
    return Point(sample.columns["sampled_mono_us"][row], sample.columns[name][row])


def _two_rows(history: History, key: Key) -> tuple[tuple[Sample, int], tuple[Sample, int]] | None:
    """Return the two newest polls of a row: (sample, row) older and newer."""
    newer: tuple[Sample, int] | None = None
    for sample in reversed(history.recent):
        row = sample.roster.row_of.get(key)
        if row is None:
            if newer is not None:
                return None
            continue
        if newer is None:
            newer = (sample, row)
        elif _at(sample, row, history.names[1]).mono_us < _at(*newer, history.names[1]).mono_us:
            return (sample, row), newer
    return None


def counter_per_s(history: History, key: Key, name: str) -> float | None:
    """Return the rate of one counter of one row between its two newest polls."""
    rows = _two_rows(history, key)
    return per_s(_at(*rows[0], name), _at(*rows[1], name)) if rows else None


@dataclass(frozen=True, slots=True)
class AckRate:
    """The number of acks per second; None if unknown."""

    per_s: float | None = None
    estimated: bool = False


_LONG_US = 4_000_000
"""Time span over which redelivered messages are acked, and dropped ones stay.

A longer span would show a change of the rate later: a rate over 30 s would be off by it.
"""


def ack_rate(history: History, key: Key, config: ConsumerConfiguration | None) -> AckRate:
    """Return the number of acks per second, in any order.

    A message is ack pending from its first delivery until its ack: so acks are the first
    deliveries less the growth of ack pending. Dropped ones stay in the count of redelivered ones,
    and are subtracted. Terminated, deleted and purged ones count as acked.
    """
    rows = _two_rows(history, key)
    if rows is None:
        return AckRate()
    limit_count = config.max_deliver_count if config else None
    has_filter = config is None or bool(config.filter_subjects)
    has_redelivered = any(_at(*row, "redelivered_msgs").value for row in rows)
    if limit_count is not None and has_redelivered:
        rows = _longer(history, key, rows)
    elapsed_us, *counts = (_growth(rows, name) for name in _ACK_COLUMNS)
    if elapsed_us <= 0:
        return AckRate()
    acked_msgs = settled_msgs(*counts, has_delivery_limit=limit_count is not None)
    unsure = has_redelivered and (has_filter or counts[0] < counts[1] or limit_count is not None)
    per_s = None if acked_msgs is None else acked_msgs * 1e6 / elapsed_us
    return AckRate(per_s, unsure or limit_count == 1)


_ACK_COLUMNS = (
    "sampled_mono_us",
    "delivered_consumer_seq",
    "delivered_stream_seq",
    "ack_pending_msgs",
    "redelivered_msgs",
)


def settled_msgs(
    deliveries: int, passed: int, waiting: int, redelivered: int, *, has_delivery_limit: bool
) -> int | None:
    """Return how many messages were acked while the counters of a consumer grew.

    The counters are `_ACK_COLUMNS`; `has_delivery_limit`: there is a max deliver. None when a
    sequence decreased.
    """
    if deliveries < 0 or passed < 0:
        return None
    # A redelivery moves only the first of the two, a gap in the stream only the second.
    acked_msgs = min(deliveries, passed) - waiting
    return max(0, acked_msgs - redelivered if has_delivery_limit else acked_msgs)


_Rows = tuple[tuple[Sample, int], tuple[Sample, int]]


def _growth(rows: _Rows, name: str) -> int:
    (older, old_row), (newer, new_row) = rows
    return newer.columns[name][new_row] - older.columns[name][old_row]


def _longer(history: History, key: Key, rows: _Rows) -> _Rows:
    """Return the newest poll of a row, and its oldest within `_LONG_US`."""
    newest, row = rows[1]
    since_us = newest.columns["sampled_mono_us"][row] - _LONG_US
    for sample in history.recent:
        old_row = sample.roster.row_of.get(key)
        if old_row is not None and sample.columns["sampled_mono_us"][old_row] >= since_us:
            return ((sample, old_row), rows[1]) if sample is not newest else rows
    return rows


def ack_rate_column(
    history: History, configs: Sequence[ConsumerConfiguration | None]
) -> list[float | None]:
    """Return the acks a second of every row of the newest sample, for sorting.

    Where both newest polls have a row it is the rate between them, also with a limit of
    deliveries: over 10,000 rows `ack_rate` would take half a second.
    """
    recent = history.recent
    if not recent:
        return []
    newest = recent[-1]
    if len(recent) < 2 or recent[-2].roster is not newest.roster:
        pairs = zip(newest.roster.keys, configs, strict=True)
        return [ack_rate(history, key, config).per_s for key, config in pairs]
    growths = (_grown(recent[-2], newest, name) for name in _ACK_COLUMNS)
    rates: list[float | None] = []
    for key, config, elapsed_us, *counts in zip(
        newest.roster.keys, configs, *growths, strict=True
    ):
        if elapsed_us <= 0:
            rates.append(ack_rate(history, key, config).per_s)
            continue
        has_delivery_limit = config is not None and config.max_deliver_count is not None
        acked_msgs = settled_msgs(*counts, has_delivery_limit=has_delivery_limit)
        rates.append(None if acked_msgs is None else acked_msgs * 1e6 / elapsed_us)
    return rates


def _grown(older: Sample, newer: Sample, name: str) -> Iterator[int]:
    return map(sub, newer.columns[name], older.columns[name])


@dataclass(frozen=True, slots=True)
class StreamRates:
    """The rates of one stream; None if unknown."""

    in_msgs_per_s: float | None = None
    """Growth of the last sequence."""
    in_bytes_per_s: float | None = None
    removed_msgs_per_s: float | None = None
    """Deleted messages: by limits, acks, deletes or purges."""
    in_bytes_estimated: bool = False
    """Whether messages were deleted meanwhile, so that their bytes are estimated by the
    mean size.
    """


class _Stock(NamedTuple):
    """The stored amounts of a stream at one moment."""

    stored_msgs: int
    stored_bytes: int


def _left_bytes(history: History, key: Key, stock: _Stock, left_msgs: int) -> float | None:
    """Return the estimated bytes of the messages deleted since the older of two polls.

    Stored messages are deleted first, with their known size. Further ones came and were deleted
    between the polls: each counts as the mean of the messages stored in the last minute, or in the
    last hour. None without any.
    """
    if not left_msgs:
        return 0.0
    known_msgs = min(left_msgs, stock.stored_msgs)
    known_bytes = known_msgs * stock.stored_bytes / stock.stored_msgs if known_msgs else 0.0
    unseen_msgs = left_msgs - known_msgs
    if not unseen_msgs:
        return known_bytes
    mean_bytes = _mean_size_bytes(history, key)
    return None if mean_bytes is None else known_bytes + unseen_msgs * mean_bytes


def _mean_size_bytes(history: History, key: Key) -> float | None:
    """Return the mean size of the messages in the polls."""
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


def stream_rates(history: History, key: Key) -> StreamRates:
    """Return the rates of a stream between its two newest polls."""
    rows = _two_rows(history, key)
    if rows is None:
        return StreamRates()
    older = {name: _at(*rows[0], name) for name in history.names}
    newer = {name: _at(*rows[1], name) for name in history.names}
    elapsed_s = (newer["last_seq"].mono_us - older["last_seq"].mono_us) / 1e6
    in_msgs_per_s = per_s(older["last_seq"], newer["last_seq"])
    if in_msgs_per_s is None:
        return StreamRates()
    new_msgs, grew = (
        (newer[name].value or 0) - (older[name].value or 0) for name in ("last_seq", "stored_msgs")
    )
    removed_msgs_per_s = max(0, new_msgs - grew) / elapsed_s
    in_bytes_per_s = per_s(older["stored_bytes"], newer["stored_bytes"])
    is_estimated = new_msgs > grew
    if is_estimated:
        stock = _Stock(int(older["stored_msgs"].value or 0), int(older["stored_bytes"].value or 0))
        left_bytes = _left_bytes(history, key, stock, int(new_msgs - grew))
        grew_bytes = (newer["stored_bytes"].value or 0) - stock.stored_bytes
        in_bytes_per_s = (
            None if left_bytes is None else max(0.0, grew_bytes + left_bytes) / elapsed_s
        )
    return StreamRates(in_msgs_per_s, in_bytes_per_s, removed_msgs_per_s, is_estimated)


def rate_column(history: History, name: str) -> list[float | None]:
    """Return the rate of one counter for every row of the newest sample, for sorting."""
    recent = history.recent
    if not recent:
        return []
    newest = recent[-1]
    if len(recent) > 1 and recent[-2].roster is newest.roster:
        older = recent[-2]
        times = zip(
            newest.columns["sampled_mono_us"], older.columns["sampled_mono_us"], strict=True
        )
        values = zip(newest.columns[name], older.columns[name], strict=True)
        rates = [
            (new - old) * 1e6 / (now - earlier_us) if now > earlier_us and new >= old else None
            for (now, earlier_us), (new, old) in zip(times, values, strict=True)
        ]
        if None not in rates or len(rates) > 20_000:
            return rates
    return [counter_per_s(history, key, name) for key in newest.roster.keys]


def rates_of_series(points: Sequence[Point], longest_gap_us: int) -> list[Point]:
    """Return the rate between each pair of neighbours, at the later one; a gap stays a gap."""
    rates: list[Point] = []
    for older, newer in pairwise(points):
        too_far = newer.mono_us - older.mono_us > longest_gap_us
        rates.append(Point(newer.mono_us, None if too_far else per_s(older, newer)))
    return rates


def _trend_start(history: History, key: Key) -> tuple[Sample, int] | None:
    """Return the oldest poll of a row that is at most `TREND_S` older than its newest."""
    horizon_us = history.recent[-1].mono_us - TREND_S * 1_000_000
    for sample in history.recent:
        if sample.mono_us >= horizon_us:
            row = sample.roster.row_of.get(key)
            if row is not None:
                return sample, row
    return None


def trend_per_s(history: History, key: Key, name: str) -> float | None:
    """Return the mean change per second of a gauge over the last `TREND_S`, signed, or None."""
    if not history.recent:
        return None
    newest, start = history.recent[-1], _trend_start(history, key)
    row = newest.roster.row_of.get(key)
    if start is None or row is None:
        return None
    return _change_per_s(_at(*start, name), _at(newest, row, name))


def backlog_trend_per_s(history: History, key: Key) -> float | None:
    """Return the trend of a consumer's pending messages, or None where it predicts nothing.

    A shrinking backlog predicts its end only if it also shrinks in the newest third of `TREND_S`,
    by more than it rises from poll to poll, and because messages are delivered: purged ones are
    not.
    """
    per_s = trend_per_s(history, key, "pending_msgs")
    if per_s is None or per_s >= 0:
        return per_s
    polls = _backlog_polls(history, key)
    (from_us, first, _), (until_us, last, _) = polls[0], polls[-1]
    steps = list(pairwise(polls))
    newest_third = [p for us, p, _ in polls if us >= until_us - (until_us - from_us) / 3]
    grows = newest_third[-1] > newest_third[0]
    is_noise = first - last <= max(after[1] - before[1] for before, after in steps)
    was_purged = any(before[1] - after[1] > after[2] - before[2] for before, after in steps)
    return None if grows or is_noise or was_purged else per_s


def _backlog_polls(history: History, key: Key) -> list[tuple[int, int, int]]:
    """Return polls of a consumer within `TREND_S`: time, pending messages, deliveries."""
    polls: list[tuple[int, int, int]] = []
    horizon_us = history.recent[-1].mono_us - TREND_S * 1_000_000
    for sample in history.recent:
        row = sample.roster.row_of.get(key)
        if sample.mono_us < horizon_us or row is None:
            continue
        columns = sample.columns
        us = columns["sampled_mono_us"][row]
        if not polls or us > polls[-1][0]:
            deliveries = columns["delivered_consumer_seq"][row]
            polls.append((us, columns["pending_msgs"][row], deliveries))
    return polls


def _change_per_s(older: Point, newer: Point) -> float | None:
    elapsed_us = newer.mono_us - older.mono_us
    if elapsed_us <= 0 or older.value is None or newer.value is None:
        return None
    return (newer.value - older.value) * 1e6 / elapsed_us


def trend_column(history: History, name: str) -> list[float | None]:
    """Return `trend_per_s` of every row of the newest sample."""
    if not history.recent:
        return []
    newest = history.recent[-1]
    horizon_us = newest.mono_us - TREND_S * 1_000_000
    start = next(sample for sample in history.recent if sample.mono_us >= horizon_us)
    if start.roster is not newest.roster:
        return [trend_per_s(history, key, name) for key in newest.roster.keys]
    times = zip(start.columns["sampled_mono_us"], newest.columns["sampled_mono_us"], strict=True)
    values = zip(start.columns[name], newest.columns[name], strict=True)
    return [
        (new - old) * 1e6 / (now - earlier_us) if now > earlier_us else None
        for (earlier_us, now), (old, new) in zip(times, values, strict=True)
    ]


def stream_full_in_s(history: History, key: Key, fill: Fill) -> float | None:
    """Return seconds until the first limit of a stream is reached, 0 when one is."""
    losing = (trend_per_s(history, key, "first_seq") or 0.0) > 0
    if bytes_are_full(fill, losing=losing):
        return 0.0
    times = (
        time_to_full_s(fill.stored_msgs, fill.max_msgs, trend_per_s(history, key, "stored_msgs")),
        time_to_full_s(
            fill.stored_bytes, fill.max_bytes, trend_per_s(history, key, "stored_bytes")
        ),
    )
    return min((time_s for time_s in times if time_s is not None), default=None)


def stored_at_mono_us(last_seq: Sequence[Point], seq: int) -> int | None:
    """Return when a sequence was stored, by interpolating the growth of the last sequence.

    None when it was stored before the series begins, or is not stored yet.
    """
    known_points = [point for point in last_seq if point.value is not None]
    for older, newer in pairwise(known_points):
        low_value, high_value = older.value or 0, newer.value or 0
        if low_value < seq <= high_value:
            share = (seq - low_value) / (high_value - low_value)
            return round(older.mono_us + share * (newer.mono_us - older.mono_us))
    return None


_MINUTE_US = 60_000_000


def own_requests_per_s(costs: Sequence[Cost]) -> float | None:
    """Return our API requests per second over the last minute of polls, or over the last two
    polls.

    None before there are two.
    """
    recent = [cost for cost in costs if cost.mono_us > costs[-1].mono_us - _MINUTE_US]
    recent = recent if len(recent) > 1 else list(costs[-2:])
    elapsed_us = recent[-1].mono_us - recent[0].mono_us if recent else 0
    asked_count = sum(cost.cost.requests_count for cost in recent[1:])
    return asked_count * 1e6 / elapsed_us if elapsed_us > 0 else None
