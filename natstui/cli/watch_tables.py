"""The tables of streams and consumers that `natstui watch` prints."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.cli.text_table import Column, table
from natstui.cli.watch_rows_assets import ConsumerRow, StreamRow
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text

_STREAM = (
    Column("STREAM", numeric=False, shrinks=True),
    Column("KIND", numeric=False, sheds=9),
    Column("SUBJECTS", numeric=False, sheds=8, shrinks=True),
    Column("RETAINS", numeric=False, sheds=10),
    Column("MSGS"),
    Column("BYTES", sheds=2),
    Column("IN/s"),
    Column("B/s", sheds=5),
    Column("OUT/s", sheds=3),
    Column("FIRST SEQ", sheds=12),
    Column("LAST SEQ", sheds=11),
    Column("NEWEST", sheds=4),
    Column("USED", sheds=6),
    Column("FULL IN", sheds=7),
    Column("CONS", sheds=1),
    Column("LEADER", numeric=False, sheds=13, shrinks=True),
)

_CONSUMER = (
    Column("STREAM", numeric=False, shrinks=True),
    Column("CONSUMER", numeric=False, shrinks=True),
    Column("STATUS", numeric=False),
    Column("MODE", numeric=False, sheds=10),
    Column("ACK", numeric=False, sheds=9),
    Column("PENDING"),
    Column("ACK PEND", sheds=1),
    Column("REDEL", sheds=3),
    Column("WAITING", sheds=6),
    Column("DELIV/s", sheds=2),
    Column("ACK/s", sheds=4),
    Column("LAG", sheds=5),
    Column("DRAINED", sheds=7),
    Column("ACK FLOOR", sheds=11),
    Column("DELIVERED", sheds=12),
    Column("ACTIVE", sheds=8),
)


def stream_table(rows: Sequence[StreamRow], width_cells: int | None) -> list[str]:
    """Return the lines of the streams' table."""
    return table(_STREAM, [_stream_cells(row) for row in rows], width_cells)


def consumer_table(rows: Sequence[ConsumerRow], width_cells: int | None) -> list[str]:
    """Return the lines of the consumers' table."""
    return table(_CONSUMER, [_consumer_cells(row) for row in rows], width_cells)


def _stream_cells(row: StreamRow) -> list[str]:
    used = [p for p in (row.msgs_used_percent, row.bytes_used_percent) if p is not None]
    subjects = row.subjects or ([f"mirror of {row.mirror}"] if row.mirror else row.sources)
    estimated = "~" if row.in_bytes_estimated and row.in_bytes_per_s else ""
    return [
        row.name,
        _stale(row.type or UNKNOWN, row.stale),
        ", ".join(subjects or ()),
        row.retention or UNKNOWN,
        count_text(row.stored_msgs),
        bytes_text(row.stored_bytes),
        rate_text(row.in_msgs_per_s),
        estimated + bytes_text(row.in_bytes_per_s),
        rate_text(row.removed_msgs_per_s),
        str(row.first_seq),
        str(row.last_seq),
        _ago(row.at_us, row.last_at_us),
        f"{max(used):.0f}%" if used else UNKNOWN,
        "full" if row.full_in_s == 0 else duration_text(row.full_in_s),
        count_text(row.consumers_count),
        row.leader or UNKNOWN,
    ]


def _consumer_cells(row: ConsumerRow) -> list[str]:
    most = row.max_ack_pending_msgs
    active_at_us = max(row.delivered_at_us or 0, row.acked_at_us or 0) or None
    return [
        row.stream,
        row.name,
        _stale(row.status, row.stale),
        UNKNOWN if row.pull is None else "pull" if row.pull else "push",
        row.ack_policy or UNKNOWN,
        count_text(row.pending_msgs),
        count_text(row.ack_pending_msgs) + (f"/{count_text(most)}" if most else ""),
        count_text(row.redelivered_msgs),
        count_text(row.waiting_pulls_count),
        rate_text(row.delivered_msgs_per_s),
        rate_text(row.acked_msgs_per_s),
        duration_text(row.lag_s),
        duration_text(row.drained_in_s),
        f"{row.ack_floor_stream_seq}/{row.ack_floor_consumer_seq}",
        f"{row.delivered_stream_seq}/{row.delivered_consumer_seq}",
        _ago(row.at_us, active_at_us),
    ]


def _stale(text: str, stale: bool) -> str:
    return f"{text} (stale)" if stale else text


def _ago(now_us: int, at_us: int | None) -> str:
    return duration_text(None if at_us is None else max(0, now_us - at_us) / 1e6)
