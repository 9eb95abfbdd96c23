"""What one poll learned, and the record it becomes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from natstui.jetstream.decode_cluster import reading
from natstui.jetstream.decode_consumer import ConsumerRow
from natstui.jetstream.decode_consumer_columns import consumer_columns
from natstui.jetstream.decode_stream import StreamRow
from natstui.jetstream.decode_stream_columns import stream_columns
from natstui.model.snapshot import Account, PollCost, Snapshot


@dataclass(slots=True)
class StreamsSeen:
    """What one poll learned of the streams."""

    rows: list[StreamRow] = field(default_factory=list)
    complete: bool = False
    missing: set[str] = field(default_factory=set)
    """Unreachable as far as is known, not only asked for in this poll."""


@dataclass(slots=True)
class ConsumersSeen:
    """What one poll learned of the consumers."""

    rows: dict[tuple[str, str], ConsumerRow] = field(default_factory=dict)
    swept: set[str] = field(default_factory=set)
    missing: set[tuple[str, str]] = field(default_factory=set)
    """Unreachable as far as is known, not only asked for in this poll."""
    complete: bool = False


def snapshot_of(
    account: Account | None,
    streams: StreamsSeen,
    consumers: ConsumersSeen,
    cost: PollCost,
    server_name: str | None,
) -> Snapshot:
    """Return the record of a poll; raises RequestFailed for a row that cannot be read."""
    with reading("STREAM.LIST"):
        stream_part = stream_columns(streams.rows, server_name)
    with reading("CONSUMER.LIST"):
        consumer_part = consumer_columns(tuple(consumers.rows.values()), server_name)
    complete = consumers.complete and streams.complete
    return Snapshot(
        taken_mono_us=time.monotonic_ns() // 1000,
        taken_at_us=time.time_ns() // 1000,
        streams=stream_part,
        consumers=consumer_part,
        streams_complete=streams.complete,
        consumers_complete=complete,
        swept_streams=() if complete else tuple(sorted(consumers.swept)),
        unreachable_streams=tuple(sorted(streams.missing)),
        unreachable_consumers=tuple(sorted(consumers.missing)),
        account=account,
        cost=cost,
    )
