"""The position of a replay: seeking, stepping and playing yield the lines to send.

Seeking yields `ReplayReset` and the lines that build the state of that time. Moving forward yields
only the lines recorded in between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from natstui.errors import ActionRefusal
from natstui.lines import encode_record
from natstui.model.records.recording import (
    SPEEDS_RATIO,
    Mark,
    ReplayMarks,
    ReplayPosition,
    ReplayReset,
)
from natstui.session.files.segment import SegmentContent
from natstui.session.read.recording import Recording, begins_after_loss, line_or_empty
from natstui.session.read.seek import lines_until

_MAX_MARKS = 20_000


class _CachedContent(NamedTuple):
    """The content of a segment that was read when its file had `size_bytes`; -1: sealed."""

    segment_number: int
    size_bytes: int
    content: SegmentContent
    times_us: list[int]


class Player:
    """A position in a recording. A method that yields lines has moved the position only when all
    its lines were read.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.at_us = recording.start_us
        self.speed_ratio = 1.0
        self.playing = False
        self._span_index = 0
        self._next_entry_index = 0
        self._marks: list[Mark] = []
        self._damaged_segments_count = 0
        self._cached_content: _CachedContent | None = None
        self._was_segment_deleted = False
        """The current segment was deleted; the keyframe of the next one has the state then."""

    def position(self) -> bytes:
        """Return the current position and speed as a line of JSON, a ReplayPosition record."""
        recording = self._recording
        return encode_record(
            ReplayPosition(
                at_us=self.at_us,
                start_at_us=recording.start_us,
                end_at_us=recording.end_us,
                speed_ratio=self.speed_ratio,
                playing=self.playing,
                recording=recording.is_recording,
                newest_at_us=self._newest_us(),
                left_out_lines_count=recording.left_out_lines_count,
            )
        )

    def marks(self) -> Iterator[bytes]:
        """Yield the marks, at most `_MAX_MARKS`, as one line of JSON.

        Nothing if they are those of the last call.
        """
        marks, self._damaged_segments_count = (
            self._recording.marks(),
            self._recording.damaged_segments_count,
        )
        if marks != self._marks:
            self._marks = marks
            left_out_count = max(0, len(marks) - _MAX_MARKS) + sum(
                span.index.marks_left_out_count for span in self._recording.spans
            )
            sent_marks = tuple(marks[:_MAX_MARKS])
            yield encode_record(ReplayMarks(self.at_us, sent_marks, left_out_count))

    def new_damage_marks(self) -> Iterator[bytes]:
        """Yield the marks, at most `_MAX_MARKS`, as one line of JSON if damage was found since the
        last line of marks.
        """
        if self._recording.damaged_segments_count != self._damaged_segments_count:
            yield from self.marks()

    def seek(self, at_us: int) -> Iterator[bytes]:
        """Move to `at_us`, within the recording, and yield the lines that build the state of that
        time.
        """
        recording = self._recording
        at_us = max(recording.start_us, min(recording.end_us, at_us))
        yield encode_record(ReplayReset(at_us))
        yield from lines_until(recording, at_us)
        self.at_us, self._was_segment_deleted = at_us, False
        self._span_index = recording.span_index_at(at_us)
        self._next_entry_index = bisect_right(self._content()[1], at_us)

    def change_speed(self, steps_count: int) -> None:
        """Change the speed by `steps_count` steps, slower if negative, within the available
        speeds.
        """
        speed_index = SPEEDS_RATIO.index(self.speed_ratio) + steps_count
        self.speed_ratio = SPEEDS_RATIO[max(0, min(speed_index, len(SPEEDS_RATIO) - 1))]

    def play_until(self, until_us: int) -> Iterator[bytes]:
        """Yield the lines recorded from the current position until `until_us`, and move there."""
        if self._was_segment_deleted:
            self._was_segment_deleted = False
            yield from self._keyframe_lines()
        while True:
            content, times_us = self._content()
            while (
                self._next_entry_index < len(times_us)
                and times_us[self._next_entry_index] <= until_us
            ):
                yield line_or_empty(content.entries[self._next_entry_index])
                self._next_entry_index += 1
            is_damaged = self._is_segment_damaged()
            if self._next_entry_index < len(times_us) or not self._move_to_next_segment():
                break
            # Records before a segment may be lost.
            if is_damaged or begins_after_loss(self._content()[0]):
                yield from self._keyframe_lines()
        self.at_us = max(self.at_us, min(until_us, self._recording.end_us))

    def step(self, polls_count: int) -> Iterator[bytes]:
        """Pause, and move by `polls_count` polls, back if negative; yields the lines to send."""
        self.playing = False
        poll_time_us = self._find_poll_time(polls_count)
        if poll_time_us is None:
            return
        if polls_count > 0:
            yield from self.play_until(poll_time_us)
        else:
            yield from self.seek(poll_time_us)

    def seek_mark(self, *, forward: bool) -> Iterator[bytes]:
        """Pause, and move to the next or previous mark; yields the lines to send. Raises
        ActionRefusal if there is none.
        """
        times_us = [mark.at_us for mark in self._recording.marks()]
        if forward:
            index = bisect_right(times_us, self.at_us)
        else:
            index = bisect_left(times_us, self.at_us) - 1
        if not 0 <= index < len(times_us):
            raise ActionRefusal(f"there is no {'later' if forward else 'earlier'} event")
        self.playing = False
        yield from self.seek(times_us[index])

    def is_at_end(self) -> bool:
        """Return whether the position is at the end of the recording."""
        return self.at_us >= self._recording.end_us

    def refresh(self) -> bool:
        """Read records that were added meanwhile; return whether the recording is longer now.

        The oldest segments may have been deleted, which changes the index of the others.
        """
        recording, span_index = self._recording, self._span_index
        segment_number = recording.spans[span_index].file.number if recording.spans else 0
        is_longer = recording.refresh()
        segment_numbers = [span.file.number for span in recording.spans]
        self._span_index = max(
            0, min(bisect_left(segment_numbers, segment_number), len(segment_numbers) - 1)
        )
        if (
            segment_numbers
            and segment_number
            and segment_numbers[self._span_index] != segment_number
        ):
            self._next_entry_index, self._was_segment_deleted = 0, True
        self.at_us = max(self.at_us, recording.start_us)
        return is_longer

    def _newest_us(self) -> int | None:
        """Return the time (µs) of the newest record up to the position; None if there is none."""
        _, moments_us = self._content()
        if sent_times_us := moments_us[: self._next_entry_index]:
            return sent_times_us[-1]
        return self._recording.spans[self._span_index].previous_end_us if moments_us else None

    def _content(self) -> tuple[SegmentContent, list[int]]:
        """Return the content of the current segment and its times in µs; read again if the segment
        has grown.
        """
        if not self._recording.spans:
            return SegmentContent(None, b"", (), 0), []
        span = self._recording.spans[self._span_index]
        size_bytes = -1 if span.file.sealed else span.index.size_bytes
        if self._cached_content is None or self._cached_content[:2] != (
            span.file.number,
            size_bytes,
        ):
            content = self._recording.content(span)
            moments_us = self._recording.entry_times(span, content)
            self._cached_content = _CachedContent(
                span.file.number, size_bytes, content, moments_us
            )
        return self._cached_content.content, self._cached_content.times_us

    def _is_segment_damaged(self) -> bool:
        """Return whether the current segment is damaged, so that records are missing."""
        spans = self._recording.spans
        return bool(spans) and self._recording.is_damaged(spans[self._span_index])

    def _move_to_next_segment(self) -> bool:
        """Move to the next segment; return False if there is none yet."""
        if self._span_index + 1 >= len(self._recording.spans):
            return False
        self._span_index, self._next_entry_index = self._span_index + 1, 0
        return True

    def _keyframe_lines(self) -> Iterator[bytes]:
        """Yield the lines of the current segment's keyframe."""
        keyframe = self._content()[0].keyframe
        if keyframe is not None:
            yield from map(encode_record, keyframe.records())

    def _find_poll_time(self, polls_count: int) -> int | None:
        """Return the time of the poll that is `polls_count` polls away, or of the farthest one;
        None without a poll there.
        """
        found_poll_us, direction = None, 1 if polls_count > 0 else -1
        remaining_count, span_index = abs(polls_count), self._span_index
        spans = self._recording.spans
        while remaining_count and 0 <= span_index < len(spans):
            polls_us = self._poll_times(span_index)
            if direction < 0:
                polls_us = [time_us for time_us in reversed(polls_us) if time_us < self.at_us]
            else:
                polls_us = [time_us for time_us in polls_us if time_us > self.at_us]
            if polls_us:
                found_poll_us = polls_us[min(remaining_count, len(polls_us)) - 1]
            remaining_count -= min(remaining_count, len(polls_us))
            span_index += direction
        return found_poll_us

    def _poll_times(self, span_index: int) -> list[int]:
        if span_index == self._span_index:
            content, moments_us = self._content()
        else:
            span = self._recording.spans[span_index]
            content = self._recording.content(span)
            moments_us = self._recording.entry_times(span, content)
        entries_and_times = zip(content.entries, moments_us, strict=True)
        return [poll_time_us for entry, poll_time_us in entries_and_times if entry.is_poll]
