"""When messages were published and received: counts in slices of the wall clock that add up."""

from __future__ import annotations

from dataclasses import dataclass

SLICE_US = 100_000
"""The width of a slice, until there are too many and each two become one."""
_MOST_SLICES = 6000


@dataclass(frozen=True, slots=True)
class Timeline:
    """Messages of the measured part of one run; slices begin at multiples of their width."""

    began_at_us: int
    """When the measured part began …"""
    ended_at_us: int
    """… and when its last message was sent or received."""
    slice_us: int
    first_at_us: int
    """When the first slice begins."""
    published_msgs: tuple[int, ...] = ()
    received_msgs: tuple[int, ...] = ()

    def between(self, begin_at_us: int, end_at_us: int) -> tuple[int, int]:
        """Return (published, received) of the slices from one moment to another."""
        begin = max((begin_at_us - self.first_at_us) // self.slice_us, 0)
        end = max((end_at_us - self.first_at_us) // self.slice_us, 0)
        return sum(self.published_msgs[begin:end]), sum(self.received_msgs[begin:end])


class TimelineBuilder:
    """Adds up what is reported for intervals, in slices."""

    def __init__(self) -> None:
        self._slice_us = SLICE_US
        self._slices: dict[int, tuple[int, int]] = {}

    def add(
        self, end_at_us: int, interval_us: int, published_msgs: int, received_msgs: int
    ) -> None:
        """Spread what happened in an interval evenly over it."""
        if not published_msgs and not received_msgs:
            return
        begin_at_us, length_us = end_at_us - max(interval_us, 1), max(interval_us, 1)
        done = (0, 0)
        for number in range(begin_at_us // self._slice_us, (end_at_us - 1) // self._slice_us + 1):
            past_us = min((number + 1) * self._slice_us, end_at_us) - begin_at_us
            upto = (
                published_msgs * past_us // length_us,
                received_msgs * past_us // length_us,
            )
            before = self._slices.get(number, (0, 0))
            self._slices[number] = (
                before[0] + upto[0] - done[0],
                before[1] + upto[1] - done[1],
            )
            done = upto
        if len(self._slices) > 2 * _MOST_SLICES:
            self._widen()

    def timeline(self, began_at_us: int, ended_at_us: int) -> Timeline:
        """Return what was added."""
        while len(self._slices) > _MOST_SLICES:
            self._widen()
        numbers = range(min(self._slices, default=0), max(self._slices, default=-1) + 1)
        found = [self._slices.get(number, (0, 0)) for number in numbers]
        return Timeline(
            began_at_us,
            ended_at_us,
            self._slice_us,
            numbers.start * self._slice_us,
            tuple(one[0] for one in found),
            tuple(one[1] for one in found),
        )

    def _widen(self) -> None:
        """Make each two slices one."""
        wider: dict[int, tuple[int, int]] = {}
        for number, (published, received) in self._slices.items():
            before = wider.get(number // 2, (0, 0))
            wider[number // 2] = (before[0] + published, before[1] + received)
        self._slices, self._slice_us = wider, 2 * self._slice_us
