"""Sealing compresses an open segment; a crash meanwhile loses no record."""

from __future__ import annotations

import errno
import os
import zlib
from contextlib import suppress
from pathlib import Path

from natstui.files import open_atomic_file, open_regular_file
from natstui.session.files.entry import EntryPart
from natstui.session.files.folder import segment_path
from natstui.session.files.index import SegmentIndex, append_index
from natstui.session.files.layout import (
    EVENTS_MEMBER,
    FREQUENT_KINDS,
    FREQUENT_MEMBER,
    KEYFRAME_MEMBER,
    MEMBERS_COUNT,
    SYSTEM_KINDS,
    SYSTEM_MEMBER,
    PollLayout,
    group_polls,
)
from natstui.session.files.segment import (
    GZIP_LEVEL,
    MAX_SEGMENT_BYTES,
    SegmentContent,
    build_index,
    list_polls,
    parse_segment,
)

_GZIP_WINDOW_BITS = 31
_ZLIB_MEMORY_LEVEL = 9


def seal(folder: Path, number: int) -> SegmentIndex | None:
    """Compress an open segment, then delete its plain file.

    Returns the index of the segment, which is also appended to index.jsonl if that can be
    written; otherwise readers read the segment itself. Returns None if the segment was sealed
    already, or has no record. Raises OSError, also for a file that is larger than a segment, and
    leaves the file unchanged.
    """
    plain_path = segment_path(folder, number, sealed=False)
    target = segment_path(folder, number, sealed=True)
    if target.exists():
        plain_path.unlink(missing_ok=True)
        return None
    with open_regular_file(plain_path) as file:
        if os.fstat(file.fileno()).st_size > MAX_SEGMENT_BYTES:
            raise OSError(errno.EFBIG, "too large for a segment", str(plain_path))
        content = parse_segment(file.read(MAX_SEGMENT_BYTES))
    if not content.keyframe_line and not content.entries:
        # The recorder was killed before its first line was complete: the segment is empty.
        plain_path.unlink()
        return None
    polls = list_polls(content)
    members = compress_members(content, polls)
    index = build_index(number, content, members, sum(map(len, members)), polls)
    # Its temporary name begins with a dot: neither a reader nor Spark reads it as a segment.
    with open_atomic_file(target, replaces=True, mode=0o600) as file:
        file.writelines(members)
    plain_path.unlink()
    with suppress(OSError):
        append_index(folder, index)
    return index


def compress_members(content: SegmentContent, polls: list[PollLayout]) -> list[bytes]:
    """Return the gzip members of a sealed segment."""
    group_by_line = group_polls(polls)
    members: list[list[EntryPart]] = [[] for _ in range(MEMBERS_COUNT)]
    for entry in content.entries:
        default_member = _member_number(entry.kind)
        members[group_by_line.get(entry.line_number, default_member)].extend(entry.parts)
    member_texts = [
        b"".join(part.numbered_line + b"\n" for part in _sort_by_rows(parts)) for parts in members
    ]
    if content.keyframe_line:
        member_texts[KEYFRAME_MEMBER] = content.keyframe_line + b"\n"
    return [_compress(text) for text in member_texts]


def _member_number(kind: str) -> int:
    """Return the number of the gzip member for records of a kind other than polls."""
    if kind in SYSTEM_KINDS:
        return SYSTEM_MEMBER
    return FREQUENT_MEMBER if kind in FREQUENT_KINDS else EVENTS_MEMBER


def _sort_by_rows(parts: list[EntryPart]) -> list[EntryPart]:
    """Return parts sorted so that the same rows of successive polls are next to each other."""
    return sorted(parts, key=lambda part: (part.part_number, part.line_number))


def _compress(text: bytes) -> bytes:
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS, _ZLIB_MEMORY_LEVEL)
    return compressor.compress(text) + compressor.flush()
