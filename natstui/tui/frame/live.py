"""A screen that shows the state: it gets every newer one while it is in view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from natstui.defects import contained
from natstui.model.live.state import State
from natstui.model.records.record import Watch
from natstui.tui.frame.actions import Target
from natstui.tui.frame.messages import Asked, CameIntoView, LeaveReplay, StateChanged, Typed
from natstui.tui.frame.status_strip import AssetNote, StatusStrip
from natstui.tui.frame.timeline import Timeline
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.key_footer import KeyFooter
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.too_small import TerminalSized

_TOLD_AGAIN_S = 60.0
"""A defect that comes with every poll is said this often."""
_KEEP_OR_DROP = (
    ("keep", "go back to it"),
    ("drop", "close it; what was typed is lost"),
)
_OF_A_SERVER = {"manage", "actions", "raw", "pick", "stop", "again", "rate", "add", "kill"}


class LiveScreen(TerminalSized, Screen[None]):
    """Status strip above, keys below, the command line when it is wanted; the body is its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "app.help", "Help", key_display="?", id="help"),
        Binding("q", "app.leave", "Quit", id="quit"),
        Binding("colon", "command", "Command", key_display=":", id="command"),
        Binding("escape", "back", "Back", show=False, id="back"),
    ]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it so
        (0, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]

    TYPING: ClassVar[bool] = False
    """Letters are typed here: the app's own letter keys are not offered."""

    strip = getters.query_one(StatusStrip)
    note = getters.query_one(AssetNote)
    command_line = getters.query_one(CommandLine)
    timeline = getters.query_one(Timeline)

    def __init__(self) -> None:
        super().__init__()
        self.state = State()
        self.late_us = 0

    def compose(self) -> ComposeResult:
        """Lay out the frame around the body."""
        yield StatusStrip()
        yield AssetNote(self.asset, lambda: self.state)
        yield from self.body()
        yield Timeline()
        yield CommandLine()
        yield KeyFooter()

    def body(self) -> Iterable[Widget]:
        """Return what the screen is about."""
        return ()

    def asset(self) -> Target | None:
        """Return the stream or consumer that the screen is about, if it is about one."""
        return None

    def on_screen_resume(self) -> None:
        """Catch up with the newest state."""
        self.post_message(CameIntoView())

    def on_state_changed(self, message: StateChanged) -> None:
        """Take the newer state and show it."""
        message.stop()
        if message.state.permitted is not self.state.permitted:
            self.refresh_bindings()
        before = (self.state, self.late_us)
        self.state, self.late_us = message.state, message.late_us
        if not self.is_mounted:
            return
        tell = partial(self.notify, severity="error", timeout=15)
        with contained("showing this", tell, again_s=_TOLD_AGAIN_S):
            self._show_newer(message, before)

    def _show_newer(self, message: StateChanged, before: tuple[State, int]) -> None:
        """Show the newer state where it differs from the one `before`."""
        self.timeline.show(self.state, message.a_at_us)
        if (self.state.replay is None) is not (before[0].replay is None):
            self.refresh_bindings()
        # While a replay plays, only its clock moves between two polls.
        if self.late_us != before[1] or not only_moved(before[0], self.state):
            self.strip.show(self.state, self.late_us)
            self.note.keep_up()
            self.refresh_state()

    def refresh_state(self) -> None:
        """Show `self.state`; each screen has its own way."""

    def watch_rows(self, streams: tuple[str, ...], consumers: tuple[tuple[str, str], ...]) -> None:
        """Ask the engine to poll these first."""
        self.post_message(Asked(Watch(0, streams, consumers)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer no command line where letters are typed, and in a replay nothing of a server."""
        if action == "command":
            return not self.TYPING
        if self.state.replay is not None and needs_server(action, parameters):
            return False
        return super().check_action(action, parameters)

    def action_command(self) -> None:
        """Open the command line."""
        self.command_line.open(":")

    def unsent(self) -> str:
        """Return what typed text would be lost with this screen, in a few words; empty: none."""
        return ""

    def action_back(self) -> None:
        """Leave this screen, but ask first when that would throw typed text away."""

        def answered(word: str | None) -> None:
            if word == "drop":
                self.leave()

        if held := self.unsent():
            self.app.push_screen(Pick(f"{held} is not sent", _KEEP_OR_DROP), answered)
        else:
            self.leave()

    def leave(self) -> None:
        """Leave this screen if it lies on another one, else a replay on top of a server."""
        if len(self.app.screen_stack) > 1:
            self.dismiss()
        else:
            self.post_message(LeaveReplay())

    @on(CommandLine.Entered)
    def _entered(self, message: CommandLine.Entered) -> None:
        if message.prefix == ":":
            self.post_message(Typed(message.text))


def only_moved(before: State, after: State) -> bool:
    """Tell whether nothing but the position of a replay is another."""
    if before.replay is None or after.replay is None:
        return False
    return all(
        getattr(before, field.name) is getattr(after, field.name)
        for field in fields(State)
        if field.name != "replay"
    )


def needs_server(action: str, parameters: tuple[object, ...]) -> bool:
    """Tell whether a key of a screen asks something only a live server can answer."""
    return action in _OF_A_SERVER or (action, parameters) == ("open", ("raw",))
