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


_CLOSED_TERMINAL_ERRNOS = (errno.EIO, errno.ENXIO, errno.EPIPE, errno.EBADF)
_READ_BYTES = 4096
_INPUT_POLL_S = 0.1
_APP_WAIT_S = 0.005
_MAX_WAITING_EVENTS = 64
"""Limit of events that the app has not handled yet; further ones wait in the terminal."""


class InputQueueingApp(Protocol):
    """An app that counts the events that wait for it, queued inputs included."""

    @property
    def waiting_event_count(self) -> int:
        """Return how many events wait for the app, including queued inputs."""


class TerminalDriver(LinuxDriver):
    """A driver that reads every input, restarts only after a suspension, and tolerates a closed
    terminal.
    """

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
        # Textual only writes to the file and flushes it.
        self._file = CloseTolerantFile(self._file)  # type: ignore[assignment]
        self._sent_events_count = 0
        self._posted_events_count = 0

    def run_input_thread(self) -> None:
        """Read the terminal's input until the app ends; no input can end this thread."""
        try:
            self._read_until_end(TerminalInput())
        except BaseException as error:
            # Textual passes on only a picture of the traceback.
            self._app._exception = self._app._exception or error  # type: ignore[assignment]
            raise

    def _read_until_end(self, terminal_input: TerminalInput) -> None:
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                data = self._read() if selector.select(_INPUT_POLL_S) else b""
                for event in terminal_input.events(data):
                    self._wait_for_app()
                    self.process_message(event)

    def _read(self) -> bytes:
        """Return the bytes of the terminal; empty, after a short wait, if it is closed."""
        try:
            data = os.read(self.fileno, _READ_BYTES)
        except OSError as error:
            if error.errno not in _CLOSED_TERMINAL_ERRNOS:
                raise
            data = b""
        if not data:
            # A closed terminal stays readable: without a wait the loop would spin.
            self.exit_event.wait(_INPUT_POLL_S)
        return data

    def _wait_for_app(self) -> None:
        """Wait while too many events wait for the app: else many inputs would fill the memory."""
        app = cast("InputQueueingApp", self._app)
        while (
            self._sent_events_count - self._posted_events_count + app.waiting_event_count
            > _MAX_WAITING_EVENTS
        ):
            if self.exit_event.wait(_APP_WAIT_S):
                return

    def send_message(self, message: Message) -> None:
        """Post an event to the app's event loop, and count the event as waiting."""
        self._sent_events_count += 1
        asyncio.run_coroutine_threadsafe(self._post(message), self._loop)

    async def _post(self, message: Message) -> None:
        self._posted_events_count += 1
        self._app.post_message(message)

    def _query_in_band_window_resize(self) -> None:
        """Request no in-band resize reports: a user could type one; the system reports sizes."""

    def _sigcont_application(self, signal_number: int, frame: FrameType | None) -> None:
        # The signal also follows every hang-up, and a second start would leave two writers.
        if self._must_signal_resume:
            super()._sigcont_application(signal_number, frame)


class CloseTolerantFile:
    """A text file that ignores writes after its target is closed.

    Textual's writer thread would end with the error, and the app would wait for it forever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write the text, or drop it if the terminal is closed; return its length."""
        with self._quit_if_closed():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the file if the terminal is open."""
        with self._quit_if_closed():
            self._file.flush()

    @contextmanager
    def _quit_if_closed(self) -> Iterator[None]:
        """Quit the app if the `with` block fails at a closed terminal.

        Some systems send no signal then.
        """
        try:
            yield
        except OSError as error:
            if error.errno not in _CLOSED_TERMINAL_ERRNOS:
                raise
            # Later writes, and the buffer at the very end, must not fail again.
            devnull_fd = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull_fd, self._file.fileno())
            os.close(devnull_fd)
            signal.raise_signal(signal.SIGHUP)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Return whether the file is a terminal."""
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
        """Return the events in the bytes of the terminal; empty bytes let an incomplete escape
        sequence time out.

        Of successive mouse moves only the last is returned: a terminal can send more than an app
        can handle.
        """
        merged_events: list[Message] = []
        for event in self._parse(data):
            if isinstance(event, Resize | InBandWindowResize):
                # The system reports the size of the terminal; a user could type this event.
                self._parser.mouse_pixels = False
            elif (
                merged_events
                and isinstance(event, MouseMove)
                and isinstance(merged_events[-1], MouseMove)
            ):
                merged_events[-1] = event
            else:
                merged_events.append(event)
        return merged_events

    def _parse(self, data: bytes) -> Iterator[Message]:
        # One character at a time: an invalid sequence does not lose the text after it.
        for character in self._decode(data):
            yield from self._parse_character(character)
        yield from self._parse_character("")

    def _parse_character(self, character: str) -> list[Message]:
        """Return the events that a character completes; an empty one lets an incomplete escape
        sequence time out.
        """
        try:
            return list(self._parser.feed(character) if character else self._parser.tick())
        except (ValueError, ArithmeticError, ParseError):
            # The parser's generator has ended with the error.
            self._parser = XTermParser()
            return []
