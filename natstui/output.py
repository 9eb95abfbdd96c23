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

_STALL_TIMEOUT_MS = 1000
"""A reader that reads nothing for so long, and for as long again after a signal, has stalled."""
end_requested = threading.Event()
"""Set when a signal has requested the end of this process: no write waits for a stalled reader."""


OUTPUT_FAILED_EXIT_CODE = 6


class OutputFailed(OSError):
    """The standard output cannot be written: the disk is full, or stdout is closed."""


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes to a descriptor, waiting for the reader; raises OSError if that fails."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


class CompleteWriteFile(io.FileIO):
    """A file on a descriptor that writes every buffer completely; closing it leaves the descriptor
    open.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)
        is_regular_file = stat.S_ISREG(os.fstat(fd).st_mode)
        # The size that a pipe accepts without blocking, once it is ready.
        self._max_write_bytes = sys.maxsize if is_regular_file else select.PIPE_BUF

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all bytes and return their number.

        Raises OutputFailed if they cannot be written, BrokenPipeError without a reader.
        """
        remaining = memoryview(data).cast("B")
        written_bytes = 0
        while written_bytes < len(remaining):
            self._wait_for_reader()
            try:
                count = super().write(
                    remaining[written_bytes : written_bytes + self._max_write_bytes]
                )
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
        """Wait until more can be written.

        After a signal to end, a reader that has stalled for a second is replaced by the null
        device.
        """
        poller = select.poll()
        poller.register(self.fileno(), select.POLLOUT)
        if poller.poll(0):
            return
        with _note_end_signals():
            is_end_requested = False
            while not poller.poll(_STALL_TIMEOUT_MS):
                if is_end_requested:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
                    return
                is_end_requested = end_requested.is_set()


@contextmanager
def _note_end_signals() -> Iterator[None]:
    """Set `end_requested` on a signal to end in the block; asyncio would handle it only after the
    block.
    """
    handler_by_signal = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(handler := signal.getsignal(number))
    }
    if threading.current_thread() is not threading.main_thread():
        handler_by_signal.clear()

    def note_signal(number: int, frame: FrameType | None) -> None:
        end_requested.set()
        handler_by_signal[signal.Signals(number)](number, frame)

    for number in handler_by_signal:
        signal.signal(number, note_signal)
    try:
        yield
    finally:
        for number, handler in handler_by_signal.items():
            signal.signal(number, handler)


def text_file(fd: int, encoding: str, errors: str, *, by_line: bool = False) -> TextIO:
    """Return a text file that writes everything to a descriptor, by line or when it is flushed."""
    buffer = io.BufferedWriter(CompleteWriteFile(fd))
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=by_line)


def protect_stdout() -> None:
    """Replace stdout by a file that writes every buffer completely.

    A character that its encoding cannot represent, such as a frame on a terminal of latin-1,
    becomes a `?`. A closed stdin, stdout or stderr becomes the null device: else the next file or
    connection would get its number, and receive the output. The null device is opened the other
    way round, so that reading from stdin and writing to stdout fail.
    """
    for fd, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or text_file(1, "utf-8", "replace")
    sys.stderr = sys.stderr or text_file(2, "utf-8", "replace", by_line=True)
    old_stdout = sys.stdout
    if isinstance(old_stdout, io.TextIOWrapper):
        errors = "replace" if old_stdout.errors in (None, "strict") else old_stdout.errors
        sys.stdout = text_file(
            old_stdout.fileno(), old_stdout.encoding, errors, by_line=old_stdout.line_buffering
        )
