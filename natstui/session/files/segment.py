"""Segments: the open one is appended to as plain lines, the others are sealed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from natstui.errors import SessionError
from natstui.files import open_plain
from natstui.lines import BadLine
from natstui.model.records.record import Record, moment_us
from natstui.model.records.recording import ClockStepped
from natstui.session.files.entry import Entry, Piece, decode_keyframe, entry_of, piece_of
from natstui.session.files.folder import SegmentFile, reading, segment_path
from natstui.session.files.index import MOST_MARKS, SegmentIndex
from natstui.session.files.keyframe import Keyframe
from natstui.session.files.layout import MEMBERS_COUNT, MEMBERS_COUNTS, Poll
from natstui.session.files.marks import Marker

MOST_BYTES = 256 << 20
"""Limit of an inflated segment; a larger one is not a recording."""
GZIP_LEVEL = 4
"""The lowest that looks for a better match: half the size of level 1 for 0.5 µs a sample."""
_GZIP = 31
_MOST_MEMBERS = 1000
_MOST_LINES = 4_000_000
"""Limit of lines in a segment; a minute of the densest recording has a tenth of it."""
_MOST_STRANGE_LINES = 100_000
"""Limit of lines that are no records: damage causes few, a decompression bomb only such."""
_MOST_LINE_BYTES = 64 << 20
"""Limit of a line; the longest is a keyframe, some 400 bytes for each stream and consumer."""
_RECORD_BEGINS = b'\n{"kind":"'
_GIVEN_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
_KEYFRAME_HEAD = b'{"kind":"keyframe"'


class OpenSegment:
    """The plain segment that is being written. Every method may raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)

    def append(self, lines: bytes) -> None:
        """Write all lines or none."""
        view, written_bytes = memoryview(lines), 0
        try:
            while written_bytes < len(lines):
                written_bytes += os.write(self._descriptor, view[written_bytes:])
        except OSError:
            # What was written would be a torn line in the middle.
            os.ftruncate(self._descriptor, self.size_bytes)
            raise
        self.size_bytes += written_bytes

    def is_there(self) -> bool:
        """Return whether the file still exists at its path."""
        try:
            on_disk, ours = os.stat(self.path), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        return (on_disk.st_dev, on_disk.st_ino) == (ours.st_dev, ours.st_ino)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class Content:
    """The content of one segment, in the order of time."""

    keyframe: Keyframe | None
    keyframe_line: bytes
    """The line as it is in the file, without its newline; empty when there is none."""
    entries: tuple[Entry, ...]
    damaged_lines_count: int
    unfinished_lines_count: int = 0
    """Lines at the end that are the first parts of a poll: in an open segment it is being written.
    """


def parse(lines: bytes, before_count: int = 0) -> Content:
    """Parse the text of a segment, without a torn last line or an unfinished poll.

    `before_count` is how many of its lines come before this text.
    """
    complete_lines = lines[: lines.rfind(b"\n") + 1]
    pieces = [
        piece_of(line, n)
        for n, line in enumerate(complete_lines.split(b"\n"), before_count)
        if line
    ]
    keyframe, keyframe_line, damaged_count = None, b"", 0
    if pieces and not before_count and pieces[0].numbered.startswith(_KEYFRAME_HEAD):
        try:
            keyframe = decode_keyframe(pieces[0].line)
            keyframe_line = pieces[0].numbered
        except BadLine:
            damaged_count += 1
        del pieces[0]
    pieces.sort(key=lambda piece: piece.order)
    entries: list[Entry] = []
    unfinished_count = 0
    # A line without a number stands for itself, whatever else is where it was counted.
    for _, group in groupby(pieces, key=lambda piece: (piece.line_count, piece.is_numbered)):
        parts = tuple(group)
        entry = _whole(parts)
        unfinished_count = 0 if entry is not None else _begun(parts)
        if entry is None:
            damaged_count += len(parts)
        else:
            entries.append(entry)
    return Content(keyframe, keyframe_line, tuple(entries), damaged_count, unfinished_count)


def _begun(parts: tuple[Piece, ...]) -> int:
    """Return how many lines are the first parts of a poll whose last parts are missing."""
    numbers = [piece.part_count for piece in parts]
    is_unfinished = numbers == list(range(len(parts))) and len(parts) < parts[0].parts_count
    return len(parts) if is_unfinished else 0


def _whole(parts: tuple[Piece, ...]) -> Entry | None:
    try:
        return entry_of(parts)
    except BadLine:
        return None


class _Measure:
    """Counts the inflated bytes of a segment, and refuses a decompression bomb before it uses
    memory.
    """

    def __init__(self, file_name: str) -> None:
        self._what = file_name
        self._bytes_count = self._lines_count = self._records_count = 0
        self._line_bytes = 0

    def take(self, text: bytes) -> None:
        """Count inflated text; raises SessionError when it is more than the limit of a segment."""
        self._bytes_count += len(text)
        self._lines_count += text.count(b"\n")
        # One that lies across two pieces is missed, which is far from what is too many.
        self._records_count += text.count(_RECORD_BEGINS)
        end = text.rfind(b"\n")
        self._line_bytes = len(text) - end - 1 if end >= 0 else self._line_bytes + len(text)
        if (
            self._bytes_count > MOST_BYTES
            or self._line_bytes > _MOST_LINE_BYTES
            or self._lines_count > _MOST_LINES
            or self._lines_count - self._records_count > _MOST_STRANGE_LINES
        ):
            raise SessionError(f"{self._what} is too large for a segment when decompressed")


class CutSegment(SessionError):
    """A sealed segment ends in the middle, or a part of it is damaged."""

    def __init__(self, problem: str, text: bytes = b"") -> None:
        super().__init__(problem)
        self.text = text
        """What can be read of the damaged part."""


def _member(
    compressed: bytes, offset: int, file_name: str, measure: _Measure
) -> tuple[list[bytes], int]:
    """Inflate the gzip member at an offset, in chunks; return them and the offset of the next
    member.
    """
    inflater = zlib.decompressobj(_GZIP)
    view, chunks, input_bytes = memoryview(compressed), list[bytes](), b""
    while not inflater.eof:
        input_bytes = inflater.unconsumed_tail
        if not input_bytes:
            input_bytes = bytes(view[offset : offset + _GIVEN_BYTES])
            offset += len(input_bytes)
        if not input_bytes:
            problem = f"{file_name} is damaged: it ends in the middle"
            raise CutSegment(problem, b"".join(chunks))
        try:
            chunks.append(inflater.decompress(input_bytes, _PIECE_BYTES))
        except zlib.error as error:
            # Of a changed byte, nobody knows where in the part it is.
            raise CutSegment(f"{file_name} is damaged: {error}") from error
        measure.take(chunks[-1])
    return chunks, offset - len(inflater.unused_data)


def inflate(compressed: bytes, file_name: str) -> Iterator[bytes]:
    """Yield the text of each gzip member; raises CutSegment for damage, and SessionError for
    decompression bombs.
    """
    measure, offset = _Measure(file_name), 0
    for _ in range(_MOST_MEMBERS):
        if offset == len(compressed):
            return
        chunks, offset = _member(compressed, offset, file_name, measure)
        yield b"".join(chunks)
    raise SessionError(f"{file_name} has too many parts for a segment")


def _raw(path: Path) -> bytes:
    with reading(str(path)), open_plain(path) as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise SessionError(f"{path} is too large for a segment")
    return raw


def read_content(path: Path, *, sealed: bool) -> Content:
    """Read and parse a segment; raise SessionError when it is damaged."""
    raw = _raw(path)
    return parse(b"".join(inflate(raw, str(path))) if sealed else raw)


def read_cut(path: Path) -> tuple[Content, str]:
    """Read a sealed segment up to its damage; return that, and what is damaged.

    Raises SessionError when it is no segment at all.
    """
    texts, problem = list[bytes](), ""
    try:
        texts.extend(inflate(_raw(path), str(path)))
    except CutSegment as error:
        texts.append(error.text)
        problem = str(error)
    return parse(b"".join(texts)), problem


def read_segment(file: SegmentFile) -> Content:
    """Read and parse a segment that may be sealed meanwhile; raises SessionError if damaged."""
    try:
        return read_content(file.path, sealed=file.sealed)
    except SessionError:
        sealed_path = segment_path(file.path.parent, file.number, sealed=True)
        if file.sealed or not sealed_path.exists():
            raise
        return read_content(sealed_path, sealed=True)


class GrowingSegment:
    """Reads an open segment repeatedly: each time only the appended lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self._file: tuple[int, int] | None = None
        self._read_bytes = 0
        """Up to the end of the last whole line."""
        self._settled = Content(None, b"", (), 0)
        self._settled_lines_count = 0
        self._last = b""
        """The lines of the last record: a poll may still get more of them."""
        self._content = self._settled

    def content(self) -> Content:
        """Return the content so far; raises SessionError."""
        new_lines = self._appended()
        if new_lines:
            self._take(new_lines)
        return self._content

    def _appended(self) -> bytes:
        """Return the complete lines that were appended since the last call."""
        with reading(str(self.path)), open_plain(self.path) as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            if self._file != identity or status.st_size < self._read_bytes:
                self._begin()
                self._file = identity
            file.seek(self._read_bytes)
            raw = file.read(MOST_BYTES + 1 - self._read_bytes)
        if self._read_bytes + len(raw) > MOST_BYTES:
            raise SessionError(f"{self.path} is too large for a segment")
        complete_lines = raw[: raw.rfind(b"\n") + 1]
        self._read_bytes += len(complete_lines)
        return complete_lines

    def _take(self, new_lines: bytes) -> None:
        lines = [line + b"\n" for line in (self._last + new_lines).split(b"\n")[:-1]]
        before_count = self._settled_lines_count
        counts = [piece_of(line[:-1], n).line_count for n, line in enumerate(lines, before_count)]
        start = counts.index(counts[-1])
        added = parse(b"".join(lines[:start]), before_count)
        self._settled = _together(self._settled, added)
        self._settled_lines_count += start
        self._last = b"".join(lines[start:])
        self._content = _together(self._settled, parse(self._last, self._settled_lines_count))


def _together(before: Content, after: Content) -> Content:
    """Join the contents of two consecutive texts of one segment."""
    return Content(
        before.keyframe or after.keyframe,
        before.keyframe_line or after.keyframe_line,
        before.entries + after.entries,
        before.damaged_lines_count + after.damaged_lines_count,
        after.unfinished_lines_count,
    )


_BIRTHS = b'"created_at_us":['


def _rows_counts(line: bytes) -> tuple[int, int]:
    """Count the streams and consumers in a poll's line without decoding it.

    The text looked for cannot be inside a string, where its quotes would be escaped.
    """
    counts, end = [], 0
    for _ in ("streams", "consumers"):
        start = line.find(_BIRTHS, end) + len(_BIRTHS)
        end = line.find(b"]", start)
        counts.append(line.count(b",", start, end) + 1 if end > start else 0)
    return counts[0], counts[1]


def _poll(entry: Entry) -> Poll:
    rows = [_rows_counts(piece.numbered) for piece in entry.pieces]
    return Poll(
        entry.line_count,
        entry.mono_us or 0,
        entry.complete,
        sum(streams for streams, _ in rows),
        sum(consumers for _, consumers in rows),
    )


def describe(
    number: int,
    content: Content,
    members: Sequence[bytes],
    size_bytes: int,
    polls: Sequence[Poll] | None = None,
) -> SegmentIndex:
    """Create the index of a segment; `members` is empty for the open segment."""
    marker, marks = Marker(content.keyframe), []
    # What an open segment ends with is being written.
    damaged_count = content.damaged_lines_count
    damaged_count -= 0 if members else content.unfinished_lines_count
    counts: dict[str, int] = {}
    polls = polls_of(content) if polls is None else polls
    times_us, set_back_us = times(content.entries)
    for entry, at_us in zip(content.entries, times_us, strict=True):
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
        record = None if entry.is_poll else readable(entry)
        damaged_count += record is None and not entry.is_poll
        mark = marker.mark(record) if record else None
        if mark:
            marks.append(replace(mark, at_us=at_us))
    return SegmentIndex(
        number=number,
        size_bytes=size_bytes,
        first_at_us=times_us[0] if times_us else None,
        last_at_us=times_us[-1] if times_us else None,
        set_back_us=set_back_us,
        members=_offsets(members),
        records_count=counts,
        stream_samples_count=sum(poll.streams_count for poll in polls),
        consumer_samples_count=sum(poll.consumers_count for poll in polls),
        damaged_lines_count=damaged_count,
        marks=tuple(marks[:MOST_MARKS]),
        marks_left_out_count=max(0, len(marks) - MOST_MARKS),
    )


def times(entries: Sequence[Entry], latest_us: int | None = None) -> tuple[list[int], int]:
    """Return the time of each entry, never decreasing, and how far the clock was set back.

    After the clock was set back, times count on from the old time. `latest_us` is the time of the
    entry before.
    """
    moments_us: list[int] = []
    set_back_us = 0
    for entry in entries:
        if entry.kind == "clock_stepped":
            set_back_us += _set_back_us(entry)
        at_us = entry.at_us + set_back_us
        latest_us = at_us if latest_us is None else moment_us(latest_us, at_us)
        moments_us.append(latest_us)
    return moments_us, set_back_us


def _set_back_us(entry: Entry) -> int:
    record = readable(entry)
    return max(0, -record.step_us) if isinstance(record, ClockStepped) else 0


def readable(entry: Entry) -> Record | None:
    """Decode an entry; returns None when it is damaged."""
    try:
        return entry.record()
    except BadLine:
        return None


def polls_of(content: Content) -> list[Poll]:
    """Return the layout fields of each poll, in order."""
    return [_poll(entry) for entry in content.entries if entry.is_poll]


def _offsets(members: Sequence[bytes]) -> tuple[tuple[int, int], ...]:
    offsets, offset = [], 0
    for member in members:
        offsets.append((offset, len(member)))
        offset += len(member)
    return tuple(offsets)


def members_of(path: Path) -> list[bytes]:
    """Return the gzip members of a sealed segment, still compressed.

    Empty when there are not as many as natstui writes; raises SessionError for damage.
    """
    with reading(str(path)), open_plain(path) as file:
        compressed = file.read(MOST_BYTES)
    measure, members, offset = _Measure(str(path)), list[bytes](), 0
    while offset < len(compressed) and len(members) <= MEMBERS_COUNT:
        begin = offset
        _, offset = _member(compressed, begin, str(path), measure)
        members.append(compressed[begin:offset])
    return members if len(members) in MEMBERS_COUNTS else []
