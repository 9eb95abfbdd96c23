"""Textual's driver of a Unix terminal, for one that may be closed under a running viewer."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from textual.app import App

_GONE = (errno.EIO, errno.ENXIO, errno.EPIPE, errno.EBADF)


class TerminalDriver(LinuxDriver):
    """Starts anew only what was suspended, and writes to a terminal that is gone without end."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Prepare the driver; the arguments are those of Textual."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        assert self._file is not None
        # Textual writes and flushes it, nothing else.
        self._file = Vanishing(self._file)  # type: ignore[assignment]

    def _sigcont_application(self, number: int, frame: FrameType | None) -> None:
        # It also comes behind every hang-up, and a second start would leave two writers.
        if self._must_signal_resume:
            super()._sigcont_application(number, frame)


class Vanishing:
    """A text file that takes everything, also when what it leads to is gone.

    Textual's writer thread would die of the error, and the app wait for it for ever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write, or drop what nobody can see."""
        with self._noticing():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be."""
        with self._noticing():
            self._file.flush()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Leave when the terminal is gone, also where the system does not say so by a signal."""
        try:
            yield
        except OSError as error:
            if error.errno not in _GONE:
                raise
            # What else is written, or still buffered at the very end, must not fail again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)
            signal.raise_signal(signal.SIGHUP)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Return whether it leads to a terminal."""
        return self._file.isatty()
