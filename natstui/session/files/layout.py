"""The layout of a sealed segment, and the order of its polls.

A sealed segment is seven gzip members, one after the other, which `zcat` and Spark read as one
file: the keyframe, the events, the frequent records, then the polls in three groups, and at last
the servers and connections. A seek to an hour of history needs one poll in 24 s, so the first
group has those; the second has the polls for a quarter of an hour. Of servers and connections a
seek needs the newest only: it does not read them in older segments. Segments of older versions
have six members, without the last one.
"""

from __future__ import annotations

from msgspec import Struct

from natstui.model.live.history import (
    CONSUMER_COLUMNS,
    STREAM_COLUMNS,
    WINDOWS_S,
    begins_period,
    max_samples_count,
)

KEYFRAME_MEMBER = 0
EVENTS_MEMBER = 1
FREQUENT_MEMBER = 2
HOUR_POLLS_MEMBER = 3
QUARTER_POLLS_MEMBER = 4
OTHER_POLLS_MEMBER = 5
SYSTEM_MEMBER = 6
"""Numbers of the gzip members of a sealed segment."""
MEMBERS_COUNT = 7
VALID_MEMBERS_COUNTS = (SYSTEM_MEMBER, MEMBERS_COUNT)
"""Possible numbers of members of a sealed segment."""
FREQUENT_KINDS = frozenset(
    {"ack_sample", "acks_counted", "benchmark_report", "benchmark_progress"}
)
"""Kinds of records that are recorded many times a second."""
SYSTEM_KINDS = frozenset({"servers_read", "connections_read"})
"""Kinds of which each record replaces the previous one."""


class PollLayout(Struct, frozen=True):
    """The fields of a recorded poll that the layout of its segment depends on."""

    line_number: int
    mono_us: int
    is_complete: bool
    streams_count: int
    consumers_count: int


class _PollGrid:
    """Decides which polls the history of a window keeps, as `natstui.model.live.history` does."""

    def __init__(self, window_s: int) -> None:
        self._window_s = window_s
        self._last_kept_us_by_table: list[int | None] = [None, None]

    def should_keep(self, poll: PollLayout) -> bool:
        """Return whether the history keeps a poll; called for each poll, in order."""
        cells_counts = (
            poll.streams_count * len(STREAM_COLUMNS),
            poll.consumers_count * len(CONSUMER_COLUMNS),
        )
        is_kept = False
        for table, cells_count in enumerate(cells_counts):
            last_kept_us, max_samples = (
                self._last_kept_us_by_table[table],
                max_samples_count(cells_count),
            )
            if last_kept_us is None or begins_period(
                last_kept_us, poll.mono_us, self._window_s, max_samples
            ):
                self._last_kept_us_by_table[table] = poll.mono_us
                is_kept = True
        return is_kept


def group_polls(polls: list[PollLayout]) -> dict[int, int]:
    """Return line number → gzip member for the polls of a segment, which are in order.

    After an incomplete poll, older rows are still valid. So an incomplete poll and the poll before
    it are in HOUR_POLLS_MEMBER: a reader that skips polls must not skip those.
    """
    hour_grid, quarter_grid = _PollGrid(WINDOWS_S[-1]), _PollGrid(WINDOWS_S[-2])
    group_by_line: dict[int, int] = {}
    previous_poll: PollLayout | None = None
    for poll in polls:
        is_hour_poll, is_quarter_poll = hour_grid.should_keep(poll), quarter_grid.should_keep(poll)
        group_by_line[poll.line_number] = (
            HOUR_POLLS_MEMBER
            if is_hour_poll
            else QUARTER_POLLS_MEMBER
            if is_quarter_poll
            else OTHER_POLLS_MEMBER
        )
        if not poll.is_complete:
            group_by_line[poll.line_number] = HOUR_POLLS_MEMBER
            if previous_poll is not None:
                group_by_line[previous_poll.line_number] = HOUR_POLLS_MEMBER
        previous_poll = poll
    return group_by_line


def find_needed_polls(polls: list[PollLayout], group_by_line: dict[int, int]) -> set[int]:
    """Return the line numbers of the polls that a history of five minutes needs.

    These are every poll outside OTHER_POLLS_MEMBER, and the polls on the grid of five minutes.
    `group_by_line` is the result of `group_polls`.
    """
    five_minutes_grid = _PollGrid(WINDOWS_S[1])
    needed_line_numbers = {
        poll.line_number for poll in polls if five_minutes_grid.should_keep(poll)
    }
    return needed_line_numbers | {
        line_number
        for line_number, member in group_by_line.items()
        if member != OTHER_POLLS_MEMBER
    }
