"""The app: it composes its parts, and passes the newest state to the screen in view."""

from __future__ import annotations

import asyncio
import difflib
import heapq
import importlib
import pkgutil
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
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
from textual.dom import DOMNode
from textual.keys import KEY_ALIASES, Keys
from textual.message import Message
from textual.screen import Screen

from natstui.defects import report_defects
from natstui.errors import NatstuiError
from natstui.files import create_write_error, open_atomic_file
from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.live.state import State
from natstui.model.records.record import EngineStarted
from natstui.tui.app import commands
from natstui.tui.app.commands import COMMAND_NAMES, COMMANDS, ViewerCommand
from natstui.tui.app.controls.systems import NO_CONTEXTS, Contexts
from natstui.tui.app.engines import Engines
from natstui.tui.app.guarded import GuardedApp
from natstui.tui.app.help import HelpScreen
from natstui.tui.app.key_descriptions import describe_key
from natstui.tui.app.link import Link
from natstui.tui.app.live_system import OpenSystem
from natstui.tui.app.parts import APP_BINDINGS, AppParts
from natstui.tui.app.screens import (
    MODE_SCREENS,
    create_screen,
    find_unsent_texts,
    mode_screen,
    open_mode,
    run_scenario,
)
from natstui.tui.frame.head.tabs import TABS
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import (
    AppRequest,
    EnteredCommand,
    Export,
    LeaveReplay,
    Manage,
    Open,
    Replay,
    RunScenario,
    ScreenShown,
)
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.stored_settings import load_view_setting, store_view_setting
from natstui.tui.kit.command_line import CommandLine, LastWordSuggester
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.overview.screen import OverviewScreen

MAX_ASSET_HITS = 50


class StateProvider(Protocol):
    """The part of the app that the command palette uses: its state."""

    @property
    def state(self) -> State:
        """Return the newest state."""


class NatstuiCommands(Provider):
    """Provides keys, commands without required arguments, streams and consumers to the palette."""

    async def discover(self) -> Hits:
        """Yield the keys of the screen and the commands, before anything is typed."""
        keys = list(self._key_commands())
        for text, description, run_key in keys:
            yield DiscoveryHit(text, run_key, help=description)
        for command in _commands_without_key(text for text, _, _ in keys):
            if not command.usage or command.usage.startswith("["):
                run = partial(self.app.post_message, EnteredCommand(command.names[0]))
                yield DiscoveryHit(f":{command.names[0]}", run, help=command.help)

    async def search(self, query: str) -> Hits:
        """Yield keys, commands, streams and consumers that contain the letters of `query` in this
        order, in each group the best match first.
        """
        matcher = self.matcher(query)
        keys = list(self._key_commands())
        for text, description, run_key in keys:
            if score := matcher.match(text):
                yield Hit(score, matcher.highlight(text), run_key, help=description)
        for command in _commands_without_key(text for text, _, _ in keys):
            if not command.usage and (score := matcher.match(command.names[0])):
                run = partial(self.app.post_message, EnteredCommand(command.names[0]))
                yield Hit(score, matcher.highlight(command.names[0]), run, help=command.help)
        letters = [letter.lower() for letter in query if not letter.isspace()]
        # Matching costs microseconds a name: only names with all the letters get that far.
        scored_assets = (
            (matcher.match(text), text, message)
            for text, message in self._asset_labels_and_messages()
            if _contains_in_order(text.lower(), letters)
        )
        best_assets = heapq.nlargest(
            MAX_ASSET_HITS,
            (asset for asset in scored_assets if asset[0]),
            key=lambda asset: asset[0],
        )
        for score, text, message in best_assets:
            yield Hit(score, safe(text), partial(self.app.post_message, message))

    def _key_commands(self) -> Iterator[tuple[str, str, Callable[[], Awaitable[object]]]]:
        """Yield the name, description and action of each key in the footer.

        Several keys with the same action are yielded once.
        """
        previous_action_names: set[str] = set()
        for active_binding in self.screen.active_bindings.values():
            binding = active_binding.binding
            is_new = binding.action not in previous_action_names
            if (
                binding.show
                and active_binding.enabled
                and active_binding.node is self.screen
                and is_new
            ):
                previous_action_names.add(binding.action)
                key_text = binding.key_display or self.app.get_key_display(binding)
                description = "  ·  ".join(
                    filter(None, (describe_key(binding), f"key {key_text}"))
                )
                run = partial(self.app.run_action, binding.action, self.screen)
                label = binding.description
                if isinstance(self.screen, LiveScreen):
                    label = self.screen.key_label(binding)
                yield label, description, run

    def _asset_labels_and_messages(self) -> Iterator[tuple[str, Open]]:
        screen = self.screen
        shown_systems = screen.scope.systems if isinstance(screen, LiveScreen) else {}
        for name, system in shown_systems.items():
            yield from (
                (f"{name}: {text}", message) for text, message in _assets_of(system.state, name)
            )
        if not shown_systems:
            yield from _assets_of(cast("StateProvider", self.app).state, None)


def _commands_without_key(labels: Iterable[str]) -> list[ViewerCommand]:
    """Return the commands whose name is neither one of the labels nor a command of Textual."""
    names = {text.lower() for text in (*labels, *_TEXTUAL_COMMANDS)}
    return [command for command in COMMANDS if not names & set(command.names)]


def _assets_of(state: State, system: str | None) -> Iterator[tuple[str, Open]]:
    """Yield every stream and consumer of a system: its label, and the message that opens it."""
    for name, _created in state.streams.roster.keys:
        yield str(name), _bind_to_system(system, Open("stream", str(name)))
    for stream, name, _created in state.consumers.roster.keys:
        yield (
            f"{stream} › {name}",
            _bind_to_system(system, Open("consumer", str(stream), str(name))),
        )


def _bind_to_system(system: str | None, message: Open) -> Open:
    message.system = system
    return message


def _contains_in_order(text: str, letters: list[str]) -> bool:
    """Return whether the text contains the letters in this order."""
    position = 0
    for letter in letters:
        position = text.find(letter, position) + 1
        if position == 0:
            return False
    return True


class CommandSuggester(LastWordSuggester):
    """Completes the last word of a command line from the command's usage."""

    def __init__(self, state: Callable[[], State], themes: Callable[[], Iterable[str]]) -> None:
        # Not kept: streams come and go.
        super().__init__(use_cache=False, case_sensitive=True)
        self._state, self._themes = state, themes

    async def get_suggestion(self, value: str) -> str | None:
        """Return the line with its last word completed; None without a completion."""
        *previous_words, _last_word = value.split(" ")
        suggestion = next(iter(self.suggestions(value, 1)), None)
        return None if suggestion is None else " ".join([*previous_words, suggestion])

    def suggestions(self, value: str, max_count: int) -> list[str]:
        """Return the completions of the last word of a line, at most `max_count`."""
        *previous_words, last_word = value.split(" ")
        completions = (
            name for name in self._next_words(previous_words) if name.startswith(last_word)
        )
        return list(islice(completions, max_count))

    def _next_words(self, previous_words: list[str]) -> Iterable[str]:
        """Return the words of a command line that can follow `previous_words`."""
        if not previous_words:
            return COMMAND_NAMES
        usage = next(
            (command.usage for command in COMMANDS if previous_words[0] in command.names), ""
        )
        argument_names = usage.replace("[", "").replace("]", "").split()
        argument_name = (
            argument_names[len(previous_words) - 1]
            if len(previous_words) <= len(argument_names)
            else ""
        )
        if argument_name == "THEME":
            return sorted(self._themes())
        streams = self._state().streams.roster.rows_of_stream
        if argument_name == "STREAM":
            return streams
        if argument_name == "BUCKET":
            return (stream.removeprefix(prefix) for stream in streams for prefix in (KV, OBJECTS)
                    if stream.startswith(prefix))  # fmt: skip
        if argument_name == "SUBJECT":
            configurations = self._state().stream_configurations.values()
            return sorted(
                {subject for configuration in configurations for subject in configuration.subjects}
            )
        if argument_name == "CONSUMER":
            keys = self._state().consumers.roster.keys
            return (str(key[1]) for key in keys if key[0] == previous_words[-1])
        return ()


_KEY_MODIFIERS = {"ctrl", "shift", "alt", "super", "meta", "hyper"}
_KEY_NAMES = {key.value for key in Keys} | {"space"}
_TERMINAL_KEY_EQUIVALENTS = {"ctrl+h": "backspace", "ctrl+i": "tab", "ctrl+m": "enter"}


def check_keymap(keymap: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the valid part of a keymap, and one sentence for each invalid entry.

    Textual accepts unknown actions and keys silently.
    """
    binding_ids = {binding.id for binding in _imported_bindings()}
    if not keymap.keys() <= binding_ids:
        binding_ids = {binding.id for binding in import_all_bindings()}
    valid_keys, complaints = {}, []
    for action, keys in keymap.items():
        if action not in binding_ids:
            nearest_ids = difflib.get_close_matches(action, filter(None, binding_ids), 1)
            hint = f"; did you mean {nearest_ids[0]}?" if nearest_ids else ""
            complaints.append(f"viewer.keys: there is no action {action!r}{hint}")
        elif bad_keys := [key for key in keys.split(",") if not _is_valid_key(key.strip())]:
            complaints.append(f"viewer.keys.{action}: {bad_keys[0]!r} is not a key")
        elif reserved_keys := [
            key for key in keys.split(",") if key.strip() in _TERMINAL_KEY_EQUIVALENTS
        ]:
            equivalent_key = _TERMINAL_KEY_EQUIVALENTS[reserved_keys[0].strip()]
            complaints.append(
                f"viewer.keys.{action}: terminals cannot tell {reserved_keys[0]!r} "
                f"from {equivalent_key}"
            )
        else:
            valid_keys[action] = keys
    return valid_keys, complaints


def _is_valid_key(key: str) -> bool:
    *modifiers, key_name = key.split("+") if key != "+" else ["+"]
    if not set(modifiers) <= _KEY_MODIFIERS:
        return False
    if len(key_name) == 1 or key_name in _KEY_NAMES or key_name in KEY_ALIASES:
        return True
    return _is_character_name(key_name)


def _is_character_name(name: str) -> bool:
    """Return whether a name is Textual's name of a character, as `question_mark`."""
    unicode_name = name.replace("_", " ").upper()
    for candidate in (unicode_name, unicode_name.replace(" SIGN", "-SIGN")):
        try:
            unicodedata.lookup(candidate)
        except KeyError:
            continue
        return True
    return name in {"minus", "slash", "backslash", "underscore"}


def import_all_bindings() -> list[Binding]:
    """Return every binding that has an id, also of screens that were not opened yet."""
    package = importlib.import_module("natstui.tui")
    for module in pkgutil.walk_packages(package.__path__, "natstui.tui."):
        if not module.name.startswith("natstui.tui.kit."):
            importlib.import_module(module.name)
    return list(_imported_bindings())


def _imported_bindings() -> Iterator[Binding]:
    """Yield every binding with an id of every imported class."""
    classes: list[type] = [DOMNode]
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        for binding in cls.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id:
                yield binding


SHOW_STATE_AFTER_S = 0.05
"""Records that arrive within this time are shown together."""

_TEXTUAL_COMMANDS = {"Theme", "Screenshot"}
_SCREENSHOT_TIME_FORMAT = "%Y-%m-%d %H.%M.%S.%f"
_THEME_SETTING, _SCREEN_SETTING = "theme", "screen"
_LETTER_KEY_ACTIONS = {"switch_mode", "help", "leave"}
_HOST_COMMAND_SCREENS = {"backup", "restore", "scenarios"}
"""Screens that only prompt for a `HostCommand`: not opened where no such command is allowed."""


class NatstuiApp(GuardedApp):
    """The viewer: composes its parts, and executes the requests that screens post as messages."""

    TITLE = "natstui"
    CSS_PATH = "app.tcss"
    COMMANDS = App.COMMANDS | {NatstuiCommands}
    MODES = {  # noqa: RUF012 - Textual declares it so
        "overview": OverviewScreen,
        **{name: partial(mode_screen, name) for name in MODE_SCREENS},
    }
    DEFAULT_MODE = "overview"
    BINDINGS: ClassVar[list[BindingType]] = [
        *APP_BINDINGS,
        *(
            Binding(
                tab.key, f"switch_mode('{tab.mode}')", tab.title, show=False, id=tab.binding_id
            )
            for tab in TABS
        ),
        # In tables the key shows only rows with findings.
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
        self._restores_mode = not is_guided
        mode = None if is_guided else load_view_setting(_SCREEN_SETTING)
        if isinstance(mode, str) and mode in MODE_SCREENS:
            # Textual reads it while it is created: no other screen is drawn before this one.
            self.DEFAULT_MODE = mode  # type: ignore[misc]
        super().__init__(
            ascii_only=engine_started.ascii_only, theme=load_last_theme(engine_started.theme)
        )
        self._engine_started = engine_started
        self.keymap: Mapping[str, str] = {}
        """Id of a binding → its keys, as the user has set them; empty before the first frame."""
        self._was_first_poll_shown = False
        """Whether the result of the first poll was shown."""
        self._is_state_message_scheduled = False
        self.parts = AppParts.create(
            self,
            (
                OpenSystem(
                    contexts.opened_system or engine_started.target, engine_started, link, connect
                ),
                *other_systems,
            ),
            open_replay,
            self.show_state_soon,
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
        return self.parts.engines.shown_follower.link

    def show_state_soon(self) -> None:
        """Show the newest state after `SHOW_STATE_AFTER_S` seconds, with records that arrive
        meanwhile.

        The result of the first poll is shown at once, because a user waits for it.
        """
        if not self._was_first_poll_shown and self.state.now_mono_us > 0:
            self._was_first_poll_shown = True
            self.show_state_now()
        elif not self._is_state_message_scheduled:
            self._is_state_message_scheduled = True
            self.set_timer(SHOW_STATE_AFTER_S, self.show_state_now)

    def show_state_now(self) -> None:
        """Show the newest state on the screen in view."""
        self._is_state_message_scheduled = False
        # A last record can still come while the app closes its screens.
        if self.screen_stack and isinstance(self.screen, LiveScreen):
            self.screen.post_message(self.parts.state_message())

    def show_poll_age(self) -> None:
        """Show the newest state again if its newest poll is older than 1.5 s."""
        if self.parts.state_message().acting.poll_age_us:
            self.show_state_now()

    def post_message(self, message: Message) -> bool:
        """Post a message; a request that names no system gets that of the screen in view."""
        if isinstance(message, AppRequest) and message.system is None:
            message.system = self.parts.engines.acting_system.name
        return super().post_message(message)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the palette commands of Textual for which natstui has no key or command of its
        own.
        """
        for command in super().get_system_commands(screen):
            if command.title in _TEXTUAL_COMMANDS:
                yield command

    def on_mount(self) -> None:
        """Apply the user's keymap, then start reading the engine's records."""
        keys, complaints = check_keymap(self._engine_started.keys)
        self.keymap = keys
        self.set_keymap(keys)
        for complaint in complaints:
            self.notify(complaint, severity="warning", timeout=15)
        self.theme_changed_signal.subscribe(
            self,
            lambda theme: store_view_setting(
                _THEME_SETTING, [theme.name, self._engine_started.theme]
            ),
        )
        CommandLine.suggester = CommandSuggester(
            lambda: self.parts.engines.state, lambda: self.available_themes
        )
        self.set_interval(1.0, self.show_poll_age)
        self.parts.engines.start()

    async def on_unmount(self) -> None:
        """End a replay, and wait until all engines have ended."""
        self.parts.engines.close_replay()
        await asyncio.gather(*self.parts.engines.closing_tasks)

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> None:
        """Save a screenshot as a new file, never half written.

        The file is written to the downloads folder, or to the current folder if there is none. A
        browser receives the file as a download.
        """
        if self.is_web:
            super().deliver_screenshot(filename, path, time_format)
            return
        name = filename or f"natstui {datetime.now():{time_format or _SCREENSHOT_TIME_FORMAT}}.svg"
        folder = user_downloads_path()
        target_path = Path(path or (folder if folder.is_dir() else Path.cwd()), name)
        run_task(self, self._save_screenshot, target_path, self.export_screenshot())

    async def _save_screenshot(self, target_path: Path, svg: str) -> None:
        try:
            with open_atomic_file(target_path, replaces=False) as file:
                file.write(svg.encode())
        except OSError as error:
            self.notify(
                safe_copy(str(create_write_error(target_path, error))),
                severity="error",
                markup=False,
            )
        else:
            self.notify(f"saved as {safe_copy(str(target_path))}", markup=False, timeout=8)

    @on(AppRequest)
    async def _execute_request(self, message: AppRequest) -> None:
        """Execute a request of a screen, or show why it cannot be executed."""
        if not self.screen_stack:
            # The app is ending, and the requesting screen is closed.
            return
        parts = self.parts
        try:
            match message:
                case ScreenShown():
                    parts.systems.assign_system(self.screen, message.system)
                    self.show_state_now()
                case EnteredCommand():
                    with report_defects("the command", self.report_defect):
                        commands.execute_line(self, parts, message.line)
                case Open() | Manage():
                    if message.screen_command.partition(" ")[0] in _HOST_COMMAND_SCREENS:
                        parts.engines.check_host_change()
                    system = parts.engines.find_system(message.system)
                    screen = create_screen(message, parts.engines.shown_follower_of(system).state)
                    screen.scope.bound_system = system.name
                    self.push_screen(screen)
                case RunScenario():
                    # The benchmark screen is bound to no system: it shows and runs on the current.
                    parts.engines.current_name = parts.engines.find_system(message.system).name
                    await run_scenario(self, message.scenario, parts.engines.current_name)
                case Replay():
                    parts.replay.open_recording(message.folder)
                case LeaveReplay():
                    # There it was opened.
                    show_recordings = partial(self.post_message, EnteredCommand("sessions"))
                    parts.replay.close_opened_replay(show_recordings)
                case Export():
                    parts.exporter.prompt_format(message)
        except NatstuiError as error:
            self.notify(safe_copy(str(error)), severity="error", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key is enabled: no letter keys on a screen where text is typed."""
        if not self.screen_stack:
            return False
        is_typing = isinstance(self.screen, LiveScreen) and self.screen.TYPING
        if action == "part":
            part, name, *_ = map(str, parameters)
            return self.parts.is_offered(part, name, is_typing=is_typing)
        if is_typing and action in _LETTER_KEY_ACTIONS:
            return False
        return super().check_action(action, parameters)

    def action_part(self, part: str, action: str, *arguments: object) -> None:
        """Execute the action of a key in a part of the app."""
        self.parts.execute_action(part, action, *arguments)

    async def action_switch_mode(self, mode: str) -> None:
        """Open the first screen of a mode, and close the screens above it."""
        self.parts.systems.make_viewed_system_current()
        await open_mode(self, mode)

    async def action_quit(self) -> None:
        """Quit, after a prompt if typed text would be lost, or running work would end."""
        if unsent_texts := find_unsent_texts(self, self.MODES):
            title, leave_label = f"{unsent_texts[0]} is not sent", "leave; typed text is lost"
        elif running_work_texts := [
            *(
                text
                for name in self.parts.engines.systems
                for text in self.parts.systems.describe_running_work(name)
            ),
            *self.parts.replay.describe_running_work(),
        ]:
            title, leave_label = (
                " and ".join(dict.fromkeys(running_work_texts)),
                "leave; running work ends now",
            )
        else:
            self._save_mode_and_quit()
            return
        run_task(self, self._confirm_quit, title, leave_label)

    async def _confirm_quit(self, title: str, leave_label: str) -> None:
        pick = PickDialog(title, (("stay", "stay here"), ("quit", leave_label)))
        if await self.push_screen_wait(pick) == "quit":
            self._save_mode_and_quit()

    def _save_mode_and_quit(self) -> None:
        """Quit, and remember the screen for the next start."""
        if self._restores_mode:
            store_view_setting(_SCREEN_SETTING, self.current_mode)
        self.exit(0)

    async def action_leave(self) -> None:
        """Close the top screen or a replay that was opened in this app; without either, quit."""
        if isinstance(self.screen, LiveScreen) and self.screen.has_previous_screen:
            self.screen.action_back()
        else:
            await self.action_quit()

    def action_help(self) -> None:
        """Show the help of this screen: its keys and columns."""
        self.push_screen(HelpScreen.for_screen(self.screen))
        self.parts.guide.advance()


def load_last_theme(configured_theme: str) -> str:
    """Return the last chosen theme, unless the configured theme has changed since then."""
    stored_themes = load_view_setting(_THEME_SETTING)
    if (
        isinstance(stored_themes, list)
        and len(stored_themes) == 2
        and stored_themes[1] == configured_theme
    ):
        return str(stored_themes[0])
    return configured_theme
