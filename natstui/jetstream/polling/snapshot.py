"""The streams and consumers that one poll has read, and the record of the poll."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from natstui.clock import steady_us
from natstui.jetstream.connection.decode.consumers import ConsumerRow, consumer_columns
from natstui.jetstream.connection.decode.streams import StreamRow, stream_columns
from natstui.model.live.snapshot import (
    Account,
    ConsumerColumns,
    OfflineAsset,
    PollCost,
    Snapshot,
    StreamColumns,
    UnlistedConsumers,
)

Row = TypeVar("Row")
Columns = TypeVar("Columns", StreamColumns, ConsumerColumns)
_COUNT_COLUMN_NAMES = {
    table: tuple(
        name
        for name in table.__struct_fields__
        if table.__annotations__[name] == "tuple[int, ...]" and not name.endswith("_at_us")
    )
    for table in (StreamColumns, ConsumerColumns)
}


@dataclass(slots=True)
class PolledStreams:
    """The streams that one poll has read."""

    rows: list[StreamRow] = field(default_factory=list)
    is_complete: bool = False
    missing: set[str] = field(default_factory=set)
    """Unreachable streams, including those that were not requested in this poll."""
    offline: dict[str, str] = field(default_factory=dict)
    """Streams that their servers refuse to run → reason."""


@dataclass(slots=True)
class PolledConsumers:
    """The consumers that one poll has read."""

    rows: dict[tuple[str, str], ConsumerRow] = field(default_factory=dict)
    swept_streams: set[str] = field(default_factory=set)
    """Streams whose consumers are all in `rows` or `missing`."""
    missing: set[tuple[str, str]] = field(default_factory=set)
    """Unreachable consumers, including those that were not requested in this poll."""
    offline: dict[tuple[str, str], str] = field(default_factory=dict)
    """Consumers that their servers refuse to run → reason."""
    unlisted: dict[str, int] = field(default_factory=dict)
    """Stream → number of consumers that it counts and that its list does not name."""
    is_complete: bool = False


def hash_progress(rows: Sequence[ConsumerRow]) -> int:
    """Return a hash that changes when a consumer delivers a message or receives an ack."""
    consumer_positions = (
        (row.delivered.consumer_seq, row.ack_floor.consumer_seq, row.num_ack_pending)
        for row in rows
    )
    return hash(tuple(consumer_positions))


def make_snapshot(
    account: Account | None,
    streams: PolledStreams,
    consumers: PolledConsumers,
    cost: PollCost,
    server_name: str | None,
) -> Snapshot:
    """Return the record of a poll; a row with an invalid number or time counts as unreachable."""
    stream_table, invalid_streams = _split_valid_rows(
        streams.rows, partial(stream_columns, server_name=server_name)
    )
    consumer_table, invalid_consumers = _split_valid_rows(
        tuple(consumers.rows.values()), partial(consumer_columns, server_name=server_name)
    )
    unreachable_streams = streams.missing.union(row.name for row in invalid_streams)
    unreachable_consumers = consumers.missing.union(
        (row.stream_name, row.name) for row in invalid_consumers
    )
    is_complete = consumers.is_complete and streams.is_complete
    return Snapshot(
        taken_mono_us=steady_us(),
        taken_at_us=time.time_ns() // 1000,
        streams=stream_table,
        consumers=consumer_table,
        streams_complete=streams.is_complete,
        consumers_complete=is_complete,
        swept_streams=() if is_complete else tuple(sorted(consumers.swept_streams)),
        unreachable_streams=tuple(sorted(unreachable_streams)),
        unreachable_consumers=tuple(sorted(unreachable_consumers)),
        account=account,
        cost=cost,
        offline=(
            *(OfflineAsset(name, "", reason) for name, reason in sorted(streams.offline.items())),
            *(OfflineAsset(*name, reason) for name, reason in sorted(consumers.offline.items())),
        ),
        unlisted=tuple(
            UnlistedConsumers(*stream_and_count)
            for stream_and_count in sorted(consumers.unlisted.items())
        ),
    )


def _split_valid_rows(
    rows: Sequence[Row], make_columns: Callable[[Sequence[Row]], Columns]
) -> tuple[Columns, list[Row]]:
    """Return the columns of the rows with valid numbers and times, and the invalid rows."""
    try:
        columns = make_columns(rows)
        for name in _COUNT_COLUMN_NAMES[type(columns)]:
            # Raises OverflowError for a count below zero or beyond 64 bits.
            array("Q", getattr(columns, name))
    except (ValueError, OverflowError):
        if len(rows) == 1:
            return make_columns([]), list(rows)
        invalid_rows = [row for row in rows if _split_valid_rows([row], make_columns)[1]]
        return make_columns([row for row in rows if row not in invalid_rows]), invalid_rows
    return columns, []
