"""The order in which the consumers of all streams are listed, and which may be listed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Mapping

from natstui.errors import PermissionDenied
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.decode.streams import StreamRow

_LIST = "CONSUMER.LIST"
_ENOUGH_COUNT = 3


class ConsumerDenials:
    """Concludes from a few denials, without any success, that the user may list none."""

    def __init__(self, availability: Availability) -> None:
        self._availability = availability
        self._undecided: dict[str, PermissionDenied] = {}
        self._any_worked = False

    def may_ask(self, stream: str) -> bool:
        """Tell whether the consumers of this stream may be asked for now."""
        if len(self._undecided) >= _ENOUGH_COUNT or stream in self._undecided:
            return False
        available = self._availability
        return available.may_ask(_LIST) and available.may_ask(f"{_LIST}.{stream}")

    def denied(self, stream: str, error: PermissionDenied) -> None:
        """Note one denial."""
        if self._any_worked:
            self._availability.failed(f"{_LIST}.{stream}", error)
        else:
            self._undecided[stream] = error

    def worked(self, stream: str) -> None:
        """Note one success."""
        self._any_worked = True
        self._availability.worked(_LIST)
        self._availability.worked(f"{_LIST}.{stream}")

    def settle(self) -> None:
        """Report this poll's denials: once for the whole verb, or stream by stream."""
        if self._undecided and not self._any_worked:
            self._availability.failed(_LIST, next(iter(self._undecided.values())))
        else:
            for stream, error in self._undecided.items():
                self._availability.failed(f"{_LIST}.{stream}", error)
        self._undecided.clear()


_Mark = tuple[str, int, int, int]
_REPORTS_COUNT = 5


def _mark(row: StreamRow) -> _Mark:
    state = row.state
    return (row.created, state.consumer_count, state.last_seq, state.messages)


class SweepOrder:
    """Orders the streams that have consumers; one that changed since its turn comes earlier."""

    def __init__(self) -> None:
        self._rotation: OrderedDict[str, _Mark | None] = OrderedDict()
        self._moved: dict[str, None] = {}
        self._marks: dict[str, _Mark] = {}
        self._emptied: dict[str, int] = {}
        self._even_turn = False

    @property
    def streams(self) -> tuple[str, ...]:
        """Every stream with consumers, the one listed longest ago first."""
        return tuple(self._rotation)

    @property
    def has_new(self) -> bool:
        """Tell whether there are streams whose turn never came."""
        return next(iter(self._rotation.values()), ()) is None

    def follow(self, rows: Mapping[str, StreamRow], away: Container[str]) -> None:
        """Update the order from a complete list of streams; unreachable streams have no turn."""
        self._marks = {
            name: _mark(row)
            for name, row in rows.items()
            if row.state.consumer_count and name not in away
        }
        for gone in self._rotation.keys() - self._marks.keys():
            del self._rotation[gone]
            self._moved.pop(gone, None)
            if gone not in away:
                self._emptied[gone] = _REPORTS_COUNT
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
        """Return streams that lost their last consumer; repeated a few times for slow readers."""
        emptied = tuple(self._emptied)
        self._emptied = {name: count - 1 for name, count in self._emptied.items() if count > 1}
        return emptied
