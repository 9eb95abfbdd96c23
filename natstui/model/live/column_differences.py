"""A poll in the form of recordings: five columns of its consumers are differences.

Every line can still be read on its own: nothing refers to another poll. The messages that a
consumer has in flight are `ack_pending_msgs`, and mostly also the distance from its delivered
sequences to its ack floors; written as differences, these columns are equal and compress well.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, sub

from msgspec import Struct

from natstui.model.live.snapshot import (
    Account,
    ConsumerColumns,
    OfflineAsset,
    Peer,
    PollCost,
    Snapshot,
    StreamColumns,
    UnlistedConsumers,
)

MIN_ABSOLUTE_TIME_US = 1_000_000_000
"""Minimum of a time in µs since 1970; smaller numbers are differences."""
_MAX_TIME_DIFFERENCE_US = 60_000_000
_MAX_INT64 = 2**63 - 1

DIFFERENCE_COLUMN_BY_COLUMN = {
    "delivered_stream_seq": "delivered_stream_ahead_seq",
    "ack_floor_consumer_seq": "ack_floor_consumer_behind_seq",
    "ack_floor_stream_seq": "ack_floor_stream_behind_seq",
    "delivered_at_us": "delivered_near_us",
    "acked_at_us": "acked_near_us",
}
"""Column of a poll → the recorded column of differences."""


class ConsumersAsDifferences(Struct, frozen=True):
    """Consumers in a recording of version 2, with differences in five columns.

    `*_ahead_seq` and `*_behind_seq` are differences from another sequence of the consumer,
    `*_near_us` from another of its times or from the time of the poll.
    """

    stream: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    created_at_us: tuple[int, ...] = ()
    sampled_mono_us: tuple[int, ...] = ()
    delivered_consumer_seq: tuple[int, ...] = ()
    delivered_stream_ahead_seq: tuple[int, ...] = ()
    """`delivered_stream_seq` − `delivered_consumer_seq`."""
    ack_floor_consumer_behind_seq: tuple[int, ...] = ()
    """`delivered_consumer_seq` − `ack_floor_consumer_seq`."""
    ack_floor_stream_behind_seq: tuple[int, ...] = ()
    """`delivered_stream_seq` − `ack_floor_stream_seq`."""
    delivered_near_us: tuple[int | None, ...] = ()
    """`delivered_at_us`; below 10⁹: `delivered_at_us` − `taken_at_us`."""
    acked_near_us: tuple[int | None, ...] = ()
    """`acked_at_us`; below 10⁹: `acked_at_us` − `delivered_at_us` (null: − `taken_at_us`)."""
    pending_msgs: tuple[int, ...] = ()
    ack_pending_msgs: tuple[int, ...] = ()
    redelivered_msgs: tuple[int, ...] = ()
    waiting_pulls_count: tuple[int, ...] = ()
    push_bound: tuple[bool, ...] = ()
    paused: tuple[bool, ...] = ()
    pinned_client: tuple[str | None, ...] = ()
    next_at_us: tuple[int | None, ...] = ()
    leader: tuple[str | None, ...] = ()
    peers: tuple[tuple[Peer, ...], ...] = ()
    pinned_at_us: tuple[int | None, ...] = ()


_UNCHANGED_COLUMNS = tuple(
    name for name in ConsumerColumns.__struct_fields__ if name not in DIFFERENCE_COLUMN_BY_COLUMN
)
"""Columns that are recorded unchanged."""


class SnapshotAsDifferences(Struct, frozen=True):
    """A `Snapshot` with five columns of its consumers as differences."""

    taken_mono_us: int
    taken_at_us: int
    streams: StreamColumns
    consumers: ConsumersAsDifferences
    streams_complete: bool
    consumers_complete: bool
    swept_streams: tuple[str, ...]
    unreachable_streams: tuple[str, ...]
    unreachable_consumers: tuple[tuple[str, str], ...]
    account: Account | None
    cost: PollCost
    offline: tuple[OfflineAsset, ...] = ()
    unlisted: tuple[UnlistedConsumers, ...] = ()


_FIELDS_BESIDE_CONSUMERS = tuple(
    name for name in SnapshotAsDifferences.__struct_fields__ if name != "consumers"
)


def as_differences(snapshot: Snapshot) -> Snapshot | SnapshotAsDifferences:
    """Return a poll with differences; the poll itself if a value could not be restored exactly."""
    columns = snapshot.consumers
    sequences = (
        columns.delivered_consumer_seq,
        columns.delivered_stream_seq,
        columns.ack_floor_consumer_seq,
        columns.ack_floor_stream_seq,
    )
    if any(max(column, default=0) > _MAX_INT64 for column in sequences):
        return snapshot
    consumer_seq, stream_seq, consumer_floor, stream_floor = sequences
    try:
        differences = ConsumersAsDifferences(
            delivered_stream_ahead_seq=_combine_columns(sub, stream_seq, consumer_seq),
            ack_floor_consumer_behind_seq=_combine_columns(sub, consumer_seq, consumer_floor),
            ack_floor_stream_behind_seq=_combine_columns(sub, stream_seq, stream_floor),
            delivered_near_us=_subtract_poll_time(columns.delivered_at_us, snapshot.taken_at_us),
            acked_near_us=_subtract_times(
                columns.acked_at_us, columns.delivered_at_us, snapshot.taken_at_us
            ),
            **{name: getattr(columns, name) for name in _UNCHANGED_COLUMNS},
        )
    except ValueError:
        return snapshot
    return SnapshotAsDifferences(
        **{name: getattr(snapshot, name) for name in _FIELDS_BESIDE_CONSUMERS},
        consumers=differences,
    )


def from_differences(poll: SnapshotAsDifferences) -> Snapshot:
    """Return the original poll; raises ValueError for columns of different length."""
    differences, taken_us = poll.consumers, poll.taken_at_us
    delivered_at_us = tuple(
        [
            us if us is None or us >= MIN_ABSOLUTE_TIME_US else taken_us + us
            for us in differences.delivered_near_us
        ]
    )
    acked_at_us = tuple(
        [
            us
            if us is None or us >= MIN_ABSOLUTE_TIME_US
            else us + (taken_us if delivered_us is None else delivered_us)
            for us, delivered_us in zip(differences.acked_near_us, delivered_at_us, strict=True)
        ]
    )
    stream_seq = _combine_columns(
        add, differences.delivered_consumer_seq, differences.delivered_stream_ahead_seq
    )
    consumers = ConsumerColumns(
        delivered_stream_seq=stream_seq,
        ack_floor_consumer_seq=_combine_columns(
            sub, differences.delivered_consumer_seq, differences.ack_floor_consumer_behind_seq
        ),
        ack_floor_stream_seq=_combine_columns(
            sub, stream_seq, differences.ack_floor_stream_behind_seq
        ),
        delivered_at_us=delivered_at_us,
        acked_at_us=acked_at_us,
        **{name: getattr(differences, name) for name in _UNCHANGED_COLUMNS},
    )
    return Snapshot(
        **{name: getattr(poll, name) for name in _FIELDS_BESIDE_CONSUMERS}, consumers=consumers
    )


def _combine_columns(
    operation: Callable[[int, int], int], minuends: tuple[int, ...], subtrahends: tuple[int, ...]
) -> tuple[int, ...]:
    if len(minuends) != len(subtrahends):
        raise ValueError("columns of different lengths")
    return tuple(map(operation, minuends, subtrahends))


def _require_absolute_time_us(at_us: int) -> int:
    if at_us < MIN_ABSOLUTE_TIME_US:
        raise ValueError("a time so early that it looks like a difference")
    return at_us


def _subtract_poll_time(column: tuple[int | None, ...], taken_us: int) -> tuple[int | None, ...]:
    """Return times within a minute of `taken_us` as differences to it, other times unchanged.

    Raises ValueError for a time that could be mistaken for a difference.
    """
    lowest_us, highest_us = taken_us - _MAX_TIME_DIFFERENCE_US, taken_us + _MAX_TIME_DIFFERENCE_US
    return tuple(
        [
            us
            if us is None
            else us - taken_us
            if lowest_us < us < highest_us
            else _require_absolute_time_us(us)
            for us in column
        ]
    )


def _subtract_times(
    column: tuple[int | None, ...], reference_column: tuple[int | None, ...], taken_us: int
) -> tuple[int | None, ...]:
    """Return times as differences to the reference column if below 1,000 s, else unchanged.

    `taken_us` replaces an absent reference. Raises ValueError for a time that could be mistaken
    for a difference.
    """
    return tuple(
        [
            us
            if us is None
            else difference
            if abs(difference := us - (taken_us if reference_us is None else reference_us))
            < MIN_ABSOLUTE_TIME_US
            else _require_absolute_time_us(us)
            for us, reference_us in zip(column, reference_column, strict=True)
        ]
    )
