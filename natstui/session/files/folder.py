"""The folder of a recording: the names of its files, and its lock."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from natstui.clean import clean_line
from natstui.errors import SessionError, UsageError
from natstui.files import open_lock, open_regular_file
from natstui.units import counted

INFO = "session.json"
INDEX = "index.jsonl"
LOCK = "recording.lock"
_TEMPORARY_NAME_PATTERN = re.compile(r"\.(.+?)\.(?:[0-9a-f]{16}\.)?(?:part|tmp)")
"""Name of a temporary file that a killed recorder was writing."""
_SEGMENT_NAME_PATTERN = re.compile(r"records-(\d{6,9})\.jsonl(\.gz)?")


class SegmentFile(Struct, frozen=True, order=True):
    """The path of a segment, open or sealed, with its number."""

    number: int
    sealed: bool
    path: Path


def segment_path(folder: Path, number: int, *, sealed: bool) -> Path:
    """Return the path of a segment."""
    return folder / f"records-{number:06d}.jsonl{'.gz' if sealed else ''}"


def is_segment_name(name: str) -> bool:
    """Return whether a file of this name is a segment."""
    return _SEGMENT_NAME_PATTERN.fullmatch(name) is not None


def is_recording_file_name(name: str) -> bool:
    """Return whether natstui writes files of this name into the folder of a recording."""
    temporary_match = _TEMPORARY_NAME_PATTERN.fullmatch(name)
    name = temporary_match[1] if temporary_match else name
    return name in (INFO, INDEX, LOCK) or is_segment_name(name)


def list_segments(folder: Path) -> list[SegmentFile]:
    """Return the segments by number; a sealed one replaces the open one of the same number.

    Raises SessionError if the folder cannot be listed.
    """
    segment_by_number: dict[int, SegmentFile] = {}
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise SessionError(f"cannot list {folder}: {error.strerror}") from error
    for entry in entries:
        match = _SEGMENT_NAME_PATTERN.fullmatch(entry.name)
        if match and entry.is_file(follow_symlinks=False):
            sealed = match[2] is not None
            number = int(match[1])
            if sealed or number not in segment_by_number:
                segment_by_number[number] = SegmentFile(number, sealed, Path(entry.path))
    return [segment_by_number[number] for number in sorted(segment_by_number)]


def find_missing_segments(
    dropped_count: int, numbers: Iterable[int], last_number: int
) -> dict[int, str]:
    """Return number of a segment → a sentence about the missing segments before it.

    A limit deleted the oldest `dropped_count` segments; `last_number` is the last sealed segment.
    """
    expected_number, missing_text_by_segment_number = dropped_count + 1, dict[int, str]()
    for number in (*numbers, last_number + 1):
        if number > expected_number:
            first_missing_number, last_missing_number = expected_number, number - 1
            missing_segments_text = (
                f"segment {first_missing_number} is"
                if first_missing_number == last_missing_number
                else f"segments {first_missing_number}–{last_missing_number} are"
            )
            missing_text_by_segment_number[number] = f"{missing_segments_text} missing"
        expected_number = max(expected_number, number + 1)
    return missing_text_by_segment_number


def no_segment_texts(files: Sequence[object]) -> Iterator[str]:
    """Yield a sentence if a recording has no segment."""
    if not files:
        yield "there is no segment"


def missing_record_texts(records_count: int, written_records_count: int) -> Iterator[str]:
    """Yield a sentence if a closed recording has fewer records than its recorder wrote.

    Only this detects a deleted last segment when the index is missing, too.
    """
    if records_count < written_records_count:
        missing_text = counted(written_records_count - records_count, "record")
        yield f"{missing_text} of {written_records_count} that were written are missing"


def is_session(folder: Path) -> bool:
    """Return whether a folder is a session; False if it cannot be entered."""
    # Path.is_file raises PermissionError, and an error for a name that is too long.
    return os.path.isfile(folder / INFO)


def folder_size_bytes(folder: Path) -> int:
    """Return the bytes of all segments; a file that is deleted meanwhile is not counted."""
    total_bytes = 0
    for segment in list_segments(folder):
        try:
            total_bytes += segment.path.stat().st_size
        except FileNotFoundError:
            continue
    return total_bytes


def folder_time_text(at_us: int) -> str:
    """Return a time in the format of folder names: `20261120T205024Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_us / 1e6))


def folder_name(at_us: int, name: str) -> str:
    """Return the name of the folder of a recording `name` that starts at `at_us`.

    Characters of `name` that are no ASCII letter, digit, `.`, `_` or `-` become `-`.
    """
    safe_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60]
    return f"{folder_time_text(at_us)}-{safe_name}" if safe_name else folder_time_text(at_us)


def check_recording_name(name: str) -> None:
    """Raise UsageError for a name with a path, because a recording stays in its library."""
    path_parts = re.split(r"[/\\]", name)
    if (
        path_parts[0] == "~"
        or (len(path_parts) > 1 and not path_parts[0])
        or {".", ".."} & set(path_parts)
    ):
        raise UsageError(f"{clean_line(name)!r} is a path, not a name of a recording")


def lock_recording(folder: Path) -> int:
    """Lock a folder for a recorder, until the returned descriptor is closed.

    The kernel releases the lock when the process ends. Raises SessionError if another process
    records there, OSError if the folder cannot be written.
    """
    descriptor = open_lock(folder / LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise SessionError(f"another process is recording into {folder}") from error
    return descriptor


def is_recording(folder: Path) -> bool:
    """Return whether a process is recording into a folder now."""
    try:
        with open_regular_file(folder / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def translate_read_errors(target: str) -> Iterator[None]:
    """Turn an OSError in the block into a SessionError: `target` cannot be read."""
    try:
        yield
    except OSError as error:
        raise SessionError(f"cannot read {target}: {error.strerror or error}") from error
