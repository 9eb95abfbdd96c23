"""When message i is due: a pure function of the plan, independent of earlier sends.

A schedule is a chain of segments with a linear rate; the number of due messages is the area under
it. Without segments the loop is closed: everything is due at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from natstui.bench.job.digits import Int64s
from natstui.model.bench.plan import RateSegment


class _Stretch:
    """One segment with its start, and the number of messages due before it."""

    def __init__(self, segment: RateSegment, start_s: float, before: float) -> None:
        self.segment = segment
        self.start_s = start_s
        self.before = before
        rises = segment.end_per_s - segment.start_per_s
        self.slope = rises / segment.duration_s if segment.duration_s else 0.0

    @property
    def end_s(self) -> float:
        return math.inf if self.segment.duration_s is None else self.start_s + self._length_s

    @property
    def _length_s(self) -> float:
        return math.inf if self.segment.duration_s is None else self.segment.duration_s

    @property
    def after(self) -> float:
        """Return how many messages are due at its end."""
        return math.inf if self._length_s == math.inf else self.before + self.area(self._length_s)

    def area(self, elapsed_s: float) -> float:
        """Return how many messages are due in its first `elapsed_s`."""
        return self.segment.start_per_s * elapsed_s + self.slope * elapsed_s * elapsed_s / 2

    def due_count(self, elapsed_s: float) -> int:
        """Return how many messages of the entire schedule are due in its first `elapsed_s`.

        The first is due at the start itself, hence one more than the area; none is early, also
        where a part of a message was due before.
        """
        area, burst = self.area(elapsed_s) + 1e-6, self.segment.burst_msgs
        if not burst:
            return math.floor(self.before + area) + 1
        return math.ceil(self.before - 1e-6) + (math.floor(area) // burst + 1) * burst

    def times_s(self, counts: np.ndarray) -> np.ndarray:
        """Return when each count is reached: the inverse of `area`, from the schedule's start."""
        burst = self.segment.burst_msgs
        counts_inside = counts - self.before
        if burst:
            counts_inside = np.floor_divide(counts_inside, burst) * burst
        if not self.slope:
            return self.start_s + counts_inside / self.segment.start_per_s
        # The stable form of the quadratic's root: it survives a slope near zero.
        start = self.segment.start_per_s
        root = np.sqrt(np.maximum(start * start + 2 * self.slope * counts_inside, 0))
        roots = start + root
        nonzero_roots = np.where(roots > 0, roots, 1.0)
        return self.start_s + np.where(roots > 0, 2 * counts_inside / nonzero_roots, 0.0)


class Schedule:
    """The due times of one worker: every `of`-th message of its role, from `which` on."""

    def __init__(self, segments: Sequence[RateSegment], which: int = 0, of: int = 1) -> None:
        self._which, self._of = which, of
        self._stretches: list[_Stretch] = []
        start_s = before = 0.0
        for segment in segments:
            stretch = _Stretch(segment, start_s, before)
            self._stretches.append(stretch)
            start_s, before = stretch.end_s, stretch.after

    @property
    def is_open(self) -> bool:
        """Return whether there is a schedule (open loop); without one each reply triggers a
        message.
        """
        return bool(self._stretches)

    def due_count(self, elapsed_ns: int) -> int:
        """Return how many messages of this worker are due `elapsed_ns` after the start."""
        elapsed_s = elapsed_ns / 1e9
        due_msgs = 0
        for stretch in self._stretches:
            if elapsed_s < stretch.start_s:
                break
            inside_s = min(elapsed_s, stretch.end_s) - stretch.start_s
            due_msgs = stretch.due_count(inside_s)
            if stretch.after < math.inf:
                due_msgs = min(due_msgs, math.ceil(stretch.after - 1e-6))
        return max(-(-(due_msgs - self._which) // self._of), 0)

    def due_before(self, elapsed_ns: int) -> int:
        """Return how many messages are due earlier than `elapsed_ns` after the start."""
        due_msgs = self.due_count(elapsed_ns)
        while due_msgs and int(self.due_ns(due_msgs - 1, 1)[0]) >= elapsed_ns:
            due_msgs -= 1
        return due_msgs

    def due_ns(self, first: int, count: int) -> Int64s:
        """Return when messages `first` … of this worker are due, in ns after the start."""
        numbers = (np.arange(first, first + count) * self._of + self._which).astype(np.float64)
        times = np.zeros(count, np.float64)
        for stretch in self._stretches:
            inside_mask = (numbers >= stretch.before) & (numbers < stretch.after)
            if inside_mask.any():
                times[inside_mask] = stretch.times_s(numbers[inside_mask])
        return np.round(times * 1e9).astype(np.int64)

    def total_count(self) -> int | None:
        """Return how many messages this worker sends in all; None without an end."""
        if not self._stretches or self._stretches[-1].after == math.inf:
            return None
        total = math.ceil(self._stretches[-1].after - 1e-6)
        return max(-(-(total - self._which) // self._of), 0)

    def rest(self, elapsed_ns: int) -> Schedule:
        """Return the schedule from `elapsed_ns` after the start on, beginning at 0.

        It is for a worker that joins then, and sends its first message.
        """
        elapsed_s, segments = elapsed_ns / 1e9, []
        for stretch in self._stretches:
            segment, passed_s = stretch.segment, max(elapsed_s - stretch.start_s, 0.0)
            if segment.duration_s is None:
                segments.append(segment)
                continue
            passed_s = min(passed_s, segment.duration_s)
            start_per_s = segment.start_per_s + stretch.slope * passed_s
            left_s = segment.duration_s - passed_s
            # The last one stays, with no time left: a rate that is over is not "no rate".
            if left_s or stretch is self._stretches[-1]:
                segments.append(replace(segment, duration_s=left_s, start_per_s=start_per_s))
        return Schedule(segments, self._which, self._of)

    def changed(self, elapsed_ns: int, rate_per_s: float) -> Schedule:
        """Return the schedule with the constant rate `rate_per_s` from `elapsed_ns` after the
        start on.
        """
        elapsed_s = elapsed_ns / 1e9
        segments = []
        for stretch in self._stretches:
            inside_s = min(elapsed_s, stretch.end_s) - stretch.start_s
            if inside_s <= 0:
                break
            segment = stretch.segment
            end_per_s = segment.start_per_s + stretch.slope * inside_s
            segments.append(
                RateSegment(inside_s, segment.start_per_s, end_per_s, segment.burst_msgs)
            )
        segments.append(RateSegment(None, rate_per_s, rate_per_s))
        return Schedule(segments, self._which, self._of)


def segment_at(segments: Sequence[RateSegment], elapsed_s: float) -> RateSegment:
    """Return the segment of a schedule at a time after the start; after its end, the last one."""
    for segment in segments:
        if segment.duration_s is None or elapsed_s < segment.duration_s:
            return segment
        elapsed_s -= segment.duration_s
    return segments[-1]
