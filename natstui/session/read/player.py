"""The position of a replay: seeking, stepping and playing return the lines to send.

Seeking sends `ReplayReset`, the lines that build the moment, then `ReplayPosition`. Forward
movement only sends the lines recorded in between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from natstui.errors import Refused
from natstui.lines import encode_record
from natstui.model.records.recording import (
    SPEEDS_RATIO,
    Mark,
    ReplayMarks,
    ReplayPosition,
    ReplayReset,
)
from natstui.session.files.segment import Content
from natstui.session.read.recording import Recording, follows_a_loss, whole_line
from natstui.session.read.seek import lines_until

_MOST_MARKS = 20_000


class Player:
    """A position in a recording. Methods that yield lines have moved it when they are
    exhausted.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.at_us = recording.start_us
        self.speed_ratio = 1.0
        self.playing = False
        self._number = 0
        self._next = 0
        self._marks: list[Mark] = []
        self._spoiled_count = 0
        self._loaded: tuple[int, int, Content, list[int]] | None = None
        self._was_deleted = False
        """The segment shown was deleted; the keyframe of the next has what was known then."""

    def position(self) -> bytes:
        """Return the line with the current position."""
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
        """Yield the marks if they have changed."""
        marks, self._spoiled_count = self._recording.marks(), self._recording.spoiled_count
        if marks != self._marks:
            self._marks = marks
            left_out_count = max(0, len(marks) - _MOST_MARKS) + sum(
                span.index.marks_left_out_count for span in self._recording.spans
            )
            sent_marks = tuple(marks[:_MOST_MARKS])
            yield encode_record(ReplayMarks(self.at_us, sent_marks, left_out_count))

    def new_damage(self) -> Iterator[bytes]:
        """Yield the marks when new damage was found since they were sent."""
        if self._recording.spoiled_count != self._spoiled_count:
            yield from self.marks()

    def seek(self, at_us: int) -> Iterator[bytes]:
        """Move to a moment, or to the nearest end."""
        recording = self._recording
        at_us = max(recording.start_us, min(recording.end_us, at_us))
        yield encode_record(ReplayReset(at_us))
        yield from lines_until(recording, at_us)
        self.at_us, self._was_deleted = at_us, False
        self._number = recording.span_at(at_us)
        self._next = bisect_right(self._content()[1], at_us)

    def change_speed(self, speeds_count: int) -> None:
        """Change the speed by this many steps, slower if negative, within the available speeds."""
        number = SPEEDS_RATIO.index(self.speed_ratio) + speeds_count
        self.speed_ratio = SPEEDS_RATIO[max(0, min(number, len(SPEEDS_RATIO) - 1))]

    def forward(self, until_us: int) -> Iterator[bytes]:
        """Move forward in time, yielding the lines recorded until then."""
        if self._was_deleted:
            self._was_deleted = False
            yield from self._keyframe_lines()
        while True:
            content, moments_us = self._content()
            while self._next < len(moments_us) and moments_us[self._next] <= until_us:
                yield whole_line(content.entries[self._next])
                self._next += 1
            is_spoiled = self._spans_spoiled()
            if self._next < len(moments_us) or not self._next_segment():
                break
            # Records before a segment may be lost.
            if is_spoiled or follows_a_loss(self._content()[0]):
                yield from self._keyframe_lines()
        self.at_us = max(self.at_us, min(until_us, self._recording.end_us))

    def step(self, polls_count: int) -> Iterator[bytes]:
        """Move by `polls_count` polls, and pause."""
        self.playing = False
        moment_us = self._poll_away(polls_count)
        if moment_us is None:
            return
        if polls_count > 0:
            yield from self.forward(moment_us)
        else:
            yield from self.seek(moment_us)

    def to_mark(self, *, forward: bool) -> Iterator[bytes]:
        """Move to the next or previous mark and pause; raises Refused when there is none."""
        times_us = [mark.at_us for mark in self._recording.marks()]
        if forward:
            index = bisect_right(times_us, self.at_us)
        else:
            index = bisect_left(times_us, self.at_us) - 1
        if not 0 <= index < len(times_us):
            raise Refused(f"there is no {'later' if forward else 'earlier'} event")
        self.playing = False
        yield from self.seek(times_us[index])

    def at_end(self) -> bool:
        """Return whether everything recorded was sent."""
        return self.at_us >= self._recording.end_us

    def refresh(self) -> bool:
        """Read records that were added meanwhile; return whether there were any.

        The oldest segments may be deleted, which renumbers the others.
        """
        recording, span_number = self._recording, self._number
        segment_number = recording.spans[span_number].file.number if recording.spans else 0
        grown = recording.refresh()
        numbers = [span.file.number for span in recording.spans]
        self._number = max(0, min(bisect_left(numbers, segment_number), len(numbers) - 1))
        if numbers and segment_number and numbers[self._number] != segment_number:
            self._next, self._was_deleted = 0, True
        self.at_us = max(self.at_us, recording.start_us)
        return grown

    def _newest_us(self) -> int | None:
        """Return the time of the newest record that was sent."""
        _, moments_us = self._content()
        if sent_us := moments_us[: self._next]:
            return sent_us[-1]
        return self._recording.spans[self._number].after_us if moments_us else None

    def _content(self) -> tuple[Content, list[int]]:
        """Return the content of the current segment and its times; read again when it has
        grown.
        """
        if not self._recording.spans:
            return Content(None, b"", (), 0), []
        span = self._recording.spans[self._number]
        size_bytes = -1 if span.file.sealed else span.index.size_bytes
        if self._loaded is None or self._loaded[:2] != (span.file.number, size_bytes):
            content = self._recording.content(span)
            moments_us = self._recording.moments(span, content)
            self._loaded = (span.file.number, size_bytes, content, moments_us)
        return self._loaded[2:]

    def _spans_spoiled(self) -> bool:
        """Return whether the current segment is damaged, so that records are missing."""
        spans = self._recording.spans
        return bool(spans) and self._recording.is_spoiled(spans[self._number])

    def _next_segment(self) -> bool:
        """Move to the next segment; returns False when there is none yet."""
        if self._number + 1 >= len(self._recording.spans):
            return False
        self._number, self._next = self._number + 1, 0
        return True

    def _keyframe_lines(self) -> Iterator[bytes]:
        """Yield the lines of the current segment's keyframe."""
        keyframe = self._content()[0].keyframe
        if keyframe is not None:
            yield from map(encode_record, keyframe.records())

    def _poll_away(self, polls_count: int) -> int | None:
        """Return the time of the poll that is `polls_count` away, or of the farthest one."""
        poll_us, step = None, 1 if polls_count > 0 else -1
        left_count, number = abs(polls_count), self._number
        spans = self._recording.spans
        while left_count and 0 <= number < len(spans):
            polls_us = self._polls(number)
            if step < 0:
                polls_us = [us for us in reversed(polls_us) if us < self.at_us]
            else:
                polls_us = [us for us in polls_us if us > self.at_us]
            if polls_us:
                poll_us = polls_us[min(left_count, len(polls_us)) - 1]
            left_count -= min(left_count, len(polls_us))
            number += step
        return poll_us

    def _polls(self, number: int) -> list[int]:
        if number == self._number:
            content, moments_us = self._content()
        else:
            span = self._recording.spans[number]
            content = self._recording.content(span)
            moments_us = self._recording.moments(span, content)
        pairs = zip(content.entries, moments_us, strict=True)
        return [moment_us for entry, moment_us in pairs if entry.is_poll]
