"""Output that loses nothing when the process is stopped while it writes.

Ctrl-Z in a pipe or a debugger cuts a large write short. Python's own buffer (3.10 to 3.13) then
loses the rest of it: lines of JSON are torn, in silence.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputFailed(OSError):
    """The standard output cannot be written, though somebody reads it: the disk is full."""


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, waiting for the reader; raises OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


class WholeFile(io.FileIO):
    """A file descriptor that takes every write whole; it stays open when this is closed."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it; raises OSError."""
        whole = memoryview(data).cast("B")
        written_bytes = 0
        while written_bytes < len(whole):
            try:
                count = super().write(whole[written_bytes:])
            except BrokenPipeError:
                raise
            except OSError as error:
                raise OutputFailed(error.errno, error.strerror) from error
            if count is None:
                reason = os.strerror(errno.EAGAIN)
                raise BlockingIOError(errno.EAGAIN, reason, written_bytes)
            written_bytes += count
        return written_bytes


def text_file(fd: int, encoding: str, errors: str, *, by_line: bool = False) -> TextIO:
    """Return a text file that writes everything to a descriptor, by line or when it is flushed."""
    buffer = io.BufferedWriter(WholeFile(fd))
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=by_line)


def keep_stdout_whole() -> None:
    """Let the standard output of this process lose nothing.

    What its encoding cannot hold, a frame or a name on a terminal of latin-1, becomes a `?`. A
    closed stdin, stdout or stderr becomes the null device: the next file or connection would
    take its number otherwise, and get what is printed.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or text_file(1, "utf-8", "replace")
    sys.stderr = sys.stderr or text_file(2, "utf-8", "replace", by_line=True)
    old = sys.stdout
    if isinstance(old, io.TextIOWrapper):
        errors = "replace" if old.errors in (None, "strict") else old.errors
        sys.stdout = text_file(old.fileno(), old.encoding, errors, by_line=old.line_buffering)
