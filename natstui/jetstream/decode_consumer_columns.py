"""Rows of consumers → columns."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.jetstream.decode_cluster import leader_of, peers_of
from natstui.jetstream.decode_consumer import ConsumerRow
from natstui.jetstream.decode_time import time_or_never_us, time_us
from natstui.model.snapshot import ConsumerColumns


def _pinned(row: ConsumerRow) -> str | None:
    groups = row.priority_groups or ()
    return next((group.pinned_client_id for group in groups if group.pinned_client_id), None)


def consumer_columns(rows: Sequence[ConsumerRow], server_name: str | None) -> ConsumerColumns:
    """Return rows as columns; `server_name` leads what has no cluster section.

    Raises ValueError for a time that is none.
    """
    return ConsumerColumns(
        stream=tuple(row.stream_name for row in rows),
        name=tuple(row.name for row in rows),
        created_at_us=tuple(time_us(row.created) for row in rows),
        sampled_mono_us=tuple(row.sampled_mono_us for row in rows),
        delivered_consumer_seq=tuple(row.delivered.consumer_seq for row in rows),
        delivered_stream_seq=tuple(row.delivered.stream_seq for row in rows),
        ack_floor_consumer_seq=tuple(row.ack_floor.consumer_seq for row in rows),
        ack_floor_stream_seq=tuple(row.ack_floor.stream_seq for row in rows),
        delivered_at_us=tuple(time_or_never_us(row.delivered.last_active) for row in rows),
        acked_at_us=tuple(time_or_never_us(row.ack_floor.last_active) for row in rows),
        pending_msgs=tuple(row.num_pending for row in rows),
        ack_pending_msgs=tuple(row.num_ack_pending for row in rows),
        redelivered_msgs=tuple(row.num_redelivered for row in rows),
        waiting_pulls_count=tuple(row.num_waiting for row in rows),
        push_bound=tuple(row.push_bound for row in rows),
        paused=tuple(row.paused for row in rows),
        pinned_client=tuple(map(_pinned, rows)),
        next_at_us=tuple(row.next_at_us for row in rows),
        leader=tuple(leader_of(row.cluster, server_name) for row in rows),
        peers=tuple(peers_of(row.cluster) for row in rows),
    )
