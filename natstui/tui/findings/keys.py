"""Keys of a finding: open its entity, execute its advice, list its messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.model.assets.meaning import duration_meaning
from natstui.model.findings.finding import Finding
from natstui.model.records.managing import SilenceFinding
from natstui.tui.findings.advice import (
    action_message,
    advised,
    messages_message,
    name_of,
    place_of,
)
from natstui.tui.findings.cells import entity_text
from natstui.tui.frame.action_keys import SPECS, allowed, not_allowed
from natstui.tui.frame.live import LiveScreen, Question, ScreenPart, ask
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.text import safe_copy
from natstui.units import parse_duration_ns

_EXAMPLE = "1h the client is being fixed"
_LONGEST_S = 366 * 86_400.0


class FindingKeys(ScreenPart):
    """The keys that the findings table and the finding screen share."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("full_stop", "part('finding', 'act')", "Act", key_display=".", id="finding.act"),
        Binding("m", "part('finding', 'messages')", "Messages", id="finding.messages"),
        Binding("z", "part('finding', 'silence')", "Silence", id="finding.silence"),
    ]

    def __init__(self, screen: LiveScreen, get_finding: Callable[[], Finding | None]) -> None:
        """Create for a screen; `get_finding` returns the chosen finding."""
        self._screen, self._chosen = screen, get_finding

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: with a finding; in a replay only local ones."""
        finding = self._chosen()
        if finding is None or (action == "messages" and not finding.entity.stream):
            return False
        if action in ("act", "silence") and finding.until_us is not None:
            return False
        return action == "go" or self._screen.state.replay is None

    def action_go(self) -> None:
        """Open the entity of the finding."""
        if (finding := self._chosen()) is None:
            return
        destination = place_of(finding, self._screen.state)
        if isinstance(destination, str):
            self._say(destination)
        else:
            self._screen.app.post_message(destination)

    def action_messages(self) -> None:
        """List the messages of its evidence, else the newest of its stream."""
        if (finding := self._chosen()) is not None:
            self._screen.app.post_message(messages_message(finding))

    def action_act(self) -> None:
        """Execute an advised action, with its usual prompt."""
        if (finding := self._chosen()) is None:
            return
        actions = advised(finding)
        if not actions:
            self._say(finding.act)
        elif len(actions) == 1:
            self._do(finding, actions[0])
        else:
            options = [(action, _help_of(action)) for action in actions]
            # The cursor may be on a finding of another system when it is picked.
            system = self._screen.where.system
            self._screen.app.push_screen(
                Pick(f"{finding.kind.word}: {clean_line(finding.act)}", options),
                lambda action: self._do(finding, action, system) if action else None,
            )

    def action_silence(self) -> None:
        """Prompt to silence the finding for a time with a reason, or end its silence."""
        if (finding := self._chosen()) is None:
            return
        if self._screen.state.findings.silence_of(finding) is not None:
            self._screen.engine.start(silence_command(finding, None), finding.kind.code)
        else:
            words = silence_question(finding)
            title = finding.kind.code

            prompt = Question(
                words, partial(silence_command, finding), title=title,
                refusal=silence_refusal, meaning=silence_meaning, text="1h ", changes_host=True,
            )  # fmt: skip
            ask(self._screen, prompt)

    def _do(self, finding: Finding, action: str, system: str | None = None) -> None:
        state = self._screen.state
        if allowed(state, name_of(action)):
            message = action_message(finding, action)
            message.system = system
            self._screen.app.post_message(message)
        else:
            self._say(f"{action}: {not_allowed(state)}; {finding.act}")

    def _say(self, text: str) -> None:
        self._screen.notify(safe_copy(text), severity="warning", timeout=6, markup=False)


def _help_of(action: str) -> str:
    """Return the help of an action; of a form, with the field to edit."""
    name, _, field = action.partition(" ")
    spec = SPECS[name]
    if spec.is_asked:
        return spec.help
    return f"{spec.label}: {field}" if field else spec.label


def silence_question(finding: Finding) -> str:
    """Return the title of the silence prompt."""
    finding_text = f"{finding.kind.code} {finding.kind.word} of {entity_text(finding.entity)}"
    return f"Silence {finding_text}: for how long, and why? Example: {_EXAMPLE}"


def _parts(text: str) -> tuple[float, str]:
    """Return duration and reason; raises ValueError for an invalid duration."""
    time, _, reason = text.strip().partition(" ")
    return parse_duration_ns(time) / 1e9, clean_line(reason.strip())


def silence_refusal(text: str) -> str:
    """Return why a typed text is refused; empty if it is accepted."""
    try:
        for_s, reason = _parts(text)
    except ValueError as error:
        return f"The first word is not a duration ({error}): write it as {_EXAMPLE}"
    if not 0 < for_s <= _LONGEST_S:
        return "The duration must be longer than 0 and at most a year"
    return "" if reason else f"A reason is missing: write it as {_EXAMPLE}"


def silence_meaning(text: str) -> str:
    """Return the duration of a typed silence as text; empty while it is not valid."""
    return duration_meaning(text.strip().partition(" ")[0])


def silence_command(finding: Finding, text: str | None) -> SilenceFinding:
    """Return the command that silences a finding; without a text, that ends the silence."""
    for_s, reason = (None, "") if text is None else _parts(text)
    entity = finding.entity
    return SilenceFinding(
        0,
        finding.kind.code,
        entity.stream,
        entity.consumer,
        entity.created_at_us,
        entity.part,
        reason,
        for_s,
    )
