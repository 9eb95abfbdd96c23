"""A session, opened for reading: its segments on one timeline, also while it is being recorded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from natstui.errors import SessionError
from natstui.files import open_plain
from natstui.lines import BadLine
from natstui.model.records.record import Record
from natstui.model.records.recording import Gap, Mark
from natstui.session.files.entry import Entry
from natstui.session.files.folder import (
    SegmentFile,
    fewer_than_written,
    is_recording,
    missing,
    nothing_left,
    reading,
    segments,
)
from natstui.session.files.index import SegmentIndex, fits, read_index
from natstui.session.files.info import SessionInfo, read_info
from natstui.session.files.keyframe import Keyframe
from natstui.session.files.layout import EVENTS, FLOW, KEYFRAME, SYSTEM_KINDS
from natstui.session.files.segment import (
    Content,
    GrowingSegment,
    describe,
    inflate,
    members_of,
    parse,
    read_content,
    read_cut,
    readable,
    times,
)
from natstui.units import counted

_SMALL_BYTES = 2048
_MOST_SMALL = 4096
"""Limit of cached groups of small parts: together some 30 MiB."""


@dataclass(frozen=True, slots=True)
class Span:
    """One segment on the timeline."""

    file: SegmentFile
    index: SegmentIndex
    start_us: int
    """Time of its first record, or of the previous one when it has none."""
    end_us: int
    shift_us: int
    """How far the clock was set back before it."""
    after_us: int | None
    """End of the previous segment; times of this one are later."""

    @property
    def overlap_us(self) -> int | None:
        """Return until when its times depend on the previous segment; None when it begins
        later.
        """
        index, after_us = self.index, self.after_us
        if after_us is None or index.first_at_us is None:
            return None
        if index.first_at_us + self.shift_us >= after_us:
            return None
        return after_us + sum(index.records_count.values())


class Recording:
    """The segments of a session. Methods raise SessionError for what cannot be read."""

    def __init__(self, folder: Path, *, salvage: bool = False) -> None:
        """Open a session; with `salvage`, unreadable parts are skipped and listed in `damage`."""
        self.folder = folder
        self._salvage = salvage
        self._spoiled: set[int] = set()
        self.info: SessionInfo = read_info(folder)
        self._known: dict[int, SegmentIndex] = {}
        self._small: dict[tuple[int, ...], Content] = {}
        self._growing: dict[int, GrowingSegment] = {}
        self.spans: list[Span] = []
        self.refresh()

    @property
    def is_recording(self) -> bool:
        """Return whether it is being recorded now."""
        return is_recording(self.folder)

    @property
    def start_us(self) -> int:
        """Return the time of the first record."""
        return self.spans[0].start_us if self.spans else self.info.started_at_us

    @property
    def end_us(self) -> int:
        """Return the time of the last record so far."""
        return self.spans[-1].end_us if self.spans else self.info.started_at_us

    def refresh(self) -> bool:
        """Read segments that were added meanwhile; return whether there were any."""
        files = segments(self.folder)
        if not files or not all(self._is_indexed(file.number) for file in files if file.sealed):
            # What was known of a segment while it was open is not true of it any more.
            self._known |= read_index(self.folder)
        still_open = {file.number for file in files if not file.sealed}
        self._growing = {n: grows for n, grows in self._growing.items() if n in still_open}
        before = self.end_us
        spans: list[Span] = []
        for file in files:
            last = spans[-1] if spans else None
            spans.append(_span(file, self._described(file), last, self.info.started_at_us))
        self.spans = spans
        return self.end_us != before

    def _is_indexed(self, number: int) -> bool:
        return number in self._known and bool(self._known[number].members)

    def _read(self, file: SegmentFile) -> Content:
        """Read all of a segment; of a growing one, only the appended lines."""
        if file.sealed:
            return read_content(file.path, sealed=True)
        grows = self._growing.setdefault(file.number, GrowingSegment(file.path))
        return grows.content()

    def _described(self, file: SegmentFile) -> SegmentIndex:
        """Return the index of a segment; created by reading the segment if it is missing."""
        known = self._known.get(file.number)
        if file.sealed and known is not None and fits(known, file.path):
            return known
        with reading(str(file.path)):
            size_bytes = file.path.stat().st_size
        if not file.sealed and known is not None and known.size_bytes == size_bytes:
            return known
        try:
            members = members_of(file.path) if file.sealed else []
            content = self._read(file)
        except SessionError:
            if not self._salvage:
                raise
            members, content = [], self._cut(file)
        index = describe(file.number, content, members, size_bytes)
        self._known[file.number] = index
        return index

    def span_at(self, at_us: int) -> int:
        """Return the number (from 0) of the span that contains a moment."""
        return max(0, bisect_right([span.start_us for span in self.spans], at_us) - 1)

    def content(self, span: Span) -> Content:
        """Read all of a segment."""
        try:
            return self._read(span.file)
        except SessionError:
            sealed_file = self._sealed_meanwhile(span)
            if sealed_file is not None:
                return read_content(sealed_file, sealed=True)
            if not self._salvage:
                raise
            if not span.index.members:
                return self._cut(span.file)
            self._spoiled.add(span.file.number)
            return parse(b"".join(self._texts(span, range(len(span.index.members)))))

    def _cut(self, file: SegmentFile) -> Content:
        """Mark a segment as damaged; return what can be read of it."""
        self._spoiled.add(file.number)
        try:
            return read_cut(file.path)[0]
        except SessionError:
            return parse(b"")

    @property
    def spoiled_count(self) -> int:
        """Return how many segments are known to be damaged."""
        return len(self._spoiled)

    def is_spoiled(self, span: Span) -> bool:
        """Return whether a segment is known to be damaged."""
        return span.file.number in self._spoiled

    def part(self, span: Span, members: Iterable[int]) -> Content:
        """Read some members of a segment; of an open one, everything."""
        if not span.index.members or not span.file.sealed:
            return self.content(span)
        numbers = tuple(members)
        key = (span.file.number, *numbers)
        known = self._small.get(key)
        if known is not None:
            return known
        content = parse(b"".join(self._texts(span, numbers)))
        # A day has 1,440 segments with a few events each, and every seek asks for them.
        if sum(span.index.members[member][1] for member in numbers) < _SMALL_BYTES:
            if len(self._small) >= _MOST_SMALL:
                self._small.clear()
            self._small[key] = content
        return content

    def _texts(self, span: Span, members: Iterable[int]) -> list[bytes]:
        """Inflate members of a segment."""
        compressed: list[bytes] = []
        with reading(str(span.file.path)), open_plain(span.file.path) as file:
            for member in members:
                offset, size_bytes = span.index.members[member]
                file.seek(offset)
                compressed.append(file.read(size_bytes))
        return [self._inflated(span, member) for member in compressed]

    def _inflated(self, span: Span, member: bytes) -> bytes:
        try:
            return b"".join(inflate(member, str(span.file.path)))
        except SessionError:
            if not self._salvage:
                raise
            self._spoiled.add(span.file.number)
            return b""

    @property
    def left_out_lines_count(self) -> int:
        """Return the lines that cannot be read, as far as is known without decoding every poll."""
        return sum(span.index.damaged_lines_count for span in self.spans)

    def warm_up(self) -> None:
        """Cache the small parts of all segments, up to a limit."""
        for span in self.spans[: _MOST_SMALL // 2]:
            if span.index.members and span.file.sealed:
                kinds = span.index.records_count.keys() - {"snapshot"} - SYSTEM_KINDS
                if kinds:
                    self.part(span, (EVENTS, FLOW))

    def _sealed_meanwhile(self, span: Span) -> Path | None:
        path = span.file.path.with_name(span.file.path.name + ".gz")
        return path if not span.file.sealed and path.is_file() else None

    def moments(self, span: Span, content: Content) -> list[int]:
        """Return the time of each entry on the timeline of the entire session."""
        before_us = None if span.after_us is None else span.after_us - span.shift_us
        moments_us, _ = times(content.entries, before_us)
        return [moment_us + span.shift_us for moment_us in moments_us]

    def keyframe(self, span: Span) -> Keyframe | None:
        """Return the keyframe of a segment; None when it has none."""
        return self.part(span, (KEYFRAME,)).keyframe

    def marks(self) -> list[Mark]:
        """Return every mark on the timeline, ascending."""
        marks = [
            Mark(max(mark.at_us + span.shift_us, span.overlap_us or 0), mark.kind, mark.text)
            for span in self.spans
            for mark in span.index.marks
        ]
        return sorted((*marks, *self.damage()), key=lambda mark: mark.at_us)

    def damage(self) -> list[Mark]:
        """Return marks for missing or unreadable segments, without reading a segment.

        Nothing during the recording: the recorder may delete what is too old meanwhile.
        """
        if self.is_recording:
            return []
        dropped = read_info(self.folder).dropped
        numbers = [span.file.number for span in self.spans]
        missing_segments = missing(
            dropped.segments_count if dropped else 0, numbers, max(self._known, default=0)
        )
        starts = {span.file.number: span.start_us for span in self.spans}
        marks = [
            Mark(starts.get(n, self.end_us), "gap", text) for n, text in missing_segments.items()
        ]
        texts = list(nothing_left(self.spans))
        if not missing_segments and not dropped:
            texts += fewer_than_written(self._lines_count(), sum(self.info.records_count.values()))
        marks += [Mark(self.end_us, "gap", text) for text in texts]
        return marks + [
            Mark(span.start_us, "gap", text) for span in self.spans for text in self._trouble(span)
        ]

    def _lines_count(self) -> int:
        """Return the lines of all segments, including unreadable ones."""
        indexes = [span.index for span in self.spans]
        return sum(
            sum(index.records_count.values()) + index.damaged_lines_count for index in indexes
        )

    def _trouble(self, span: Span) -> Iterator[str]:
        name, count = span.file.path.name, span.index.damaged_lines_count
        if self.is_spoiled(span):
            yield f"{name} is damaged: only what can be read of it is shown"
        elif count:
            yield f"{name}: {counted(count, 'line')} cannot be read"

    def records(self) -> Iterator[Record]:
        """Yield the records in order, after those of the first keyframe.

        Damaged lines are left out; `verify` counts them.
        """
        for number, span in enumerate(self.spans):
            content = self.content(span)
            if content.keyframe and (number == 0 or follows_a_loss(content)):
                yield from content.keyframe.records()
            for entry in content.entries:
                record = readable(entry)
                if record is not None:
                    yield record


def _span(file: SegmentFile, index: SegmentIndex, before: Span | None, started_us: int) -> Span:
    """Return a segment's position on the timeline, after the previous one."""
    if before is None:
        start_us = index.first_at_us or started_us
        return Span(file, index, start_us, index.last_at_us or start_us, 0, None)
    shift_us = before.shift_us + before.index.set_back_us
    span = Span(file, index, before.end_us, before.end_us, shift_us, before.end_us)
    if index.first_at_us is None or index.last_at_us is None:
        return span
    start_us = max(before.end_us, index.first_at_us + shift_us)
    end_us = max(start_us, index.last_at_us + shift_us, span.overlap_us or 0)
    return replace(span, start_us=start_us, end_us=end_us)


def follows_a_loss(content: Content) -> bool:
    """Return whether records before a segment were lost, so that its keyframe is needed."""
    if not content.entries or content.entries[0].kind != "gap":
        return False
    gap = readable(content.entries[0])
    return isinstance(gap, Gap) and gap.lost_records_count > 0


def whole_line(entry: Entry) -> bytes:
    """Return an entry's line; empty when its parts are damaged."""
    try:
        return entry.line
    except BadLine:
        return b""
