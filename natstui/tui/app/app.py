"""The app: it composes its parts, and hands the newest state to the screen in view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from natstui.defects import contained
from natstui.errors import NatstuiError
from natstui.model.live.state import State
from natstui.model.records.record import EngineStarted
from natstui.tui.app import commands
from natstui.tui.app.completing import Completing
from natstui.tui.app.controls.systems import NO_CONTEXTS, Contexts
from natstui.tui.app.engines import Engines
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.help import HelpScreen
from natstui.tui.app.keys_from_settings import checked_keys
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import Opened
from natstui.tui.app.palette import NatstuiCommands
from natstui.tui.app.parts import KEYS, Parts
from natstui.tui.app.screens import (
    MODE_SCREENS,
    all_unsent,
    at_work,
    go_to,
    mode_screen,
    new_screen,
    run_scenario,
)
from natstui.tui.frame.head.tabs import TABS
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import (
    CameIntoView,
    Export,
    LeaveReplay,
    Manage,
    Open,
    Replay,
    RunScenario,
    StateChanged,
    ToApp,
    Typed,
)
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.text import safe_copy
from natstui.tui.overview.screen import OverviewScreen

SHOW_AFTER_S = 0.05
"""Records that arrive within this time are shown together."""

_OF_TEXTUAL = {"Theme", "Screenshot"}
_LETTER_ACTIONS = {"switch_mode", "help", "leave"}


class Updates:
    """Hands the newest state to the screen in view."""

    def __init__(
        self, app: App[int], newest: Callable[[], StateChanged], polled: Callable[[], bool]
    ) -> None:
        self._app = app
        self._newest = newest
        self._polled = polled
        self._shown = False
        """Whether what the first poll brought was shown."""
        self._due = False

    def soon(self) -> None:
        """Show the newest state soon: records that arrive together are shown together.

        The first that has rows is shown at once: somebody waits for it.
        """
        if not self._shown and self._polled():
            self._shown = True
            self.now()
        elif not self._due:
            self._due = True
            self._app.set_timer(SHOW_AFTER_S, self.now)

    def now(self) -> None:
        """Show the newest state."""
        self._due = False
        # A last record can still come while the app closes its screens.
        if self._app.screen_stack and isinstance(self._app.screen, LiveScreen):
            self._app.screen.post_message(self._newest())

    def if_late(self) -> None:
        """Show again how long ago the newest poll came, when that is long."""
        if self._newest().late_us:
            self.now()


class NatstuiApp(GuardedApp):
    """The viewer. Each part holds its own keys; what screens want arrives as messages."""

    TITLE = "natstui"
    CSS_PATH = "app.tcss"
    COMMANDS = App.COMMANDS | {NatstuiCommands}
    MODES = {  # noqa: RUF012 - Textual declares it so
        "overview": OverviewScreen,
        **{name: partial(mode_screen, name) for name in MODE_SCREENS},
    }
    DEFAULT_MODE = "overview"
    BINDINGS: ClassVar[list[BindingType]] = [
        *KEYS,
        *(
            Binding(
                tab.key, f"switch_mode('{tab.mode}')", tab.title, show=False, id=tab.binding_id
            )
            for tab in TABS
        ),
        # Tables have it for what is wrong among their own rows.
        Binding(
            "exclamation_mark",
            "switch_mode('findings')",
            "Findings",
            show=False,
            key_display="!",
            id="screen.findings_too",
        ),
    ]

    def __init__(
        self,
        started: EngineStarted,
        connect: Callable[..., Link],
        link: Link,
        open_replay: Callable[[str], Link] | None = None,
        *,
        guided: bool = False,
        others: Sequence[Opened] = (),
        contexts: Contexts = NO_CONTEXTS,
    ) -> None:
        """`connect` starts another engine, `open_replay` one that replays the session in a folder.

        `connect` takes words that are added to the command line. `guided` shows the guide.
        `others` are systems beside it, `contexts` knows what it is called, and more of them.
        """
        super().__init__(ascii_only=started.ascii_only, theme=started.theme)
        self._started = started
        self._updates = Updates(
            self, lambda: self.parts.newest(), lambda: self.state.now_mono_us > 0
        )
        self.parts = Parts.of(
            self,
            (Opened(contexts.own or started.target, started, link, connect), *others),
            open_replay,
            self._updates.soon,
            lambda: system_in_view(self),
            guided=guided,
            contexts=contexts,
        )

    @property
    def state(self) -> State:
        """The newest whole state of what is shown."""
        return self.parts.engines.state

    @property
    def engine(self) -> Engines:
        """What takes the requests of screens."""
        return self.parts.engines

    @property
    def link(self) -> Link:
        """The link of what is shown."""
        return self.parts.engines.shown.link

    def post_message(self, message: Message) -> bool:
        """Take a message; what a screen wants is wanted of the system that it acts on now."""
        if isinstance(message, ToApp) and message.system is None:
            message.system = self.parts.engines.acting.name
        return super().post_message(message)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield what the palette has of Textual; the rest is a key or a command of ours."""
        for command in super().get_system_commands(screen):
            if command.title in _OF_TEXTUAL:
                yield command

    def on_mount(self) -> None:
        """Apply the user's keys, then read what the engine reports."""
        keys, complaints = checked_keys(self._started.keys)
        self.set_keymap(keys)
        for complaint in complaints:
            self.notify(complaint, severity="warning", timeout=15)
        CommandLine.completing = Completing(
            lambda: self.parts.engines.state, lambda: self.available_themes
        )
        self.set_interval(1.0, self._updates.if_late)
        self.parts.engines.start()

    async def on_unmount(self) -> None:
        """End a replay."""
        self.parts.engines.close_replay()
        await asyncio.gather(*self.parts.engines.closing)

    @on(ToApp)
    async def _hand_over(self, message: ToApp) -> None:
        """Do what a screen asks for, or say why it cannot be done."""
        if not self.screen_stack:
            # The app is ending, and the screen that asks is closed.
            return
        try:
            await execute(self, self._updates, message)
        except NatstuiError as error:
            self.notify(safe_copy(str(error)), severity="error", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer no letter as a key on a screen where one types."""
        if not self.screen_stack:
            return False
        typing = isinstance(self.screen, LiveScreen) and self.screen.TYPING
        if action == "part":
            part, name, *_ = map(str, parameters)
            return self.parts.may(part, name, typing=typing)
        if typing and action in _LETTER_ACTIONS:
            return False
        return super().check_action(action, parameters)

    def action_part(self, part: str, action: str, *arguments: object) -> None:
        """Let a part do what one of its keys says."""
        self.parts.act(part, action, *arguments)

    async def action_switch_mode(self, mode: str) -> None:
        """Go to a list; what lies on it is closed."""
        self.parts.systems.keep_in_view()
        await go_to(self, mode)

    async def action_quit(self) -> None:
        """Leave, but ask first when that would throw typed text away, or end what runs."""
        states = [one.follower.state for one in self.parts.engines.systems.values()]
        if unsent := all_unsent(self, self.MODES):
            title, leave = f"{unsent[0]} is not sent", "leave; what was typed is lost"
        elif works := at_work(states, recording=self.parts.recording.asked_for):
            title, leave = " and ".join(dict.fromkeys(works)), "leave; it ends now"
        else:
            self.exit(0)
            return
        run_task(self, self._ask_to_leave, title, leave)

    async def _ask_to_leave(self, title: str, leave: str) -> None:
        pick = Pick(title, (("stay", "go back to it"), ("quit", leave)))
        if await self.push_screen_wait(pick) == "quit":
            self.exit(0)

    async def action_leave(self) -> None:
        """Close the screen on top, or the app."""
        if len(self.screen_stack) > 1 and isinstance(self.screen, LiveScreen):
            self.screen.action_back()
        else:
            await self.action_quit()

    def action_help(self) -> None:
        """Show every key of this screen and what its columns mean."""
        self.push_screen(HelpScreen.of(self.screen))
        self.parts.guide.look()


async def execute(app: NatstuiApp, updates: Updates, message: ToApp) -> None:
    """Do what a screen asks for; raises NatstuiError."""
    parts = app.parts
    match message:
        case CameIntoView():
            parts.systems.bind(app.screen, message.system)
            updates.now()
        case Typed():
            with contained("the command", app.report_defect):
                commands.run(app, parts, message.line)
        case Open() | Manage():
            system = parts.engines.of(message.system)
            screen = new_screen(message, parts.engines.state_of(system))
            screen.where.bound = system.name
            app.push_screen(screen)
        case RunScenario():
            await run_scenario(app, message.scenario)
        case Replay():
            await parts.replay.open(message.folder)
        case LeaveReplay():
            parts.replay.leave()
        case Export():
            parts.exporter.ask_format(message)


def system_in_view(app: App[int]) -> str | None:
    """Return the system that the screen in view acts on; None: the current one."""
    live = (one for one in reversed(app.screen_stack) if isinstance(one, LiveScreen))
    # One that was opened from another acts where that one does.
    return next(filter(None, (one.where.system for one in live)), None)
