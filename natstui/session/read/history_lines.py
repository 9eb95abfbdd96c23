"""Older polls as `PastPolls`: only the counters that a history keeps, a fraction of their text.

A state that is built for a moment needs hundreds of older polls, and keeps a few counters of
each. While polls have the same rows, only those counters are sent, many polls in one line; only
the newest poll is sent whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from operator import add, sub
from typing import Any

import msgspec

from natstui.decoding import decoder_of
from natstui.lines import encode_record
from natstui.model.live.history import CONSUMER_COLUMNS, STREAM_COLUMNS
from natstui.model.live.past_polls import PastPoll, PastPolls, to_bytes
from natstui.model.live.snapshot import PollCost, Snapshot
from natstui.model.live.state import State
from natstui.session.files.entry import Entry
from natstui.session.files.segment import readable
from natstui.session.read.recording import whole_line

BLOCK_BYTES = 512 * 1024
"""A line of this size is sent at once, so that the reader begins while the rest is made."""

_STREAM_KEYS = ("name", "created_at_us")
_CONSUMER_KEYS = ("stream", "name", "created_at_us")
_AHEAD, _BEHIND, _STREAM_BEHIND = (
    "delivered_stream_ahead_seq",
    "ack_floor_consumer_behind_seq",
    "ack_floor_stream_behind_seq",
)
_FLOORS = ("ack_floor_consumer_seq", "ack_floor_stream_seq")
_SEQUENCES = (*_FLOORS, "delivered_stream_seq")
"""What a recording holds as differences."""
_WITHOUT_SEQUENCES = tuple(column for column in CONSUMER_COLUMNS if column not in _SEQUENCES)


def _part(consumer_columns: tuple[str, ...]) -> Any:
    """Return a decoder of what a history keeps; the names of the rows stay text."""

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
    return decoder_of(msgspec.defstruct("Part", kept), strict=False)


_PLAIN = _part(CONSUMER_COLUMNS)
_DIFFERENCES = _part((*_WITHOUT_SEQUENCES, _AHEAD, _BEHIND, _STREAM_BEHIND))
_ONLY_WITH_DIFFERENCES = b'"%s":' % _STREAM_BEHIND.encode()
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True)
class _Polled:
    """The part of one poll that is sent."""

    poll: PastPoll
    columns: tuple[bytes, ...]
    """Of the streams, then of the consumers."""


WHOLE_POLLS_COUNT = 12
"""So many polls before a moment are sent whole: longer than any finding is held back."""
WHOLE_ROWS_COUNT = 20_000
"""Of many rows fewer polls: a jump in a recording shall not take longer for it."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A poll that may be sent whole, and the lines that came after it."""

    entry: Entry
    polled: _Polled
    lines: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class HistoryLines:
    """Turns polls into lines: short ones but for the newest few, while their rows are the same.

    What must hold for some seconds to be wrong is judged over those few.

    Every other line passes through it too, because it must not overtake the polls before it.
    """

    _state: State = field(default_factory=State)
    """Only the names of the rows."""
    _rows: tuple[bytes, ...] = ()
    _block: list[_Polled] = field(default_factory=list)
    _held: deque[_Held] = field(default_factory=deque)
    """The newest polls: sent whole, unless enough others come."""

    def line(self, line: bytes) -> Iterator[bytes]:
        """Yield a line that is no poll, after the polls before it."""
        if self._held:
            self._held[-1].lines.append(line)
        else:
            yield line

    def snapshot(self, snapshot: Snapshot) -> Iterator[bytes]:
        """Yield a poll that is sent whole, after all before it."""
        yield from self.rest()
        yield encode_record(snapshot)
        self._keep_rows(snapshot)

    def entry(self, entry: Entry) -> Iterator[bytes]:
        """Yield the lines that may be sent before another poll, which is held back."""
        polled = self._polled(entry)
        if polled is None:
            yield from self.rest()
            yield whole_line(entry)
            snapshot = readable(entry)
            if isinstance(snapshot, Snapshot):
                self._keep_rows(snapshot)
            return
        without_account = polled.poll.api_requests_count is None
        if without_account and self._held and _has_account(self._held[-1].polled):
            # A state keeps the account of the newest poll that has one.
            yield from self.rest()
        self._held.append(_Held(entry, polled))
        rows_count = max(1, len(self._state.streams) + len(self._state.consumers))
        while len(self._held) > max(1, min(WHOLE_POLLS_COUNT, WHOLE_ROWS_COUNT // rows_count)):
            yield from self._shortened(self._held.popleft())

    def rest(self) -> Iterator[bytes]:
        """Yield everything that was held back."""
        yield from self._sent()
        for held in self._held:
            yield whole_line(held.entry)
            yield from held.lines
        self._held.clear()

    def _shortened(self, held: _Held) -> Iterator[bytes]:
        self._block.append(held.polled)
        yield from held.lines
        if len(self._block) * sum(map(len, held.polled.columns)) >= BLOCK_BYTES:
            yield from self._sent()

    def _sent(self) -> Iterator[bytes]:
        """Yield the polls of the block as one line."""
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

    def _keep_rows(self, snapshot: Snapshot) -> None:
        """Keep the names of the rows after a poll."""
        state = self._state.after(snapshot)
        streams, consumers = state.streams.columns, state.consumers.columns
        keys = [getattr(streams, key) for key in _STREAM_KEYS]
        keys += [getattr(consumers, key) for key in _CONSUMER_KEYS]
        self._rows = tuple(msgspec.json.encode(key)[1:-1] for key in keys)
        self._state = State(streams=state.streams, consumers=state.consumers)

    def _polled(self, entry: Entry) -> _Polled | None:
        """Return the part of a poll that is sent; None when it has to be sent whole."""
        if not self._rows or not entry.complete:
            return None
        differences = _ONLY_WITH_DIFFERENCES in entry.pieces[0].numbered
        decoder = _DIFFERENCES if differences else _PLAIN
        try:
            parts = [decoder.decode(piece.numbered) for piece in entry.pieces]
            if self._keys(parts) != self._rows:
                return None
            streams = [_column(parts, "streams", name) for name in STREAM_COLUMNS]
            consumers = _consumers(parts, differences=differences)
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
        """Return the names of the rows, as text."""
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


def _consumers(parts: list[Any], *, differences: bool) -> list[list[int]]:
    """Return the columns of consumers that a history keeps."""
    if not differences:
        return [_column(parts, "consumers", name) for name in CONSUMER_COLUMNS]
    columns = {name: _column(parts, "consumers", name) for name in _WITHOUT_SEQUENCES}
    delivered = columns["delivered_consumer_seq"]
    behind = _column(parts, "consumers", _BEHIND)
    stream_seq = list(map(add, delivered, _column(parts, "consumers", _AHEAD)))
    stream_behind = _column(parts, "consumers", _STREAM_BEHIND)
    columns["delivered_stream_seq"] = stream_seq
    columns["ack_floor_consumer_seq"] = list(map(sub, delivered, behind))
    columns["ack_floor_stream_seq"] = list(map(sub, stream_seq, stream_behind))
    return [columns[name] for name in CONSUMER_COLUMNS]
