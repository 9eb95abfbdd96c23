"""The schedule of a sender: when each message is due, independent of earlier sends. Pure.

A schedule is a chain of segments with a linear rate; the number of due messages is the area under
it. Without segments the loop is closed: each message is due when the last one has its reply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from natstui.bench.job.digits import Int64s
from natstui.model.bench.plan import RateSegment
from natstui.values import replace


class _ScheduledSegment:
    """One segment with its start, and the number of messages that are due before it."""

    def __init__(self, segment: RateSegment, start_s: float, msgs_before: float) -> None:
        self.segment = segment
        self.start_s = start_s
        self.msgs_before = msgs_before
        rate_change_per_s = segment.end_per_s - segment.start_per_s
        self.slope = rate_change_per_s / segment.duration_s if segment.duration_s else 0.0

    @property
    def end_s(self) -> float:
        return math.inf if self.segment.duration_s is None else self.start_s + self._length_s

    @property
    def _length_s(self) -> float:
        return math.inf if self.segment.duration_s is None else self.segment.duration_s

    @property
    def msgs_until_end(self) -> float:
        """Return how many messages of the schedule are due before the segment ends."""
        if self._length_s == math.inf:
            return math.inf
        return self.msgs_before + self.msgs_within(self._length_s)

    def msgs_within(self, elapsed_s: float) -> float:
        """Return the fractional number of messages due in the first `elapsed_s` of the segment."""
        return self.segment.start_per_s * elapsed_s + self.slope * elapsed_s * elapsed_s / 2

    def due_count(self, elapsed_s: float) -> int:
        """Return how many messages of the schedule are due `elapsed_s` after the segment starts.

        The first message is due at the start itself, so one is added to `msgs_within`.
        """
        msgs, burst_msgs = self.msgs_within(elapsed_s) + 1e-6, self.segment.burst_msgs
        if not burst_msgs:
            return math.floor(self.msgs_before + msgs) + 1
        return (
            math.ceil(self.msgs_before - 1e-6) + (math.floor(msgs) // burst_msgs + 1) * burst_msgs
        )

    def due_times_s(self, numbers: np.ndarray) -> np.ndarray:
        """Return the due time of each message number, in s after the schedule's start."""
        burst_msgs = self.segment.burst_msgs
        numbers_in_segment = numbers - self.msgs_before
        if burst_msgs:
            numbers_in_segment = np.floor_divide(numbers_in_segment, burst_msgs) * burst_msgs
        if not self.slope:
            return self.start_s + numbers_in_segment / self.segment.start_per_s
        # The stable form of the quadratic's root: it survives a slope near zero.
        start_per_s = self.segment.start_per_s
        discriminant_roots = np.sqrt(
            np.maximum(start_per_s * start_per_s + 2 * self.slope * numbers_in_segment, 0)
        )
        denominators = start_per_s + discriminant_roots
        nonzero_denominators = np.where(denominators > 0, denominators, 1.0)
        return self.start_s + np.where(
            denominators > 0, 2 * numbers_in_segment / nonzero_denominators, 0.0
        )


class Schedule:
    """The due times of one worker.

    It sends message `worker_index` of its role, and then every `workers_count`-th.
    """

    def __init__(
        self, segments: Sequence[RateSegment], worker_index: int = 0, workers_count: int = 1
    ) -> None:
        self._worker_index, self._workers_count = worker_index, workers_count
        self._segments: list[_ScheduledSegment] = []
        start_s = msgs_before = 0.0
        for segment in segments:
            scheduled = _ScheduledSegment(segment, start_s, msgs_before)
            self._segments.append(scheduled)
            start_s, msgs_before = scheduled.end_s, scheduled.msgs_until_end

    @property
    def is_open_loop(self) -> bool:
        """Return whether messages are sent by a schedule; else each reply triggers the next."""
        return bool(self._segments)

    def due_count(self, elapsed_ns: int) -> int:
        """Return how many messages of this worker are due `elapsed_ns` after the start."""
        elapsed_s = elapsed_ns / 1e9
        due_msgs = 0
        for scheduled in self._segments:
            if elapsed_s < scheduled.start_s:
                break
            elapsed_in_segment_s = min(elapsed_s, scheduled.end_s) - scheduled.start_s
            due_msgs = scheduled.due_count(elapsed_in_segment_s)
            if scheduled.msgs_until_end < math.inf:
                due_msgs = min(due_msgs, math.ceil(scheduled.msgs_until_end - 1e-6))
        return max(-(-(due_msgs - self._worker_index) // self._workers_count), 0)

    def due_count_before(self, elapsed_ns: int) -> int:
        """Return how many messages of this worker are due before `elapsed_ns` after the start."""
        due_msgs = self.due_count(elapsed_ns)
        while due_msgs and int(self.due_ns(due_msgs - 1, 1)[0]) >= elapsed_ns:
            due_msgs -= 1
        return due_msgs

    def due_ns(self, first_number: int, count: int) -> Int64s:
        """Return when `count` messages of this worker are due, in ns after the start.

        `first_number` is the number of the first of them, from 0.
        """
        worker_msg_numbers = np.arange(first_number, first_number + count)
        numbers = (worker_msg_numbers * self._workers_count + self._worker_index).astype(
            np.float64
        )
        due_times_s = np.zeros(count, np.float64)
        for scheduled in self._segments:
            in_segment_mask = (numbers >= scheduled.msgs_before) & (
                numbers < scheduled.msgs_until_end
            )
            if in_segment_mask.any():
                due_times_s[in_segment_mask] = scheduled.due_times_s(numbers[in_segment_mask])
        return np.round(due_times_s * 1e9).astype(np.int64)

    def total_count(self) -> int | None:
        """Return how many messages this worker sends in all; None without an end."""
        if not self._segments or self._segments[-1].msgs_until_end == math.inf:
            return None
        total_msgs = math.ceil(self._segments[-1].msgs_until_end - 1e-6)
        return max(-(-(total_msgs - self._worker_index) // self._workers_count), 0)

    def cut_before(self, elapsed_ns: int) -> Schedule:
        """Return the schedule from `elapsed_ns` after the start on; its own start is then 0.

        A worker that joins later sends by it.
        """
        elapsed_s, segments = elapsed_ns / 1e9, []
        for scheduled in self._segments:
            segment, skipped_s = scheduled.segment, max(elapsed_s - scheduled.start_s, 0.0)
            if segment.duration_s is None:
                segments.append(segment)
                continue
            skipped_s = min(skipped_s, segment.duration_s)
            start_per_s = segment.start_per_s + scheduled.slope * skipped_s
            remaining_s = segment.duration_s - skipped_s
            # The last one stays, with no time left: a rate that has ended is not "no rate".
            if remaining_s or scheduled is self._segments[-1]:
                segments.append(replace(segment, duration_s=remaining_s, start_per_s=start_per_s))
        return Schedule(segments, self._worker_index, self._workers_count)

    def with_rate(self, elapsed_ns: int, rate_per_s: float) -> Schedule:
        """Return the schedule with a constant rate from `elapsed_ns` after the start on."""
        elapsed_s = elapsed_ns / 1e9
        segments = []
        for scheduled in self._segments:
            elapsed_in_segment_s = min(elapsed_s, scheduled.end_s) - scheduled.start_s
            if elapsed_in_segment_s <= 0:
                break
            segment = scheduled.segment
            end_per_s = segment.start_per_s + scheduled.slope * elapsed_in_segment_s
            segments.append(
                RateSegment(
                    elapsed_in_segment_s, segment.start_per_s, end_per_s, segment.burst_msgs
                )
            )
        segments.append(RateSegment(None, rate_per_s, rate_per_s))
        return Schedule(segments, self._worker_index, self._workers_count)


def segment_at(segments: Sequence[RateSegment], elapsed_s: float) -> RateSegment:
    """Return the segment that applies `elapsed_s` after the start; after the end, the last one."""
    for segment in segments:
        if segment.duration_s is None or elapsed_s < segment.duration_s:
            return segment
        elapsed_s -= segment.duration_s
    return segments[-1]
