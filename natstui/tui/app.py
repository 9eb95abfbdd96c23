"""The app owns the link to the engine and the current state, and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType

from natstui.errors import NatstuiError
from natstui.model.record import EngineStarted
from natstui.model.state import shown_at_us
from natstui.tui import commands
from natstui.tui.benchmarks import Benchmarks, benchmark_screen
from natstui.tui.keymap import checked_keymap
from natstui.tui.link import Link
from natstui.tui.live import LiveScreen
from natstui.tui.managing import managing_screen
from natstui.tui.messages import (
    Asked,
    CameIntoView,
    Manage,
    Open,
    StateChanged,
    Typed,
)
from natstui.tui.opening import opened
from natstui.tui.palette import NatstuiCommands
from natstui.tui.screens.consumers import ConsumersScreen
from natstui.tui.screens.events import EventsScreen
from natstui.tui.screens.help import HelpScreen
from natstui.tui.screens.server import ServerScreen
from natstui.tui.screens.streams import StreamsScreen
from natstui.tui.text import safe_copy
from natstui.tui.themes import THEMES
from natstui.tui.widgets.command_line import CommandLine
from natstui.tui.widgets.plotter import Plotter

SHOW_AFTER_S = 0.05
"""Records that come together are shown together."""
SETTLED_AFTER_S = 5.0


_LETTER_ACTIONS = {
    "switch_mode", "pause", "faster", "slower", "help", "leave", "record", "note", "export",
}  # fmt: skip


class NatstuiApp(Benchmarks):
    """The viewer: folds records into the state and hands it to the screen in view."""

    TITLE = "natstui"
    CSS_PATH = "app.tcss"
    COMMANDS = App.COMMANDS | {NatstuiCommands}
    MODES = {  # noqa: RUF012 - Textual declares it so
        "streams": StreamsScreen,
        "consumers": ConsumersScreen,
        "events": EventsScreen,
        "server": ServerScreen,
        "benchmark": benchmark_screen,
    }
    DEFAULT_MODE = "streams"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "switch_mode('streams')", "Streams", id="screen.streams"),
        Binding("2", "switch_mode('consumers')", "Consumers", id="screen.consumers"),
        Binding("3", "switch_mode('events')", "Events", id="screen.events"),
        Binding("4", "switch_mode('server')", "Server", id="screen.server"),
        Binding("b", "switch_mode('benchmark')", "Bench", id="screen.benchmark"),
    ]

    def __init__(
        self,
        started: EngineStarted,
        connect: Callable[[], Link],
        link: Link,
        replay: Callable[[str], Link] | None = None,
    ) -> None:
        """`connect` starts another engine, `replay` one that replays the session in a folder."""
        super().__init__(started, connect, link, replay)
        self.plotter = Plotter()
        self._show_due = False
        self.interval_s = started.interval_s

    def on_mount(self) -> None:
        """Take the user's look and keys, then follow the engine."""
        started = self.state.started
        assert started is not None
        known = started.theme in self.available_themes
        self.theme = started.theme if known else THEMES[0].name
        keys, complaints = checked_keymap(started.keys)
        self.set_keymap(keys)
        for complaint in complaints:
            self.notify(complaint, severity="warning", timeout=15)
        CommandLine.words = commands.WORDS
        self.set_interval(1.0, self._tick)
        self.run_worker(self.follow(self.home))
        # The import graph is for ever: without this, each full collection walks it again.
        self.call_after_refresh(_settle_memory)
        # Again when the configurations of everything have come: they stay as well.
        self.set_timer(SETTLED_AFTER_S, _settle_memory)

    async def on_unmount(self) -> None:
        """End the drawing process, and a replay."""
        self.close_replay()
        await self.plotter.close()

    def show_soon(self) -> None:
        """Show records that come together together."""
        if not self._show_due:
            self._show_due = True
            self.set_timer(SHOW_AFTER_S, self._show)

    def _show(self) -> None:
        self._show_due = False
        # A last record can still come while the app closes its screens.
        if self.screen_stack and isinstance(self.screen, LiveScreen):
            a_at_us = shown_at_us(self.marked_a) if self.marked_a and self.replaying else None
            self.screen.post_message(StateChanged(self.state, self.shown.late_us, a_at_us))

    def _tick(self) -> None:
        if self.shown.late_us:
            self._show()

    @on(CameIntoView)
    def _catch_up(self) -> None:
        self._show()

    @on(Asked)
    def _ask(self, message: Asked) -> None:
        self.send(message.command)

    @on(Open)
    def _open(self, message: Open) -> None:
        self.push_screen(opened(message))

    @on(Manage)
    def _manage(self, message: Manage) -> None:
        try:
            self.push_screen(managing_screen(message, self.state))
        except NatstuiError as error:
            self.notify(safe_copy(str(error)), severity="error", markup=False)

    @on(Typed)
    def _run_typed(self, message: Typed) -> None:
        try:
            commands.run(self, message.line)
        except NatstuiError as error:
            self.notify(safe_copy(str(error)), severity="error", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keep the letters for a screen that one types into."""
        typing = self.screen_stack and isinstance(self.screen, LiveScreen) and self.screen.TYPING
        if typing and action in _LETTER_ACTIONS:
            return False
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        """Close the screen on top, or the app."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.exit(0)

    def action_help(self) -> None:
        """Show every key of this screen and what its columns mean."""
        self.push_screen(HelpScreen.of(self.screen))


def _settle_memory() -> None:
    gc.collect()
    gc.freeze()
