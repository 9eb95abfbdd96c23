"""How a sealed segment is laid out, and which polls it puts first.

A sealed segment is seven gzip members, one after the other, which `zcat` and Spark read as one
file: the keyframe, the events, the frequent records, then the polls in three groups, and at last
the servers and connections. A seek an hour back needs one poll in 24 s, so those come first; then
those for a quarter of an hour. Of servers and connections it needs the newest only: older
segments are read without them. Segments of before had none of them, and six members.
"""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.live.history import (
    CONSUMER_COLUMNS,
    STREAM_COLUMNS,
    WINDOWS_S,
    begins_period,
    samples_kept_count,
)

KEYFRAME, EVENTS, FLOW, HOUR, QUARTER, REST, SYSTEM = range(7)
MEMBERS_COUNT = 7
MEMBERS_COUNTS = (SYSTEM, MEMBERS_COUNT)
"""Members that a sealed segment may have."""
FLOW_KINDS = frozenset({"ack_sample", "acks_counted", "benchmark_report", "benchmark_progress"})
"""Kinds of records that come many times a second."""
SYSTEM_KINDS = frozenset({"servers_read", "connections_read"})
"""Kinds of which each record replaces the previous one."""


@dataclass(frozen=True, slots=True)
class Poll:
    """The fields of a recorded poll that its layout depends on."""

    line_count: int
    mono_us: int
    complete: bool
    streams_count: int
    consumers_count: int


class _Grid:
    """Decides which polls the history of one window keeps, as `natstui.model.live.history`
    does.
    """

    def __init__(self, window_s: int) -> None:
        self._window_s = window_s
        self._taken_us: list[int | None] = [None, None]

    def takes(self, poll: Poll) -> bool:
        cells = (
            poll.streams_count * len(STREAM_COLUMNS),
            poll.consumers_count * len(CONSUMER_COLUMNS),
        )
        is_taken = False
        for table, cells_count in enumerate(cells):
            last_us, kept_count = self._taken_us[table], samples_kept_count(cells_count)
            if last_us is None or begins_period(last_us, poll.mono_us, self._window_s, kept_count):
                self._taken_us[table] = poll.mono_us
                is_taken = True
        return is_taken


def groups(polls: list[Poll]) -> dict[int, int]:
    """Return line → HOUR, QUARTER or REST for the polls of one segment, in their order.

    After an incomplete poll, older rows are still valid. It, and the one before it, go into the
    first group: a reader that skips polls must not skip those.
    """
    hour, quarter = _Grid(WINDOWS_S[-1]), _Grid(WINDOWS_S[-2])
    group_of: dict[int, int] = {}
    before: Poll | None = None
    for poll in polls:
        by_hour, by_quarter = hour.takes(poll), quarter.takes(poll)
        group_of[poll.line_count] = HOUR if by_hour else QUARTER if by_quarter else REST
        if not poll.complete:
            group_of[poll.line_count] = HOUR
            if before is not None:
                group_of[before.line_count] = HOUR
        before = poll
    return group_of


def needed(polls: list[Poll], group_of: dict[int, int]) -> set[int]:
    """Return the lines of polls that a history of five minutes needs."""
    grid = _Grid(WINDOWS_S[1])
    lines = {poll.line_count for poll in polls if grid.takes(poll)}
    return lines | {line for line, group in group_of.items() if group != REST}
