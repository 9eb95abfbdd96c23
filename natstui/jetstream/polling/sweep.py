"""Determines when the consumers of which stream are listed, and which may be listed."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet

from natstui.errors import PermissionDenied
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.jetstream.polling.listing import pages_count

_LIST = "CONSUMER.LIST"
_ENOUGH_COUNT = 3


class ConsumerDenials:
    """Concludes from a few denials, without any success, that the user may list none."""

    def __init__(self, availability: Availability) -> None:
        self._availability = availability
        self._undecided: dict[str, PermissionDenied] = {}
        self._any_worked = False

    def may_ask(self, stream: str) -> bool:
        """Return whether the consumers of this stream may be requested now."""
        if len(self._undecided) >= _ENOUGH_COUNT or stream in self._undecided:
            return False
        available = self._availability
        return available.may_ask(_LIST) and available.may_ask(f"{_LIST}.{stream}")

    def denied(self, stream: str, error: PermissionDenied) -> None:
        """Count one denial."""
        if self._any_worked:
            self._availability.failed(f"{_LIST}.{stream}", error)
        else:
            self._undecided[stream] = error

    def worked(self, stream: str) -> None:
        """Count one success."""
        self._any_worked = True
        self._availability.worked(_LIST)
        self._availability.worked(f"{_LIST}.{stream}")

    def settle(self) -> None:
        """Report this poll's denials: once for the entire verb, or stream by stream."""
        if self._undecided and not self._any_worked:
            self._availability.failed(_LIST, next(iter(self._undecided.values())))
        else:
            for stream, error in self._undecided.items():
                self._availability.failed(f"{_LIST}.{stream}", error)
        self._undecided.clear()


_Mark = tuple[str, int, int, int]
_REPORTS_COUNT = 5
REST_S = 8.0
"""Maximum interval of a stream's turns while the server's share suffices."""
MOVING_S = 4.0
"""The same for a stream with changes."""
_EXTRA_PER_S = 20.0
"""Limit of turns per second for streams with changes, and again for streams with findings."""
_EXTRA_RATIO = 0.05
"""Minimum share of all turns for these."""
_MOST_ROWS_COUNT = 2_400
"""Limit of rows in one poll, unless one list is longer: processing them must not block others."""
_MOST_NEW_ROWS_COUNT = 1_400
"""The same while rows come for the first time, with their configurations."""
_SWEEP_SHARE = 0.5
"""Share of polling's use of the server for continuous rounds."""


def _mark(row: StreamRow) -> _Mark:
    state = row.state
    return (row.created, state.consumer_count, state.last_seq, state.messages)


def rest_s(streams_count: int, list_s: float, share: float) -> float:
    """Return the interval of turns of a quiet stream.

    `list_s` is the work of a list, `share` the usable share of the server: if all lists together
    cost little, they come often.
    """
    return min(REST_S, streams_count * list_s / (_SWEEP_SHARE * share))


def requests_for(
    visible: Iterable[tuple[str, str]], counts: Mapping[str, int], slow: Container[str]
) -> list[tuple[str, str | None]]:
    """Return the requests to send: entire lists where they take fewer requests (name None).

    `counts` are the consumers of each stream; `slow` are streams whose list takes too long.
    """
    names_by_stream: dict[str, list[str]] = {}
    for stream, name in visible:
        if counts.get(stream):
            names_by_stream.setdefault(stream, []).append(name)
    requests: list[tuple[str, str | None]] = []
    for stream, names in names_by_stream.items():
        is_list_cheaper = (
            pages_count(counts[stream]) <= max(1, len(names) // 2) and stream not in slow
        )
        requests += [(stream, None)] if is_list_cheaper else [(stream, name) for name in names]
    return requests


class SweepOrder:
    """The order in which the consumers of streams are listed: more important ones come earlier.

    Times are passed by the caller, in seconds on any clock that never goes back.
    """

    def __init__(self) -> None:
        self._listed_at_s: dict[str, float | None] = {}
        """Stream → its last turn; None before the first."""
        self._unlisted: set[str] = set()
        self._listed_marks: dict[str, _Mark] = {}
        self._marks: dict[str, _Mark] = {}
        self._moving: set[str] = set()
        self._progress: dict[str, int] = {}
        self._emptied: dict[str, int] = {}

    @property
    def streams(self) -> tuple[str, ...]:
        """Return every stream with consumers."""
        return tuple(self._listed_at_s)

    @property
    def unlisted_count(self) -> int:
        """Return how many streams never had a turn."""
        return len(self._unlisted)

    @property
    def most_rows_count(self) -> int:
        """Return how many consumers one poll lists."""
        return _MOST_NEW_ROWS_COUNT if self._unlisted else _MOST_ROWS_COUNT

    def follow(self, rows: Mapping[str, StreamRow], unreachable: Container[str]) -> None:
        """Update the order from a complete list of streams; unreachable streams have no turn."""
        self._marks = {
            name: _mark(row)
            for name, row in rows.items()
            if row.state.consumer_count and name not in unreachable
        }
        for removed in self._listed_at_s.keys() - self._marks.keys():
            del self._listed_at_s[removed]
            self._unlisted.discard(removed)
            self._moving.discard(removed)
            self._progress.pop(removed, None)
            if removed not in unreachable:
                self._emptied[removed] = _REPORTS_COUNT
        for name, mark in self._marks.items():
            self._emptied.pop(name, None)
            if name not in self._listed_at_s:
                self._listed_at_s[name] = None
                self._unlisted.add(name)
            elif self._listed_marks.get(name, mark) != mark:
                self._moving.add(name)

    def due(
        self,
        now_s: float,
        rest_s: float,
        preferred_streams: AbstractSet[str],
        since_s: float = 0.0,
    ) -> list[str]:
        """Return the due streams, the most urgent first; call `done` for each listed one.

        New streams come first, then preferred ones, then the most overdue: so no stream waits
        forever behind others that change all the time. With `since_s` since the last poll, each
        poll has its share of the turns: streams first seen together would otherwise always be due
        together, and the last of them old.
        """
        urgent: list[tuple[bool, float, str]] = []
        early: list[tuple[float, str]] = []
        share = 0.0
        preferred_s = self._earlier_s(len(preferred_streams), rest_s)
        moving_s = min(rest_s, max(MOVING_S, self._earlier_s(len(self._moving), rest_s)))
        for name, listed_at_s in self._listed_at_s.items():
            if listed_at_s is None:
                continue
            is_preferred = name in preferred_streams
            period_s = moving_s if name in self._moving else rest_s
            period_s = min(period_s, preferred_s) if is_preferred else period_s
            share += since_s / period_s if period_s else 0.0
            # In the poll that is nearest to its time: the one after it may be late.
            ratio = (now_s - listed_at_s + since_s / 2) / max(period_s, 0.001)
            if ratio >= 1 or not period_s:
                urgent.append((not is_preferred, -ratio, name))
            else:
                early.append((-ratio, name))
        unlisted_streams = [name for name in self._listed_at_s if name in self._unlisted]
        missing_count = max(0, round(share) - len(unlisted_streams) - len(urgent))
        turns = sorted(urgent)
        return [
            *unlisted_streams,
            *(name for _, _, name in turns),
            *(name for _, name in heapq.nsmallest(missing_count, early)),
        ]

    def _earlier_s(self, count: int, rest_s: float) -> float:
        """Return the interval of turns of streams with more: short for a few."""
        all_per_s = len(self._listed_at_s) / rest_s if rest_s else 0.0
        return count / max(_EXTRA_PER_S, _EXTRA_RATIO * all_per_s)

    def moved(self, name: str, progress: int) -> None:
        """Store how far the consumers of a stream are: if that changes, it is active."""
        if self._progress.get(name, progress) != progress:
            self._moving.add(name)
        else:
            self._moving.discard(name)
        self._progress[name] = progress

    def done(self, name: str, now_s: float) -> None:
        """Store that a stream had its turn."""
        self._unlisted.discard(name)
        if name in self._listed_at_s:
            self._listed_at_s[name] = now_s
            self._listed_marks[name] = self._marks[name]

    def emptied(self) -> tuple[str, ...]:
        """Return streams that lost their last consumer; repeated a few times for slow readers."""
        emptied_streams = tuple(self._emptied)
        self._emptied = {name: count - 1 for name, count in self._emptied.items() if count > 1}
        return emptied_streams
