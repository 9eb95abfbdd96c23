"""Rows → tables for people, without any colour or control."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from natstui.clean import clean_line
from natstui.cli.watch_rows import Row
from natstui.cli.watch_rows_consumer import ConsumerRow
from natstui.cli.watch_rows_events import AdvisoryRow, RemovedRow, RestoredRow, UnavailableRow
from natstui.cli.watch_rows_server import AccountRow, ServerRow
from natstui.cli.watch_rows_stream import StreamRow
from natstui.cli.watch_table_consumers import consumer_table
from natstui.cli.watch_table_streams import stream_table
from natstui.units import UNKNOWN, bytes_text, count_text, local_text


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
