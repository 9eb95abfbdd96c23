"""Creates the screens for messages, and moves between screens.

A screen is imported at its first use.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from importlib import import_module

from textual.app import App

from natstui.clean import clean_line
from natstui.errors import UsageError
from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.fields import strings_at
from natstui.model.assets.subjects import has_wildcard
from natstui.model.live.permissions import read_only_account_text
from natstui.model.live.state import State
from natstui.model.records.analysis import StartAnalysis
from natstui.model.records.record import Command
from natstui.model.records.recording import ChangeSession, ExportSelection
from natstui.model.records.stores import BackUp, GetFile, PutFile, RestoreBackup
from natstui.tui.frame.action_keys import SPECS, Target
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Manage, Open
from natstui.tui.frame.systems import SystemState

MODE_SCREENS = {
    "streams": ("streams.screen", "StreamsScreen"),
    "consumers": ("consumers.screen", "ConsumersScreen"),
    "events": ("events.screen", "EventsScreen"),
    "server": ("servers.screen", "ServerScreen"),
    "findings": ("findings.screen", "FindingsScreen"),
    "connections": ("connections.screen", "ConnectionsScreen"),
    "buckets": ("stores.buckets", "BucketsScreen"),
    "benchmark": ("bench.screen", "BenchmarkScreen"),
}
"""Mode → module and class of its first screen, except the overview, which the app imports."""


_READ_ONLY_SCREENS = {
    "journal", "undo", "sub", "backup", "messages", "tail", "tap", "dead-letters", "clients",
    "publishers",
}  # fmt: skip
"""First words of `Manage.screen_command` that are allowed in read-only mode."""


def create_screen(message: Open | Manage, state: State) -> LiveScreen:
    """Create the screen that a message opens; raises UsageError if there is no such screen."""
    if isinstance(message, Open):
        return _create_asset_screen(message)
    started, name = state.started, message.screen_command.partition(" ")[0]
    if name != "journal" and started is not None and started.account:
        raise UsageError(read_only_account_text(clean_line(started.account)))
    if name in _READ_ONLY_SCREENS:
        screen = _create_read_only_screen(message, state)
    elif started is not None and started.read_only:
        raise UsageError("read-only: nothing is changed on this server")
    else:
        screen = _create_changing_screen(message, state)
    # A form needs the server's API level before it creates its fields.
    screen.scope.set_states(SystemState("", "", state, 0), {})
    return screen


def _create_asset_screen(message: Open) -> LiveScreen:
    match message.screen_command:
        case "consumers":
            from natstui.tui.consumers.screen import ConsumersScreen

            return ConsumersScreen(message.stream)
        case "stream":
            from natstui.tui.streams.detail import StreamDetail

            return StreamDetail(message.stream)
        case "consumer":
            from natstui.tui.consumers.detail import ConsumerDetail

            return ConsumerDetail(message.stream, message.consumer or "")
        case "bucket":
            return _create_bucket_screen(message.stream)
        case "scenarios":
            from natstui.tui.bench.form import BenchmarkForm

            return BenchmarkForm()
        case "runs":
            from natstui.tui.bench.runs import RunsScreen

            return RunsScreen()
        case _:
            from natstui.tui.managing.raw import RawScreen

            return RawScreen(message.stream, message.consumer)


def _create_bucket_screen(stream: str) -> LiveScreen:
    """Create the screen of a bucket's keys or objects; raises UsageError for another stream."""
    if stream.startswith(KV):
        from natstui.tui.stores.keys import KeysScreen

        return KeysScreen(stream)
    if stream.startswith(OBJECTS):
        from natstui.tui.stores.objects import ObjectsScreen

        return ObjectsScreen(stream)
    raise UsageError(f"{stream} is neither a bucket nor an object store")


def mode_screen(mode: str) -> LiveScreen:
    """Import and create the first screen of a mode, such as `streams`."""
    folder, name = MODE_SCREENS[mode]
    screen: LiveScreen = getattr(import_module(f"natstui.tui.{folder}"), name)()
    return screen


async def close_upper_screens(app: App[int]) -> bool:
    """Close the screens above the first one of the mode; return whether all were closed.

    A screen with typed text stays, and a toast reports it.
    """
    while len(app.screen_stack) > 1:
        top_screen = app.screen
        if isinstance(top_screen, LiveScreen) and (unsent_text := top_screen.unsent_text()):
            app.notify(f"{unsent_text} is not sent yet, and stays open", severity="warning")
            return False
        await app.pop_screen()
    return True


def find_unsent_texts(app: App[int], modes: Iterable[str]) -> list[str]:
    """Return summaries of the typed text on all screens of these modes."""
    texts: list[str] = []
    for mode in modes:
        # A mode that was never opened has no screens.
        with contextlib.suppress(KeyError):
            screens = app.get_screen_stack(mode)
            texts += [screen.unsent_text() for screen in screens if isinstance(screen, LiveScreen)]
    return [text for text in texts if text]


_TEXT_BY_PENDING_COMMAND: dict[type[Command], str] = {
    StartAnalysis: "an analysis is running",
    BackUp: "a backup is running",
    RestoreBackup: "a restore is running",
    PutFile: "an upload is running",
    GetFile: "a download is running",
    ExportSelection: "an export is running",
}


def describe_running_work(
    state: State, pending_commands: Iterable[Command], *, includes_recording: bool
) -> list[str]:
    """Return descriptions of the running work that would end with an engine: a recording, a
    benchmark, an analysis, transfers, an export, the packing of a recording.

    `pending_commands` have no reply yet. A recording is included only with
    `includes_recording`: if the user started it in this app.
    """
    texts: list[str] = []
    if state.replay is None:
        if includes_recording and state.recording is not None and state.recording.on:
            texts.append("a recording is running")
        if state.benchmark is not None and state.benchmark.is_running:
            texts.append("a benchmark is running")
    for command in pending_commands:
        if type(command) in _TEXT_BY_PENDING_COMMAND:
            texts.append(_TEXT_BY_PENDING_COMMAND[type(command)])
        elif isinstance(command, ChangeSession) and command.action.startswith("pack"):
            texts.append("a recording is being packed")
    return texts


async def open_mode(app: App[int], mode: str) -> None:
    """Switch to a mode, after closing the upper screens of the current mode; a screen with typed
    text stays open.
    """
    # Screens below the closed ones have not been drawn while those were open.
    with app.batch_update():
        await close_upper_screens(app)
        if mode != app.current_mode:
            await app.switch_mode(mode)


async def run_scenario(app: App[int], scenario: str, system: str) -> None:
    """Open the benchmark screen, and start a scenario there on `system`, the current one."""
    if not await close_upper_screens(app):
        return
    app.switch_mode("benchmark")
    app.call_after_refresh(_start_scenario, app, scenario, system)


def _start_scenario(app: App[int], scenario: str, system: str) -> None:
    from natstui.tui.bench.screen import BenchmarkScreen

    if isinstance(app.screen, BenchmarkScreen):
        app.screen.steering.start(scenario, system)


def _create_read_only_screen(message: Manage, state: State) -> LiveScreen:
    name, _, arguments = message.screen_command.partition(" ")
    if name in ("journal", "undo"):
        from natstui.tui.managing.journal import JournalScreen

        return JournalScreen(undo_last=name == "undo")
    if name == "sub":
        from natstui.tui.messages.listening import ListenScreen

        return ListenScreen(tuple(arguments.split()))
    if name == "backup":
        from natstui.tui.managing.backup import BackupScreen

        return BackupScreen(message.targets[0].stream if message.targets else "", arguments)
    from natstui.tui.messages.screen import MessagesScreen
    from natstui.tui.messages.tail import TailScreen

    stream, consumer, *_ = message.targets[0]
    if message.screen_command in ("clients", "publishers"):
        from natstui.tui.connections.clients import create_clients_screen

        return create_clients_screen(
            state, stream, consumer if message.screen_command == "clients" else None
        )
    if message.screen_command == "tap":
        from natstui.tui.consumers.tap import TapScreen

        if consumer is None:
            raise UsageError("there is no consumer under the cursor")
        return TapScreen(stream, consumer)
    if message.screen_command == "dead-letters":
        from natstui.tui.messages.dead_letters import DeadLettersScreen

        if consumer is None:
            raise UsageError("there is no consumer under the cursor")
        return DeadLettersScreen(stream, consumer)
    if name == "messages":
        return MessagesScreen(stream, consumer, int(arguments) if arguments else None)
    subjects = strings_at(json.loads(_stream_json(state, stream)), "subjects")
    if not subjects:
        raise UsageError(f"{stream} has no subjects of its own to follow")
    return TailScreen(stream, subjects)


def _create_sending_screen(message: Manage, state: State) -> LiveScreen:
    from natstui.tui.messages.publish import PublishScreen
    from natstui.tui.messages.pull import PullScreen

    stream, consumer_or_seq, *_ = message.targets[0]
    if message.screen_command == "pull":
        return PullScreen(stream, consumer_or_seq or "")
    config = state.stream_configurations.get(stream)
    subjects = config.subjects if config else ()
    literal_subjects = [subject for subject in subjects if not has_wildcard(subject)]
    # Of `orders.>` only `orders.`: the user types the rest.
    subject_prefixes = [re.split(r"[*>]", subject, maxsplit=1)[0] for subject in subjects]
    subject = next(iter((*literal_subjects, *subject_prefixes)), "")
    return PublishScreen(stream, subject, int(consumer_or_seq) if consumer_or_seq else None)


def _create_changing_screen(message: Manage, state: State) -> LiveScreen:
    """Create the form or prompt of a change, or the screen of a restore, publish or pull."""
    name, _, arguments = message.screen_command.partition(" ")
    if name == "restore":
        from natstui.tui.managing.backup import RestoreScreen

        return RestoreScreen(arguments)
    if name in ("publish", "pull"):
        return _create_sending_screen(message, state)
    from natstui.tui.consumers.form import (
        ConsumerForm,
        cloned_consumer_asset,
        edited_consumer_asset,
        new_consumer_asset,
        newest_stream,
    )
    from natstui.tui.frame.form.screen import FormScreen
    from natstui.tui.streams.form import (
        StreamForm,
        cloned_stream_asset,
        edited_stream_asset,
        new_stream_asset,
    )

    stream, consumer, created_at_us, *_ = message.targets[0] if message.targets else Target("")
    form: FormScreen
    match name:
        case "add-stream":
            form = StreamForm(new_stream_asset())
        case "clone-stream":
            form = StreamForm(cloned_stream_asset(_stream_json(state, stream)))
        case "edit-stream":
            form = StreamForm(edited_stream_asset(_stream_json(state, stream), created_at_us))
        case "add-consumer":
            stream = stream or newest_stream(state)
            owner_json = _stream_json(state, stream) if stream else None
            form = ConsumerForm(new_consumer_asset(stream, owner_json))
        case "edit-consumer" | "clone-consumer":
            config = state.consumer_configurations.get((stream, consumer or ""))
            if config is None:
                raise UsageError(f"the configuration of {consumer} is not known yet")
            owner_json = _stream_json(state, stream)
            form = ConsumerForm(
                edited_consumer_asset(stream, owner_json, config.config_json, created_at_us)
                if name == "edit-consumer"
                else cloned_consumer_asset(stream, owner_json, config.config_json)
            )
        case _:
            return _create_action_screen(message.screen_command, message.targets, state)
    form.first_path = arguments or form.first_path
    return form


def _create_action_screen(action: str, targets: Sequence[Target], state: State) -> LiveScreen:
    """Create the confirmation screen of an action; raises UsageError without such an action."""
    from natstui.tui.managing.action import ActionScreen

    name, _, number = action.partition(" ")
    spec = SPECS.get(name)
    if spec is None or not spec.has_prompt or not targets:
        raise UsageError(f"there is nothing to {action} here")
    is_production = state.started is not None and state.started.production
    return ActionScreen(spec, targets, is_production, int(number) if number else None)


def _stream_json(state: State, stream: str) -> str:
    """Return a stream's configuration as the server sent it; raises UsageError if it is not
    known yet.
    """
    config = state.stream_configurations.get(stream)
    if config is None:
        raise UsageError(f"the configuration of {stream} is not known yet")
    return config.config_json
