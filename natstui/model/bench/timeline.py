"""Published and received messages over time, as counts in slices of the wall clock."""

from __future__ import annotations

from msgspec import Struct

INITIAL_SLICE_US = 100_000
"""Initial width of a slice; with too many slices, pairs of them are merged."""
_MAX_SLICES = 6000


class Timeline(Struct, frozen=True):
    """Messages of the measured part of one run; slices begin at multiples of their width."""

    began_at_us: int
    """Start of the measured part."""
    ended_at_us: int
    """Time of its last sent or received message."""
    slice_us: int
    first_at_us: int
    """Start of the first slice."""
    published_msgs: tuple[int, ...] = ()
    received_msgs: tuple[int, ...] = ()

    def between(self, begin_at_us: int, end_at_us: int) -> tuple[int, int]:
        """Return the numbers of published and received messages between two times."""
        begin_index = max((begin_at_us - self.first_at_us) // self.slice_us, 0)
        end_index = max((end_at_us - self.first_at_us) // self.slice_us, 0)
        return sum(self.published_msgs[begin_index:end_index]), sum(
            self.received_msgs[begin_index:end_index]
        )


class TimelineBuilder:
    """Builds a timeline from the counts that workers report for intervals."""

    def __init__(self) -> None:
        self._slice_us = INITIAL_SLICE_US
        self._counts_by_slice_number: dict[int, tuple[int, int]] = {}

    def add(
        self, end_at_us: int, interval_us: int, published_msgs: int, received_msgs: int
    ) -> None:
        """Distribute the counts of an interval evenly over its slices."""
        if not published_msgs and not received_msgs:
            return
        begin_at_us, positive_interval_us = end_at_us - max(interval_us, 1), max(interval_us, 1)
        distributed_counts = (0, 0)
        for slice_number in range(
            begin_at_us // self._slice_us, (end_at_us - 1) // self._slice_us + 1
        ):
            elapsed_us = min((slice_number + 1) * self._slice_us, end_at_us) - begin_at_us
            counts_until_slice_end = (
                published_msgs * elapsed_us // positive_interval_us,
                received_msgs * elapsed_us // positive_interval_us,
            )
            slice_counts = self._counts_by_slice_number.get(slice_number, (0, 0))
            self._counts_by_slice_number[slice_number] = (
                slice_counts[0] + counts_until_slice_end[0] - distributed_counts[0],
                slice_counts[1] + counts_until_slice_end[1] - distributed_counts[1],
            )
            distributed_counts = counts_until_slice_end
        if len(self._counts_by_slice_number) > 2 * _MAX_SLICES:
            self._double_slice_width()

    def timeline(self, began_at_us: int, ended_at_us: int) -> Timeline:
        """Return the timeline of all added counts."""
        while len(self._counts_by_slice_number) > _MAX_SLICES:
            self._double_slice_width()
        slice_numbers = range(
            min(self._counts_by_slice_number, default=0),
            max(self._counts_by_slice_number, default=-1) + 1,
        )
        slice_counts = [
            self._counts_by_slice_number.get(slice_number, (0, 0))
            for slice_number in slice_numbers
        ]
        return Timeline(
            began_at_us,
            ended_at_us,
            self._slice_us,
            slice_numbers.start * self._slice_us,
            tuple(counts[0] for counts in slice_counts),
            tuple(counts[1] for counts in slice_counts),
        )

    def _double_slice_width(self) -> None:
        """Double the width of all slices: merge each pair of neighbours into one slice."""
        merged_counts_by_slice_number: dict[int, tuple[int, int]] = {}
        for slice_number, (published_msgs, received_msgs) in self._counts_by_slice_number.items():
            merged_counts = merged_counts_by_slice_number.get(slice_number // 2, (0, 0))
            merged_counts_by_slice_number[slice_number // 2] = (
                merged_counts[0] + published_msgs,
                merged_counts[1] + received_msgs,
            )
        self._counts_by_slice_number, self._slice_us = (
            merged_counts_by_slice_number,
            2 * self._slice_us,
        )
