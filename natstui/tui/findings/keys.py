"""Keys of a finding: open its entity, execute its advice, list its messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.model.assets.meaning import duration_meaning
from natstui.model.columns.findings import entity_text
from natstui.model.findings.finding import Finding
from natstui.model.keys import DEFAULT_KEYS
from natstui.model.records.managing import SilenceFinding
from natstui.tui.findings.advice import (
    action_name,
    action_request,
    advised_actions,
    find_destination,
    messages_request,
)
from natstui.tui.frame.action_keys import SPECS, is_allowed, refusal_text
from natstui.tui.frame.live import CommandPrompt, LiveScreen, ScreenPart, prompt_command
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.keys import user_keys
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.text import safe_copy
from natstui.units import parse_duration_ns

_SILENCE_EXAMPLE = "1h the client is being fixed"
_MAX_SILENCE_S = 366 * 86_400.0


class FindingKeys(ScreenPart):
    """The keys that the findings table and the finding screen share."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(DEFAULT_KEYS["finding.act"], "part('finding', 'act')", "Act", id="finding.act"),
        Binding("m", "part('finding', 'messages')", "Messages", id="finding.messages"),
        Binding("z", "part('finding', 'silence')", "Silence", id="finding.silence"),
    ]

    def __init__(self, screen: LiveScreen, get_finding: Callable[[], Finding | None]) -> None:
        """Create the keys of a screen; `get_finding` returns the finding to act on, None without
        one.
        """
        self._screen, self._get_finding = screen, get_finding

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered for the finding; in a replay only opening its entity
        is.
        """
        finding = self._get_finding()
        if finding is None or (action == "messages" and not finding.entity.stream):
            return False
        if action in ("act", "silence") and finding.until_us is not None:
            return False
        return action == "go" or self._screen.state.replay is None

    def action_go(self) -> None:
        """Open the entity of the finding, or show why it cannot be opened."""
        if (finding := self._get_finding()) is None:
            return
        destination = find_destination(finding, self._screen.state)
        if isinstance(destination, str):
            self._notify(destination)
        else:
            self._screen.app.post_message(destination)

    def action_messages(self) -> None:
        """List the messages in the finding's evidence, else the newest of its stream."""
        if (finding := self._get_finding()) is not None:
            self._screen.app.post_message(messages_request(finding))

    def action_act(self) -> None:
        """Execute the advised action of the finding; if several are advised, prompt for one."""
        if (finding := self._get_finding()) is None:
            return
        actions = advised_actions(finding)
        if not actions:
            self._notify(self._advice(finding))
        elif len(actions) == 1:
            self._execute_action(finding, actions[0])
        else:
            run_task(self._screen, self._pick_action, finding, actions)

    async def _pick_action(self, finding: Finding, actions: Sequence[str]) -> None:
        options = [(action, _action_help(action)) for action in actions]
        # The cursor may be on a finding of another system when it is picked.
        system = self._screen.scope.shown_system
        pick = PickDialog(f"{finding.kind.word}: {clean_line(self._advice(finding))}", options)
        if action := await self._screen.app.push_screen_wait(pick):
            self._execute_action(finding, action, system)

    def action_silence(self) -> None:
        """Prompt to silence the finding for a time with a reason, or end its silence."""
        if (finding := self._get_finding()) is None:
            return
        if self._screen.state.findings.find_silence(finding) is not None:
            self._screen.engine.start(silence_command(finding, None), finding.kind.code)
        else:
            sentence = silence_prompt(finding)
            title = finding.kind.code

            prompt = CommandPrompt(
                sentence, partial(silence_command, finding), title=title,
                refusal=silence_refusal, meaning=silence_meaning, text="1h ", changes_host=True,
            )  # fmt: skip
            prompt_command(self._screen, prompt)

    def _execute_action(self, finding: Finding, action: str, system: str | None = None) -> None:
        state = self._screen.state
        if is_allowed(state, action_name(action)):
            message = action_request(finding, action)
            message.system = system
            self._screen.app.post_message(message)
        else:
            self._notify(f"{action}: {refusal_text(state)}; {self._advice(finding)}")

    def _advice(self, finding: Finding) -> str:
        return finding.advice(user_keys(self._screen))

    def _notify(self, text: str) -> None:
        self._screen.notify(safe_copy(text), severity="warning", timeout=6, markup=False)


def _action_help(action: str) -> str:
    """Return the help of an action; for a form, its label and the field to edit."""
    name, _, field = action.partition(" ")
    spec = SPECS[name]
    if spec.has_prompt:
        return spec.help
    return f"{spec.label}: {field}" if field else spec.label


def silence_prompt(finding: Finding) -> str:
    """Return the title of the silence prompt."""
    finding_text = f"{finding.kind.code} {finding.kind.word} of {entity_text(finding.entity)}"
    return f"Silence {finding_text}: for how long, and why? Example: {_SILENCE_EXAMPLE}"


def _parse_silence(text: str) -> tuple[float, str]:
    """Return the duration in seconds and the reason; raises ValueError for a bad duration."""
    duration, _, reason = text.strip().partition(" ")
    return parse_duration_ns(duration) / 1e9, clean_line(reason.strip())


def silence_refusal(text: str) -> str:
    """Return the error in a typed duration and reason; empty if both are valid."""
    try:
        duration_s, reason = _parse_silence(text)
    except ValueError as error:
        return f"The first word is not a duration ({error}): write it as {_SILENCE_EXAMPLE}"
    if not 0 < duration_s <= _MAX_SILENCE_S:
        return "The duration must be longer than 0 and at most a year"
    return "" if reason else f"A reason is missing: write it as {_SILENCE_EXAMPLE}"


def silence_meaning(text: str) -> str:
    """Return the typed duration in words; empty while it is not valid."""
    return duration_meaning(text.strip().partition(" ")[0])


def silence_command(finding: Finding, text: str | None) -> SilenceFinding:
    """Return the command that silences a finding, or without a text ends its silence.

    `text` is the typed duration and reason; raises ValueError for a bad duration.
    """
    duration_s, reason = (None, "") if text is None else _parse_silence(text)
    entity = finding.entity
    return SilenceFinding(
        0,
        finding.kind.code,
        entity.stream,
        entity.consumer,
        entity.created_at_us,
        entity.part,
        reason,
        duration_s,
    )
