"""Polls of which only the history is wanted, as a third of their text.

A state that is built for a moment needs hundreds of older polls, and keeps a few counters of
each. Where a poll saw the same rows as the one its history begins with, only those are sent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from natstui.lines import encode_record
from natstui.model.history import CONSUMER_COLUMNS, STREAM_COLUMNS
from natstui.model.snapshot import Snapshot
from natstui.session.entry import Entry, entry_of, piece_of

_STREAM_KEYS = ("name", "created_at_us")
_CONSUMER_KEYS = ("stream", "name", "created_at_us")


def _table(name: str, columns: tuple[str, ...]) -> Any:
    return msgspec.defstruct(name, [(column, msgspec.Raw) for column in columns])


_PART: Any = msgspec.defstruct(
    "Part",
    [
        ("streams", _table("Streams", (*_STREAM_KEYS, *STREAM_COLUMNS))),
        ("consumers", _table("Consumers", (*_CONSUMER_KEYS, *CONSUMER_COLUMNS))),
    ],
)
_DECODER = msgspec.json.Decoder(_PART)
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _joined(tables: list[Any], column: str) -> bytes:
    """Join a column of all parts as text."""
    values = (bytes(getattr(table, column)).strip()[1:-1] for table in tables)
    return b"[" + b",".join(value for value in values if value) + b"]"


class Past:
    """Shortens polls, as long as they see the rows a history begins with."""

    def __init__(self, first: Snapshot | None) -> None:
        """`first` is the poll that is sent whole before all others."""
        self._rows: tuple[bytes, ...] | None = None
        if first is not None:
            entry = entry_of([piece_of(encode_record(first)[:-1], 0)])
            if entry is not None:
                self._rows, _, _ = self._tables(entry)

    def _tables(self, entry: Entry) -> tuple[tuple[bytes, ...], list[Any], list[Any]]:
        """Return who is in which row, and the tables of all parts."""
        parts = [_DECODER.decode(piece.placed) for piece in entry.pieces]
        streams = [part.streams for part in parts]
        consumers = [part.consumers for part in parts]
        rows = [_joined(streams, column) for column in _STREAM_KEYS]
        rows += [_joined(consumers, column) for column in _CONSUMER_KEYS]
        return tuple(rows), streams, consumers

    def line(self, entry: Entry) -> bytes | None:
        """Return the short line of a poll; None when it has to be sent whole."""
        if self._rows is None or not entry.complete:
            self._rows = None
            return None
        try:
            rows, streams, consumers = self._tables(entry)
        except _DAMAGE:
            return None
        if rows != self._rows:
            # From here on the rows may stand in another order than they are polled in.
            self._rows = None
            return None
        texts = (
            b'{"kind":"past_poll","at_us":%d,"taken_mono_us":%d,"streams":{'
            % (entry.at_us, entry.mono_us or 0),
            b",".join(b'"%s":%s' % (c.encode(), _joined(streams, c)) for c in STREAM_COLUMNS),
            b'},"consumers":{',
            b",".join(b'"%s":%s' % (c.encode(), _joined(consumers, c)) for c in CONSUMER_COLUMNS),
            b"}}\n",
        )
        return b"".join(texts)
