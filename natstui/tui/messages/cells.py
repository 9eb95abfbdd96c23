"""The table of messages that a consumer dropped after max deliver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from natstui.clean import clean_line
from natstui.model.records.messages import StoredMessage
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.kit.raw.payload import one_line
from natstui.tui.kit.table.rows import Cell
from natstui.tui.messages.text import payload_of
from natstui.units import bytes_text, local_text


class StoredView(Listed[StoredMessage]):
    """Stored messages, a row each."""

    def __init__(self, messages: Sequence[StoredMessage]) -> None:
        texts = [f"{message.subject} {one_line(payload_of(message))}" for message in messages]
        super().__init__(messages, [(message.stream_seq,) for message in messages], texts)


def _seq(view: StoredView, row: int) -> Cell:
    """Sequence in the stream."""
    return Cell(str(view.things[row].stream_seq), "accent")


def _stored(view: StoredView, row: int) -> Cell:
    """When it was stored, in local time."""
    return Cell(local_text(view.things[row].stored_at_us, "%Y-%m-%d %H:%M:%S"), "dim")


def _subject(view: StoredView, row: int) -> Cell:
    """Subject under which it is stored."""
    return Cell(clean_line(view.things[row].subject), "strong")


def _size(view: StoredView, row: int) -> Cell:
    """Bytes of the payload."""
    return Cell(bytes_text(view.things[row].payload_bytes), "dim")


def _headers(view: StoredView, row: int) -> Cell:
    """How many headers it has."""
    return Cell(str(len(view.things[row].headers) or ""), "dim")


def payload_cell(view: StoredView, row: int) -> Cell:
    """How the payload begins."""
    return Cell(clean_line(one_line(payload_of(view.things[row]))))


_by = StoredView.by
_words: Callable[..., ColumnSpec[StoredView]] = partial(ColumnSpec, align="left", descends=False)

STORED_COLUMNS: tuple[ColumnSpec[StoredView], ...] = (
    ColumnSpec("seq", "SEQ", 9, 0, _seq, _by(lambda message: message.stream_seq), descends=False),
    _words("stored", "STORED", 19, 3, _stored, _by(lambda message: message.stored_at_us)),
    _words("subject", "SUBJECT", 20, 1, _subject, _by(lambda message: message.subject), flex=1),
    ColumnSpec("size", "SIZE", 8, 4, _size, _by(lambda message: message.payload_bytes)),
    ColumnSpec("headers", "HEADERS", 7, 5, _headers, _by(lambda message: len(message.headers))),
    _words("payload", "PAYLOAD", 20, 2, payload_cell, _by(payload_of), flex=3, max_width=400),
)
