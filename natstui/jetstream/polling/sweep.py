"""Determines the streams whose consumers are listed next, and which lists are permitted."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet

from natstui.errors import PermissionDenied
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.jetstream.polling.listing import pages_count

_LIST = "CONSUMER.LIST"
_CONCLUSIVE_COUNT = 3


class ConsumerDenials:
    """Counts denied lists of consumers: after three, without a success, no list is requested."""

    def __init__(self, availability: RequestAvailability) -> None:
        self._availability = availability
        self._denials: dict[str, PermissionDenied] = {}
        self._has_success = False

    def may_request(self, stream: str) -> bool:
        """Return whether the consumers of this stream may be requested now."""
        if len(self._denials) >= _CONCLUSIVE_COUNT or stream in self._denials:
            return False
        available = self._availability
        return available.may_request(_LIST) and available.may_request(f"{_LIST}.{stream}")

    def count_denial(self, stream: str, error: PermissionDenied) -> None:
        """Count the denial of one list."""
        if self._has_success:
            self._availability.report_failure(f"{_LIST}.{stream}", error)
        else:
            self._denials[stream] = error

    def count_success(self, stream: str) -> None:
        """Count one received list, and report that lists work."""
        self._has_success = True
        self._availability.report_success(_LIST)
        self._availability.report_success(f"{_LIST}.{stream}")

    def report(self) -> None:
        """Report the denials of this poll: one report without any success, else one per stream."""
        if self._denials and not self._has_success:
            self._availability.report_failure(_LIST, next(iter(self._denials.values())))
        else:
            for stream, error in self._denials.items():
                self._availability.report_failure(f"{_LIST}.{stream}", error)
        self._denials.clear()


_Hashes = tuple[str, int, int, int]
_REPORTS_COUNT = 5
MAX_TURN_INTERVAL_S = 8.0
"""Maximum interval of a stream's turns while the server's share suffices."""
ACTIVE_TURN_INTERVAL_S = 4.0
"""Maximum interval of turns of a stream with changes."""
_EXTRA_PER_S = 20.0
"""Limit of turns per second for streams with changes, and the same for those with findings."""
_EXTRA_RATIO = 0.05
"""Minimum share of all turns for streams with changes, and for those with findings."""
_MAX_ROWS_COUNT = 2_400
"""Limit of rows in one poll, unless one list is longer: processing must not block others."""
_MAX_NEW_ROWS_COUNT = 1_400
"""Limit of rows in one poll while some streams were never listed: new rows cost more."""
_SWEEP_SHARE = 0.5
"""Share of polling's use of the server for continuous rounds."""


def _state_of(row: StreamRow) -> _Hashes:
    state = row.state
    return (row.created, state.consumer_count, state.last_seq, state.messages)


def turn_interval_s(streams_count: int, list_s: float, share: float) -> float:
    """Return the interval (s) of turns of a stream without changes.

    `list_s` is the work of a list, `share` the usable share of the server: the less all lists cost
    together, the shorter is the interval.
    """
    return min(MAX_TURN_INTERVAL_S, streams_count * list_s / (_SWEEP_SHARE * share))


def choose_requests(
    visible: Iterable[tuple[str, str]], counts: Mapping[str, int], slow: Container[str]
) -> list[tuple[str, str | None]]:
    """Return (stream, consumer) of each request for `visible` rows; a None consumer is the list.

    A list is chosen where it needs fewer requests. `counts` are the numbers of consumers by
    stream; `slow` are streams whose list takes too long.
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
    """Chooses the streams whose consumers are listed next; one list of a stream is its turn.

    Times are passed by the caller, in seconds on any monotonic clock.
    """

    def __init__(self) -> None:
        self._listed_at_s: dict[str, float | None] = {}
        """Stream → time of its last turn; None before the first."""
        self._unlisted: set[str] = set()
        self._listed_states: dict[str, _Hashes] = {}
        self._states: dict[str, _Hashes] = {}
        self._active: set[str] = set()
        self._progress: dict[str, int] = {}
        self._emptied: dict[str, int] = {}

    @property
    def streams(self) -> tuple[str, ...]:
        """Return the streams that have consumers."""
        return tuple(self._listed_at_s)

    @property
    def unlisted_count(self) -> int:
        """Return the number of streams that never had a turn."""
        return len(self._unlisted)

    @property
    def max_rows_count(self) -> int:
        """Return the limit of consumers that one poll lists."""
        return _MAX_NEW_ROWS_COUNT if self._unlisted else _MAX_ROWS_COUNT

    def update_streams(self, rows: Mapping[str, StreamRow], unreachable: Container[str]) -> None:
        """Update the streams from a complete list; unreachable streams have no turns."""
        self._states = {
            name: _state_of(row)
            for name, row in rows.items()
            if row.state.consumer_count and name not in unreachable
        }
        for removed in self._listed_at_s.keys() - self._states.keys():
            del self._listed_at_s[removed]
            self._unlisted.discard(removed)
            self._active.discard(removed)
            self._progress.pop(removed, None)
            if removed not in unreachable:
                self._emptied[removed] = _REPORTS_COUNT
        for name, mark in self._states.items():
            self._emptied.pop(name, None)
            if name not in self._listed_at_s:
                self._listed_at_s[name] = None
                self._unlisted.add(name)
            elif self._listed_states.get(name, mark) != mark:
                self._active.add(name)

    def find_due(
        self,
        now_s: float,
        turn_interval_s: float,
        preferred_streams: AbstractSet[str],
        since_s: float = 0.0,
    ) -> list[str]:
        """Return the due streams, the most urgent first; call `end_turn` for each listed one.

        New streams come first, then preferred ones, then the most overdue: so no stream waits
        forever behind others that change all the time. With `since_s`, the time since the last
        poll, the turns are spread evenly over the polls: streams that were first listed together
        would otherwise always be due together.
        """
        overdue: list[tuple[bool, float, str]] = []
        not_due: list[tuple[float, str]] = []
        share = 0.0
        preferred_s = self._active_interval_s(len(preferred_streams), turn_interval_s)
        active_s = min(
            turn_interval_s,
            max(
                ACTIVE_TURN_INTERVAL_S, self._active_interval_s(len(self._active), turn_interval_s)
            ),
        )
        for name, listed_at_s in self._listed_at_s.items():
            if listed_at_s is None:
                continue
            is_preferred = name in preferred_streams
            period_s = active_s if name in self._active else turn_interval_s
            period_s = min(period_s, preferred_s) if is_preferred else period_s
            share += since_s / period_s if period_s else 0.0
            # In the poll that is nearest to its time: the one after it may be late.
            ratio = (now_s - listed_at_s + since_s / 2) / max(period_s, 0.001)
            if ratio >= 1 or not period_s:
                overdue.append((not is_preferred, -ratio, name))
            else:
                not_due.append((-ratio, name))
        unlisted_streams = [name for name in self._listed_at_s if name in self._unlisted]
        extra_count = max(0, round(share) - len(unlisted_streams) - len(overdue))
        turns = sorted(overdue)
        return [
            *unlisted_streams,
            *(name for _, _, name in turns),
            *(name for _, name in heapq.nsmallest(extra_count, not_due)),
        ]

    def _active_interval_s(self, count: int, turn_interval_s: float) -> float:
        """Return the interval (s) of turns of `count` active or preferred streams."""
        all_per_s = len(self._listed_at_s) / turn_interval_s if turn_interval_s else 0.0
        return count / max(_EXTRA_PER_S, _EXTRA_RATIO * all_per_s)

    def store_progress(self, name: str, progress: int) -> None:
        """Store the progress of a stream's consumers; the stream is active if it has changed."""
        if self._progress.get(name, progress) != progress:
            self._active.add(name)
        else:
            self._active.discard(name)
        self._progress[name] = progress

    def end_turn(self, name: str, now_s: float) -> None:
        """Store the time of a stream's turn."""
        self._unlisted.discard(name)
        if name in self._listed_at_s:
            self._listed_at_s[name] = now_s
            self._listed_states[name] = self._states[name]

    def pop_emptied(self) -> tuple[str, ...]:
        """Return streams that lost their last consumer; each is returned five times in all."""
        emptied_streams = tuple(self._emptied)
        self._emptied = {name: count - 1 for name, count in self._emptied.items() if count > 1}
        return emptied_streams
