"""Which screen makes, changes, removes or looks inside; imported when one is wanted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from natstui.errors import UsageError
from natstui.model.config_field import strings_at
from natstui.model.state import State
from natstui.model.subjects import has_wildcard
from natstui.tui.messages import Manage

if TYPE_CHECKING:
    from natstui.tui.live import LiveScreen
    from natstui.tui.present.actions import ActionSpec, Target


def managing_screen(message: Manage, state: State) -> LiveScreen:
    """Return the screen for what was asked; raises UsageError when it cannot be."""
    screen = _screen(message, state)
    # A form needs the server's API level before it makes its fields.
    screen.state = state
    return screen


def _screen(message: Manage, state: State) -> LiveScreen:
    if message.what == "journal":
        from natstui.tui.screens.journal import JournalScreen

        return JournalScreen()
    if message.what == "undo":
        from natstui.tui.screens.journal import JournalScreen

        return JournalScreen(undo_last=True)
    if message.what in ("messages", "tail"):
        return _looking(message, state)
    if state.started is not None and state.started.read_only:
        raise UsageError("read-only: nothing is changed on this server")
    if message.what in ("publish", "pull"):
        return _sending(message, state)
    return _form(message, state)


def _looking(message: Manage, state: State) -> LiveScreen:
    from natstui.tui.screens.messages import MessagesScreen
    from natstui.tui.screens.tail import TailScreen

    stream, consumer = message.targets[0]
    if message.what == "messages":
        return MessagesScreen(stream, consumer)
    subjects = strings_at(json.loads(stream_json(state, stream)), "subjects")
    if not subjects:
        raise UsageError(f"{stream} stores no subjects of its own to follow")
    return TailScreen(subjects)


def _sending(message: Manage, state: State) -> LiveScreen:
    from natstui.tui.screens.publish import PublishScreen
    from natstui.tui.screens.pull import PullScreen

    stream, second = message.targets[0]
    if message.what == "pull":
        return PullScreen(stream, second or "")
    config = state.stream_configurations.get(stream)
    plain = [one for one in config.subjects if not has_wildcard(one)] if config else []
    return PublishScreen(stream, plain[0] if plain else "", int(second) if second else None)


def _form(message: Manage, state: State) -> LiveScreen:
    from natstui.tui.screens.consumer_form import ConsumerForm
    from natstui.tui.screens.stream_form import StreamForm

    stream, consumer = message.targets[0] if message.targets else ("", None)
    match message.what:
        case "add-stream":
            return StreamForm.new()
        case "clone-stream":
            return StreamForm.clone(stream_json(state, stream))
        case "edit-stream":
            return StreamForm.edit(stream_json(state, stream))
        case "add-consumer":
            return ConsumerForm.new(stream, stream_json(state, stream))
        case "edit-consumer" | "clone-consumer":
            config = state.consumer_configurations.get((stream, consumer or ""))
            if config is None:
                raise UsageError(f"the configuration of {consumer} is not known yet")
            make = ConsumerForm.edit if message.what == "edit-consumer" else ConsumerForm.clone
            return make(stream, stream_json(state, stream), config.config_json)
        case _:
            return action_screen(message.what, message.targets, state)


def action_screen(action: str, targets: Sequence[Target], state: State) -> LiveScreen:
    """Return the screen that asks before an action is done."""
    from natstui.tui.present.actions import SPECS
    from natstui.tui.screens.action import ActionScreen

    word, _, number = action.partition(" ")
    spec: ActionSpec | None = next((s for name, s in SPECS.items() if name == word), None)
    if spec is None or not targets:
        raise UsageError(f"there is nothing to {action}")
    production = state.started is not None and state.started.production
    return ActionScreen(spec, targets, production, int(number) if number else None)


def stream_json(state: State, stream: str) -> str:
    """Return a stream's configuration as the server wrote it; raises UsageError."""
    config = state.stream_configurations.get(stream)
    if config is None:
        raise UsageError(f"the configuration of {stream} is not known yet")
    return config.config_json
