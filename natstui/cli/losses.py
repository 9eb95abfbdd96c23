"""Lost connections of commands that run until they are stopped: shown at once, and at the end."""

from __future__ import annotations

from natstui.cli.terminal_line import print_stderr
from natstui.model.records.link import LinkChanged
from natstui.units import counted


class LossCounter:
    """Counts lost connections, and prints each to stderr with its `meaning` for the output.

    `missing` is what that leaves out of the output in total, a clause; empty if that is unknown.
    With `reads_on` that holds only once what came in the meantime was read: see `caught_up`.
    """

    def __init__(self, meaning: str, missing: str = "", *, reads_on: bool = False) -> None:
        self._meaning = meaning
        self._missing = missing
        self._reads_on = reads_on
        self._is_behind = False
        """Whether what came while the connection was lost may not be read yet."""
        self._count = 0
        self._is_connected = False
        self._is_lost = False
        """Whether the connection has not come back since it was lost."""

    def add(self, change: LinkChanged) -> None:
        """Count and print a change from connected to reconnecting; ignore any other change."""
        was_connected, self._is_connected = self._is_connected, change.state == "connected"
        if self._is_connected:
            self._is_lost = False
        if was_connected and change.state == "reconnecting":
            self._is_lost = True
            self._is_behind = self._reads_on
            self._count += 1
            reason_text = f": {change.reason}" if change.reason else ""
            print_stderr(f"the connection is lost; {self._meaning}{reason_text}")

    @property
    def is_lost(self) -> bool:
        """Return whether the connection is lost at this moment."""
        return self._is_lost

    def caught_up(self) -> None:
        """Note that everything was read that came while the connection was lost."""
        self._is_behind = False

    @property
    def end_text(self) -> str:
        """Return the end of a summary: how often it was lost; empty if it was not."""
        if not self._count:
            return ""
        missing_text = f": {self._missing}" if self._missing else ""
        if self._is_behind:
            missing_text = (
                ": what came in the meantime and is not printed, if anything, is missing"
            )
        if self._is_lost:
            missing_text = " and is not back: what came since then, if anything, is missing"
        return f"; the connection was lost {counted(self._count, 'time')}{missing_text}"
