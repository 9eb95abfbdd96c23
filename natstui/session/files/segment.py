"""Segments: the open one is a file of plain lines that grows; the others are sealed."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from natstui.errors import SessionError
from natstui.files import open_regular_file
from natstui.lines import BadLine
from natstui.model.records.record import Record, moment_us
from natstui.model.records.recording import ClockStepped
from natstui.session.files.entry import Entry, EntryPart, decode_keyframe, join_parts, parse_part
from natstui.session.files.folder import SegmentFile, segment_path, translate_read_errors
from natstui.session.files.index import MAX_MARKS, SegmentIndex
from natstui.session.files.keyframe import Keyframe
from natstui.session.files.layout import MEMBERS_COUNT, VALID_MEMBERS_COUNTS, PollLayout
from natstui.session.files.marks import MarkBuilder
from natstui.units import bytes_text
from natstui.values import replace

MAX_SEGMENT_BYTES = 256 << 20
"""Limit of an inflated segment; a larger one is not of a recording."""
GZIP_LEVEL = 4
"""The lowest level with lazy matching: half the size of level 1, for 0.5 µs per sample."""
_GZIP_WINDOW_BITS = 31
_MAX_SEGMENT_MEMBERS = 1000
_MAX_SEGMENT_LINES = 4_000_000
"""Limit of lines in a segment; a minute of the densest recording has a tenth of it."""
_MAX_NON_RECORD_LINES = 100_000
"""Limit of lines that are no records: damage causes few, a decompression bomb only such."""
MAX_LINE_BYTES = 128 << 20
"""Limit of a line; the longest is a keyframe, up to 1 KB for each stream and consumer."""
_RECORD_START = b'\n{"kind":"'
_INPUT_CHUNK_BYTES = 1 << 16
_OUTPUT_CHUNK_BYTES = 1 << 20
_KEYFRAME_START = b'{"kind":"keyframe"'


class OpenSegment:
    """The plain segment that is being written. Every method may raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)

    def append(self, lines: bytes) -> None:
        """Write all lines; a failed write leaves the file unchanged.

        A line that is too long for a reader is an error, too.
        """
        if len(lines) > MAX_LINE_BYTES and max(map(len, lines.split(b"\n"))) > MAX_LINE_BYTES:
            limit_text = bytes_text(MAX_LINE_BYTES)
            reason = f"a line would be longer than {limit_text} and could not be read"
            raise OSError(errno.EFBIG, reason, str(self.path))
        unwritten_view, written_bytes = memoryview(lines), 0
        try:
            while written_bytes < len(lines):
                written_bytes += os.write(self._descriptor, unwritten_view[written_bytes:])
        except OSError:
            # What was written would be a torn line in the middle.
            os.ftruncate(self._descriptor, self.size_bytes)
            raise
        self.size_bytes += written_bytes

    def exists(self) -> bool:
        """Return whether the file still exists at its path."""
        try:
            path_status, opened_status = os.stat(self.path), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        return (path_status.st_dev, path_status.st_ino) == (
            opened_status.st_dev,
            opened_status.st_ino,
        )

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class SegmentContent(Struct, frozen=True):
    """The content of a segment, in the order of time."""

    keyframe: Keyframe | None
    keyframe_line: bytes
    """The line in the file, without its line feed; empty if there is none."""
    entries: tuple[Entry, ...]
    damaged_lines_count: int
    unfinished_lines_count: int = 0
    """Lines at the end that are the first parts of a poll: in an open segment it is being written.
    """


def parse_segment(lines: bytes, lines_before_count: int = 0) -> SegmentContent:
    """Return the content of a segment's text, without a torn last line or an unfinished poll.

    `lines_before_count` is the number of lines of the segment before this text.
    """
    complete_lines = lines[: lines.rfind(b"\n") + 1]
    parts = [
        parse_part(line, line_number)
        for line_number, line in enumerate(complete_lines.split(b"\n"), lines_before_count)
        if line
    ]
    keyframe, keyframe_line, damaged_lines_count = None, b"", 0
    if parts and not lines_before_count and parts[0].numbered_line.startswith(_KEYFRAME_START):
        try:
            keyframe = decode_keyframe(parts[0].line)
            keyframe_line = parts[0].numbered_line
        except BadLine:
            damaged_lines_count += 1
        del parts[0]
    parts.sort(key=lambda part: part.sort_key)
    entries: list[Entry] = []
    unfinished_lines_count = 0
    # A line without a number is an entry of its own, even if another line has its number.
    for _, part_group in groupby(parts, key=lambda part: (part.line_number, part.is_numbered)):
        entry_parts = tuple(part_group)
        entry = _join_parts_or_none(entry_parts)
        unfinished_lines_count = 0 if entry is not None else _count_unfinished_lines(entry_parts)
        if entry is None:
            damaged_lines_count += len(entry_parts)
        else:
            entries.append(entry)
    return SegmentContent(
        keyframe, keyframe_line, tuple(entries), damaged_lines_count, unfinished_lines_count
    )


def _count_unfinished_lines(parts: tuple[EntryPart, ...]) -> int:
    """Return the number of `parts` if they are a poll without its last parts, else 0."""
    part_numbers = [part.part_number for part in parts]
    is_unfinished = part_numbers == list(range(len(parts))) and len(parts) < parts[0].parts_count
    return len(parts) if is_unfinished else 0


def _join_parts_or_none(parts: tuple[EntryPart, ...]) -> Entry | None:
    try:
        return join_parts(parts)
    except BadLine:
        return None


class _SizeCheck:
    """Counts the inflated bytes of a segment, to stop a decompression bomb before it uses
    memory.
    """

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._bytes_count = self._lines_count = self._records_count = 0
        self._last_line_bytes = 0

    def add(self, text: bytes) -> None:
        """Count inflated text; raises SessionError above a limit of segments."""
        self._bytes_count += len(text)
        self._lines_count += text.count(b"\n")
        # A record across two chunks is not counted: too few to reach the limit.
        self._records_count += text.count(_RECORD_START)
        last_line_feed = text.rfind(b"\n")
        if last_line_feed >= 0:
            self._last_line_bytes = 0
        self._last_line_bytes += len(text) - last_line_feed - 1
        if (
            self._bytes_count > MAX_SEGMENT_BYTES
            or self._last_line_bytes > MAX_LINE_BYTES
            or self._lines_count > _MAX_SEGMENT_LINES
            or self._lines_count - self._records_count > _MAX_NON_RECORD_LINES
        ):
            raise SessionError(f"{self._file_name} is too large for a segment when decompressed")


class DamagedSegment(SessionError):
    """A sealed segment that is truncated, or has a damaged gzip member."""

    def __init__(self, problem: str, text: bytes = b"") -> None:
        super().__init__(problem)
        self.text = text
        """The text before the damage, in the damaged member."""


def _inflate_member(
    compressed: bytes, offset: int, file_name: str, size_check: _SizeCheck
) -> tuple[list[bytes], int]:
    """Return the gzip member at an offset, inflated, in chunks, and the offset of the next member.

    Raises DamagedSegment if the member is truncated or damaged.
    """
    inflater = zlib.decompressobj(_GZIP_WINDOW_BITS)
    view, chunks, input_chunk = memoryview(compressed), list[bytes](), b""
    while not inflater.eof:
        input_chunk = inflater.unconsumed_tail
        if not input_chunk:
            input_chunk = bytes(view[offset : offset + _INPUT_CHUNK_BYTES])
            offset += len(input_chunk)
        if not input_chunk:
            problem = f"{file_name} is damaged: it ends in the middle"
            raise DamagedSegment(problem, b"".join(chunks))
        try:
            chunks.append(inflater.decompress(input_chunk, _OUTPUT_CHUNK_BYTES))
        except zlib.error as error:
            # It is unknown where in the member the changed byte is.
            raise DamagedSegment(f"{file_name} is damaged: {error}") from error
        size_check.add(chunks[-1])
    return chunks, offset - len(inflater.unused_data)


def inflate(compressed: bytes, file_name: str) -> Iterator[bytes]:
    """Yield the text of each gzip member; raises DamagedSegment, or SessionError for a
    decompression bomb.
    """
    size_check, offset = _SizeCheck(file_name), 0
    for _ in range(_MAX_SEGMENT_MEMBERS):
        if offset == len(compressed):
            return
        chunks, offset = _inflate_member(compressed, offset, file_name, size_check)
        yield b"".join(chunks)
    raise SessionError(f"{file_name} has too many parts for a segment")


def _read_raw(path: Path) -> bytes:
    with translate_read_errors(str(path)), open_regular_file(path) as file:
        compressed = file.read(MAX_SEGMENT_BYTES + 1)
    if len(compressed) > MAX_SEGMENT_BYTES:
        raise SessionError(f"{path} is too large for a segment")
    return compressed


def read_content(path: Path, *, sealed: bool) -> SegmentContent:
    """Return the content of a segment; raises SessionError if it is damaged."""
    file_content = _read_raw(path)
    return parse_segment(b"".join(inflate(file_content, str(path))) if sealed else file_content)


def read_damaged(path: Path) -> tuple[SegmentContent, str]:
    """Return the content of a sealed segment before its damage, and a sentence about the damage.

    Raises SessionError if the file cannot be read or is too large for a segment.
    """
    member_texts, problem = list[bytes](), ""
    try:
        member_texts.extend(inflate(_read_raw(path), str(path)))
    except DamagedSegment as error:
        member_texts.append(error.text)
        problem = str(error)
    return parse_segment(b"".join(member_texts)), problem


def read_segment(file: SegmentFile) -> SegmentContent:
    """Return the content of a segment that may be sealed meanwhile; raises SessionError if it is
    damaged.
    """
    try:
        return read_content(file.path, sealed=file.sealed)
    except SessionError:
        sealed_path = segment_path(file.path.parent, file.number, sealed=True)
        if file.sealed or not sealed_path.exists():
            raise
        return read_content(sealed_path, sealed=True)


class GrowingSegment:
    """Reads an open segment repeatedly, each time only the new lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reset()

    def _reset(self) -> None:
        self._file_identity: tuple[int, int] | None = None
        self._complete_lines_bytes = 0
        """Up to the end of the last complete line."""
        self._complete_content = SegmentContent(None, b"", (), 0)
        self._complete_lines_count = 0
        self._last_record_lines = b""
        """The lines of the last record: a poll may still get more of them."""
        self._content = self._complete_content

    def content(self) -> SegmentContent:
        """Return the content of the segment so far.

        Raises SessionError if the file cannot be read or is too large.
        """
        new_lines = self._read_new_lines()
        if new_lines:
            self._append_lines(new_lines)
        return self._content

    def _read_new_lines(self) -> bytes:
        """Return the complete lines that were written since the last call."""
        with translate_read_errors(str(self.path)), open_regular_file(self.path) as file:
            file_status = os.fstat(file.fileno())
            file_identity = (file_status.st_dev, file_status.st_ino)
            if (
                self._file_identity != file_identity
                or file_status.st_size < self._complete_lines_bytes
            ):
                self._reset()
                self._file_identity = file_identity
            file.seek(self._complete_lines_bytes)
            new_text = file.read(MAX_SEGMENT_BYTES + 1 - self._complete_lines_bytes)
        if self._complete_lines_bytes + len(new_text) > MAX_SEGMENT_BYTES:
            raise SessionError(f"{self.path} is too large for a segment")
        complete_lines = new_text[: new_text.rfind(b"\n") + 1]
        self._complete_lines_bytes += len(complete_lines)
        return complete_lines

    def _append_lines(self, new_lines: bytes) -> None:
        lines = [line + b"\n" for line in (self._last_record_lines + new_lines).split(b"\n")[:-1]]
        lines_before_count = self._complete_lines_count
        line_numbers = [
            parse_part(line[:-1], line_number).line_number
            for line_number, line in enumerate(lines, lines_before_count)
        ]
        start = line_numbers.index(line_numbers[-1])
        added_content = parse_segment(b"".join(lines[:start]), lines_before_count)
        self._complete_content = _join_contents(self._complete_content, added_content)
        self._complete_lines_count += start
        self._last_record_lines = b"".join(lines[start:])
        last_content = parse_segment(self._last_record_lines, self._complete_lines_count)
        self._content = _join_contents(self._complete_content, last_content)


def _join_contents(before: SegmentContent, after: SegmentContent) -> SegmentContent:
    """Return the content of two consecutive parts of a segment."""
    return SegmentContent(
        before.keyframe or after.keyframe,
        before.keyframe_line or after.keyframe_line,
        before.entries + after.entries,
        before.damaged_lines_count + after.damaged_lines_count,
        after.unfinished_lines_count,
    )


_CREATED_COLUMN = b'"created_at_us":['


def _count_rows(line: bytes) -> tuple[int, int]:
    """Return the number of streams and of consumers in a poll's line, without decoding it.

    The text that is searched cannot be inside a string, where its quotes would be escaped.
    """
    rows_counts, end = [], 0
    for _ in ("streams", "consumers"):
        start = line.find(_CREATED_COLUMN, end) + len(_CREATED_COLUMN)
        end = line.find(b"]", start)
        rows_counts.append(line.count(b",", start, end) + 1 if end > start else 0)
    return rows_counts[0], rows_counts[1]


def _poll_layout(entry: Entry) -> PollLayout:
    rows_counts = [_count_rows(part.numbered_line) for part in entry.parts]
    return PollLayout(
        entry.line_number,
        entry.mono_us or 0,
        entry.is_complete,
        sum(streams for streams, _ in rows_counts),
        sum(consumers for _, consumers in rows_counts),
    )


def build_index(
    number: int,
    content: SegmentContent,
    members: Sequence[bytes],
    size_bytes: int,
    polls: Sequence[PollLayout] | None = None,
) -> SegmentIndex:
    """Return the index of a segment; `members` is empty for the open segment."""
    mark_builder, marks = MarkBuilder(content.keyframe), []
    # What an open segment ends with is being written.
    damaged_lines_count = content.damaged_lines_count
    damaged_lines_count -= 0 if members else content.unfinished_lines_count
    count_by_kind: dict[str, int] = {}
    polls = list_polls(content) if polls is None else polls
    times_us, set_back_us = entry_times(content.entries)
    for entry, at_us in zip(content.entries, times_us, strict=True):
        count_by_kind[entry.kind] = count_by_kind.get(entry.kind, 0) + 1
        record = None if entry.is_poll else decode_or_none(entry)
        damaged_lines_count += record is None and not entry.is_poll
        mark = mark_builder.mark_of(record) if record else None
        if mark:
            marks.append(replace(mark, at_us=at_us))
    return SegmentIndex(
        number=number,
        size_bytes=size_bytes,
        first_at_us=times_us[0] if times_us else None,
        last_at_us=times_us[-1] if times_us else None,
        set_back_us=set_back_us,
        members=_member_ranges(members),
        records_count=count_by_kind,
        stream_samples_count=sum(poll.streams_count for poll in polls),
        consumer_samples_count=sum(poll.consumers_count for poll in polls),
        damaged_lines_count=damaged_lines_count,
        marks=tuple(marks[:MAX_MARKS]),
        marks_left_out_count=max(0, len(marks) - MAX_MARKS),
    )


def entry_times(entries: Sequence[Entry], latest_us: int | None = None) -> tuple[list[int], int]:
    """Return the time of each entry in µs, never decreasing, and by how many µs the clock was set
    back.

    After the clock was set back, times continue from the old time. `latest_us` is the time of the
    entry before.
    """
    times_us: list[int] = []
    set_back_us = 0
    for entry in entries:
        if entry.kind == "clock_stepped":
            set_back_us += _clock_set_back_us(entry)
        at_us = entry.at_us + set_back_us
        latest_us = at_us if latest_us is None else moment_us(latest_us, at_us)
        times_us.append(latest_us)
    return times_us, set_back_us


def _clock_set_back_us(entry: Entry) -> int:
    """Return by how many µs a clock step set the clock back; 0 if forward or damaged."""
    record = decode_or_none(entry)
    return max(0, -record.step_us) if isinstance(record, ClockStepped) else 0


def decode_or_none(entry: Entry) -> Record | None:
    """Return the record of an entry; None if it is damaged."""
    try:
        return entry.record()
    except BadLine:
        return None


def list_polls(content: SegmentContent) -> list[PollLayout]:
    """Return the layout fields of each poll, in order."""
    return [_poll_layout(entry) for entry in content.entries if entry.is_poll]


def _member_ranges(members: Sequence[bytes]) -> tuple[tuple[int, int], ...]:
    offsets, offset = [], 0
    for member in members:
        offsets.append((offset, len(member)))
        offset += len(member)
    return tuple(offsets)


def read_members(path: Path) -> list[bytes]:
    """Return the gzip members of a sealed segment, still compressed.

    Empty if their number is not one that natstui writes. Raises SessionError for damage.
    """
    with translate_read_errors(str(path)), open_regular_file(path) as file:
        compressed = file.read(MAX_SEGMENT_BYTES)
    size_check, members, offset = _SizeCheck(str(path)), list[bytes](), 0
    while offset < len(compressed) and len(members) <= MEMBERS_COUNT:
        member_start = offset
        _, offset = _inflate_member(compressed, member_start, str(path), size_check)
        members.append(compressed[member_start:offset])
    return members if len(members) in VALID_MEMBERS_COUNTS else []
