"""The journal of writes: a line of JSON each, appended and synced, for its owner only."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import platformdirs

from natstui.decoding import decoder_of
from natstui.errors import SessionError
from natstui.files import open_lock, open_regular_file, wait_for_lock
from natstui.model.records.managing import JournalEntry
from natstui.parsing import describe_parse_error
from natstui.paths import create_private_folder

_decoder = decoder_of(JournalEntry)
_PADDING = b"\0 \t\r"
"""Bytes around an entry: blanks of its reserved line, and those that a power loss leaves."""
_WARNED_LINES_COUNT = 5
"""Maximum number of damaged lines that a warning names."""


def journal_file() -> Path:
    """Return the path of this user's journal, in the state folder of the platform."""
    return platformdirs.user_state_path("natstui") / "journal.jsonl"


class ReservedLine(NamedTuple):
    """A reserved line of the journal's file, which an entry replaces later."""

    offset: int
    text: bytes
    """Content until then: blanks, or an entry whose outcome is unknown."""


class JournalContent(NamedTuple):
    """The readable entries of the journal, and the errors of its damaged or incomplete lines."""

    entries: list[JournalEntry]
    """The readable entries, oldest first."""
    damaged: dict[int, str]
    """Number of a line that cannot be read → reason."""
    file: Path
    last_number: int
    """Number of the line with the last readable entry; 0 without one."""

    @property
    def warning(self) -> str:
        """Return a text that names the damaged lines; empty without any."""
        if not self.damaged:
            return ""
        first = min(self.damaged)
        text = f"{self.file}:{first} is damaged and left out: {self.damaged[first]}"
        others = ", ".join(map(str, list(self.damaged)[1:_WARNED_LINES_COUNT]))
        more = "…" if len(self.damaged) > _WARNED_LINES_COUNT else ""
        return f"{text}; so is line {others}{more}" if others else text

    @property
    def is_end_damaged(self) -> bool:
        """Return whether a damaged line, maybe of a later change, follows the last entry."""
        return max(self.damaged, default=0) > self.last_number


class Journal:
    """The journal file of every change that this user made from this machine."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or journal_file()

    def reserve(self, size_bytes: int, entry: JournalEntry | None = None) -> ReservedLine:
        """Reserve a line for a later entry, and return it; raises SessionError.

        It is blank, or has `entry`, which stays if natstui is killed. So a full disk prevents the
        change, and not only its entry.
        """
        text = _pad_line(b"" if entry is None else msgspec.json.encode(entry), size_bytes)
        with self._open_locked() as handle:
            offset = _append(handle, text)
        return ReservedLine(offset, text)

    def add(self, entry: JournalEntry, reserved_line: ReservedLine) -> None:
        """Write an entry and wait until it is on the disk; raises SessionError.

        It is written into `reserved_line`, or appended if it is longer.
        """
        line = msgspec.json.encode(entry) + b"\n"
        with self._open_locked() as handle:
            is_unchanged = (
                os.pread(handle, len(reserved_line.text), reserved_line.offset)
                == reserved_line.text
            )
            if len(line) > len(reserved_line.text) or not is_unchanged:
                _append(handle, line)
                if is_unchanged:
                    os.pwrite(
                        handle, _pad_line(b"", len(reserved_line.text)), reserved_line.offset
                    )
            else:
                os.pwrite(
                    handle, _pad_line(line[:-1], len(reserved_line.text)), reserved_line.offset
                )
                os.fsync(handle)
                if _is_last(handle, reserved_line):
                    os.pwrite(handle, line, reserved_line.offset)
                    os.ftruncate(handle, reserved_line.offset + len(line))

    def release(self, reserved_line: ReservedLine) -> None:
        """Release a reserved line that needs no entry; raises SessionError."""
        with self._open_locked() as handle:
            if (
                os.pread(handle, len(reserved_line.text), reserved_line.offset)
                != reserved_line.text
            ):
                return
            if _is_last(handle, reserved_line):
                os.ftruncate(handle, reserved_line.offset)
            else:
                os.pwrite(handle, _pad_line(b"", len(reserved_line.text)), reserved_line.offset)

    @property
    def change_stamp(self) -> tuple[int, int] | None:
        """Return the modification time (ns) and size of the file; None if it cannot be read."""
        try:
            status = self.file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    @contextmanager
    def _open_locked(self) -> Iterator[int]:
        """Yield the file's descriptor, locked against other processes; raises SessionError."""
        try:
            create_private_folder(self.file.parent)
            handle = open_lock(self.file)
            try:
                wait_for_lock(handle)
                yield handle
            finally:
                os.close(handle)
        except OSError as error:
            raise SessionError(f"the journal {self.file} cannot be written: {error}") from error

    def entries(self) -> list[JournalEntry]:
        """Return the readable entries, oldest first.

        Raises SessionError if the file cannot be read.
        """
        return self.read().entries

    def read(self) -> JournalContent:
        """Return the readable entries, and the number and error of each line that cannot be read.

        Raises SessionError if the file cannot be read.
        """
        try:
            with open_regular_file(self.file) as file:
                lines = [line.strip(_PADDING) for line in file.read().splitlines()]
        except FileNotFoundError:
            return JournalContent([], {}, self.file, 0)
        except OSError as error:
            raise SessionError(f"the journal {self.file} cannot be read: {error}") from error
        entries, damaged, last_number = list[JournalEntry](), dict[int, str](), 0
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                entry = _decoder.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                damaged[number] = describe_parse_error(error)
                continue
            if (name := _find_damaged_field(entry)) is not None:
                damaged[number] = f"{name} is no JSON object"
                continue
            entries.append(entry)
            last_number = number
        return JournalContent(entries, damaged, self.file, last_number)


def _find_damaged_field(entry: JournalEntry) -> str | None:
    """Return the name of the first JSON field of an entry that is no object; None without one."""
    texts = {
        "request_json": entry.request_json,
        "before_json": entry.before_json,
        "after_json": entry.after_json,
    }
    return next(
        (name for name, text in texts.items() if text is not None and not _is_object(text)), None
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _pad_line(line: bytes, size_bytes: int) -> bytes:
    """Return a line with its line break, padded with blanks to at least `size_bytes`."""
    return line.ljust(size_bytes - 1) + b"\n"


def _append(handle: int, line: bytes) -> int:
    """Append a line and wait until it is on the disk; return its offset."""
    end = os.lseek(handle, 0, os.SEEK_END)
    start = b"\n" if _has_incomplete_end(handle) else b""
    os.lseek(handle, 0, os.SEEK_END)
    if os.write(handle, start + line) < len(start + line):
        os.ftruncate(handle, end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(handle)
    return end + len(start)


def _is_last(handle: int, reserved_line: ReservedLine) -> bool:
    return os.fstat(handle).st_size == reserved_line.offset + len(reserved_line.text)


def _has_incomplete_end(handle: int) -> bool:
    """Return whether the last line has no line break, so that a new one must begin with one."""
    if not os.lseek(handle, 0, os.SEEK_END):
        return False
    os.lseek(handle, -1, os.SEEK_END)
    return os.read(handle, 1) != b"\n"
