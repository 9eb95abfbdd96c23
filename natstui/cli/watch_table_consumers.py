"""The table of consumers that `natstui watch` prints."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.cli.text_table import Column, table
from natstui.cli.watch_cells import ago, marked
from natstui.cli.watch_rows_consumer import ConsumerRow
from natstui.units import UNKNOWN, count_text, duration_text, rate_text

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


def consumer_table(rows: Sequence[ConsumerRow], width_cells: int | None) -> list[str]:
    """Return the lines of the consumers' table."""
    return table(_CONSUMER, [_consumer_cells(row) for row in rows], width_cells)


def _consumer_cells(row: ConsumerRow) -> list[str]:
    most = row.max_ack_pending_msgs
    active_at_us = max(row.delivered_at_us or 0, row.acked_at_us or 0) or None
    return [
        row.stream,
        row.name,
        marked(row.status, row.stale),
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
        ago(row.at_us, active_at_us),
    ]
