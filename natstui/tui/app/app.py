"""The app: it composes its parts, and hands the newest state to the screen in view."""

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
    """What the palette needs of the app."""

    @property
    def state(self) -> State:
        """The newest state."""


class NatstuiCommands(Provider):
    """Commands that need no argument, and every stream and consumer by name."""

    async def discover(self) -> Hits:
        """Offer the keys of the screen and the commands before anything is typed."""
        keys = list(self._keys())
        for text, says, do in keys:
            yield DiscoveryHit(text, do, help=says)
        for word in _not_keys(text for text, _, _ in keys):
            if not word.usage or word.usage.startswith("["):
                run = partial(self.app.post_message, Typed(word.names[0]))
                yield DiscoveryHit(f":{word.names[0]}", run, help=word.help)

    async def search(self, query: str) -> Hits:
        """Offer what contains these letters in this order, best match first."""
        matcher = self.matcher(query)
        keys = list(self._keys())
        for text, says, do in keys:
            if score := matcher.match(text):
                yield Hit(score, matcher.highlight(text), do, help=says)
        for word in _not_keys(text for text, _, _ in keys):
            if not word.usage and (score := matcher.match(word.names[0])):
                run = partial(self.app.post_message, Typed(word.names[0]))
                yield Hit(score, matcher.highlight(word.names[0]), run, help=word.help)
        letters = [letter.lower() for letter in query if not letter.isspace()]
        # Matching costs microseconds a name: only names with all the letters get that far.
        found = (
            (matcher.match(text), text, message)
            for text, message in self._assets()
            if _contains(text.lower(), letters)
        )
        best = heapq.nlargest(
            SHOWN_COUNT, (hit for hit in found if hit[0]), key=lambda hit: hit[0]
        )
        for score, text, message in best:
            yield Hit(score, safe(text), partial(self.app.post_message, message))

    def _keys(self) -> Iterator[tuple[str, str, Callable[[], Awaitable[object]]]]:
        """Yield of each key in the footer: its name, what it does, and its action."""
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and active.node is self.screen:
                shown = binding.key_display or self.app.get_key_display(binding)
                says = "  ·  ".join(filter(None, (words_of(binding), f"key {shown}")))
                run = partial(self.app.run_action, binding.action, self.screen)
                label = binding.description
                if isinstance(self.screen, LiveScreen):
                    label = self.screen.key_label(binding)
                yield label, says, run

    def _assets(self) -> Iterator[tuple[str, Open]]:
        screen = self.screen
        several = screen.where.systems if isinstance(screen, LiveScreen) else ()
        for one in several:
            yield from (
                (f"{one.name}: {text}", it) for text, it in _assets_of(one.state, one.name)
            )
        if not several:
            yield from _assets_of(cast("_ShowsState", self.app).state, None)


def _not_keys(labels: Iterable[str]) -> list[Word]:
    """Return the commands that neither a key of the screen nor Textual offers by their name."""
    names = {text.lower() for text in (*labels, *_OF_TEXTUAL)}
    return [word for word in COMMANDS if not names & set(word.names)]


def _assets_of(state: State, system: str | None) -> Iterator[tuple[str, Open]]:
    """Yield every stream and consumer of a system: its words, and what goes there."""
    for name, _created in state.streams.roster.keys:
        yield str(name), _of(system, Open("stream", str(name)))
    for stream, name, _created in state.consumers.roster.keys:
        yield f"{stream} › {name}", _of(system, Open("consumer", str(stream), str(name)))


def _of(system: str | None, message: Open) -> Open:
    message.system = system
    return message


def _contains(text: str, letters: list[str]) -> bool:
    """Return whether the letters occur in this order."""
    at = 0
    for letter in letters:
        at = text.find(letter, at) + 1
        if at == 0:
            return False
    return True


class Completing(OfferingSuggester):
    """Completes the last word of a line by what stands in its place in the command's usage."""

    def __init__(self, state: Callable[[], State], themes: Callable[[], Iterable[str]]) -> None:
        # Not kept: streams come and go.
        super().__init__(use_cache=False, case_sensitive=True)
        self._state, self._themes = state, themes

    async def get_suggestion(self, value: str) -> str | None:
        """Return the line with its last word completed; None where nothing fits."""
        *before, _last = value.split(" ")
        found = next(iter(self.offers(value, 1)), None)
        return None if found is None else " ".join([*before, found])

    def offers(self, value: str, most_count: int) -> list[str]:
        """Return the words that the last one of a line may become, at most so many."""
        *before, last = value.split(" ")
        fitting = (name for name in self._names(before) if name.startswith(last))
        return list(islice(fitting, most_count))

    def _names(self, before: list[str]) -> Iterable[str]:
        """Return what may follow these words."""
        if not before:
            return WORDS
        usage = next((word.usage for word in COMMANDS if before[0] in word.names), "")
        places = usage.replace("[", "").replace("]", "").split()
        place = places[len(before) - 1] if len(before) <= len(places) else ""
        if place == "THEME":
            return sorted(self._themes())
        streams = self._state().streams.roster.rows_of_stream
        if place == "STREAM":
            return streams
        if place == "BUCKET":
            return (stream.removeprefix(kind) for stream in streams for kind in (KV, OBJECTS)
                    if stream.startswith(kind))  # fmt: skip
        if place == "SUBJECT":
            known = self._state().stream_configurations.values()
            return sorted({subject for one in known for subject in one.subjects})
        if place == "CONSUMER":
            keys = self._state().consumers.roster.keys
            return (str(key[1]) for key in keys if key[0] == before[-1])
        return ()


SHOW_AFTER_S = 0.05
"""Records that arrive within this time are shown together."""

_OF_TEXTUAL = {"Theme", "Screenshot"}
_PICTURE_TIME = "%Y-%m-%d %H.%M.%S.%f"
_THEME, _MODE = "theme", "screen"
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
        others: Sequence[OpenSystem] = (),
        contexts: Contexts = NO_CONTEXTS,
    ) -> None:
        """`connect` starts another engine, `open_replay` one that replays the session in a folder.

        `connect` takes words that are added to the command line. `guided` shows the guide.
        `others` are systems beside it, `contexts` knows what it is called, and more of them.
        """
        self._opens_where_it_was = not guided
        mode = None if guided else recall(_MODE)
        if isinstance(mode, str) and mode in MODE_SCREENS:
            # Textual reads it while it is created: no other screen is drawn before this one.
            self.DEFAULT_MODE = mode  # type: ignore[misc]
        super().__init__(ascii_only=started.ascii_only, theme=recall_theme(started.theme))
        self._started = started
        self._updates = Updates(
            self, lambda: self.parts.newest(), lambda: self.state.now_mono_us > 0
        )
        self.parts = Parts.of(
            self,
            (OpenSystem(contexts.own or started.target, started, link, connect), *others),
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
        """Save a picture of the screen as a file that appears complete and replaces nothing.

        It goes to the folder of downloads, or to the current one where there is none.
        """
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
        """Leave, and open with the same screen the next time."""
        if self._opens_where_it_was:
            keep(_MODE, self.current_mode)
        self.exit(0)

    async def action_leave(self) -> None:
        """Close the screen on top, or a replay opened from here, or the app."""
        if isinstance(self.screen, LiveScreen) and self.screen.goes_back:
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
            parts.replay.open(message.folder)
        case LeaveReplay():
            if parts.replay.leave():
                # There it was opened.
                app.post_message(Typed("sessions"))
        case Export():
            parts.exporter.ask_format(message)


def recall_theme(configured: str) -> str:
    """Return the theme that was chosen last, unless another one was configured since then."""
    kept = recall(_THEME)
    if isinstance(kept, list) and len(kept) == 2 and kept[1] == configured:
        return str(kept[0])
    return configured


def system_in_view(app: App[int]) -> str | None:
    """Return the system that the screen in view acts on; None: the current one."""
    live = (one for one in reversed(app.screen_stack) if isinstance(one, LiveScreen))
    # One that was opened from another acts where that one does.
    return next(filter(None, (one.where.system for one in live)), None)
