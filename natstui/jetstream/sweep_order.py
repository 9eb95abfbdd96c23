"""Whose consumers to list next: streams that moved and all others take turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Mapping

from natstui.jetstream.decode_stream import StreamRow

_Mark = tuple[str, int, int, int]
_TOLD_EMPTY_COUNT = 5


def _mark(row: StreamRow) -> _Mark:
    state = row.state
    return (row.created, state.consumer_count, state.last_seq, state.messages)


class SweepOrder:
    """Orders the streams that have consumers; one that changed since its turn comes early."""

    def __init__(self) -> None:
        self._rotation: OrderedDict[str, _Mark | None] = OrderedDict()
        self._moved: dict[str, None] = {}
        self._marks: dict[str, _Mark] = {}
        self._emptied: dict[str, int] = {}
        self._even_turn = False

    @property
    def streams(self) -> tuple[str, ...]:
        """Every stream with consumers, the longest waiting first."""
        return tuple(self._rotation)

    @property
    def has_new(self) -> bool:
        """Tell whether there are streams whose turn never came."""
        return next(iter(self._rotation.values()), ()) is None

    def follow(self, rows: Mapping[str, StreamRow], away: Container[str]) -> None:
        """Take up what a complete list of streams says; streams that are away have no turn."""
        self._marks = {
            name: _mark(row)
            for name, row in rows.items()
            if row.state.consumer_count and name not in away
        }
        for gone in self._rotation.keys() - self._marks.keys():
            del self._rotation[gone]
            self._moved.pop(gone, None)
            if gone not in away:
                self._emptied[gone] = _TOLD_EMPTY_COUNT
        for name, mark in self._marks.items():
            self._emptied.pop(name, None)
            if self._rotation.get(name, mark) != mark:
                self._moved.setdefault(name)
        for name in reversed([name for name in self._marks if name not in self._rotation]):
            self._rotation[name] = None
            self._rotation.move_to_end(name, last=False)

    def next(self) -> str | None:
        """Return whose turn it is; call `done` when its consumers were listed."""
        self._even_turn = not self._even_turn
        if self._even_turn and self._moved:
            return next(iter(self._moved))
        return next(iter(self._rotation), None)

    def done(self, name: str) -> None:
        """Put a stream at the end of the order."""
        self._moved.pop(name, None)
        if name in self._rotation:
            self._rotation[name] = self._marks.get(name)
            self._rotation.move_to_end(name)

    def emptied(self) -> tuple[str, ...]:
        """Return streams that lost their last consumer; said a few times, for slow readers."""
        told = tuple(self._emptied)
        self._emptied = {name: count - 1 for name, count in self._emptied.items() if count > 1}
        return told
