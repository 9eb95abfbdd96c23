"""index.jsonl: a line per sealed segment, so that a seek opens only the segments it needs.

The index may be deleted: a missing line is replaced by reading the segment. A line that does not
match the size of its segment is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct, field

from natstui.decoding import decoder_of
from natstui.files import open_log, open_regular_file
from natstui.model.records.recording import Mark
from natstui.session.files.folder import INDEX
from natstui.session.files.layout import VALID_MEMBERS_COUNTS

MAX_MARKS = 500
"""Limit of marks that are kept of one segment; more are only counted."""
_MAX_LINE_BYTES = 4 << 20
"""Limit of an index line: natstui writes no longer one, and a longer one would fill the memory."""


class SegmentIndex(Struct, frozen=True):
    """The content of one segment, with the offsets of its members."""

    number: int
    size_bytes: int
    """Size of the segment file that was indexed."""
    first_at_us: int | None
    """Time of the first record; None when there is none."""
    last_at_us: int | None
    """Time of the latest record, as if the clock had not been set back in this segment."""
    set_back_us: int
    """How far the clock was set back in this segment."""
    members: tuple[tuple[int, int], ...]
    """Offset and length of each gzip member; empty for the open segment."""
    records_count: dict[str, int] = field(default_factory=dict)
    """Number of records by kind."""
    stream_samples_count: int = 0
    consumer_samples_count: int = 0
    damaged_lines_count: int = 0
    """Lines that could not be read and were left out."""
    marks: tuple[Mark, ...] = ()
    marks_left_out_count: int = 0

    @property
    def last_wall_us(self) -> int | None:
        """Return the time (UTC µs) of the latest record as the clock showed it, also after the
        clock was set back; None without a record.
        """
        return None if self.last_at_us is None else self.last_at_us - self.set_back_us


_INDEX_DECODER = decoder_of(SegmentIndex)


def append_index(folder: Path, index: SegmentIndex) -> None:
    """Append the index of a segment to index.jsonl; raises OSError if it cannot be written."""
    with open(open_log(folder / INDEX), "ab") as file:
        file.write(msgspec.json.encode(index) + b"\n")


def read_index(folder: Path) -> dict[int, SegmentIndex]:
    """Return segment number → index; empty if index.jsonl is missing or cannot be read."""
    path = folder / INDEX
    indexes: dict[int, SegmentIndex] = {}
    try:
        if not path.is_file():
            return {}
        with open_regular_file(path) as file:
            for line in _read_lines(file):
                index = _decode_index(line)
                if index is not None:
                    indexes[index.number] = index
    except OSError:
        return {}
    return indexes


def _read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of an index one by one; a line above the length limit is left out."""
    is_inside_long_line = False
    while line := file.readline(_MAX_LINE_BYTES):
        is_complete = line.endswith(b"\n") or len(line) < _MAX_LINE_BYTES
        if is_complete and not is_inside_long_line:
            yield line
        is_inside_long_line = not is_complete


def _decode_index(line: bytes) -> SegmentIndex | None:
    try:
        index = _INDEX_DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return index if _has_contiguous_members(index) else None


def _has_contiguous_members(index: SegmentIndex) -> bool:
    """Return whether the members are contiguous, from the start to the end of the file."""
    members_end_offset = 0
    for offset, length in index.members:
        if offset != members_end_offset or length < 0:
            return False
        members_end_offset += length
    return len(index.members) in (0, *VALID_MEMBERS_COUNTS) and (
        not index.members or members_end_offset == index.size_bytes
    )


def is_index_of(index: SegmentIndex | None, path: Path) -> bool:
    """Return whether an index has the size of the file at `path`, so that it describes it."""
    try:
        return (
            index is not None
            and len(index.members) > 0
            and index.size_bytes == os.stat(path).st_size
        )
    except OSError:
        return False
