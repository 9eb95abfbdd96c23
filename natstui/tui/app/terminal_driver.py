"""A driver for Unix terminals that may be closed, or send any bytes."""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import selectors
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TextIO, cast

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import MouseMove, Resize
from textual.message import Message
from textual.messages import InBandWindowResize

if TYPE_CHECKING:
    from textual.app import App


_GONE = (errno.EIO, errno.ENXIO, errno.EPIPE, errno.EBADF)
_READ_BYTES = 4096
_LOOK_S = 0.1
_WAIT_S = 0.005
_MOST_WAITING = 64
"""Limit of events that the app has not handled yet; further ones wait in the terminal."""


class HoldsInput(Protocol):
    """An app that may queue input."""

    @property
    def waiting_count(self) -> int:
        """Return how many events wait for the app, including queued inputs."""


class TerminalDriver(LinuxDriver):
    """Reads every input, restarts only after a suspension, and survives the terminal's end."""

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
        self._sent_count = 0
        self._taken_count = 0

    def run_input_thread(self) -> None:
        """Read the terminal's input until the app ends; no input ends this thread."""
        try:
            self._read_until_end(TerminalInput())
        except BaseException as error:
            # Textual passes on only a picture of the traceback.
            self._app._exception = self._app._exception or error  # type: ignore[assignment]
            raise

    def _read_until_end(self, source: TerminalInput) -> None:
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                data = self._read() if selector.select(_LOOK_S) else b""
                for event in source.events(data):
                    self._wait_for_app()
                    self.process_message(event)

    def _read(self) -> bytes:
        """Return the input; empty, after a short wait, when the terminal is closed."""
        try:
            data = os.read(self.fileno, _READ_BYTES)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            data = b""
        if not data:
            # It stays readable: without a rest this would spin until the hang-up is noticed.
            self.exit_event.wait(_LOOK_S)
        return data

    def _wait_for_app(self) -> None:
        """Wait while the app is behind: else an input storm would fill the memory."""
        app = cast("HoldsInput", self._app)
        while self._sent_count - self._taken_count + app.waiting_count > _MOST_WAITING:
            if self.exit_event.wait(_WAIT_S):
                return

    def send_message(self, message: Message) -> None:
        """Post an event to the app's loop, and count it as waiting."""
        self._sent_count += 1
        asyncio.run_coroutine_threadsafe(self._take(message), self._loop)

    async def _take(self, message: Message) -> None:
        self._taken_count += 1
        self._app.post_message(message)

    def _query_in_band_window_resize(self) -> None:
        """Do not request in-band resize reports: the system reports sizes, and nobody can type
        those.
        """

    def _sigcont_application(self, number: int, frame: FrameType | None) -> None:
        # It also comes behind every hang-up, and a second start would leave two writers.
        if self._must_signal_resume:
            super()._sigcont_application(number, frame)


class Vanishing:
    """A text file that ignores writes after its target is closed.

    Textual's writer thread would end with the error, and the app would wait for it forever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write, or drop the text when the target is closed."""
        with self._noticing():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if the target is open."""
        with self._noticing():
            self._file.flush()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Quit when the terminal is closed, also where the system sends no signal."""
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
        """Return whether it is a terminal."""
        return self._file.isatty()


class TerminalInput:
    """Converts terminal bytes into Textual events; no bytes end the viewer.

    Textual (8.2) decodes strictly, and its parser fails on numbers that are no character or no
    size; either would end its input thread, and with it the app. Here, invalid UTF-8 becomes
    U+FFFD, and unknown sequences are dropped.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._parser = XTermParser()

    def events(self, data: bytes) -> list[Message]:
        """Return the events of bytes; empty bytes mean that time has passed.

        Of successive mouse moves only the last is returned: a terminal can send them faster than
        any app handles them.
        """
        kept: list[Message] = []
        for event in self._all(data):
            if isinstance(event, Resize | InBandWindowResize):
                # How large the terminal is says the system; this one can be typed, at any size.
                self._parser.mouse_pixels = False
            elif kept and isinstance(event, MouseMove) and isinstance(kept[-1], MouseMove):
                kept[-1] = event
            else:
                kept.append(event)
        return kept

    def _all(self, data: bytes) -> Iterator[Message]:
        # One character at a time: what cannot be parsed takes nothing behind it along.
        for character in self._decode(data):
            yield from self._parsed(character)
        yield from self._parsed("")

    def _parsed(self, character: str) -> list[Message]:
        """Return the events that a character, or passed time, completes."""
        try:
            return list(self._parser.feed(character) if character else self._parser.tick())
        except (ValueError, ArithmeticError, ParseError):
            # Its generator has ended with the error.
            self._parser = XTermParser()
            return []
