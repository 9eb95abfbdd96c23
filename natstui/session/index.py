"""index.jsonl: one line per sealed segment, so that a seek opens only what it needs.

The index is a convenience: it may be deleted, and whatever it lacks is found by reading the
segment. A line that does not fit its segment's size is not believed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from natstui.model.recording import Mark
from natstui.session.folder import INDEX
from natstui.session.layout import MEMBERS_COUNT

MOST_MARKS = 500
"""Of one segment; more are counted, not kept."""
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """What is in one segment, and where."""

    number: int
    size_bytes: int
    """Of the file this was made from."""
    first_at_us: int | None
    """Of the first record; None when there is none."""
    last_at_us: int | None
    """Of the latest record, as if the clock had not been set back in this segment."""
    set_back_us: int
    """How far the clock was set back meanwhile."""
    members: tuple[tuple[int, int], ...]
    """Offset and length of each gzip member; empty for the open segment."""
    records_count: dict[str, int] = field(default_factory=dict)
    """By kind."""
    stream_samples_count: int = 0
    consumer_samples_count: int = 0
    damaged_lines_count: int = 0
    """Lines that could not be read and were left out."""
    marks: tuple[Mark, ...] = ()
    marks_left_out_count: int = 0


_DECODER = msgspec.json.Decoder(SegmentIndex)


def append_index(folder: Path, index: SegmentIndex) -> None:
    """Add the line of a segment; raises OSError."""
    with (folder / INDEX).open("ab") as file:
        file.write(msgspec.json.encode(index) + b"\n")


def read_index(folder: Path) -> dict[int, SegmentIndex]:
    """Return what the index knows, by segment; nothing when it is missing or damaged."""
    path = folder / INDEX
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return {}
        content = path.read_bytes()
    except OSError:
        return {}
    known: dict[int, SegmentIndex] = {}
    for line in content.splitlines():
        index = _decoded(line)
        if index is not None:
            known[index.number] = index
    return known


def _decoded(line: bytes) -> SegmentIndex | None:
    try:
        index = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return index if _plausible(index) else None


def _plausible(index: SegmentIndex) -> bool:
    """Tell whether the members follow each other and fill the file."""
    end = 0
    for offset, length in index.members:
        if offset != end or length < 0:
            return False
        end += length
    return len(index.members) in (0, MEMBERS_COUNT) and (
        not index.members or end == index.size_bytes
    )


def fits(index: SegmentIndex | None, path: Path) -> bool:
    """Tell whether an index was made from the file as it is."""
    try:
        return (
            index is not None
            and len(index.members) > 0
            and index.size_bytes == os.stat(path).st_size
        )
    except OSError:
        return False
