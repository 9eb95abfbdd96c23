"""Determines the streams whose consumers are listed next, and which lists are permitted."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from natstui.errors import PermissionDenied
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.listing import pages_count

_LIST = "CONSUMER.LIST"
_MAX_DENIALS_COUNT = 3


class ConsumerDenials:
    """Counts denied lists of consumers: after three, without a success, no list is requested."""

    def __init__(self, availability: RequestAvailability) -> None:
        self._availability = availability
        self._denials: dict[str, PermissionDenied] = {}
        self._has_received_list = False

    def may_request(self, stream: str) -> bool:
        """Return whether the consumers of this stream may be requested now."""
        if len(self._denials) >= _MAX_DENIALS_COUNT or stream in self._denials:
            return False
        availability = self._availability
        return availability.may_request(_LIST) and availability.may_request(f"{_LIST}.{stream}")

    def count_denial(self, stream: str, error: PermissionDenied) -> None:
        """Count the denial of one list."""
        if self._has_received_list:
            self._availability.report_failure(f"{_LIST}.{stream}", error)
        else:
            self._denials[stream] = error

    def count_success(self, stream: str) -> None:
        """Count one received list, and report that lists work."""
        self._has_received_list = True
        self._availability.report_success(_LIST)
        self._availability.report_success(f"{_LIST}.{stream}")

    def report(self) -> None:
        """Report the denials of this poll: once if no list ever arrived, else once per stream."""
        if self._denials and not self._has_received_list:
            self._availability.report_failure(_LIST, next(iter(self._denials.values())))
        else:
            for stream, error in self._denials.items():
                self._availability.report_failure(f"{_LIST}.{stream}", error)
        self._denials.clear()


class _StreamState(NamedTuple):
    """The fields of a stream that change when it is recreated, receives messages, or gets or loses
    consumers.
    """

    created: str
    consumers_count: int
    last_seq: int
    stored_msgs: int


_EMPTIED_REPORTS_COUNT = 5
MAX_TURN_INTERVAL_S = 8.0
"""Maximum interval of a stream's turns while the server's share suffices."""
ACTIVE_TURN_INTERVAL_S = 4.0
"""Maximum interval of turns of a stream with changes."""
_MAX_ACTIVE_TURNS_PER_S = 20.0
"""Limit of turns per second for streams with changes, and the same for those with findings."""
_MIN_ACTIVE_TURNS_RATIO = 0.05
"""Minimum share of all turns for streams with changes, and for those with findings."""
_MAX_ROWS_COUNT = 2_400
"""Limit of rows in one poll, unless one list is longer: processing must not block others."""
_MAX_NEW_ROWS_COUNT = 1_400
"""Limit of rows in one poll while some streams were never listed: new rows cost more."""
_ROUNDS_SHARE = 0.5
"""Share of polling's use of the server for continuous rounds."""


def _read_stream_state(row: StreamRow) -> _StreamState:
    state = row.state
    return _StreamState(row.created, state.consumer_count, state.last_seq, state.messages)


def turn_interval_s(streams_count: int, list_s: float, share: float) -> float:
    """Return the interval (s) in which the consumers of a stream without changes are listed.

    `list_s` is the server's work for a list, `share` the share of the server that polling may use:
    the less all lists cost together, the shorter is the interval.
    """
    return min(MAX_TURN_INTERVAL_S, streams_count * list_s / (_ROUNDS_SHARE * share))


def choose_requests(
    visible_consumers: Iterable[tuple[str, str]],
    counts: Mapping[str, int],
    slow_streams: Container[str],
) -> list[tuple[str, str | None]]:
    """Return stream and consumer of each request for `visible_consumers`; None means the list.

    A list is chosen where it needs fewer requests. `counts` are the numbers of consumers by
    stream; `slow_streams` are streams whose list takes too long.
    """
    names_by_stream: dict[str, list[str]] = {}
    for stream, name in visible_consumers:
        if counts.get(stream):
            names_by_stream.setdefault(stream, []).append(name)
    requests: list[tuple[str, str | None]] = []
    for stream, names in names_by_stream.items():
        is_list_cheaper = (
            pages_count(counts[stream]) <= max(1, len(names) // 2) and stream not in slow_streams
        )
        requests += [(stream, None)] if is_list_cheaper else [(stream, name) for name in names]
    return requests


class ConsumerListOrder:
    """Chooses the streams whose consumers are listed next; one list of a stream is its turn.

    Times are passed by the caller, in seconds on any monotonic clock.
    """

    def __init__(self) -> None:
        self._listed_at_s_by_stream: dict[str, float | None] = {}
        """Stream → time of its last turn; None before the first."""
        self._unlisted_streams: set[str] = set()
        self._listed_states: dict[str, _StreamState] = {}
        self._stream_states: dict[str, _StreamState] = {}
        self._active_streams: set[str] = set()
        self._progress_by_stream: dict[str, int] = {}
        self._remaining_reports_by_emptied_stream: dict[str, int] = {}

    @property
    def streams(self) -> tuple[str, ...]:
        """Return the streams that have consumers."""
        return tuple(self._listed_at_s_by_stream)

    @property
    def unlisted_count(self) -> int:
        """Return the number of streams whose consumers were never listed."""
        return len(self._unlisted_streams)

    @property
    def max_rows_count(self) -> int:
        """Return the limit of consumers that one poll lists."""
        return _MAX_NEW_ROWS_COUNT if self._unlisted_streams else _MAX_ROWS_COUNT

    def update_streams(self, rows: Mapping[str, StreamRow], unreachable: Container[str]) -> None:
        """Update the streams from a complete list, without unreachable ones."""
        self._stream_states = {
            name: _read_stream_state(row)
            for name, row in rows.items()
            if row.state.consumer_count and name not in unreachable
        }
        for removed_stream in self._listed_at_s_by_stream.keys() - self._stream_states.keys():
            del self._listed_at_s_by_stream[removed_stream]
            self._unlisted_streams.discard(removed_stream)
            self._active_streams.discard(removed_stream)
            self._progress_by_stream.pop(removed_stream, None)
            self._listed_states.pop(removed_stream, None)
            if removed_stream not in unreachable:
                self._remaining_reports_by_emptied_stream[removed_stream] = _EMPTIED_REPORTS_COUNT
        for name, state in self._stream_states.items():
            self._remaining_reports_by_emptied_stream.pop(name, None)
            if name not in self._listed_at_s_by_stream:
                self._listed_at_s_by_stream[name] = None
                self._unlisted_streams.add(name)
            elif self._listed_states.get(name, state) != state:
                self._active_streams.add(name)

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
        overdue_turns: list[tuple[bool, float, str]] = []
        later_turns: list[tuple[float, str]] = []
        evenly_due_turns = 0.0
        preferred_interval_s = self._active_interval_s(len(preferred_streams), turn_interval_s)
        active_interval_s = min(
            turn_interval_s,
            max(
                ACTIVE_TURN_INTERVAL_S,
                self._active_interval_s(len(self._active_streams), turn_interval_s),
            ),
        )
        for name, listed_at_s in self._listed_at_s_by_stream.items():
            if listed_at_s is None:
                continue
            is_preferred = name in preferred_streams
            period_s = active_interval_s if name in self._active_streams else turn_interval_s
            period_s = min(period_s, preferred_interval_s) if is_preferred else period_s
            evenly_due_turns += since_s / period_s if period_s else 0.0
            # In the poll that is nearest to its time: the one after it may be late.
            overdue_ratio = (now_s - listed_at_s + since_s / 2) / max(period_s, 0.001)
            if overdue_ratio >= 1 or not period_s:
                overdue_turns.append((not is_preferred, -overdue_ratio, name))
            else:
                later_turns.append((-overdue_ratio, name))
        unlisted_streams = [
            name for name in self._listed_at_s_by_stream if name in self._unlisted_streams
        ]
        extra_turns_count = max(
            0, round(evenly_due_turns) - len(unlisted_streams) - len(overdue_turns)
        )
        sorted_turns = sorted(overdue_turns)
        return [
            *unlisted_streams,
            *(name for _, _, name in sorted_turns),
            *(name for _, name in heapq.nsmallest(extra_turns_count, later_turns)),
        ]

    def _active_interval_s(self, count: int, turn_interval_s: float) -> float:
        """Return the interval (s) of lists of each of `count` active or preferred streams."""
        all_turns_per_s = (
            len(self._listed_at_s_by_stream) / turn_interval_s if turn_interval_s else 0.0
        )
        return count / max(_MAX_ACTIVE_TURNS_PER_S, _MIN_ACTIVE_TURNS_RATIO * all_turns_per_s)

    def store_progress(self, name: str, progress: int) -> None:
        """Store the result of `hash_progress`; the stream is active if it has changed."""
        if self._progress_by_stream.get(name, progress) != progress:
            self._active_streams.add(name)
        else:
            self._active_streams.discard(name)
        self._progress_by_stream[name] = progress

    def end_turn(self, name: str, now_s: float) -> None:
        """Store when the consumers of a stream were listed."""
        self._unlisted_streams.discard(name)
        if name in self._listed_at_s_by_stream:
            self._listed_at_s_by_stream[name] = now_s
            self._listed_states[name] = self._stream_states[name]

    def pop_emptied_streams(self) -> tuple[str, ...]:
        """Return streams whose last consumer was deleted: each in five successive calls."""
        emptied_streams = tuple(self._remaining_reports_by_emptied_stream)
        self._remaining_reports_by_emptied_stream = {
            name: count - 1
            for name, count in self._remaining_reports_by_emptied_stream.items()
            if count > 1
        }
        return emptied_streams
