"""The journal of writes: a line of JSON each, appended and synced, readable by its owner only."""

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
from natstui.files import open_lock, open_plain, wait_for_lock
from natstui.model.records.managing import JournalEntry
from natstui.parsing import reason
from natstui.paths import private_folder

_decoder = decoder_of(JournalEntry)
_FILLING = b"\0 \t\r"
"""Bytes around an entry: blanks of its room, and what file systems leave after a power loss."""
_NAMED_COUNT = 5
"""How many damaged lines a warning names."""


def journal_file() -> Path:
    """Return the path of this user's journal: in the state folder of the platform."""
    return platformdirs.user_state_path("natstui") / "journal.jsonl"


class Room(NamedTuple):
    """The reserved place of an entry in the file."""

    offset: int
    text: bytes
    """What it holds until then: blanks, or an entry that says that its end is not noted."""


class JournalContent(NamedTuple):
    """What the journal has."""

    entries: list[JournalEntry]
    """The entries that can be read, oldest first."""
    damaged: dict[int, str]
    """Number of each line that was written and cannot be read → why."""
    file: Path
    last_number: int
    """Line of the last entry; 0 without one."""

    @property
    def warning(self) -> str:
        """Return which lines are damaged and left out; empty without one."""
        if not self.damaged:
            return ""
        first = min(self.damaged)
        text = f"{self.file}:{first} is damaged and left out: {self.damaged[first]}"
        others = ", ".join(map(str, list(self.damaged)[1:_NAMED_COUNT]))
        more = "…" if len(self.damaged) > _NAMED_COUNT else ""
        return f"{text}; so is line {others}{more}" if others else text

    @property
    def is_end_damaged(self) -> bool:
        """Return whether a damaged line follows the last entry: it may be a later change."""
        return max(self.damaged, default=0) > self.last_number


class Journal:
    """Every change made from this machine by this user."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or journal_file()

    def reserve(self, size_bytes: int, entry: JournalEntry | None = None) -> Room:
        """Write a line that a later entry replaces; raises SessionError.

        It is blank, or has what is to be read if natstui is killed before. A full disk then
        prevents the change, and not only its entry.
        """
        text = _padded(b"" if entry is None else msgspec.json.encode(entry), size_bytes)
        with self._opened() as handle:
            offset = _append(handle, text)
        return Room(offset, text)

    def add(self, entry: JournalEntry, room: Room) -> None:
        """Write an entry and wait until it is on the disk; raises SessionError.

        It is written into its room, unless it is longer.
        """
        line = msgspec.json.encode(entry) + b"\n"
        with self._opened() as handle:
            is_ours = os.pread(handle, len(room.text), room.offset) == room.text
            if len(line) > len(room.text) or not is_ours:
                _append(handle, line)
                if is_ours:
                    os.pwrite(handle, _padded(b"", len(room.text)), room.offset)
            else:
                os.pwrite(handle, _padded(line[:-1], len(room.text)), room.offset)
                os.fsync(handle)
                if _is_last(handle, room):
                    os.pwrite(handle, line, room.offset)
                    os.ftruncate(handle, room.offset + len(line))

    def release(self, room: Room) -> None:
        """Free a room without an entry; raises SessionError."""
        with self._opened() as handle:
            if os.pread(handle, len(room.text), room.offset) != room.text:
                return
            if _is_last(handle, room):
                os.ftruncate(handle, room.offset)
            else:
                os.pwrite(handle, _padded(b"", len(room.text)), room.offset)

    @property
    def stamp(self) -> tuple[int, int] | None:
        """Return a value that changes whenever the file does; None without a readable file."""
        try:
            status = self.file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Yield the file, locked against other processes of natstui; raises SessionError."""
        try:
            private_folder(self.file.parent)
            handle = open_lock(self.file)
            try:
                wait_for_lock(handle)
                yield handle
            finally:
                os.close(handle)
        except OSError as error:
            raise SessionError(f"the journal {self.file} cannot be written: {error}") from error

    def entries(self) -> list[JournalEntry]:
        """Return every entry, oldest first, without damaged ones. Raises SessionError for a file
        that cannot be read.
        """
        return self.read().entries

    def read(self) -> JournalContent:
        """Return every entry, and which lines are damaged or incomplete; raises SessionError for a
        file that cannot be read.
        """
        try:
            with open_plain(self.file) as file:
                lines = [line.strip(_FILLING) for line in file.read().splitlines()]
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
                damaged[number] = reason(error)
                continue
            if (name := _damaged_field(entry)) is not None:
                damaged[number] = f"{name} is no JSON object"
                continue
            entries.append(entry)
            last_number = number
        return JournalContent(entries, damaged, self.file, last_number)


def _damaged_field(entry: JournalEntry) -> str | None:
    """Return the first field of JSON text in an entry that is no object; None without one."""
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


def _padded(line: bytes, size_bytes: int) -> bytes:
    """Return a line with its end, of at least so many bytes."""
    return line.ljust(size_bytes - 1) + b"\n"


def _append(handle: int, line: bytes) -> int:
    """Append a line and wait until it is on the disk; return its offset."""
    end = os.lseek(handle, 0, os.SEEK_END)
    start = b"\n" if _is_torn(handle) else b""
    os.lseek(handle, 0, os.SEEK_END)
    if os.write(handle, start + line) < len(start + line):
        os.ftruncate(handle, end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(handle)
    return end + len(start)


def _is_last(handle: int, room: Room) -> bool:
    return os.fstat(handle).st_size == room.offset + len(room.text)


def _is_torn(handle: int) -> bool:
    """Return whether the last line is incomplete, so that a new one must not follow it
    directly.
    """
    if not os.lseek(handle, 0, os.SEEK_END):
        return False
    os.lseek(handle, -1, os.SEEK_END)
    return os.read(handle, 1) != b"\n"
