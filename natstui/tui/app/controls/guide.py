"""The guide: one sentence at a time, from the first table to an analysis.

A step is over when the user did what it says; a key skips it. Nothing is done for the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.model.live.state import State
from natstui.tui.app.controls.part import Part
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.keys import key_of

_KEY = re.compile(r"\{([a-z._]+)\|(\S+?)\}")
"""A place for a key: the id of its binding, and the key where a screen does not offer it."""


class _Step(NamedTuple):
    text: str
    reached: str = ""
    """The screen that ends the step, by its class: most are imported only when they are wanted."""
    holds: Callable[[State], bool] = lambda state: False
    """What else ends it."""

    def key_ids(self) -> list[str]:
        """Return the ids of the keys that it names."""
        return [found[1] for found in _KEY.finditer(self.text)]


def _is_recording(state: State) -> bool:
    return state.recording is not None and state.recording.on


STEPS = (
    _Step(
        "Each stream: what it stores, and how fast. {screen.consumers|2} shows their consumers.",
        "ConsumersScreen",
    ),
    _Step(
        "STATUS says what each one does, or what holds it back. {worst}: enter says why.",
        "ConsumerDetail",
    ),
    _Step(
        "Since when, on what evidence, and what to do. {consumer.messages|m} shows the messages.",
        "MessagesScreen",
    ),
    _Step(
        "Enter opens one, escape goes back. {screen.findings|5} lists all that is wrong.",
        "FindingsScreen",
    ),
    _Step(
        "Now a stream of your own: {screen.streams|1}, then {stream.add|a}. "
        "Nothing is sent before ^s; escape leaves.",
        "StreamForm",
    ),
    _Step(
        "{screen.benchmark|b}, and {bench.pick|b} there: load with live charts; "
        "a ready scenario starts with ^s.",
        holds=lambda state: state.benchmark is not None and state.benchmark.planned is not None,
    ),
    _Step("{record|R} records everything from now on.", holds=_is_recording),
    _Step(
        "{record|R} again ends the recording. {command|:}sessions lists it: enter replays it.",
        holds=lambda state: state.replay is not None,
    ),
    _Step(
        "The same screens, as it was. space plays, escape leads back to the server. "
        "{command|:}analyze says what stood out.",
        "AnalysisScreen",
    ),
    _Step(
        "{help|?} lists every key and column of a screen, {command|:}guide begins here again.",
        "HelpScreen",
    ),
)


class Guide(Part):
    """Which step the user is at; none in a real session until `:guide`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+g", "part('guide', 'next')", "Guide", show=False, id="guide.next"),
    ]

    def __init__(
        self,
        app: App[int],
        state: Callable[[], State],
        show_soon: Callable[[], None],
        *,
        is_on: bool,
    ) -> None:
        self._app, self._state, self._show_soon = app, state, show_soon
        self._at = 0 if is_on else len(STEPS)

    def may(self, action: str, *, typing: bool) -> bool:
        """Offer the key while there is a step to skip."""
        return self._at < len(STEPS)

    def action_next(self) -> None:
        """Go on to the next step, or end."""
        self._at += 1
        self._changed()

    def begin_or_end(self) -> None:
        """Begin with the first step; end a guide that is shown."""
        self._at = 0 if self._at >= len(STEPS) else len(STEPS)
        self._changed()

    def _changed(self) -> None:
        self._app.refresh_bindings()
        self._show_soon()

    def look(self) -> None:
        """Go on when what the present step says was done."""
        if self._at >= len(STEPS) or not self._app.screen_stack:
            return
        step = STEPS[self._at]
        if type(self._app.screen).__name__ == step.reached or step.holds(self._state()):
            self._at += 1

    def text(self) -> str:
        """Return the sentence of the present step, with the user's own keys; empty without one."""
        screen = self._app.screen if self._app.screen_stack else None
        if self._at >= len(STEPS) or not isinstance(screen, LiveScreen):
            return ""

        def key(found: re.Match[str]) -> str:
            return key_of(screen, found[1]) or found[2]

        words = _KEY.sub(key, STEPS[self._at].text)
        if "{worst}" in words:
            words = words.replace("{worst}", _worst(self._state()))
        skip = key_of(screen, "guide.next")
        return f"{self._at + 1}/{len(STEPS)}  {words}" + (f"  ({skip} skips)" if skip else "")


def _worst(state: State) -> str:
    """Return which consumer to look at: one with the worst finding, if any has one."""
    found = (one for one in state.findings.open() if one.entity.consumer)
    worst = next(found, None)
    if worst is None:
        return "Move to any of them"
    return f"{worst.entity.consumer}: {worst.kind.word}. Move there"
