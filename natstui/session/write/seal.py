"""Sealing: an open segment becomes a compressed one; a crash in between loses nothing."""

from __future__ import annotations

import zlib
from pathlib import Path

from natstui.files import complete_file, open_plain
from natstui.session.files.entry import Piece
from natstui.session.files.folder import segment_path
from natstui.session.files.index import SegmentIndex, append_index
from natstui.session.files.layout import (
    EVENTS,
    FLOW,
    FLOW_KINDS,
    KEYFRAME,
    MEMBERS_COUNT,
    SYSTEM,
    SYSTEM_KINDS,
    Poll,
    groups,
)
from natstui.session.files.segment import (
    GZIP_LEVEL,
    MOST_BYTES,
    Content,
    describe,
    parse,
    polls_of,
)

_GZIP = 31
_MEMORY_LEVEL = 9


def seal(folder: Path, number: int) -> SegmentIndex | None:
    """Compress an open segment, then remove it; raises OSError and leaves it unchanged.

    Returns the line for the index, which is appended too; None when the segment was sealed already
    and only its plain file was left.
    """
    plain_path = segment_path(folder, number, sealed=False)
    target = segment_path(folder, number, sealed=True)
    if target.exists():
        plain_path.unlink()
        return None
    with open_plain(plain_path) as file:
        content = parse(file.read(MOST_BYTES))
    if not content.keyframe_line and not content.entries:
        # The recorder was killed before its first line was whole: there is nothing in it.
        plain_path.unlink()
        return None
    polls = polls_of(content)
    members = gzip_members(content, polls)
    index = describe(number, content, members, sum(map(len, members)), polls)
    # Its temporary name begins with a dot: neither a reader nor Spark takes it for a segment.
    with complete_file(target, replaces=True, mode=0o600) as file:
        file.writelines(members)
    plain_path.unlink()
    append_index(folder, index)
    return index


def gzip_members(content: Content, polls: list[Poll]) -> list[bytes]:
    """Return the gzip members of a sealed segment."""
    group_by_line = groups(polls)
    members: list[list[Piece]] = [[] for _ in range(MEMBERS_COUNT)]
    for entry in content.entries:
        otherwise = _member_of(entry.kind)
        members[group_by_line.get(entry.line_count, otherwise)].extend(entry.pieces)
    texts = [b"".join(piece.numbered + b"\n" for piece in _by_rows(pieces)) for pieces in members]
    if content.keyframe_line:
        texts[KEYFRAME] = content.keyframe_line + b"\n"
    return [_compressed(text) for text in texts]


def _member_of(kind: str) -> int:
    """Return the gzip member for records of a kind other than polls."""
    if kind in SYSTEM_KINDS:
        return SYSTEM
    return FLOW if kind in FLOW_KINDS else EVENTS


def _by_rows(pieces: list[Piece]) -> list[Piece]:
    """Sort pieces so that the same rows of successive polls are next to each other."""
    return sorted(pieces, key=lambda piece: (piece.part_count, piece.line_count))


def _compressed(text: bytes) -> bytes:
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP, _MEMORY_LEVEL)
    return compressor.compress(text) + compressor.flush()
