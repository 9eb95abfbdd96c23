"""A recording, opened for reading: its segments on one timeline, also while it is being
recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from natstui.errors import SessionError
from natstui.files import open_regular_file
from natstui.lines import BadLine
from natstui.model.records.record import Record
from natstui.model.records.recording import Gap, Mark
from natstui.session.files.entry import Entry
from natstui.session.files.folder import (
    SegmentFile,
    find_missing_segments,
    is_recording,
    list_segments,
    missing_record_texts,
    no_segment_texts,
    translate_read_errors,
)
from natstui.session.files.index import SegmentIndex, is_index_of, read_index
from natstui.session.files.info import SessionInfo, read_info
from natstui.session.files.keyframe import Keyframe
from natstui.session.files.layout import (
    EVENTS_MEMBER,
    FREQUENT_MEMBER,
    KEYFRAME_MEMBER,
    SYSTEM_KINDS,
)
from natstui.session.files.segment import (
    GrowingSegment,
    SegmentContent,
    build_index,
    decode_or_none,
    entry_times,
    inflate,
    parse_segment,
    read_content,
    read_damaged,
    read_members,
)
from natstui.units import counted
from natstui.values import replace

_MAX_CACHED_MEMBERS_BYTES = 2048
"""Limit of the compressed size of a group of members that is cached."""
_MAX_CACHED_CONTENTS = 4096
"""Limit of cached groups of members: together some 30 MiB."""
_MAX_LISTING_ATTEMPTS = 5
"""How often segments are listed: again if one is no longer there when it is read."""


class Span(Struct, frozen=True):
    """A segment, with its start and end on the timeline of the recording."""

    file: SegmentFile
    index: SegmentIndex
    start_us: int
    """Time of the first record; without a record, the end of the previous segment."""
    end_us: int
    clock_shift_us: int
    """By how many µs the clock was set back in earlier segments."""
    previous_end_us: int | None
    """End of the previous segment; times of this segment are later."""

    @property
    def overlap_end_us(self) -> int | None:
        """Return an upper limit (µs) of the times of moved records; None if none is moved.

        Records that are older than the end of the previous segment are moved: each to 1 µs after
        the record before it.
        """
        index, previous_end_us = self.index, self.previous_end_us
        if previous_end_us is None or index.first_at_us is None:
            return None
        if index.first_at_us + self.clock_shift_us >= previous_end_us:
            return None
        return previous_end_us + sum(index.records_count.values())


class Recording:
    """The segments of a recording. Every method raises SessionError for a segment that cannot be
    read.
    """

    def __init__(self, folder: Path, *, skips_unreadable_parts: bool = False) -> None:
        """Open a recording; with `skips_unreadable_parts`, unreadable parts are skipped, and
        `damage_marks` lists them.
        """
        self.folder = folder
        self._skips_unreadable_parts = skips_unreadable_parts
        self._damaged_segment_numbers: set[int] = set()
        self.info: SessionInfo = read_info(folder)
        self._index_by_number: dict[int, SegmentIndex] = {}
        self._cached_contents: dict[tuple[int, ...], SegmentContent] = {}
        self._growing_segments: dict[int, GrowingSegment] = {}
        self.spans: list[Span] = []
        self.refresh()

    @property
    def is_recording(self) -> bool:
        """Return whether the recorder is still writing."""
        return is_recording(self.folder)

    @property
    def start_us(self) -> int:
        """Return the time of the first record, in µs."""
        return self.spans[0].start_us if self.spans else self.info.started_at_us

    @property
    def end_us(self) -> int:
        """Return the time of the last record so far, in µs."""
        return self.spans[-1].end_us if self.spans else self.info.started_at_us

    def refresh(self) -> bool:
        """Read segments and records that were added meanwhile; return whether the recording is
        longer now.
        """
        previous_end_us = self.end_us
        for attempts_left in reversed(range(_MAX_LISTING_ATTEMPTS)):
            try:
                self.spans = self._list_spans()
                break
            except SessionError as error:
                if not (attempts_left and _is_file_missing(error)):
                    raise
        return self.end_us != previous_end_us

    def _list_spans(self) -> list[Span]:
        """Return the span of each segment; raises SessionError, also for a segment that the
        recorder deletes or seals after it was listed.
        """
        files = list_segments(self.folder)
        if not files or not all(self._is_indexed(file.number) for file in files if file.sealed):
            # The index of an open segment is not valid any more once it is sealed.
            self._index_by_number |= read_index(self.folder)
        open_segment_numbers = {file.number for file in files if not file.sealed}
        self._growing_segments = {
            number: segment
            for number, segment in self._growing_segments.items()
            if number in open_segment_numbers
        }
        spans: list[Span] = []
        for file in files:
            last_span = spans[-1] if spans else None
            spans.append(
                _create_span(file, self._find_index(file), last_span, self.info.started_at_us)
            )
        return spans

    def _is_indexed(self, number: int) -> bool:
        return number in self._index_by_number and bool(self._index_by_number[number].members)

    def _read_segment(self, file: SegmentFile) -> SegmentContent:
        """Return the content of a segment; of a growing one, only the new lines are read."""
        if file.sealed:
            return read_content(file.path, sealed=True)
        segment = self._growing_segments.setdefault(file.number, GrowingSegment(file.path))
        return segment.content()

    def _find_index(self, file: SegmentFile) -> SegmentIndex:
        """Return the index of a segment; if it has none, create it by reading the segment."""
        index_of_file = self._index_by_number.get(file.number)
        if file.sealed and index_of_file is not None and is_index_of(index_of_file, file.path):
            return index_of_file
        with translate_read_errors(str(file.path)):
            size_bytes = file.path.stat().st_size
        if (
            not file.sealed
            and index_of_file is not None
            and index_of_file.size_bytes == size_bytes
        ):
            return index_of_file
        try:
            members = read_members(file.path) if file.sealed else []
            content = self._read_segment(file)
        except SessionError as error:
            if not self._skips_unreadable_parts or _is_file_missing(error):
                raise
            members, content = [], self._read_damaged_segment(file)
        index = build_index(file.number, content, members, size_bytes)
        self._index_by_number[file.number] = index
        return index

    def span_index_at(self, at_us: int) -> int:
        """Return the index (from 0) of the span that contains a time."""
        return max(0, bisect_right([span.start_us for span in self.spans], at_us) - 1)

    def content(self, span: Span) -> SegmentContent:
        """Return the content of a segment."""
        try:
            return self._read_segment(span.file)
        except SessionError:
            sealed_file = self._find_sealed_file(span)
            if sealed_file is not None:
                return read_content(sealed_file, sealed=True)
            if not self._skips_unreadable_parts:
                raise
            if not span.index.members:
                return self._read_damaged_segment(span.file)
            self._damaged_segment_numbers.add(span.file.number)
            return parse_segment(
                b"".join(self._inflate_members(span, range(len(span.index.members))))
            )

    def _read_damaged_segment(self, file: SegmentFile) -> SegmentContent:
        """Mark a segment as damaged; return its readable content."""
        self._damaged_segment_numbers.add(file.number)
        try:
            return read_damaged(file.path)[0]
        except SessionError:
            return parse_segment(b"")

    @property
    def damaged_segments_count(self) -> int:
        """Return how many segments are known to be damaged."""
        return len(self._damaged_segment_numbers)

    def is_damaged(self, span: Span) -> bool:
        """Return whether a segment is known to be damaged."""
        return span.file.number in self._damaged_segment_numbers

    def read_members(self, span: Span, members: Iterable[int]) -> SegmentContent:
        """Return the content of some members of a segment; of an open segment, the complete
        content.
        """
        if not span.index.members or not span.file.sealed:
            return self.content(span)
        member_numbers = tuple(members)
        key = (span.file.number, *member_numbers)
        cached_content = self._cached_contents.get(key)
        if cached_content is not None:
            return cached_content
        content = parse_segment(b"".join(self._inflate_members(span, member_numbers)))
        # A day has 1,440 segments with a few events each, and every seek reads them.
        if (
            sum(span.index.members[member][1] for member in member_numbers)
            < _MAX_CACHED_MEMBERS_BYTES
        ):
            if len(self._cached_contents) >= _MAX_CACHED_CONTENTS:
                self._cached_contents.clear()
            self._cached_contents[key] = content
        return content

    def _inflate_members(self, span: Span, members: Iterable[int]) -> list[bytes]:
        """Return the inflated text of some members of a segment."""
        compressed: list[bytes] = []
        with translate_read_errors(str(span.file.path)), open_regular_file(span.file.path) as file:
            for member in members:
                offset, size_bytes = span.index.members[member]
                file.seek(offset)
                compressed.append(file.read(size_bytes))
        return [self._inflate_member(span, member) for member in compressed]

    def _inflate_member(self, span: Span, member: bytes) -> bytes:
        try:
            return b"".join(inflate(member, str(span.file.path)))
        except SessionError:
            if not self._skips_unreadable_parts:
                raise
            self._damaged_segment_numbers.add(span.file.number)
            return b""

    @property
    def left_out_lines_count(self) -> int:
        """Return the number of unreadable lines, as far as it is known without decoding every
        poll.
        """
        return sum(span.index.damaged_lines_count for span in self.spans)

    def cache_events(self) -> None:
        """Cache the events and frequent records of all segments, up to a limit."""
        for span in self.spans[: _MAX_CACHED_CONTENTS // 2]:
            if span.index.members and span.file.sealed:
                kinds = span.index.records_count.keys() - {"snapshot"} - SYSTEM_KINDS
                if kinds:
                    # A segment that cannot be read is reported when it is shown.
                    with suppress(SessionError):
                        self.read_members(span, (EVENTS_MEMBER, FREQUENT_MEMBER))

    def _find_sealed_file(self, span: Span) -> Path | None:
        path = span.file.path.with_name(span.file.path.name + ".gz")
        return path if not span.file.sealed and path.is_file() else None

    def entry_times(self, span: Span, content: SegmentContent) -> list[int]:
        """Return the time of each entry of a segment, in µs on the timeline of the recording."""
        latest_us = (
            None if span.previous_end_us is None else span.previous_end_us - span.clock_shift_us
        )
        moments_us, _ = entry_times(content.entries, latest_us)
        return [moment_us + span.clock_shift_us for moment_us in moments_us]

    def keyframe(self, span: Span) -> Keyframe | None:
        """Return the keyframe of a segment; None if it has none."""
        return self.read_members(span, (KEYFRAME_MEMBER,)).keyframe

    def marks(self) -> list[Mark]:
        """Return every mark of the recording, in the order of time."""
        marks = [
            Mark(
                max(mark.at_us + span.clock_shift_us, span.overlap_end_us or 0),
                mark.kind,
                mark.text,
            )
            for span in self.spans
            for mark in span.index.marks
        ]
        return sorted((*marks, *self.damage_marks()), key=lambda mark: mark.at_us)

    def damage_marks(self) -> list[Mark]:
        """Return a mark for each missing or damaged segment, without reading a segment.

        Empty during the recording, because the recorder may delete old segments meanwhile.
        """
        if self.is_recording:
            return []
        dropped_segments = read_info(self.folder).dropped
        numbers = [span.file.number for span in self.spans]
        missing_text_by_segment_number = find_missing_segments(
            dropped_segments.segments_count if dropped_segments else 0,
            numbers,
            max(self._index_by_number, default=0),
        )
        start_by_number = {span.file.number: span.start_us for span in self.spans}
        marks = [
            Mark(start_by_number.get(number, self.end_us), "gap", text)
            for number, text in missing_text_by_segment_number.items()
        ]
        damage_texts = list(no_segment_texts(self.spans))
        if not missing_text_by_segment_number and not dropped_segments:
            damage_texts += missing_record_texts(
                self._count_lines(), sum(self.info.records_count.values())
            )
        marks += [Mark(self.end_us, "gap", text) for text in damage_texts]
        return marks + [
            Mark(span.start_us, "gap", text)
            for span in self.spans
            for text in self._damage_texts(span)
        ]

    def _count_lines(self) -> int:
        """Return the number of lines in all segments, including unreadable ones."""
        indexes = [span.index for span in self.spans]
        return sum(
            sum(index.records_count.values()) + index.damaged_lines_count for index in indexes
        )

    def _damage_texts(self, span: Span) -> Iterator[str]:
        name, count = span.file.path.name, span.index.damaged_lines_count
        if self.is_damaged(span):
            yield f"{name} is damaged: only what can be read of it is shown"
        elif count:
            yield f"{name}: {counted(count, 'line')} cannot be read"

    def records(self) -> Iterator[Record]:
        """Yield the records of the first keyframe, then all records in order.

        After a gap with lost records, the records of the next keyframe are yielded, too. Damaged
        lines are left out; `verify` counts them.
        """
        for number, span in enumerate(self.spans):
            content = self.content(span)
            if content.keyframe and (number == 0 or begins_after_loss(content)):
                yield from content.keyframe.records()
            for entry in content.entries:
                record = decode_or_none(entry)
                if record is not None:
                    yield record


def _is_file_missing(error: SessionError) -> bool:
    """Return whether a file could not be read because it does not exist."""
    return isinstance(error.__cause__, FileNotFoundError)


def _create_span(
    file: SegmentFile, index: SegmentIndex, previous_span: Span | None, recording_start_us: int
) -> Span:
    """Return the span of a segment on the timeline, after `previous_span`."""
    if previous_span is None:
        start_us = index.first_at_us or recording_start_us
        return Span(file, index, start_us, index.last_at_us or start_us, 0, None)
    clock_shift_us = previous_span.clock_shift_us + previous_span.index.set_back_us
    span = Span(
        file,
        index,
        previous_span.end_us,
        previous_span.end_us,
        clock_shift_us,
        previous_span.end_us,
    )
    if index.first_at_us is None or index.last_at_us is None:
        return span
    start_us = max(previous_span.end_us, index.first_at_us + clock_shift_us)
    end_us = max(start_us, index.last_at_us + clock_shift_us, span.overlap_end_us or 0)
    return replace(span, start_us=start_us, end_us=end_us)


def begins_after_loss(content: SegmentContent) -> bool:
    """Return whether records before a segment were lost, so that its keyframe is needed."""
    return find_initial_gap(content) is not None


def find_initial_gap(content: SegmentContent) -> Gap | None:
    """Return the gap with lost records with which a segment begins; None if it has none."""
    if not content.entries or content.entries[0].kind != "gap":
        return None
    gap = decode_or_none(content.entries[0])
    return gap if isinstance(gap, Gap) and gap.lost_records_count > 0 else None


def line_or_empty(entry: Entry) -> bytes:
    """Return the line of an entry; empty if its parts are damaged."""
    try:
        return entry.line
    except BadLine:
        return b""
