"""The journal of writes: a line of JSON each, appended and synced, readable by its owner only."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import platformdirs

from natstui.decoding import decoder_of
from natstui.errors import SessionError
from natstui.model.records.managing import JournalEntry
from natstui.paths import private_folder

_decoder = decoder_of(JournalEntry)


def journal_file() -> Path:
    """Return where this user's journal is: the state folder of the platform."""
    return platformdirs.user_state_path("natstui") / "journal.jsonl"


class Journal:
    """Every change made from this machine by this user."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or journal_file()

    def add(self, entry: JournalEntry) -> None:
        """Append one entry and wait until it is on the disk; raises SessionError."""
        line = msgspec.json.encode(entry) + b"\n"
        try:
            private_folder(self.file.parent)
            handle = os.open(self.file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                if _is_torn(handle):
                    line = b"\n" + line
                if os.write(handle, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise SessionError(f"the journal {self.file} cannot be written: {error}") from error

    @property
    def stamp(self) -> tuple[int, int] | None:
        """What changes whenever the file does; None without a file that can be seen."""
        try:
            seen = self.file.stat()
        except OSError:
            return None
        return seen.st_mtime_ns, seen.st_size

    def check(self) -> None:
        """Check before a write that it can be journalled; raises SessionError."""
        try:
            private_folder(self.file.parent)
            os.close(os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        except OSError as error:
            raise SessionError(f"the journal {self.file} cannot be written: {error}") from error

    def entries(self) -> list[JournalEntry]:
        """Return every entry, oldest first; what a crash or a full disk cut off is left out."""
        try:
            lines = self.file.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SessionError(f"the journal {self.file} cannot be read: {error}") from error
        entries = []
        for number, line in enumerate(lines, start=1):
            try:
                entries.append(_decoder.decode(line))
            except msgspec.DecodeError as error:
                if number < len(lines) and "truncated" not in str(error):
                    raise SessionError(f"{self.file}:{number} is damaged: {error}") from error
        return entries


def _is_torn(handle: int) -> bool:
    """Return whether the last line has no end, so that a new one must not follow it directly."""
    if not os.lseek(handle, 0, os.SEEK_END):
        return False
    os.lseek(handle, -1, os.SEEK_END)
    return os.read(handle, 1) != b"\n"
