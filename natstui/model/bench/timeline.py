"""Published and received messages over time, as counts in slices of the wall clock."""

from __future__ import annotations

from dataclasses import dataclass

SLICE_US = 100_000
"""Initial width of a slice; with too many slices, pairs of them are merged."""
_MAX_SLICES = 6000


@dataclass(frozen=True, slots=True)
class Timeline:
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
        begin = max((begin_at_us - self.first_at_us) // self.slice_us, 0)
        end = max((end_at_us - self.first_at_us) // self.slice_us, 0)
        return sum(self.published_msgs[begin:end]), sum(self.received_msgs[begin:end])


class TimelineBuilder:
    """Adds reported counts of intervals to slices."""

    def __init__(self) -> None:
        self._slice_us = SLICE_US
        self._slices: dict[int, tuple[int, int]] = {}

    def add(
        self, end_at_us: int, interval_us: int, published_msgs: int, received_msgs: int
    ) -> None:
        """Distribute the counts of an interval evenly over its slices."""
        if not published_msgs and not received_msgs:
            return
        begin_at_us, length_us = end_at_us - max(interval_us, 1), max(interval_us, 1)
        added = (0, 0)
        for number in range(begin_at_us // self._slice_us, (end_at_us - 1) // self._slice_us + 1):
            past_us = min((number + 1) * self._slice_us, end_at_us) - begin_at_us
            total_until = (
                published_msgs * past_us // length_us,
                received_msgs * past_us // length_us,
            )
            before = self._slices.get(number, (0, 0))
            self._slices[number] = (
                before[0] + total_until[0] - added[0],
                before[1] + total_until[1] - added[1],
            )
            added = total_until
        if len(self._slices) > 2 * _MAX_SLICES:
            self._widen()

    def timeline(self, began_at_us: int, ended_at_us: int) -> Timeline:
        """Return the timeline of all added counts."""
        while len(self._slices) > _MAX_SLICES:
            self._widen()
        numbers = range(min(self._slices, default=0), max(self._slices, default=-1) + 1)
        slices = [self._slices.get(number, (0, 0)) for number in numbers]
        return Timeline(
            began_at_us,
            ended_at_us,
            self._slice_us,
            numbers.start * self._slice_us,
            tuple(counts[0] for counts in slices),
            tuple(counts[1] for counts in slices),
        )

    def _widen(self) -> None:
        """Merge pairs of slices."""
        wider: dict[int, tuple[int, int]] = {}
        for number, (published, received) in self._slices.items():
            before = wider.get(number // 2, (0, 0))
            wider[number // 2] = (before[0] + published, before[1] + received)
        self._slices, self._slice_us = wider, 2 * self._slice_us
