"""The guide: one sentence at a time, from the first table to an analysis.

A step ends when the user has done what its sentence says. A key skips it and opens the screen of
the next step, which ends only with what the user does from then on, or with the key. The guide
does nothing else for the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from itertools import chain
from typing import ClassVar, NamedTuple

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.model.findings.catalogue.consumers import ACK_LIMIT, STANDSTILL
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.tui.app.controls.part import Part
from natstui.tui.findings.advice import messages_message
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Open, ToApp
from natstui.tui.kit.keys import key_of

_KEY = re.compile(r"\{([a-z._]+)\|(\S+?)\}")
"""A placeholder for a key: the id of its binding, and the default key."""


class _Step(NamedTuple):
    text: str
    mode: str = ""
    """The list of the step: it is opened when the previous step is skipped."""
    opens: Callable[[State], ToApp | None] = lambda state: None
    """Returns the message that is then posted on the list, if any."""
    reached: str = ""
    """The class name of the screen that ends the step, by name because most are imported at first
    use.
    """
    left: str = ""
    """The class name of a screen that ends the step once it was opened and closed again."""
    there: tuple[tuple[str, str], ...] = ()
    """Other sentences while a screen with a class name is open: the first match is shown."""
    holds: Callable[[State], bool] = lambda state: False
    """Returns whether a state ends the step."""
    meanwhile: tuple[tuple[Callable[[State], bool], str], ...] = ()
    """Other sentences while a condition on the state is true: the first match is shown."""

    def key_ids(self) -> list[str]:
        """Return the ids of the keys in its sentences."""
        texts = (self.text, *(text for _, text in (*self.there, *self.meanwhile)))
        return [match[1] for text in texts for match in _KEY.finditer(text)]

    def said(self, state: State, open_: Collection[str] = ()) -> str:
        """Return the current sentence, given the class names of the open screens."""
        open_screen_texts = (text for name, text in self.there if name in open_)
        now = (text for holds, text in self.meanwhile if holds(state))
        return next(chain(open_screen_texts, now), self.text)


def _is_recording(state: State) -> bool:
    return state.recording is not None and state.recording.on


def _was_recording(state: State) -> bool:
    return state.recording is not None and not state.recording.on


def _replays(state: State) -> bool:
    return state.replay is not None


def _waits_for_acks(state: State) -> bool:
    return any(finding.kind is ACK_LIMIT for finding in state.findings.open())


def _runs_load(state: State) -> bool:
    return state.benchmark is not None and state.benchmark.is_running


def _ran_load(state: State) -> bool:
    return state.benchmark is not None and state.benchmark.finished is not None


def _stopped(state: State) -> str:
    """Return the first consumer at max ack pending."""
    findings = state.findings.open()
    return next(finding.entity.consumer for finding in findings if finding.kind is ACK_LIMIT)


def _worst_finding(state: State) -> Finding | None:
    """Return the worst finding of a consumer, stuck ones first; None without one."""
    findings = [finding for finding in state.findings.open() if finding.entity.consumer]
    stuck = [finding for finding in findings if finding.kind in STANDSTILL]
    if stuck:
        return min(stuck, key=lambda finding: STANDSTILL.index(finding.kind))
    return findings[0] if findings else None


def _worst(state: State) -> str:
    """Return the name of the consumer with the worst finding."""
    finding = _worst_finding(state)
    if finding is None:
        return "Move to any of them with ↓"
    if finding.kind in STANDSTILL:
        return f"{finding.entity.consumer} is stuck: go to it with ↓"
    return f"{finding.entity.consumer}: {finding.kind.word}. ↓ to it"


def _place_of_worst(state: State) -> ToApp | None:
    finding = _worst_finding(state)
    return (
        None
        if finding is None
        else Open("consumer", finding.entity.stream, finding.entity.consumer)
    )


def _messages_of_worst(state: State) -> ToApp | None:
    finding = _worst_finding(state)
    return None if finding is None else messages_message(finding)


STEPS = (
    _Step(
        "The overview is on {screen.overview|0}. Press {screen.consumers|2} for every consumer.",
        "overview",
        reached="ConsumersScreen",
    ),
    _Step(
        "STATUS says what each one does, or what holds it back. {worst}, enter says why.",
        "consumers",
        reached="ConsumerDetail",
    ),
    _Step(
        "What is wrong, since when, on what evidence, and what to do. "
        "{consumer.messages|m} shows the messages.",
        opens=_place_of_worst,
        reached="MessagesScreen",
    ),
    _Step(
        "Enter opens one, escape goes back. {screen.events|3} shows what happened.",
        opens=_messages_of_worst,
        reached="EventsScreen",
    ),
    _Step(
        "The newest is first. {events.time|t} goes to a time: type 2m ago. {screen.findings|5} "
        "lists all that is wrong.",
        "events",
        reached="FindingsScreen",
    ),
    _Step(
        "Go with ↓ to one that can be fixed here: {finding.act|.} opens the form for it.",
        "findings",
        left="ConsumerForm",
        there=(
            (
                "ConsumerForm",
                "The cursor is in the right field: type 0 to make it ten times as many. ^s "
                "sends it, escape leaves.",
            ),
        ),
        meanwhile=(
            (
                _waits_for_acks,
                "{stopped} receives no more: too many messages wait for their ack. Go to it "
                "with ↓, {finding.act|.} opens the form.",
            ),
        ),
    ),
    _Step(
        "A fixed finding leaves this list within seconds, {finding.over|f} shows it again. "
        "{screen.overview|0} has what is left.",
        "findings",
        reached="OverviewScreen",
    ),
    _Step(
        "Now a work queue of your own: {screen.streams|1}, then {stream.add|a}.",
        "streams",
        left="StreamForm",
        there=(
            (
                "StreamForm",
                "Type a name, ↓ to Retention, → until workqueue. ^s sends it, escape leaves.",
            ),
        ),
    ),
    _Step(
        "{screen.benchmark|b}, and {bench.pick|b} again: a form for a benchmark. ^o there has "
        "built-in ones, as 15,000 to 3; ^s runs it.",
        "benchmark",
        holds=_ran_load,
        there=(
            (
                "ScenariosScreen",
                "Go with ↓ to fanout-slow: 15,000 to 3. ^s runs it as it is, enter puts it "
                "into the form.",
            ),
            (
                "BenchmarkForm",
                "Set the load above; its cost is shown below. ^o has built-in ones, as 15,000 "
                "to 3; ^s runs it.",
            ),
        ),
        meanwhile=((_runs_load, "The benchmark runs. Its result appears here at the end."),),
    ),
    _Step("{record|R} records everything from now on.", holds=_is_recording),
    _Step(
        "No recording is running: {record|R} starts one, and again ends it.",
        holds=_was_recording,
        meanwhile=((_is_recording, "natstui records. {record|R} again ends the recording."),),
    ),
    _Step("{command|:}sessions lists the recordings: enter replays one.", holds=_replays),
    _Step(
        "The same screens show the past. space pauses and continues, escape returns to the list. "
        "{command|:}analyze shows what stood out.",
        left="AnalysisScreen",
        there=(
            (
                "AnalysisScreen",
                "What stood out, the worst first, once the recording is read. Escape leaves.",
            ),
        ),
        meanwhile=(
            (
                lambda state: state.replay is None,
                "{command|:}analyze shows what stood out in the newest recording.",
            ),
        ),
    ),
    _Step("{help|?} lists every key and column of a screen.", left="HelpScreen"),
)
_END = len(STEPS)
"""The index after the last step: the last line is shown."""
_OFF = _END + 1
_LAST_LINE = "That was all: {command|:}guide starts again."
LAST_LINE_S = 20.0
"""How long the last line is shown, unless a key hides it."""


class Guide(Part):
    """The current step of the guide; none in a real session until `:guide`."""

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
        self._at = 0 if is_on else _OFF
        self._opened = False
        """The screen that ends the step by being left was opened."""
        self._was_over = False
        """What ends the step was so already when the one before was skipped, and still is."""

    def may(self, action: str, *, typing: bool) -> bool:
        """Return whether the key is offered: while there is a step to skip, or the last line."""
        return self._at < _OFF

    def action_next(self) -> None:
        """Skip to the next step and open its screen, or end the guide."""
        self._go(self._at + 1)
        if self._at < _END:
            step = STEPS[self._at]
            self._was_over = self._is_over(step)
            if step.mode:
                # As its key does: not from a screen where something is typed.
                self._app.call_later(self._app.run_action, f"switch_mode('{step.mode}')")
            if (message := step.opens(self._state())) is not None:
                self._app.post_message(message)
        self._changed()

    def begin_or_end(self) -> None:
        """Start with the first step, or end a running guide."""
        self._go(0 if self._at >= _END else _OFF)
        self._changed()

    def _go(self, index: int) -> None:
        self._at, self._opened, self._was_over = index, False, False
        if index == _END:
            self._app.set_timer(LAST_LINE_S, self._end)

    def _end(self) -> None:
        """Hide the last line, unless the guide was started again meanwhile."""
        if self._at == _END:
            self._go(_OFF)
            self._changed()

    def _changed(self) -> None:
        self._app.refresh_bindings()
        self._show_soon()

    def look(self) -> None:
        """Move to the next step when the current one is done."""
        if self._at >= _END or not self._app.screen_stack:
            return
        step = STEPS[self._at]
        open_ = self._open()
        was_left = self._opened and step.left not in open_
        self._opened = step.left in open_
        is_done = self._is_over(step)
        self._was_over = self._was_over and is_done
        if was_left or (is_done and not self._was_over):
            self._go(self._at + 1)

    def _is_over(self, step: _Step) -> bool:
        """Return whether the screen that ends a step is in view, or its condition is true."""
        in_view = type(self._app.screen).__name__
        return in_view == step.reached or step.holds(self._state())

    def _open(self) -> set[str]:
        """Return the class names of the open screens."""
        return {type(screen).__name__ for screen in self._app.screen_stack}

    def text(self) -> str:
        """Return the sentence of the current step, with the user's own keys; empty without one."""
        screen = self._app.screen if self._app.screen_stack else None
        if self._at >= _OFF or not isinstance(screen, LiveScreen):
            return ""

        def key(match: re.Match[str]) -> str:
            return key_of(screen, match[1]) or match[2]

        key_id = key_of(screen, "guide.next")
        if self._at == _END:
            return _KEY.sub(key, _LAST_LINE) + (f"  ({key_id} closes this)" if key_id else "")
        sentence = _KEY.sub(key, STEPS[self._at].said(self._state(), self._open()))
        if "{worst}" in sentence:
            sentence = sentence.replace("{worst}", _worst(self._state()))
        if "{stopped}" in sentence:
            sentence = sentence.replace("{stopped}", _stopped(self._state()))
        return f"Guide {self._at + 1}/{_END}  {sentence}" + (
            f"  ({key_id}: next)" if key_id else ""
        )
