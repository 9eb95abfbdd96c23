"""The timeline above the footer while a recording is replayed; a click seeks."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.widgets import Static

from natstui.model.recording import SeekTo
from natstui.model.state import State
from natstui.tui.messages import Asked
from natstui.tui.present.timeline import bar_length, bar_parts, moment_at, position_parts
from natstui.tui.text import safe
from natstui.tui.widgets.status_strip import STYLES, joined

_CLOCK_CELLS = 10
"""Padding and the clock at the left of the bar."""


class Timeline(Static):
    """Two lines: the position in words, then start, marks and end."""

    DEFAULT_CSS = """
    Timeline { height: 2; padding: 0 1; background: $panel; color: $foreground; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._state = State()
        self._a_at_us: int | None = None

    def show(self, state: State, a_at_us: int | None) -> None:
        """Show where a replay is; nothing while the state is live."""
        self._state, self._a_at_us = state, a_at_us
        self.display = state.replay is not None
        self._draw()

    def on_resize(self) -> None:
        """Draw the bar as long as there is room."""
        self._draw()

    def _draw(self) -> None:
        replay, marks = self._state.replay, self._state.replay_marks
        if replay is None:
            return
        width = max(20, self.size.width)
        first = joined(position_parts(replay, marks, self._a_at_us), width)
        bar = [
            safe(cell.text, STYLES[cell.look])
            for cell in bar_parts(replay, marks, self._a_at_us, width)
        ]
        self.update(Content("\n").join([first, Content("").join(bar)]))

    def on_click(self, event: events.Click) -> None:
        """Go to the moment under the mouse."""
        replay = self._state.replay
        if replay is not None and event.y == 1:
            length = bar_length(self.size.width)
            at_us = moment_at(event.x - _CLOCK_CELLS, replay, length)
            self.post_message(Asked(SeekTo(0, at_us)))
