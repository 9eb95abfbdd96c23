"""Rows → tables for people, without any colour or control."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from natstui.clean import clean_line
from natstui.cli.text_table import Column, table
from natstui.cli.watch.rows import (
    AccountRow,
    AdvisoryRow,
    ConsumerRow,
    RemovedRow,
    RestoredRow,
    Row,
    ServerRow,
    StreamRow,
    UnavailableRow,
)
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, local_text, rate_text


def marked(text: str, stale: bool) -> str:
    """Return a text with a mark when it is stale."""
    return f"{text} (stale)" if stale else text


def ago(now_us: int, at_us: int | None) -> str:
    """Return how long ago a time was."""
    return duration_text(None if at_us is None else max(0, now_us - at_us) / 1e6)


_CONSUMER = (
    Column("STREAM", numeric=False, shrinks=True),
    Column("CONSUMER", numeric=False, shrinks=True),
    Column("STATUS", numeric=False),
    Column("MODE", numeric=False, drop_order=10),
    Column("ACK", numeric=False, drop_order=9),
    Column("PENDING"),
    Column("ACK PEND", drop_order=1),
    Column("REDEL", drop_order=3),
    Column("WAITING", drop_order=6),
    Column("DELIV/s", drop_order=2),
    Column("ACK/s", drop_order=4),
    Column("LAG", drop_order=5),
    Column("DRAINED", drop_order=7),
    Column("ACK FLOOR", drop_order=11),
    Column("DELIVERED", drop_order=12),
    Column("ACTIVE", drop_order=8),
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


_STREAM = (
    Column("STREAM", numeric=False, shrinks=True),
    Column("KIND", numeric=False, drop_order=9),
    Column("SUBJECTS", numeric=False, drop_order=8, shrinks=True),
    Column("RETAINS", numeric=False, drop_order=10),
    Column("MSGS"),
    Column("BYTES", drop_order=2),
    Column("IN/s"),
    Column("B/s", drop_order=5),
    Column("OUT/s", drop_order=3),
    Column("FIRST SEQ", drop_order=12),
    Column("LAST SEQ", drop_order=11),
    Column("NEWEST", drop_order=4),
    Column("USED", drop_order=6),
    Column("FULL IN", drop_order=7),
    Column("CONS", drop_order=1),
    Column("LEADER", numeric=False, drop_order=13, shrinks=True),
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


def text_lines(rows: Iterable[Row], width_cells: int | None) -> list[str]:
    """Return what one poll saw, as lines: server, account, what happened, two tables."""
    streams: list[StreamRow] = []
    consumers: list[ConsumerRow] = []
    lines: list[str] = []
    for row in rows:
        if isinstance(row, StreamRow):
            streams.append(row)
        elif isinstance(row, ConsumerRow):
            consumers.append(row)
        else:
            lines.append(f"{local_text(row.at_us)} {clean_line(_sentence(row))}")
    if streams:
        lines += ["", *stream_table(streams, width_cells)]
    if consumers:
        lines += ["", *consumer_table(consumers, width_cells)]
    return lines


def _sentence(
    row: ServerRow | AccountRow | RemovedRow | UnavailableRow | RestoredRow | AdvisoryRow,
) -> str:
    match row:
        case ServerRow():
            return _server_sentence(row)
        case AccountRow():
            return _account_sentence(row)
        case RemovedRow(stream=None):
            return f"gone: stream {row.name}"
        case RemovedRow():
            return f"gone: consumer {row.name} on {row.stream}"
        case UnavailableRow():
            return f"unavailable: {row.name}: {row.reason}"
        case RestoredRow():
            return f"available again: {row.name}"
        case AdvisoryRow():
            return f"advisory: {row.text}"


def _server_sentence(row: ServerRow) -> str:
    if row.link != "connected":
        return f"server: {row.link}: {row.reason}" if row.reason else f"server: {row.link}"
    words = [f"server: {row.name or row.url} v{row.version or UNKNOWN}"]
    if row.cluster:
        words.append(f"cluster {row.cluster}")
    if row.api_rtt_us is not None:
        words.append(f"answers in {row.api_rtt_us / 1000:.1f} ms")
    if row.own_requests_per_s is not None:
        words.append(f"we ask {row.own_requests_per_s:.1f}/s")
    if row.backoff_reason:
        words.append(row.backoff_reason)
    return ", ".join(words)


def _account_sentence(row: AccountRow) -> str:
    uses = (
        _use(count_text(row.streams_count), "streams", row.max_streams_count, count_text),
        _use(count_text(row.consumers_count), "consumers", row.max_consumers_count, count_text),
        _use(bytes_text(row.storage_bytes), "on file", row.max_storage_bytes, bytes_text),
        _use(bytes_text(row.memory_bytes), "in memory", row.max_memory_bytes, bytes_text),
        f"API {count_text(row.api_requests_count)} requests",
        f"{count_text(row.api_errors_count)} errors",
    )
    return f"account {row.name or UNKNOWN}: {', '.join(uses)}"


def _use(used: str, of: str, limit: int | None, text: Callable[[int], str]) -> str:
    return f"{used} {of}" if limit is None else f"{used} of {text(limit)} {of}"
