"""When the consumers of which stream are listed, and which may be listed."""

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
        """Return whether the consumers of this stream may be asked for now."""
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
REST_S = 8.0
"""How long a stream waits at most for its turn while the server's share suffices."""
MOVING_S = 4.0
"""The same for a stream on which something moves."""
_EXTRA_PER_S = 20.0
"""Streams on which something moves have at most so many turns a second, and streams with findings
as many again."""
_EXTRA_RATIO = 0.05
"""Or this part of all turns, where that is more."""
_MOST_ROWS_COUNT = 2_400
"""In one poll, unless one list is longer: what it makes of them must not hold up others."""
_MOST_NEW_ROWS_COUNT = 1_400
"""The same while rows come for the first time, with their configurations."""
_SWEEP_SHARE = 0.5
"""Of what polling may use, which one sweep after the other may take."""


def _mark(row: StreamRow) -> _Mark:
    state = row.state
    return (row.created, state.consumer_count, state.last_seq, state.messages)


def rest_s(streams_count: int, list_s: float, share: float) -> float:
    """Return the time from one turn of a quiet stream to the next.

    `list_s` is what a list costs the server, `share` what may be used of it: where all lists
    together cost little, they come often.
    """
    return min(REST_S, streams_count * list_s / (_SWEEP_SHARE * share))


def requests_for(
    visible: Iterable[tuple[str, str]], counts: Mapping[str, int], slow: Container[str]
) -> list[tuple[str, str | None]]:
    """Return what to ask for: whole lists where they take fewer requests (name None).

    `counts` are the consumers of each stream; `slow` are streams whose list takes too long.
    """
    names_of: dict[str, list[str]] = {}
    for stream, name in visible:
        if counts.get(stream):
            names_of.setdefault(stream, []).append(name)
    wanted: list[tuple[str, str | None]] = []
    for stream, names in names_of.items():
        whole = pages_count(counts[stream]) <= max(1, len(names) // 2) and stream not in slow
        wanted += [(stream, None)] if whole else [(stream, name) for name in names]
    return wanted


class SweepOrder:
    """When the consumers of which stream are listed again: what is worth more comes earlier.

    Moments are given by the caller, in seconds on any clock that never goes back.
    """

    def __init__(self) -> None:
        self._listed_at_s: dict[str, float | None] = {}
        """None for a stream whose turn never came."""
        self._unlisted: set[str] = set()
        self._listed_marks: dict[str, _Mark] = {}
        self._marks: dict[str, _Mark] = {}
        self._moving: set[str] = set()
        self._progress: dict[str, int] = {}
        self._emptied: dict[str, int] = {}

    @property
    def streams(self) -> tuple[str, ...]:
        """Every stream with consumers."""
        return tuple(self._listed_at_s)

    @property
    def unlisted_count(self) -> int:
        """How many streams there are whose turn never came."""
        return len(self._unlisted)

    @property
    def most_rows_count(self) -> int:
        """How many consumers one poll lists."""
        return _MOST_NEW_ROWS_COUNT if self._unlisted else _MOST_ROWS_COUNT

    def follow(self, rows: Mapping[str, StreamRow], away: Container[str]) -> None:
        """Update the order from a complete list of streams; unreachable streams have no turn."""
        self._marks = {
            name: _mark(row)
            for name, row in rows.items()
            if row.state.consumer_count and name not in away
        }
        for gone in self._listed_at_s.keys() - self._marks.keys():
            del self._listed_at_s[gone]
            self._unlisted.discard(gone)
            self._moving.discard(gone)
            self._progress.pop(gone, None)
            if gone not in away:
                self._emptied[gone] = _REPORTS_COUNT
        for name, mark in self._marks.items():
            self._emptied.pop(name, None)
            if name not in self._listed_at_s:
                self._listed_at_s[name] = None
                self._unlisted.add(name)
            elif self._listed_marks.get(name, mark) != mark:
                self._moving.add(name)

    def due(
        self, now_s: float, rest_s: float, preferred: AbstractSet[str], since_s: float = 0.0
    ) -> list[str]:
        """Return whose turn it is, the most urgent first; call `done` for each that was listed.

        New streams come first, then preferred ones, then those whose time is over by the largest
        part: so no stream waits for ever behind others that move all the time. With `since_s`
        since the last poll, each poll has its share of the turns: what was first seen all at
        once would otherwise be due all at once again, and the last of it old.
        """
        urgent: list[tuple[bool, float, str]] = []
        early: list[tuple[float, str]] = []
        share = 0.0
        preferred_s = self._earlier_s(len(preferred), rest_s)
        moving_s = min(rest_s, max(MOVING_S, self._earlier_s(len(self._moving), rest_s)))
        for name, listed_at_s in self._listed_at_s.items():
            if listed_at_s is None:
                continue
            is_preferred = name in preferred
            period_s = moving_s if name in self._moving else rest_s
            period_s = min(period_s, preferred_s) if is_preferred else period_s
            share += since_s / period_s if period_s else 0.0
            # In the poll that is nearest to its time: the one after it may be late.
            ratio = (now_s - listed_at_s + since_s / 2) / max(period_s, 0.001)
            if ratio >= 1 or not period_s:
                urgent.append((not is_preferred, -ratio, name))
            else:
                early.append((-ratio, name))
        unlisted = [name for name in self._listed_at_s if name in self._unlisted]
        missing_count = max(0, round(share) - len(unlisted) - len(urgent))
        turns = sorted(urgent)
        return [
            *unlisted,
            *(name for _, _, name in turns),
            *(name for _, name in heapq.nsmallest(missing_count, early)),
        ]

    def _earlier_s(self, count: int, rest_s: float) -> float:
        """Return the time from one turn to the next of those that have more: little for a few."""
        all_per_s = len(self._listed_at_s) / rest_s if rest_s else 0.0
        return count / max(_EXTRA_PER_S, _EXTRA_RATIO * all_per_s)

    def moved(self, name: str, progress: int) -> None:
        """Note how far the consumers of a stream are: where they go on, it moves."""
        if self._progress.get(name, progress) != progress:
            self._moving.add(name)
        else:
            self._moving.discard(name)
        self._progress[name] = progress

    def done(self, name: str, now_s: float) -> None:
        """Note that a stream had its turn."""
        self._unlisted.discard(name)
        if name in self._listed_at_s:
            self._listed_at_s[name] = now_s
            self._listed_marks[name] = self._marks[name]

    def emptied(self) -> tuple[str, ...]:
        """Return streams that lost their last consumer; repeated a few times for slow readers."""
        emptied = tuple(self._emptied)
        self._emptied = {name: count - 1 for name, count in self._emptied.items() if count > 1}
        return emptied
