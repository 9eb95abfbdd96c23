"""Rows of streams → columns."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.jetstream.decode_cluster import leader_of, peers_of
from natstui.jetstream.decode_stream import StreamRow, UpstreamRow
from natstui.jetstream.decode_time import time_or_never_us, time_us
from natstui.model.snapshot import StreamColumns, Upstream


def _upstream(told: UpstreamRow, mirror: bool) -> Upstream:
    error = told.error.description or "unknown" if told.error else None
    # `active` -1 is "nothing ever came".
    return Upstream(told.name, told.lag, told.active if told.active >= 0 else None, error, mirror)


def _upstreams(row: StreamRow) -> tuple[Upstream, ...]:
    mirror = (_upstream(row.mirror, True),) if row.mirror else ()
    return mirror + tuple(_upstream(source, False) for source in row.sources or ())


def stream_columns(rows: Sequence[StreamRow], server_name: str | None) -> StreamColumns:
    """Return rows as columns; `server_name` leads what has no cluster section.

    Raises ValueError for a time that is none.
    """
    states = [row.state for row in rows]
    return StreamColumns(
        name=tuple(row.name for row in rows),
        created_at_us=tuple(time_us(row.created) for row in rows),
        sampled_mono_us=tuple(row.sampled_mono_us for row in rows),
        stored_msgs=tuple(state.messages for state in states),
        stored_bytes=tuple(state.bytes for state in states),
        first_seq=tuple(state.first_seq for state in states),
        last_seq=tuple(state.last_seq for state in states),
        first_at_us=tuple(
            time_or_never_us(state.first_ts) if state.messages else None for state in states
        ),
        last_at_us=tuple(time_or_never_us(state.last_ts) for state in states),
        deleted_msgs=tuple(state.num_deleted for state in states),
        lost_msgs=tuple(len(state.lost.msgs or ()) if state.lost else 0 for state in states),
        subjects_count=tuple(state.num_subjects for state in states),
        consumers_count=tuple(state.consumer_count for state in states),
        leader=tuple(leader_of(row.cluster, server_name) for row in rows),
        peers=tuple(peers_of(row.cluster) for row in rows),
        upstreams=tuple(_upstreams(row) for row in rows),
    )
