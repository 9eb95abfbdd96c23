"""The table of streams that `natstui watch` prints."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.cli.text_table import Column, table
from natstui.cli.watch_cells import ago, marked
from natstui.cli.watch_rows_stream import StreamRow
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


def stream_table(rows: Sequence[StreamRow], width_cells: int | None) -> list[str]:
    """Return the lines of the streams' table."""
    return table(_STREAM, [_stream_cells(row) for row in rows], width_cells)


def _stream_cells(row: StreamRow) -> list[str]:
    used = [p for p in (row.msgs_used_percent, row.bytes_used_percent) if p is not None]
    subjects = row.subjects or ([f"mirror of {row.mirror}"] if row.mirror else row.sources)
    estimated = "~" if row.in_bytes_estimated and row.in_bytes_per_s else ""
    return [
        row.name,
        marked(row.type or UNKNOWN, row.stale),
        ", ".join(subjects or ()),
        row.retention or UNKNOWN,
        count_text(row.stored_msgs),
        bytes_text(row.stored_bytes),
        rate_text(row.in_msgs_per_s),
        estimated + bytes_text(row.in_bytes_per_s),
        rate_text(row.removed_msgs_per_s),
        str(row.first_seq),
        str(row.last_seq),
        ago(row.at_us, row.last_at_us),
        f"{max(used):.0f}%" if used else UNKNOWN,
        "full" if row.full_in_s == 0 else duration_text(row.full_in_s),
        count_text(row.consumers_count),
        row.leader or UNKNOWN,
    ]
