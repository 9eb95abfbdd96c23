"""Segments: one is appended to as plain lines, the others are sealed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from natstui.errors import SessionError
from natstui.lines import BadLine
from natstui.model.moment import moment_us
from natstui.model.record import Record
from natstui.model.recording import ClockStepped
from natstui.session.entry import Entry, Piece, decode_keyframe, entry_of, piece_of
from natstui.session.folder import reading
from natstui.session.index import MOST_MARKS, SegmentIndex
from natstui.session.keyframe import Keyframe
from natstui.session.layout import MEMBERS_COUNT, Poll
from natstui.session.marks import Marker

MOST_BYTES = 256 << 20
"""No segment inflates to more; what does is not a recording."""
GZIP_LEVEL = 4
"""The lowest that looks for a better match: half the size of level 1 for 0.5 µs a sample."""
_GZIP = 31
_MOST_MEMBERS = 1000
_KEYFRAME_HEAD = b'{"kind":"keyframe"'


class OpenSegment:
    """The plain segment that is being written. Every method may raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)

    def append(self, lines: bytes) -> None:
        """Write lines, all of them or none."""
        view, written_bytes = memoryview(lines), 0
        try:
            while written_bytes < len(lines):
                written_bytes += os.write(self._descriptor, view[written_bytes:])
        except OSError:
            # What did get in would be a torn line in the middle.
            os.ftruncate(self._descriptor, self.size_bytes)
            raise
        self.size_bytes += written_bytes

    def is_there(self) -> bool:
        """Tell whether the file still stands where it was made."""
        try:
            there, ours = os.stat(self.path), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class Content:
    """Everything one segment holds, in the order in which it happened."""

    keyframe: Keyframe | None
    keyframe_line: bytes
    """As it stands in the file, without its end; empty when there is none."""
    entries: tuple[Entry, ...]
    damaged_lines_count: int


def parse(lines: bytes) -> Content:
    """Return what is in the text of a segment, without a torn last line or an unfinished poll."""
    whole = lines[: lines.rfind(b"\n") + 1]
    pieces = [piece_of(line, n) for n, line in enumerate(whole.split(b"\n")) if line]
    keyframe, keyframe_line, damaged_count = None, b"", 0
    if pieces and pieces[0].placed.startswith(_KEYFRAME_HEAD):
        try:
            keyframe = decode_keyframe(pieces[0].line)
            keyframe_line = pieces[0].placed
        except BadLine:
            damaged_count += 1
        del pieces[0]
    pieces.sort(key=lambda piece: piece.order)
    entries: list[Entry] = []
    for _, group in groupby(pieces, key=lambda piece: piece.line_count):
        parts = tuple(group)
        entry = _whole(parts)
        if entry is None:
            damaged_count += len(parts)
        else:
            entries.append(entry)
    return Content(keyframe, keyframe_line, tuple(entries), damaged_count)


def _whole(parts: tuple[Piece, ...]) -> Entry | None:
    try:
        return entry_of(parts)
    except BadLine:
        return None


def inflate(packed: bytes, what: str) -> Iterator[bytes]:
    """Yield the text of each gzip member; raise SessionError for damage and for bombs."""
    most_bytes = MOST_BYTES
    for _ in range(_MOST_MEMBERS):
        if not packed:
            return
        inflater = zlib.decompressobj(_GZIP)
        try:
            text = inflater.decompress(packed, most_bytes)
        except zlib.error as error:
            raise SessionError(f"{what} is damaged: {error}") from error
        if inflater.unconsumed_tail:
            raise SessionError(f"{what} inflates to more than any segment holds")
        if not inflater.eof:
            raise SessionError(f"{what} is damaged: it ends in the middle")
        # 0 would mean without limit.
        most_bytes = max(1, most_bytes - len(text))
        packed = inflater.unused_data
        yield text
    raise SessionError(f"{what} has more parts than any segment")


def read_content(path: Path, *, sealed: bool) -> Content:
    """Read and parse a segment; raise SessionError when it is damaged."""
    with reading(str(path)), path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise SessionError(f"{path} is larger than any segment")
    return parse(b"".join(inflate(raw, str(path))) if sealed else raw)


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
    rows = [_rows_counts(piece.placed) for piece in entry.pieces]
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
    packed: Sequence[bytes],
    size_bytes: int,
    polls: Sequence[Poll] | None = None,
) -> SegmentIndex:
    """Return the index of a segment; `packed` are its members, none for the open segment."""
    marker, marks = Marker(content.keyframe), []
    counts: dict[str, int] = {}
    polls = polls_of(content) if polls is None else polls
    times_us, set_back_us = times(content.entries)
    for entry, at_us in zip(content.entries, times_us, strict=True):
        counts[entry.kind] = counts.get(entry.kind, 0) + 1
        record = None if entry.is_poll else readable(entry)
        mark = marker.mark(record) if record else None
        if mark:
            marks.append(replace(mark, at_us=at_us))
    return SegmentIndex(
        number=number,
        size_bytes=size_bytes,
        first_at_us=times_us[0] if times_us else None,
        last_at_us=times_us[-1] if times_us else None,
        set_back_us=set_back_us,
        members=_places(packed),
        records_count=counts,
        stream_samples_count=sum(poll.streams_count for poll in polls),
        consumer_samples_count=sum(poll.consumers_count for poll in polls),
        damaged_lines_count=content.damaged_lines_count,
        marks=tuple(marks[:MOST_MARKS]),
        marks_left_out_count=max(0, len(marks) - MOST_MARKS),
    )


def times(entries: Sequence[Entry], latest_us: int | None = None) -> tuple[list[int], int]:
    """Return the moment of each entry on a line that never goes back, and how far it was bent.

    Where the clock was set back, the moments after go on counting from the old time. `latest_us`
    is the moment of the entry before.
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
    """Decode an entry; None when it is damaged."""
    try:
        return entry.record()
    except BadLine:
        return None


def polls_of(content: Content) -> list[Poll]:
    """Return what a layout needs to know of each poll, in order."""
    return [_poll(entry) for entry in content.entries if entry.is_poll]


def _places(packed: Sequence[bytes]) -> tuple[tuple[int, int], ...]:
    places, offset = [], 0
    for member in packed:
        places.append((offset, len(member)))
        offset += len(member)
    return tuple(places)


def members_of(path: Path) -> list[bytes]:
    """Return the gzip members of a sealed segment as they lie in the file.

    Empty when there are not as many as natstui writes; raises SessionError for damage.
    """
    with reading(str(path)), path.open("rb") as file:
        packed = file.read(MOST_BYTES)
    members: list[bytes] = []
    while packed and len(members) <= MEMBERS_COUNT:
        inflater = zlib.decompressobj(_GZIP)
        try:
            inflater.decompress(packed, MOST_BYTES)
        except zlib.error as error:
            raise SessionError(f"{path} is damaged: {error}") from error
        size_bytes = len(packed) - len(inflater.unused_data) - len(inflater.unconsumed_tail)
        members.append(packed[:size_bytes])
        packed = inflater.unused_data
    return members if len(members) == MEMBERS_COUNT else []
