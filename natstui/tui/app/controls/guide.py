"""The guide: one sentence at a time, from the first table to an analysis.

A step ends when the user has done what its sentence describes. A key skips the step and opens the
screen of the next one, which ends only by a later action of the user, or by the key. The guide
does nothing else for the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from itertools import chain
from typing import ClassVar, NamedTuple

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.model.findings.catalogue.consumers import MAX_ACK_PENDING_REACHED, STUCK_KINDS
from natstui.model.findings.finding import Finding
from natstui.model.live.state import State
from natstui.tui.app.controls.part import AppPart
from natstui.tui.findings.advice import messages_request
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import AppRequest, Open
from natstui.tui.kit.keys import key_of

_KEY_PLACEHOLDER = re.compile(r"\{([a-z._]+)\|(\S+?)\}")
"""A placeholder for a key: the id of its binding, and the default key."""


class _GuideStep(NamedTuple):
    text: str
    mode: str = ""
    """The mode of the step: opened when the previous step is skipped."""
    create_opening_message: Callable[[State], AppRequest | None] = lambda state: None
    """Returns the message to post after the mode was opened; None for no message."""
    screen_to_open: str = ""
    """The class name of the screen that ends the step when it is in view; a name, because most
    screens are imported at their first use.
    """
    screen_to_close: str = ""
    """The class name of the screen that ends the step when it is closed again."""
    texts_for_open_screens: tuple[tuple[str, str], ...] = ()
    """Class names of screens, with the sentence to show while the screen is open; the first match
    is shown.
    """
    is_done: Callable[[State], bool] = lambda state: False
    """Returns whether the step is done in a state."""
    texts_for_states: tuple[tuple[Callable[[State], bool], str], ...] = ()
    """Conditions on the state, with the sentence to show while they are true; the first match is
    shown.
    """

    def key_ids(self) -> list[str]:
        """Return the ids of the keys in all sentences of the step."""
        texts = (
            self.text,
            *(text for _, text in (*self.texts_for_open_screens, *self.texts_for_states)),
        )
        return [match[1] for text in texts for match in _KEY_PLACEHOLDER.finditer(text)]

    def current_text(self, state: State, open_class_names: Collection[str] = ()) -> str:
        """Return the sentence to show in a state while screens of these class names are open."""
        open_screen_texts = (
            text for name, text in self.texts_for_open_screens if name in open_class_names
        )
        texts_for_states = (text for is_true, text in self.texts_for_states if is_true(state))
        return next(chain(open_screen_texts, texts_for_states), self.text)


def _is_recording(state: State) -> bool:
    return state.recording is not None and state.recording.on


def _has_recording_ended(state: State) -> bool:
    return state.recording is not None and not state.recording.on


def _is_replay(state: State) -> bool:
    return state.replay is not None


def _has_ack_limit_finding(state: State) -> bool:
    return any(
        finding.kind is MAX_ACK_PENDING_REACHED for finding in state.findings.list_open_findings()
    )


def _is_benchmark_running(state: State) -> bool:
    return state.benchmark is not None and state.benchmark.is_running


def _has_benchmark_result(state: State) -> bool:
    return state.benchmark is not None and state.benchmark.finished is not None


def _consumer_at_ack_limit(state: State) -> str:
    """Return the name of the first consumer at max ack pending; raises StopIteration if none
    is.
    """
    findings = state.findings.list_open_findings()
    return next(
        finding.entity.consumer for finding in findings if finding.kind is MAX_ACK_PENDING_REACHED
    )


def _worst_finding(state: State) -> Finding | None:
    """Return the worst finding of a consumer, a stuck one first; None without findings."""
    findings = [
        finding for finding in state.findings.list_open_findings() if finding.entity.consumer
    ]
    stuck_findings = [finding for finding in findings if finding.kind in STUCK_KINDS]
    if stuck_findings:
        return min(stuck_findings, key=lambda finding: STUCK_KINDS.index(finding.kind))
    return findings[0] if findings else None


def _worst_consumer_text(state: State) -> str:
    """Return the instruction to move the cursor to the consumer with the worst finding."""
    finding = _worst_finding(state)
    if finding is None:
        return "Move to any of them with ↓"
    if finding.kind in STUCK_KINDS:
        return f"{finding.entity.consumer} is stuck: go to it with ↓"
    return f"{finding.entity.consumer}: {finding.kind.word}. ↓ to it"


def _worst_consumer_request(state: State) -> AppRequest | None:
    finding = _worst_finding(state)
    return (
        None
        if finding is None
        else Open("consumer", finding.entity.stream, finding.entity.consumer)
    )


def _worst_messages_request(state: State) -> AppRequest | None:
    finding = _worst_finding(state)
    return None if finding is None else messages_request(finding)


GUIDE_STEPS = (
    _GuideStep(
        "The overview is on {screen.overview|0}. Press {screen.consumers|2} for every consumer.",
        "overview",
        screen_to_open="ConsumersScreen",
    ),
    _GuideStep(
        "STATUS says what each one does, or what holds it back. {worst}, enter says why.",
        "consumers",
        screen_to_open="ConsumerDetail",
    ),
    _GuideStep(
        "What is wrong, since when, on what evidence, and what to do. "
        "{consumer.messages|m} shows the messages.",
        create_opening_message=_worst_consumer_request,
        screen_to_open="MessagesScreen",
    ),
    _GuideStep(
        "Enter opens one, escape goes back. {screen.events|3} shows what happened.",
        create_opening_message=_worst_messages_request,
        screen_to_open="EventsScreen",
    ),
    _GuideStep(
        "The newest is first. {events.time|t} goes to a time: type 2m ago. {screen.findings|5} "
        "lists all that is wrong.",
        "events",
        screen_to_open="FindingsScreen",
    ),
    _GuideStep(
        "Go with ↓ to one that can be fixed here: {finding.act|.} opens the form for it.",
        "findings",
        screen_to_close="ConsumerForm",
        texts_for_open_screens=(
            (
                "ConsumerForm",
                "The cursor is in the right field: type 0 to make it ten times as many. ^s "
                "sends it, escape leaves.",
            ),
        ),
        texts_for_states=(
            (
                _has_ack_limit_finding,
                "{stopped} receives no more: too many messages wait for their ack. Go to it "
                "with ↓, {finding.act|.} opens the form.",
            ),
        ),
    ),
    _GuideStep(
        "A fixed finding leaves this list within seconds, {finding.over|f} shows it again. "
        "{screen.overview|0} has what is left.",
        "findings",
        screen_to_open="OverviewScreen",
    ),
    _GuideStep(
        "Now a work queue of your own: {screen.streams|1}, then {stream.add|a}.",
        "streams",
        screen_to_close="StreamForm",
        texts_for_open_screens=(
            (
                "StreamForm",
                "Type a name, ↓ to Retention, → until workqueue. ^s sends it, escape leaves.",
            ),
        ),
    ),
    _GuideStep(
        "{screen.benchmark|b}, and {bench.pick|b} again: a form for a benchmark. ^o there has "
        "built-in ones, as 15,000 to 3; ^s runs it.",
        "benchmark",
        is_done=_has_benchmark_result,
        texts_for_open_screens=(
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
        texts_for_states=(
            (_is_benchmark_running, "The benchmark runs. Its result appears here at the end."),
        ),
    ),
    _GuideStep("{record|R} records everything from now on.", is_done=_is_recording),
    _GuideStep(
        "No recording is running: {record|R} starts one, and again ends it.",
        is_done=_has_recording_ended,
        texts_for_states=(
            (_is_recording, "natstui records. {record|R} again ends the recording."),
        ),
    ),
    _GuideStep("{command|:}sessions lists the recordings: enter replays one.", is_done=_is_replay),
    _GuideStep(
        "The same screens show the past. space pauses and continues, escape returns to the list. "
        "{command|:}analyze shows what stood out.",
        screen_to_close="AnalysisScreen",
        texts_for_open_screens=(
            (
                "AnalysisScreen",
                "What stood out, the worst first, once the recording is read. Escape leaves.",
            ),
        ),
        texts_for_states=(
            (
                lambda state: state.replay is None,
                "{command|:}analyze shows what stood out in the newest recording.",
            ),
        ),
    ),
    _GuideStep("{help|?} lists every key and column of a screen.", screen_to_close="HelpScreen"),
)
_LAST_LINE_INDEX = len(GUIDE_STEPS)
"""The index after the last step: the last line is shown instead of a step."""
_GUIDE_OFF_INDEX = _LAST_LINE_INDEX + 1
"""The index of a guide that is off: nothing is shown."""
_LAST_LINE = "That was all: {command|:}guide starts again."
LAST_LINE_SHOWN_S = 20.0
"""How long the last line is shown, unless a key hides it."""


class Guide(AppPart):
    """The guide and its current step; off until `:guide`, except in the demo."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+g", "part('guide', 'next')", "Guide", show=False, id="guide.next"),
    ]

    def __init__(
        self,
        app: App[int],
        state: Callable[[], State],
        show_state_soon: Callable[[], None],
        *,
        is_on: bool,
    ) -> None:
        self._app, self._state, self._show_state_soon = app, state, show_state_soon
        self._step_index = 0 if is_on else _GUIDE_OFF_INDEX
        self._was_screen_opened = False
        """Whether the screen that ends the step by being closed was opened."""
        self._was_step_done_at_start = False
        """Whether the step has been done since the previous one was skipped: not by the user."""

    def is_offered(self, action: str, *, is_typing: bool) -> bool:
        """Return whether the key that skips a step is offered: while a step or the last line of
        the guide is shown.
        """
        return self._step_index < _GUIDE_OFF_INDEX

    def action_next(self) -> None:
        """Skip to the next step and open its screen, or end the guide."""
        self._set_step_index(self._step_index + 1)
        if self._step_index < _LAST_LINE_INDEX:
            step = GUIDE_STEPS[self._step_index]
            self._was_step_done_at_start = self._is_done(step)
            if step.mode:
                # As its key does: not from a screen where something is typed.
                self._app.call_later(self._app.run_action, f"switch_mode('{step.mode}')")
            if (message := step.create_opening_message(self._state())) is not None:
                self._app.post_message(message)
        self._refresh_screen()

    def start_or_end(self) -> None:
        """Start with the first step, or end a running guide."""
        self._set_step_index(0 if self._step_index >= _LAST_LINE_INDEX else _GUIDE_OFF_INDEX)
        self._refresh_screen()

    def _set_step_index(self, index: int) -> None:
        self._step_index, self._was_screen_opened, self._was_step_done_at_start = (
            index,
            False,
            False,
        )
        if index == _LAST_LINE_INDEX:
            self._app.set_timer(LAST_LINE_SHOWN_S, self._hide_last_line)

    def _hide_last_line(self) -> None:
        """Hide the last line of the guide, unless the guide was started again meanwhile."""
        if self._step_index == _LAST_LINE_INDEX:
            self._set_step_index(_GUIDE_OFF_INDEX)
            self._refresh_screen()

    def _refresh_screen(self) -> None:
        self._app.refresh_bindings()
        self._show_state_soon()

    def advance(self) -> None:
        """Move to the next step when the current one is done."""
        if self._step_index >= _LAST_LINE_INDEX or not self._app.screen_stack:
            return
        step = GUIDE_STEPS[self._step_index]
        open_class_names = self._open_class_names()
        was_screen_closed = (
            self._was_screen_opened and step.screen_to_close not in open_class_names
        )
        self._was_screen_opened = step.screen_to_close in open_class_names
        is_done = self._is_done(step)
        self._was_step_done_at_start = self._was_step_done_at_start and is_done
        if was_screen_closed or (is_done and not self._was_step_done_at_start):
            self._set_step_index(self._step_index + 1)

    def _is_done(self, step: _GuideStep) -> bool:
        """Return whether the screen that ends a step is in view, or its condition is true."""
        class_name_in_view = type(self._app.screen).__name__
        return class_name_in_view == step.screen_to_open or step.is_done(self._state())

    def _open_class_names(self) -> set[str]:
        """Return the class names of the open screens."""
        return {type(screen).__name__ for screen in self._app.screen_stack}

    def text(self) -> str:
        """Return the sentence of the current step with the user's own keys; empty when off."""
        screen = self._app.screen if self._app.screen_stack else None
        if self._step_index >= _GUIDE_OFF_INDEX or not isinstance(screen, LiveScreen):
            return ""

        def key(match: re.Match[str]) -> str:
            return key_of(screen, match[1]) or match[2]

        key_id = key_of(screen, "guide.next")
        if self._step_index == _LAST_LINE_INDEX:
            return _KEY_PLACEHOLDER.sub(key, _LAST_LINE) + (
                f"  ({key_id} closes this)" if key_id else ""
            )
        sentence = _KEY_PLACEHOLDER.sub(
            key,
            GUIDE_STEPS[self._step_index].current_text(self._state(), self._open_class_names()),
        )
        if "{worst}" in sentence:
            sentence = sentence.replace("{worst}", _worst_consumer_text(self._state()))
        if "{stopped}" in sentence:
            sentence = sentence.replace("{stopped}", _consumer_at_ack_limit(self._state()))
        return f"Guide {self._step_index + 1}/{len(GUIDE_STEPS)}  {sentence}" + (
            f"  ({key_id}: next)" if key_id else ""
        )
