"""Polls of which only the history is wanted, as a fraction of their text.

A state that is built for a moment needs hundreds of older polls, and keeps a few counters of
each. Where a poll saw the same rows as the ones known, only those counters are sent, many polls
in one line, and only the newest poll is sent whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import add, sub
from typing import Any

import msgspec

from natstui.lines import encode_record
from natstui.model.history import CONSUMER_COLUMNS, STREAM_COLUMNS
from natstui.model.past import PastPoll, PastPolls, to_bytes
from natstui.model.snapshot import PollCost, Snapshot
from natstui.model.state import State
from natstui.session.entry import Entry
from natstui.session.recording import whole_line
from natstui.session.segment import readable

BLOCK_BYTES = 512 * 1024
"""So much is sent at once: whoever reads begins while the rest is still being made."""

_STREAM_KEYS = ("name", "created_at_us")
_CONSUMER_KEYS = ("stream", "name", "created_at_us")
_AHEAD, _BEHIND, _STREAM_BEHIND = (
    "delivered_stream_ahead_seq",
    "ack_floor_consumer_behind_seq",
    "ack_floor_stream_behind_seq",
)
_FLOORS = ("ack_floor_consumer_seq", "ack_floor_stream_seq")
_UNPACKED = tuple(column for column in CONSUMER_COLUMNS if column not in _FLOORS)


def _part(consumer_columns: tuple[str, ...]) -> Any:
    """Return a decoder of what a history keeps; who stands in which row stays text."""

    def table(keys: tuple[str, ...], columns: tuple[str, ...]) -> Any:
        kept = [(key, msgspec.Raw) for key in keys] + [(c, list[int]) for c in columns]
        return msgspec.defstruct("Table", kept)

    account = msgspec.defstruct("Use", [("api_requests_count", int), ("api_errors_count", int)])
    kept = [
        ("streams", table(_STREAM_KEYS, STREAM_COLUMNS)),
        ("consumers", table(_CONSUMER_KEYS, consumer_columns)),
        ("account", account | None),
        ("cost", PollCost),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Part", kept), strict=False)


_PLAIN = _part(CONSUMER_COLUMNS)
_PACKED = _part((*_UNPACKED, _AHEAD, _BEHIND, _STREAM_BEHIND))
_ONLY_PACKED = b'"%s":' % _STREAM_BEHIND.encode()
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True)
class _Polled:
    """What is wanted of one poll."""

    poll: PastPoll
    columns: tuple[bytes, ...]
    """Of the streams, then of the consumers."""


@dataclass(slots=True)
class Past:
    """Turns polls into lines; all but the newest short, as long as they see the rows known.

    What is sent between two polls passes through it too, because it must not overtake them.
    """

    _state: State = field(default_factory=State)
    """Only who stands in which row."""
    _rows: tuple[bytes, ...] = ()
    _block: list[_Polled] = field(default_factory=list)
    _held: tuple[Entry, _Polled] | None = None
    """The newest poll: whole, unless another one comes."""
    _behind: list[bytes] = field(default_factory=list)
    """What came after it."""

    def line(self, line: bytes) -> Iterator[bytes]:
        """Yield what may be sent now that something else happened."""
        if self._held is None:
            yield line
        else:
            self._behind.append(line)

    def snapshot(self, snapshot: Snapshot) -> Iterator[bytes]:
        """Yield a poll that is sent whole, after all before it."""
        yield from self.rest()
        yield encode_record(snapshot)
        self._follow(snapshot)

    def entry(self, entry: Entry) -> Iterator[bytes]:
        """Yield what may be sent now that there is another poll."""
        polled = self._polled(entry)
        if polled is None:
            yield from self.rest()
            yield whole_line(entry)
            snapshot = readable(entry)
            if isinstance(snapshot, Snapshot):
                self._follow(snapshot)
            return
        if self._held is not None:
            if polled.poll.api_requests_count is None and _has_account(self._held[1]):
                # The account is that of the newest poll that saw it.
                yield from self.rest()
            else:
                yield from self._passed(self._held[1])
        self._held = (entry, polled)

    def rest(self) -> Iterator[bytes]:
        """Yield everything that was held back."""
        yield from self._sent()
        if self._held is not None:
            yield whole_line(self._held[0])
        yield from self._behind
        self._held, self._behind = None, []

    def _passed(self, polled: _Polled) -> Iterator[bytes]:
        self._block.append(polled)
        yield from self._behind
        self._behind = []
        if len(self._block) * sum(map(len, polled.columns)) >= BLOCK_BYTES:
            yield from self._sent()

    def _sent(self) -> Iterator[bytes]:
        """Yield the polls passed as one line."""
        if not self._block:
            return
        columns = [
            b"".join(texts) for texts in zip(*(p.columns for p in self._block), strict=True)
        ]
        streams_count = len(STREAM_COLUMNS)
        polls = tuple(polled.poll for polled in self._block)
        yield encode_record(
            PastPolls(
                polls[-1].taken_at_us,
                polls,
                dict(zip(STREAM_COLUMNS, columns[:streams_count], strict=True)),
                dict(zip(CONSUMER_COLUMNS, columns[streams_count:], strict=True)),
            )
        )
        self._block = []

    def _follow(self, snapshot: Snapshot) -> None:
        """Know who stands in which row after a poll."""
        state = self._state.after(snapshot)
        streams, consumers = state.streams.columns, state.consumers.columns
        keys = [getattr(streams, key) for key in _STREAM_KEYS]
        keys += [getattr(consumers, key) for key in _CONSUMER_KEYS]
        self._rows = tuple(msgspec.json.encode(key)[1:-1] for key in keys)
        self._state = State(streams=state.streams, consumers=state.consumers)

    def _polled(self, entry: Entry) -> _Polled | None:
        """Return what is wanted of a poll; None when it has to be sent whole."""
        if not self._rows or not entry.complete:
            return None
        packed = _ONLY_PACKED in entry.pieces[0].placed
        decoder = _PACKED if packed else _PLAIN
        try:
            parts = [decoder.decode(piece.placed) for piece in entry.pieces]
            if self._keys(parts) != self._rows:
                return None
            streams = [_column(parts, "streams", name) for name in STREAM_COLUMNS]
            consumers = _consumers(parts, packed=packed)
            columns = tuple(map(to_bytes, (*streams, *consumers)))
        except _DAMAGE:
            return None
        if _ragged(columns[: len(streams)]) or _ragged(columns[len(streams) :]):
            return None
        first = parts[0]
        use = (None, None)
        if first.account is not None:
            use = (first.account.api_requests_count, first.account.api_errors_count)
        return _Polled(PastPoll(entry.mono_us or 0, entry.at_us, first.cost, *use), columns)

    def _keys(self, parts: list[Any]) -> tuple[bytes, ...]:
        """Return who stands in which row, as text."""
        tables = [("streams", key) for key in _STREAM_KEYS]
        tables += [("consumers", key) for key in _CONSUMER_KEYS]
        return tuple(
            b",".join(
                text for part in parts if (text := bytes(getattr(getattr(part, table), key))[1:-1])
            )
            for table, key in tables
        )


def _ragged(columns: tuple[bytes, ...]) -> bool:
    return len({*map(len, columns)}) > 1


def _has_account(polled: _Polled) -> bool:
    return polled.poll.api_requests_count is not None


def _column(parts: list[Any], table: str, name: str) -> list[int]:
    """Return a column of all parts."""
    return list(chain.from_iterable(getattr(getattr(part, table), name) for part in parts))


def _consumers(parts: list[Any], *, packed: bool) -> list[list[int]]:
    """Return the columns of consumers that a history keeps."""
    if not packed:
        return [_column(parts, "consumers", name) for name in CONSUMER_COLUMNS]
    columns = {name: _column(parts, "consumers", name) for name in _UNPACKED}
    delivered = columns["delivered_consumer_seq"]
    behind = _column(parts, "consumers", _BEHIND)
    stream_seq = map(add, delivered, _column(parts, "consumers", _AHEAD))
    stream_behind = _column(parts, "consumers", _STREAM_BEHIND)
    columns["ack_floor_consumer_seq"] = list(map(sub, delivered, behind))
    columns["ack_floor_stream_seq"] = list(map(sub, stream_seq, stream_behind))
    return [columns[name] for name in CONSUMER_COLUMNS]
