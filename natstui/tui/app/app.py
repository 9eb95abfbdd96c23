"""The app: it composes its parts, and passes the newest state to the screen in view."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar, Protocol, cast

from platformdirs import user_downloads_path
from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.message import Message
from textual.screen import Screen

from natstui.defects import contained
from natstui.errors import NatstuiError
from natstui.files import complete_file, write_failure
from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.live.state import State
from natstui.model.records.record import EngineStarted
from natstui.tui.app import commands
from natstui.tui.app.commands import COMMANDS, WORDS, Word
from natstui.tui.app.controls.systems import NO_CONTEXTS, Contexts
from natstui.tui.app.engines import Engines
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.help import HelpScreen
from natstui.tui.app.key_words import words_of
from natstui.tui.app.keys_from_settings import checked_keys
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
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
from natstui.tui.frame.remembered import keep, recall
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.command_line import CommandLine, OfferingSuggester
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.overview.screen import OverviewScreen

SHOWN_COUNT = 50


class _ShowsState(Protocol):
    """The part of the app that the palette uses."""

    @property
    def state(self) -> State:
        """Return the newest state."""


class NatstuiCommands(Provider):
    """Commands that need no argument, and every stream and consumer by name."""

    async def discover(self) -> Hits:
        """Offer the keys of the screen and the commands before anything is typed."""
        keys = list(self._keys())
        for text, description, do in keys:
            yield DiscoveryHit(text, do, help=description)
        for command in _not_keys(text for text, _, _ in keys):
            if not command.usage or command.usage.startswith("["):
                run = partial(self.app.post_message, Typed(command.names[0]))
                yield DiscoveryHit(f":{command.names[0]}", run, help=command.help)

    async def search(self, query: str) -> Hits:
        """Offer what contains these letters in this order, best match first."""
        matcher = self.matcher(query)
        keys = list(self._keys())
        for text, description, do in keys:
            if score := matcher.match(text):
                yield Hit(score, matcher.highlight(text), do, help=description)
        for command in _not_keys(text for text, _, _ in keys):
            if not command.usage and (score := matcher.match(command.names[0])):
                run = partial(self.app.post_message, Typed(command.names[0]))
                yield Hit(score, matcher.highlight(command.names[0]), run, help=command.help)
        letters = [letter.lower() for letter in query if not letter.isspace()]
        # Matching costs microseconds a name: only names with all the letters get that far.
        matches = (
            (matcher.match(text), text, message)
            for text, message in self._assets()
            if _contains(text.lower(), letters)
        )
        best = heapq.nlargest(
            SHOWN_COUNT, (hit for hit in matches if hit[0]), key=lambda hit: hit[0]
        )
        for score, text, message in best:
            yield Hit(score, safe(text), partial(self.app.post_message, message))

    def _keys(self) -> Iterator[tuple[str, str, Callable[[], Awaitable[object]]]]:
        """Yield the name, description and action of each key in the footer.

        Of several keys with the same action, the first one.
        """
        actions: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            is_new = binding.action not in actions
            if binding.show and active.enabled and active.node is self.screen and is_new:
                actions.add(binding.action)
                key_text = binding.key_display or self.app.get_key_display(binding)
                description = "  ·  ".join(filter(None, (words_of(binding), f"key {key_text}")))
                run = partial(self.app.run_action, binding.action, self.screen)
                label = binding.description
                if isinstance(self.screen, LiveScreen):
                    label = self.screen.key_label(binding)
                yield label, description, run

    def _assets(self) -> Iterator[tuple[str, Open]]:
        screen = self.screen
        several = screen.where.systems if isinstance(screen, LiveScreen) else ()
        for system in several:
            yield from (
                (f"{system.name}: {text}", message)
                for text, message in _assets_of(system.state, system.name)
            )
        if not several:
            yield from _assets_of(cast("_ShowsState", self.app).state, None)


def _not_keys(labels: Iterable[str]) -> list[Word]:
    """Return the commands that have another name than the given labels, and that Textual does not
    offer.
    """
    names = {text.lower() for text in (*labels, *_OF_TEXTUAL)}
    return [command for command in COMMANDS if not names & set(command.names)]


def _assets_of(state: State, system: str | None) -> Iterator[tuple[str, Open]]:
    """Yield every stream and consumer of a system: its label, and the message that opens it."""
    for name, _created in state.streams.roster.keys:
        yield str(name), _of(system, Open("stream", str(name)))
    for stream, name, _created in state.consumers.roster.keys:
        yield f"{stream} › {name}", _of(system, Open("consumer", str(stream), str(name)))


def _of(system: str | None, message: Open) -> Open:
    message.system = system
    return message


def _contains(text: str, letters: list[str]) -> bool:
    """Return whether the letters occur in this order."""
    position = 0
    for letter in letters:
        position = text.find(letter, position) + 1
        if position == 0:
            return False
    return True


class Completing(OfferingSuggester):
    """Completes the last word of a command line from the command's usage."""

    def __init__(self, state: Callable[[], State], themes: Callable[[], Iterable[str]]) -> None:
        # Not kept: streams come and go.
        super().__init__(use_cache=False, case_sensitive=True)
        self._state, self._themes = state, themes

    async def get_suggestion(self, value: str) -> str | None:
        """Return the line with its last word completed; None where nothing fits."""
        *before, _last = value.split(" ")
        suggestion = next(iter(self.offers(value, 1)), None)
        return None if suggestion is None else " ".join([*before, suggestion])

    def offers(self, value: str, most_count: int) -> list[str]:
        """Return the completions of the last word of a line, at most `most_count`."""
        *before, last = value.split(" ")
        fitting = (name for name in self._names(before) if name.startswith(last))
        return list(islice(fitting, most_count))

    def _names(self, before: list[str]) -> Iterable[str]:
        """Return the possible words after the given ones."""
        if not before:
            return WORDS
        usage = next((command.usage for command in COMMANDS if before[0] in command.names), "")
        placeholders = usage.replace("[", "").replace("]", "").split()
        placeholder = placeholders[len(before) - 1] if len(before) <= len(placeholders) else ""
        if placeholder == "THEME":
            return sorted(self._themes())
        streams = self._state().streams.roster.rows_of_stream
        if placeholder == "STREAM":
            return streams
        if placeholder == "BUCKET":
            return (stream.removeprefix(kind) for stream in streams for kind in (KV, OBJECTS)
                    if stream.startswith(kind))  # fmt: skip
        if placeholder == "SUBJECT":
            configurations = self._state().stream_configurations.values()
            return sorted(
                {subject for configuration in configurations for subject in configuration.subjects}
            )
        if placeholder == "CONSUMER":
            keys = self._state().consumers.roster.keys
            return (str(key[1]) for key in keys if key[0] == before[-1])
        return ()


SHOW_AFTER_S = 0.05
"""Records that arrive within this time are shown together."""

_OF_TEXTUAL = {"Theme", "Screenshot"}
_PICTURE_TIME = "%Y-%m-%d %H.%M.%S.%f"
_THEME, _MODE = "theme", "screen"
_LETTER_ACTIONS = {"switch_mode", "help", "leave"}
_OF_THE_HOST = {"backup", "restore", "scenarios"}
"""Screens that only prompt for a `HostCommand`: they are refused at once."""


class Updates:
    """Passes the newest state to the screen in view."""

    def __init__(
        self, app: App[int], newest: Callable[[], StateChanged], is_polled: Callable[[], bool]
    ) -> None:
        self._app = app
        self._newest = newest
        self._polled = is_polled
        self._shown = False
        """Whether what the first poll brought was shown."""
        self._due = False

    def soon(self) -> None:
        """Show the newest state soon, together with other records of the same time.

        The first state with rows is shown at once, as a user waits for it.
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
        """Show the age of the newest poll again, if it is large."""
        if self._newest().late_us:
            self.now()


class NatstuiApp(GuardedApp):
    """The viewer. Each part has its own keys; requests of screens arrive as messages."""

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
        engine_started: EngineStarted,
        connect: Callable[..., Link],
        link: Link,
        open_replay: Callable[[str], Link] | None = None,
        *,
        is_guided: bool = False,
        other_systems: Sequence[OpenSystem] = (),
        contexts: Contexts = NO_CONTEXTS,
        may_change_host: bool = True,
    ) -> None:
        """Create the app; `connect` starts another engine, `open_replay` one that replays a
        session folder.

        `connect` accepts arguments that are added to the command line. `is_guided` shows the
        guide. `other_systems` are shown as well, `contexts` has the available ones. Without
        `may_change_host`, the screens write no files of this machine, and start no programs on it.
        """
        self._opens_where_it_was = not is_guided
        mode = None if is_guided else recall(_MODE)
        if isinstance(mode, str) and mode in MODE_SCREENS:
            # Textual reads it while it is created: no other screen is drawn before this one.
            self.DEFAULT_MODE = mode  # type: ignore[misc]
        super().__init__(
            ascii_only=engine_started.ascii_only, theme=recall_theme(engine_started.theme)
        )
        self._started = engine_started
        self._updates = Updates(
            self, lambda: self.parts.newest(), lambda: self.state.now_mono_us > 0
        )
        self.parts = Parts.of(
            self,
            (
                OpenSystem(contexts.own or engine_started.target, engine_started, link, connect),
                *other_systems,
            ),
            open_replay,
            self._updates.soon,
            lambda: system_in_view(self),
            is_guided=is_guided,
            contexts=contexts,
            may_change_host=may_change_host,
        )

    @property
    def state(self) -> State:
        """Return the newest complete state of the shown system or replay."""
        return self.parts.engines.state

    @property
    def engine(self) -> Engines:
        """Return the engines that execute requests of screens."""
        return self.parts.engines

    @property
    def link(self) -> Link:
        """Return the link of the shown system or replay."""
        return self.parts.engines.shown.link

    def post_message(self, message: Message) -> bool:
        """Post a message; a request of a screen gets the acting system of the screen in view."""
        if isinstance(message, ToApp) and message.system is None:
            message.system = self.parts.engines.acting.name
        return super().post_message(message)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield Textual's commands for the palette; the others are keys or commands of natstui."""
        for command in super().get_system_commands(screen):
            if command.title in _OF_TEXTUAL:
                yield command

    def on_mount(self) -> None:
        """Apply the user's keymap, then start reading the engine's records."""
        keys, complaints = checked_keys(self._started.keys)
        self.set_keymap(keys)
        for complaint in complaints:
            self.notify(complaint, severity="warning", timeout=15)
        self.theme_changed_signal.subscribe(
            self, lambda theme: keep(_THEME, [theme.name, self._started.theme])
        )
        CommandLine.completing = Completing(
            lambda: self.parts.engines.state, lambda: self.available_themes
        )
        self.set_interval(1.0, self._updates.if_late)
        self.parts.engines.start()

    async def on_unmount(self) -> None:
        """End a replay."""
        self.parts.engines.close_replay()
        await asyncio.gather(*self.parts.engines.closing)

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> None:
        """Save a screenshot as a file that appears complete and replaces nothing.

        It is written to the downloads folder, or to the current one if there is none. A browser
        gets it as a download.
        """
        if self.is_web:
            super().deliver_screenshot(filename, path, time_format)
            return
        name = filename or f"natstui {datetime.now():{time_format or _PICTURE_TIME}}.svg"
        folder = user_downloads_path()
        target = Path(path or (folder if folder.is_dir() else Path.cwd()), name)
        run_task(self, self._save_picture, target, self.export_screenshot())

    async def _save_picture(self, target: Path, svg: str) -> None:
        try:
            with complete_file(target, replaces=False) as file:
                file.write(svg.encode())
        except OSError as error:
            self.notify(
                safe_copy(str(write_failure(target, error))), severity="error", markup=False
            )
        else:
            self.notify(f"saved as {safe_copy(str(target))}", markup=False, timeout=8)

    @on(ToApp)
    async def _hand_over(self, message: ToApp) -> None:
        """Execute a request of a screen, or show why it cannot be executed."""
        if not self.screen_stack:
            # The app is ending, and the screen that asks is closed.
            return
        try:
            await execute(self, self._updates, message)
        except NatstuiError as error:
            self.notify(safe_copy(str(error)), severity="error", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable letter keys on a screen where text is typed."""
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
        """Execute the action of a key in a part of the app."""
        self.parts.act(part, action, *arguments)

    async def action_switch_mode(self, mode: str) -> None:
        """Open the list of a mode; screens above it are closed."""
        self.parts.systems.keep_in_view()
        await go_to(self, mode)

    async def action_quit(self) -> None:
        """Quit, after a prompt if typed text would be lost or a recording or benchmark
        would end.
        """
        states = [system.follower.state for system in self.parts.engines.systems.values()]
        if unsent := all_unsent(self, self.MODES):
            title, leave = f"{unsent[0]} is not sent", "leave; typed text is lost"
        elif works := at_work(states, recording=self.parts.recording.asked_for):
            title, leave = " and ".join(dict.fromkeys(works)), "leave; running work ends now"
        else:
            self._end()
            return
        run_task(self, self._ask_to_leave, title, leave)

    async def _ask_to_leave(self, title: str, leave: str) -> None:
        pick = Pick(title, (("stay", "stay here"), ("quit", leave)))
        if await self.push_screen_wait(pick) == "quit":
            self._end()

    def _end(self) -> None:
        """Quit, and remember the screen for the next start."""
        if self._opens_where_it_was:
            keep(_MODE, self.current_mode)
        self.exit(0)

    async def action_leave(self) -> None:
        """Close the top screen, or a replay that was opened here, or the app."""
        if isinstance(self.screen, LiveScreen) and self.screen.goes_back:
            self.screen.action_back()
        else:
            await self.action_quit()

    def action_help(self) -> None:
        """Show every key of this screen and what its columns mean."""
        self.push_screen(HelpScreen.of(self.screen))
        self.parts.guide.look()


async def execute(app: NatstuiApp, updates: Updates, message: ToApp) -> None:
    """Execute a request of a screen; raises NatstuiError."""
    parts = app.parts
    match message:
        case CameIntoView():
            parts.systems.bind(app.screen, message.system)
            updates.now()
        case Typed():
            with contained("the command", app.report_defect):
                commands.run(app, parts, message.line)
        case Open() | Manage():
            if message.what.partition(" ")[0] in _OF_THE_HOST:
                parts.engines.check_host_change()
            system = parts.engines.of(message.system)
            screen = new_screen(message, parts.engines.state_of(system))
            screen.where.bound = system.name
            app.push_screen(screen)
        case RunScenario():
            await run_scenario(app, message.scenario)
        case Replay():
            parts.replay.open(message.folder)
        case LeaveReplay():
            if parts.replay.leave():
                # There it was opened.
                app.post_message(Typed("sessions"))
        case Export():
            parts.exporter.ask_format(message)


def recall_theme(configured_theme: str) -> str:
    """Return the last chosen theme, unless the configured theme has changed since then."""
    stored = recall(_THEME)
    if isinstance(stored, list) and len(stored) == 2 and stored[1] == configured_theme:
        return str(stored[0])
    return configured_theme


def system_in_view(app: App[int]) -> str | None:
    """Return the acting system of the screen in view; None: the current one."""
    live = (screen for screen in reversed(app.screen_stack) if isinstance(screen, LiveScreen))
    # One that was opened from another acts where that one does.
    return next(filter(None, (screen.where.system for screen in live)), None)
