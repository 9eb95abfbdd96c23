"""The keys of a replay: they exist only while a recording is shown."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.errors import UsageError
from natstui.model.live.state import State
from natstui.model.records.recording import (
    ChangeSpeed,
    PauseReplay,
    Play,
    ReplayPosition,
    SeekMark,
    SeekTo,
    Step,
)
from natstui.tui.app.controls.part import Part
from natstui.tui.app.engines import Engines
from natstui.tui.app.screens import close_covering, go_to
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.timeline import REPLAY_KEYS, ReplayKey
from natstui.tui.kit.keys import key_of
from natstui.tui.sessions.seeking import moment_us


def _binding(replay_key: ReplayKey) -> Binding:
    """Return the binding of a replay key, with priority over the keys of the screen."""
    action = f"part('replay', {replay_key.action})"
    return Binding(
        replay_key.key,
        action,
        replay_key.label,
        key_display=replay_key.shown,
        show=replay_key.is_in_footer,
        priority=True,
        id=f"replay.{replay_key.name}",
    )


class ReplayControls(Part):
    """Moves through a recording, and compares two of its moments."""

    BINDINGS: ClassVar[list[BindingType]] = [_binding(one) for one in REPLAY_KEYS]

    def __init__(self, app: App[int], engines: Engines) -> None:
        self._app = app
        self._engines = engines
        self.marked_a: State | None = None
        """The marked state A, to compare others with."""

    def may(self, action: str, *, typing: bool) -> bool:
        """Return whether a key is offered: in a replay, and not while the focus takes letters as
        text.
        """
        focus = self._app.focused
        text = focus is not None and focus.check_consume_key("a", "a")
        return self._engines.replaying and not text and isinstance(self._app.screen, LiveScreen)

    @property
    def position(self) -> ReplayPosition:
        """Return the position of the replay; raises UsageError without a replay."""
        position = self._engines.state.replay
        if position is None:
            raise UsageError("this is a live server: :sessions lists recordings to replay")
        return position

    def open(self, folder: str) -> None:
        """Replay the recording in a folder, starting on the overview."""
        self._engines.replay_session(folder, self._make_room)

    async def _make_room(self) -> bool:
        """Open the overview; returns False if an open screen has typed text."""
        if not await close_covering(self._app):
            return False
        self.marked_a = None
        # What was in view, as the result of a load, may be nothing that was recorded.
        await go_to(self._app, "overview")
        return True

    def leave(self) -> bool:
        """Leave a replay for the screen that opened it; returns False if the command line opened
        it.
        """
        if self._engines.shown is self._engines.home:
            return False
        self.marked_a = None
        self._engines.show_home()
        return True

    def seek(self, text: str) -> None:
        """Seek to a typed moment; raises UsageError."""
        self._engines.send(SeekTo(0, moment_us(text, self.position)))

    def action_play(self) -> None:
        """Play, or pause."""
        self._engines.send(PauseReplay(0) if self.position.playing else Play(0))

    def action_step(self, polls_count: int) -> None:
        """Move by `polls_count` polls, backwards if negative."""
        self._engines.send(Step(0, polls_count))

    def action_event(self, forward: bool) -> None:
        """Seek to the next or the previous mark."""
        self._engines.send(SeekMark(0, forward))

    def action_speed(self, speeds_count: int) -> None:
        """Replay slower or faster."""
        self._engines.send(ChangeSpeed(0, speeds_count))

    def action_seek(self) -> None:
        """Prompt for a time, and seek to it."""
        if isinstance(self._app.screen, LiveScreen):
            self._app.screen.command_line.open(":", "seek ")

    def action_mark_a(self) -> None:
        """Mark the current state as A, to compare others with it."""
        self.marked_a = self._engines.state
        self._engines.show_soon()

    def action_compare(self) -> None:
        """Show the differences between A and the current state."""
        from natstui.tui.sessions.compare import CompareScreen

        if self.marked_a is None:
            key = key_of(self._app.screen, "replay.mark")
            text = f"mark the first moment with {key}, then go to the second one"
            self._app.notify(text, severity="warning")
            return
        if isinstance(self._app.screen, CompareScreen):
            self._app.screen.dismiss()
        self._app.push_screen(CompareScreen(self.marked_a))
