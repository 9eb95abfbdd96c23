"""Lost connections of commands that run until they are stopped: shown at once, and at the end."""

from __future__ import annotations

from natstui.cli.terminal_line import print_stderr
from natstui.model.records.link import LinkChanged
from natstui.units import counted


class LossCounter:
    """Counts lost connections, and prints each to stderr with its effect on the output.

    `effect_text` is a clause about the effect, `missing_text` one about what the output lacks in
    total; empty if that is unknown. With `reads_missed_messages`, the messages of the time without
    a connection are read afterwards: until `mark_caught_up`, the summary says that some may be
    missing.
    """

    def __init__(
        self, effect_text: str, missing_text: str = "", *, reads_missed_messages: bool = False
    ) -> None:
        self._effect_text = effect_text
        self._missing_text = missing_text
        self._reads_missed_messages = reads_missed_messages
        self._may_lack_messages = False
        """Whether messages of a lost connection's time may not be read yet."""
        self._losses_count = 0
        self._is_connected = False
        self._is_connection_lost = False
        """Whether the connection is still lost."""

    def add(self, change: LinkChanged) -> None:
        """Count and print a change from connected to reconnecting; ignore any other change."""
        was_connected, self._is_connected = self._is_connected, change.state == "connected"
        if self._is_connected:
            self._is_connection_lost = False
        if was_connected and change.state == "reconnecting":
            self._is_connection_lost = True
            self._may_lack_messages = self._reads_missed_messages
            self._losses_count += 1
            reason_text = f": {change.reason}" if change.reason else ""
            print_stderr(f"the connection is lost; {self._effect_text}{reason_text}")

    @property
    def is_lost(self) -> bool:
        """Return whether the connection is lost at this moment."""
        return self._is_connection_lost

    def mark_caught_up(self) -> None:
        """Note that all messages of the time without a connection were read."""
        self._may_lack_messages = False

    @property
    def end_text(self) -> str:
        """Return the end of a summary: how often the connection was lost, and what is missing.

        Empty if the connection was never lost.
        """
        if not self._losses_count:
            return ""
        missing_text = f": {self._missing_text}" if self._missing_text else ""
        if self._may_lack_messages:
            missing_text = (
                ": what came in the meantime and is not printed, if anything, is missing"
            )
        if self._is_connection_lost:
            missing_text = " and is not back: what came since then, if anything, is missing"
        return f"; the connection was lost {counted(self._losses_count, 'time')}{missing_text}"
