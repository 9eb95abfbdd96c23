"""The table of messages that a consumer dropped after max deliver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from natstui.clean import clean_line
from natstui.model.records.messages import StoredMessage
from natstui.tui.frame.columns import ColumnSpec, ItemsView
from natstui.tui.kit.raw.payload import compact_payload
from natstui.tui.kit.table.rows import Cell
from natstui.tui.messages.text import payload_of
from natstui.units import bytes_text, local_text


class StoredMessagesView(ItemsView[StoredMessage]):
    """A view of stored messages."""

    def __init__(self, messages: Sequence[StoredMessage]) -> None:
        texts = [
            f"{message.subject} {compact_payload(payload_of(message))}" for message in messages
        ]
        super().__init__(messages, [(message.stream_seq,) for message in messages], texts)


def _seq(view: StoredMessagesView, row: int) -> Cell:
    """Sequence in the stream."""
    return Cell(str(view.items[row].stream_seq), "accent")


def _stored_time(view: StoredMessagesView, row: int) -> Cell:
    """Local time at which the message was stored."""
    return Cell(local_text(view.items[row].stored_at_us, "%Y-%m-%d %H:%M:%S"), "dim")


def _subject(view: StoredMessagesView, row: int) -> Cell:
    """Subject of the message in the stream."""
    return Cell(clean_line(view.items[row].subject), "strong")


def _payload_size(view: StoredMessagesView, row: int) -> Cell:
    """Bytes of the payload."""
    return Cell(bytes_text(view.items[row].payload_bytes), "dim")


def _headers_count(view: StoredMessagesView, row: int) -> Cell:
    """Number of headers of the message."""
    return Cell(str(len(view.items[row].headers) or ""), "dim")


def payload_cell(view: StoredMessagesView, row: int) -> Cell:
    """Start of the payload."""
    return Cell(clean_line(compact_payload(payload_of(view.items[row]))))


_sort_by = StoredMessagesView.sort_by
_text_column: Callable[..., ColumnSpec[StoredMessagesView]] = partial(
    ColumnSpec, align="left", descends=False
)

STORED_COLUMNS: tuple[ColumnSpec[StoredMessagesView], ...] = (
    ColumnSpec(
        "seq", "SEQ", 9, 0, _seq, _sort_by(lambda message: message.stream_seq), descends=False
    ),
    _text_column(
        "stored", "STORED", 19, 3, _stored_time, _sort_by(lambda message: message.stored_at_us)
    ),
    _text_column(
        "subject", "SUBJECT", 20, 1, _subject, _sort_by(lambda message: message.subject), flex=1
    ),
    ColumnSpec(
        "size", "SIZE", 8, 4, _payload_size, _sort_by(lambda message: message.payload_bytes)
    ),
    ColumnSpec(
        "headers", "HEADERS", 7, 5, _headers_count, _sort_by(lambda message: len(message.headers))
    ),
    _text_column(
        "payload", "PAYLOAD", 20, 2, payload_cell, _sort_by(payload_of), flex=3, max_width=400
    ),
)
