"""The journal of changes: one line of JSON for each, synced, readable by its owner only."""

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

_entry_decoder = decoder_of(JournalEntry)
_PADDING_BYTES = b"\0 \t\r"
"""Bytes around an entry: blanks of its reserved line, and those that a power loss leaves."""
_MAX_WARNED_LINES = 5
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
    errors_by_line_number: dict[int, str]
    """Number of a line that cannot be read → reason."""
    file: Path
    last_entry_line_number: int
    """Number of the line with the last readable entry; 0 without one."""

    @property
    def warning(self) -> str:
        """Return a text that names the damaged lines; empty without any."""
        if not self.errors_by_line_number:
            return ""
        first_line_number = min(self.errors_by_line_number)
        reason = self.errors_by_line_number[first_line_number]
        text = f"{self.file}:{first_line_number} is damaged and left out: {reason}"
        other_line_numbers = ", ".join(
            map(str, list(self.errors_by_line_number)[1:_MAX_WARNED_LINES])
        )
        ellipsis = "…" if len(self.errors_by_line_number) > _MAX_WARNED_LINES else ""
        return f"{text}; so is line {other_line_numbers}{ellipsis}" if other_line_numbers else text

    @property
    def is_end_damaged(self) -> bool:
        """Return whether a damaged line, maybe of a later change, follows the last entry."""
        return max(self.errors_by_line_number, default=0) > self.last_entry_line_number


class Journal:
    """The journal file of every change that this user made from this machine."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or journal_file()

    def reserve(self, size_bytes: int, entry: JournalEntry | None = None) -> ReservedLine:
        """Reserve a line of `size_bytes` for a later entry, and return it.

        The line is blank, or has `entry`, which stays if natstui is killed. So a full disk
        prevents the change, and not only its entry. Raises SessionError if the file cannot be
        written.
        """
        text = _pad_line(b"" if entry is None else msgspec.json.encode(entry), size_bytes)
        with self._open_locked() as descriptor:
            offset = _append(descriptor, text)
        return ReservedLine(offset, text)

    def add(self, entry: JournalEntry, reserved_line: ReservedLine) -> None:
        """Write an entry and wait until it is on the disk.

        The entry is written into `reserved_line`, or appended if it is longer or the line was
        changed. Raises SessionError if the file cannot be written.
        """
        line = msgspec.json.encode(entry) + b"\n"
        with self._open_locked() as descriptor:
            is_line_unchanged = (
                os.pread(descriptor, len(reserved_line.text), reserved_line.offset)
                == reserved_line.text
            )
            if len(line) > len(reserved_line.text) or not is_line_unchanged:
                _append(descriptor, line)
                if is_line_unchanged:
                    os.pwrite(
                        descriptor, _pad_line(b"", len(reserved_line.text)), reserved_line.offset
                    )
            else:
                os.pwrite(
                    descriptor, _pad_line(line[:-1], len(reserved_line.text)), reserved_line.offset
                )
                os.fsync(descriptor)
                if _is_last_line(descriptor, reserved_line):
                    os.pwrite(descriptor, line, reserved_line.offset)
                    os.ftruncate(descriptor, reserved_line.offset + len(line))

    def release(self, reserved_line: ReservedLine) -> None:
        """Remove a reserved line that needs no entry, or blank it if lines follow it.

        Raises SessionError if the file cannot be written.
        """
        with self._open_locked() as descriptor:
            if (
                os.pread(descriptor, len(reserved_line.text), reserved_line.offset)
                != reserved_line.text
            ):
                return
            if _is_last_line(descriptor, reserved_line):
                os.ftruncate(descriptor, reserved_line.offset)
            else:
                os.pwrite(
                    descriptor, _pad_line(b"", len(reserved_line.text)), reserved_line.offset
                )

    @property
    def change_stamp(self) -> tuple[int, int] | None:
        """Return the modification time (ns) and size of the file; None if it cannot be read."""
        try:
            file_status = self.file.stat()
        except OSError:
            return None
        return file_status.st_mtime_ns, file_status.st_size

    @contextmanager
    def _open_locked(self) -> Iterator[int]:
        """Yield the file's descriptor, locked against other processes.

        Raises SessionError if the file cannot be opened, locked or changed.
        """
        try:
            create_private_folder(self.file.parent)
            descriptor = open_lock(self.file)
            try:
                wait_for_lock(descriptor)
                yield descriptor
            finally:
                os.close(descriptor)
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
                lines = [line.strip(_PADDING_BYTES) for line in file.read().splitlines()]
        except FileNotFoundError:
            return JournalContent([], {}, self.file, 0)
        except OSError as error:
            raise SessionError(f"the journal {self.file} cannot be read: {error}") from error
        entries, errors_by_line_number, last_entry_line_number = (
            list[JournalEntry](),
            dict[int, str](),
            0,
        )
        for line_number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                entry = _entry_decoder.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                errors_by_line_number[line_number] = describe_parse_error(error)
                continue
            if (name := _find_damaged_field(entry)) is not None:
                errors_by_line_number[line_number] = f"{name} is no JSON object"
                continue
            entries.append(entry)
            last_entry_line_number = line_number
        return JournalContent(entries, errors_by_line_number, self.file, last_entry_line_number)


def _find_damaged_field(entry: JournalEntry) -> str | None:
    """Return the name of the first field whose text is no JSON object; None without one."""
    field_texts = {
        "request_json": entry.request_json,
        "before_json": entry.before_json,
        "after_json": entry.after_json,
    }
    return next(
        (
            name
            for name, text in field_texts.items()
            if text is not None and not _is_json_object(text)
        ),
        None,
    )


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _pad_line(line: bytes, size_bytes: int) -> bytes:
    """Return a line with its line break, padded with blanks to at least `size_bytes`."""
    return line.ljust(size_bytes - 1) + b"\n"


def _append(descriptor: int, line: bytes) -> int:
    """Append a line and wait until it is on the disk; return its offset."""
    end_offset = os.lseek(descriptor, 0, os.SEEK_END)
    line_start = b"\n" if _has_incomplete_end(descriptor) else b""
    os.lseek(descriptor, 0, os.SEEK_END)
    if os.write(descriptor, line_start + line) < len(line_start + line):
        os.ftruncate(descriptor, end_offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)
    return end_offset + len(line_start)


def _is_last_line(descriptor: int, reserved_line: ReservedLine) -> bool:
    return os.fstat(descriptor).st_size == reserved_line.offset + len(reserved_line.text)


def _has_incomplete_end(descriptor: int) -> bool:
    """Return whether the last line has no line break, so that a new one must begin with one."""
    if not os.lseek(descriptor, 0, os.SEEK_END):
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"
