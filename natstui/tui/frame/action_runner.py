"""Executes the keys of actions, on tables and details alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.finding import Entity, Finding
from natstui.model.live.state import State
from natstui.tui.frame.action_keys import (
    CONSUMER_ACTIONS,
    SPECS,
    STREAM_ACTIONS,
    ActionSpec,
    Target,
    allowed,
    made_at_us,
    not_allowed,
)
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt


async def choose_consumer(
    screen: LiveScreen, stream: str, consumer: str | None, *, is_pull: bool = False
) -> str:
    """Return the named consumer, else the only one, else one that the user picks; empty
    for none.
    """
    if consumer is not None:
        return consumer
    names, unknown = consumers_of(screen.state, stream, is_pull=is_pull)
    kind = "pull consumer" if is_pull else "consumer"
    title = f"Which {kind} of {stream}?"
    if len(names) == 1:
        return names[0]
    if names:
        pick = Pick(title, [(name, "") for name in names])
        return await screen.app.push_screen_wait(pick) or ""
    if unknown:
        return (await screen.app.push_screen_wait(Prompt(title)) or "").strip()
    screen.notify(f"{stream} has no {kind}", severity="warning", markup=False)
    return ""


def choose_action(
    screen: LiveScreen, title: str, actions: Sequence[tuple[ActionSpec, Callable[[], None]]]
) -> None:
    """Show a list of the actions on the row under the cursor, and execute the chosen one."""
    callbacks = {spec.label: do for spec, do in actions if allowed(screen.state, spec.name)}
    options = [(spec.label, spec.told) for spec, _ in actions if spec.label in callbacks]

    def do(label: str | None) -> None:
        if label is not None:
            callbacks[label]()

    screen.app.push_screen(Pick(title, options), do)


async def open_pull(screen: LiveScreen, stream: str, consumer: str | None) -> None:
    """Open the pull screen of a consumer; the user chooses one if none is named."""
    system = screen.where.system
    if name := await choose_consumer(screen, stream, consumer, is_pull=True):
        message = Manage("pull", (Target(stream, name),))
        message.system = system
        screen.app.post_message(message)


def messages_from(target: Target, finding: Finding | None) -> Manage:
    """Return the message that opens the message list: at the finding's first sequence, else the
    newest.
    """
    first = f" {finding.sequences[0]}" if finding is not None and finding.sequences else ""
    return Manage(f"messages{first}", (target,))


def finding_of_messages(
    state: State, target: Target, first_seq: int | None = None
) -> Finding | None:
    """Return the worst open finding of a consumer with sequences, or with `first_seq` as the
    first.
    """
    created_at_us = made_at_us(state, target) if target.consumer is not None else None
    if created_at_us is None:
        return None
    findings = state.findings.of(Entity(target.stream, target.consumer or "", created_at_us))
    with_sequences = (finding for finding in findings if finding.sequences)
    return next(
        (finding for finding in with_sequences if first_seq in (None, finding.sequences[0])), None
    )


def consumers_of(state: State, stream: str, *, is_pull: bool) -> tuple[list[str], bool]:
    """Return the names of a stream's consumers, and whether there are further, unknown ones."""
    table = state.consumers
    rows = table.roster.rows_of_stream.get(stream, [])
    names = sorted(str(table.roster.keys[row][1]) for row in rows)
    of_stream = state.streams.roster.rows_of_stream.get(stream)
    count = state.streams.columns.consumers_count[of_stream[-1]] if of_stream else 1
    configurations = state.consumer_configurations
    if is_pull:
        # One whose configuration is not known yet may be a pull consumer.
        push_names = {name for name in names if _is_pushed(configurations.get((stream, name)))}
        return [name for name in names if name not in push_names], count > len(names)
    return names, count > len(names)


def _is_pushed(config: ConsumerConfiguration | None) -> bool:
    return config is not None and config.deliver_subject is not None


class Managing(ScreenPart):
    """Executes actions on the targets of a screen: the marked rows, else the one under the
    cursor.
    """

    def __init__(
        self,
        screen: LiveScreen,
        targets: Callable[[], list[Target]],
        has_target: Callable[[ActionSpec], bool] = lambda spec: True,
    ) -> None:
        """Create for a screen; `has_target` returns whether there is a target for an action."""
        self._screen, self._targets, self._has_target = screen, targets, has_target

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: with a target, not in a replay; None if not
        allowed.
        """
        state, name = self._screen.state, str(arguments[0])
        if action == "actions":
            rows = STREAM_ACTIONS if name == "stream" else CONSUMER_ACTIONS
            return state.replay is None and any(
                spec.is_asked and self._has_target(spec) for spec in rows
            )
        spec = SPECS[name]
        if state.replay is not None or (spec.takes != "none" and not self._has_target(spec)):
            return False
        return True if allowed(state, name) else None

    def action_manage(self, name: str) -> None:
        """Open the screen or prompt of an action."""
        if reason := self._screen.where.across():
            self._screen.notify(reason, severity="warning", markup=False)
            return
        targets, takes = self._targets(), SPECS[name].takes
        if SPECS[name].needs_consumer:
            targets = [target for target in targets if target.consumer is not None]
        if not targets and takes != "none":
            self._screen.notify("there is no row under the cursor", severity="warning", timeout=2)
            return
        chosen_targets = targets[:1] if takes == "one" else targets
        if name == "pull":
            stream, consumer, *_ = targets[0]
            run_task(self._screen, open_pull, self._screen, stream, consumer)
        elif name == "messages":
            finding = finding_of_messages(self._screen.state, chosen_targets[0])
            self._screen.app.post_message(messages_from(chosen_targets[0], finding))
        else:
            self._screen.app.post_message(Manage(name, tuple(chosen_targets)))

    def action_actions(self, kind: str) -> None:
        """Show a list of all actions, and execute the chosen one."""
        rows = STREAM_ACTIONS if kind == "stream" else CONSUMER_ACTIONS
        specs = [spec for spec in rows if spec.is_asked]
        options = [(spec.word, self._help_of(spec)) for spec in specs]
        targets = [] if (reason := self._screen.where.across()) else self._targets()
        if reason:
            self._screen.notify(reason, severity="warning", markup=False)
            return
        if not targets:
            self._screen.notify("there is no row under the cursor", severity="warning", timeout=2)
            return
        stream, consumer, *_ = targets[0]
        asset = f"{stream} › {consumer}" if consumer else stream
        title = f"What to do with {asset if len(targets) == 1 else f'{len(targets)} {kind}s'}"

        def do(label: str | None) -> None:
            spec: ActionSpec | None = next((asset for asset in specs if asset.word == label), None)
            if spec is None:
                return
            if allowed(self._screen.state, spec.action):
                self.action_manage(spec.action)
            else:
                self._screen.notify(f"{spec.word}: {self._help_of(spec)}", severity="warning")

        self._screen.app.push_screen(Pick(title, options), do)

    def _help_of(self, spec: ActionSpec) -> str:
        if allowed(self._screen.state, spec.action):
            return spec.help
        return not_allowed(self._screen.state)
