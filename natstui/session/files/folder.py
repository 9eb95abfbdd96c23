"""The folder of a session: names of its files, and locking."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from natstui.clean import clean_line
from natstui.errors import SessionError, UsageError
from natstui.files import open_lock, open_plain
from natstui.units import counted

INFO = "session.json"
INDEX = "index.jsonl"
LOCK = "recording.lock"
_UNFINISHED = re.compile(r"\.(.+?)\.(?:[0-9a-f]{16}\.)?(?:part|tmp)")
"""Name of a temporary file that a killed recorder was writing."""
_SEGMENT = re.compile(r"records-(\d{6,9})\.jsonl(\.gz)?")


@dataclass(frozen=True, slots=True, order=True)
class SegmentFile:
    """One file of records."""

    number: int
    sealed: bool
    path: Path


def segment_path(folder: Path, number: int, *, sealed: bool) -> Path:
    """Return the path of a segment."""
    return folder / f"records-{number:06d}.jsonl{'.gz' if sealed else ''}"


def is_segment_name(name: str) -> bool:
    """Return whether a file of this name is a segment."""
    return _SEGMENT.fullmatch(name) is not None


def is_own_name(name: str) -> bool:
    """Return whether natstui writes files of this name into a session folder."""
    unfinished = _UNFINISHED.fullmatch(name)
    name = unfinished[1] if unfinished else name
    return name in (INFO, INDEX, LOCK) or is_segment_name(name)


def segments(folder: Path) -> list[SegmentFile]:
    """Return the segments in order; a sealed one supersedes its plain one.

    Raises SessionError when the folder cannot be listed.
    """
    by_number: dict[int, SegmentFile] = {}
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise SessionError(f"cannot list {folder}: {error.strerror}") from error
    for entry in entries:
        match = _SEGMENT.fullmatch(entry.name)
        if match and entry.is_file(follow_symlinks=False):
            sealed = match[2] is not None
            number = int(match[1])
            if sealed or number not in by_number:
                by_number[number] = SegmentFile(number, sealed, Path(entry.path))
    return [by_number[number] for number in sorted(by_number)]


def missing(dropped_count: int, numbers: Iterable[int], last_number: int) -> dict[int, str]:
    """Return a sentence for each gap in the numbers of segments, by the number that follows it.

    `dropped_count` were deleted on purpose, the oldest first; `last_number` is the last one
    sealed.
    """
    expected, by_number = dropped_count + 1, dict[int, str]()
    for number in (*numbers, last_number + 1):
        if number > expected:
            first, last = expected, number - 1
            numbers_text = (
                f"segment {first} is" if first == last else f"segments {first}–{last} are"
            )
            by_number[number] = f"{numbers_text} missing"
        expected = max(expected, number + 1)
    return by_number


def nothing_left(files: Sequence[object]) -> Iterator[str]:
    """Yield a sentence when a session has no segment."""
    if not files:
        yield "there is no segment"


def fewer_than_written(records_count: int, written_count: int) -> Iterator[str]:
    """Yield a sentence when a closed session has fewer records than its recorder wrote.

    Only this notices a deleted last segment when the index is missing too.
    """
    if records_count < written_count:
        missing_text = counted(written_count - records_count, "record")
        yield f"{missing_text} of {written_count} that were written are missing"


def folder_size_bytes(folder: Path) -> int:
    """Return the bytes of all segments; files that are deleted meanwhile are not counted."""
    total_bytes = 0
    for segment in segments(folder):
        try:
            total_bytes += segment.path.stat().st_size
        except FileNotFoundError:
            continue
    return total_bytes


def stamp(at_us: int) -> str:
    """Return a moment as folder names have it: `20261120T205024Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_us / 1e6))


def folder_name(at_us: int, name: str) -> str:
    """Return the folder's name for a session that starts now; only harmless characters."""
    safe_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60]
    return f"{stamp(at_us)}-{safe_name}" if safe_name else stamp(at_us)


def check_name(name: str) -> None:
    """Raise UsageError for a path: a recording stays in its library, whatever it is called."""
    parts = re.split(r"[/\\]", name)
    if parts[0] == "~" or (len(parts) > 1 and not parts[0]) or {".", ".."} & set(parts):
        raise UsageError(f"{clean_line(name)!r} is a path, not a name of a recording")


def lock(folder: Path) -> int:
    """Mark a folder as being recorded, until the returned descriptor is closed.

    The kernel releases the lock when the process dies. Raises SessionError when another
    process records there, OSError when the folder cannot be written.
    """
    descriptor = open_lock(folder / LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise SessionError(f"another process is recording into {folder}") from error
    return descriptor


def is_recording(folder: Path) -> bool:
    """Return whether a live process records into a folder."""
    try:
        with open_plain(folder / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def reading(target: str) -> Iterator[None]:
    """Turn an OSError while reading `target` into a SessionError."""
    try:
        yield
    except OSError as error:
        raise SessionError(f"cannot read {target}: {error.strerror or error}") from error
