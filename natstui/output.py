"""Output that loses nothing when the process is stopped while it writes.

Ctrl-Z in a pipe or a debugger cuts a large write short. Python's own buffer (3.10 to 3.13) then
loses the rest of it: lines of JSON are torn, in silence.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STALLED_MS = 1000
"""A reader that reads nothing for so long, and for as long again after a signal, has stalled."""
asked_to_end = threading.Event()
"""Set when a signal has requested the end of this process: no write waits for a stalled reader."""


OUTPUT_FAILED_EXIT_CODE = 6


class OutputFailed(OSError):
    """The standard output cannot be written: the disk is full, or it is closed."""


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, waiting for the reader; raises OSError."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


class WholeFile(io.FileIO):
    """A file descriptor that writes every buffer completely; it stays open when this is closed."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        # The size that a pipe accepts without blocking, once it is ready.
        self._part_bytes = sys.maxsize if is_file else select.PIPE_BUF

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it; raises OSError."""
        remaining = memoryview(data).cast("B")
        written_bytes = 0
        while written_bytes < len(remaining):
            self._wait_for_reader()
            try:
                count = super().write(remaining[written_bytes : written_bytes + self._part_bytes])
            except BrokenPipeError:
                raise
            except OSError as error:
                raise OutputFailed(error.errno, error.strerror) from error
            if count is None:
                reason = os.strerror(errno.EAGAIN)
                raise BlockingIOError(errno.EAGAIN, reason, written_bytes)
            written_bytes += count
        return written_bytes

    def _wait_for_reader(self) -> None:
        """Wait until more can be written; after a signal, drop what a stalled reader left."""
        reader = select.poll()
        reader.register(self.fileno(), select.POLLOUT)
        if reader.poll(0):
            return
        with _noting_signals():
            is_ending = False
            while not reader.poll(_STALLED_MS):
                if is_ending:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
                    return
                is_ending = asked_to_end.is_set()


@contextmanager
def _noting_signals() -> Iterator[None]:
    """Note signals to end inside the block: a loop of asyncio hears of them behind it only."""
    handlers = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(handler := signal.getsignal(number))
    }
    if threading.current_thread() is not threading.main_thread():
        handlers.clear()

    def note(number: int, frame: FrameType | None) -> None:
        asked_to_end.set()
        handlers[signal.Signals(number)](number, frame)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def text_file(fd: int, encoding: str, errors: str, *, by_line: bool = False) -> TextIO:
    """Return a text file that writes everything to a descriptor, by line or when it is flushed."""
    buffer = io.BufferedWriter(WholeFile(fd))
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=by_line)


def keep_stdout_whole() -> None:
    """Replace stdout by a file that loses nothing.

    What its encoding cannot represent, a frame or a name on a terminal of latin-1, becomes a `?`.
    A closed stdin, stdout or stderr becomes the null device: the next file or connection would get
    its number otherwise, and receive what is printed. It is opened the other way round, so that
    reading and writing fail: what was closed is not empty, and nobody sees what is written to it.
    """
    for fd, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or text_file(1, "utf-8", "replace")
    sys.stderr = sys.stderr or text_file(2, "utf-8", "replace", by_line=True)
    old = sys.stdout
    if isinstance(old, io.TextIOWrapper):
        errors = "replace" if old.errors in (None, "strict") else old.errors
        sys.stdout = text_file(old.fileno(), old.encoding, errors, by_line=old.line_buffering)
