"""What the recorder tells about itself: at once when it is in trouble, else once a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from natstui.errors import SessionError
from natstui.model.recording import RecordingChanged
from natstui.session.clock import Clock

_EVERY_US = 1_000_000


class Reporter:
    """Reports size and trouble; the same twice is told once."""

    def __init__(
        self, folder: Path, on_change: Callable[[RecordingChanged], None], clock: Clock
    ) -> None:
        self._folder = folder
        self._on_change = on_change
        self._clock = clock
        self._told: tuple[int, str | None] | None = None
        self._told_us = 0
        self.trouble: str | None = None
        """Why nothing is written now; None while it is."""
        self.untidy: str | None = None
        """Why a finished segment is not sealed, or an old one not deleted."""

    def worry(self, error: OSError | SessionError, size_bytes: int) -> None:
        """Nothing can be written; told at once when it is a new trouble."""
        reason = f"not recording: {why(error)}"
        if reason != self.trouble:
            self.trouble = reason
            self.tell(size_bytes)

    def tell(self, size_bytes: int, reason: str | None = None) -> None:
        """Tell how things stand."""
        self._told_us = self._clock.steady_us()
        reason = self.trouble or reason or self.untidy
        if self._told == (size_bytes, reason):
            return
        self._told = (size_bytes, reason)
        at_us = self._clock.wall_us()
        self._on_change(RecordingChanged(at_us, True, str(self._folder), size_bytes, reason))

    def tell_when_due(self, size_bytes: int) -> None:
        """Tell how things stand, once a second."""
        if self._clock.steady_us() - self._told_us > _EVERY_US:
            self.tell(size_bytes)

    def tell_end(self, size_bytes: int, error: OSError | SessionError | None) -> None:
        """Tell that the recording ended, and whether it could be sealed."""
        reason = self.trouble
        if error is not None:
            reason = f"the recording could not be sealed: {why(error)}"
        at_us = self._clock.wall_us()
        self._on_change(RecordingChanged(at_us, False, str(self._folder), size_bytes, reason))


def why(error: OSError | SessionError) -> str:
    """Return what the system says, with the file it is about."""
    if isinstance(error, SessionError):
        return str(error)
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text
