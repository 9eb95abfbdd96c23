"""Executes the keys of actions on tables and detail screens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from natstui.clean import clean_line
from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.findings.finding import Entity, Finding
from natstui.model.live.state import State
from natstui.tui.frame.action_keys import (
    CONSUMER_ACTIONS,
    SPECS,
    STREAM_ACTIONS,
    ActionSpec,
    Target,
    find_created_at_us,
    is_allowed,
    refusal_text,
)
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.selection import find_target_keys
from natstui.tui.frame.systems import systems_of
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt


async def choose_consumer(
    screen: LiveScreen, stream: str, consumer: str | None, *, is_pull: bool = False
) -> str:
    """Return `consumer`; if it is None the stream's only consumer, else the one that the user
    picks; empty without a choice.
    """
    if consumer is not None:
        return consumer
    names, has_more_consumers = consumers_of(screen.state, stream, is_pull=is_pull)
    kind = "pull consumer" if is_pull else "consumer"
    title = f"Which {kind} of {stream}?"
    if len(names) == 1:
        return names[0]
    if names:
        pick = PickDialog(title, [(name, "") for name in names])
        return await screen.app.push_screen_wait(pick) or ""
    if has_more_consumers:
        return (await screen.app.push_screen_wait(Prompt(title)) or "").strip()
    screen.notify(f"{stream} has no {kind}", severity="warning", markup=False)
    return ""


def choose_action(
    screen: LiveScreen, title: str, actions: Sequence[tuple[ActionSpec, Callable[[], None]]]
) -> None:
    """Show the allowed actions on the row under the cursor, and execute the chosen one."""
    callbacks = {
        spec.label: callback for spec, callback in actions if is_allowed(screen.state, spec.name)
    }
    options = [(spec.label, spec.short_help) for spec, _ in actions if spec.label in callbacks]

    def execute_choice(label: str | None) -> None:
        if label is not None:
            callbacks[label]()

    screen.app.push_screen(PickDialog(title, options), execute_choice)


async def open_pull(screen: LiveScreen, stream: str, consumer: str | None) -> None:
    """Open the pull screen of a consumer; for None the user chooses a consumer."""
    system = screen.scope.shown_system
    if name := await choose_consumer(screen, stream, consumer, is_pull=True):
        message = Manage("pull", (Target(stream, name),))
        message.system = system
        screen.app.post_message(message)


def message_list_request(target: Target, finding: Finding | None) -> Manage:
    """Return the request that opens the message list: at the finding's first sequence, else at
    the newest messages.
    """
    seq_suffix = f" {finding.sequences[0]}" if finding is not None and finding.sequences else ""
    return Manage(f"messages{seq_suffix}", (target,))


def finding_of_messages(
    state: State, target: Target, first_seq: int | None = None
) -> Finding | None:
    """Return the worst open finding of a consumer that has sequences as evidence; None without
    one.

    With `first_seq`, only a finding whose first sequence is `first_seq` is returned.
    """
    created_at_us = find_created_at_us(state, target) if target.consumer is not None else None
    if created_at_us is None:
        return None
    findings = state.findings.list_open_findings_of(
        Entity(target.stream, target.consumer or "", created_at_us)
    )
    findings_with_sequences = (finding for finding in findings if finding.sequences)
    return next(
        (
            finding
            for finding in findings_with_sequences
            if first_seq in (None, finding.sequences[0])
        ),
        None,
    )


def consumers_of(state: State, stream: str, *, is_pull: bool) -> tuple[list[str], bool]:
    """Return the names of a stream's consumers, with `is_pull` without push consumers, and whether
    the stream has more consumers.
    """
    table = state.consumers
    rows = table.roster.rows_of_stream.get(stream, [])
    names = sorted(str(table.roster.keys[row][1]) for row in rows)
    stream_rows = state.streams.roster.rows_of_stream.get(stream)
    count = state.streams.columns.consumers_count[stream_rows[-1]] if stream_rows else 1
    configurations = state.consumer_configurations
    if is_pull:
        # A consumer whose configuration is not known yet may be a pull consumer.
        push_names = {
            name for name in names if _is_push_consumer(configurations.get((stream, name)))
        }
        return [name for name in names if name not in push_names], count > len(names)
    return names, count > len(names)


def _is_push_consumer(config: ConsumerConfiguration | None) -> bool:
    return config is not None and config.deliver_subject is not None


class ActionRunner(ScreenPart):
    """Executes actions on the targets of a screen: those for marked rows on the marked rows, else
    on the row under the cursor; the others on the row under the cursor.
    """

    def __init__(
        self,
        screen: LiveScreen,
        targets: Callable[[], list[Target]],
        has_target: Callable[[ActionSpec], bool] = lambda spec: True,
        cursor_targets: Callable[[], list[Target]] | None = None,
    ) -> None:
        """Create the part of a screen; `has_target` returns whether the screen has a target for an
        action.

        `cursor_targets` returns the row under the cursor, although rows are marked; a screen
        without marks needs none.
        """
        self._screen, self._targets, self._has_target = screen, targets, has_target
        self._cursor_targets = cursor_targets or targets

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return True for a target of an allowed action, None without permission, False without a
        target or in a replay.
        """
        state, name = self._screen.state, str(arguments[0])
        if action == "actions":
            specs = STREAM_ACTIONS if name == "stream" else CONSUMER_ACTIONS
            return state.replay is None and any(
                spec.has_prompt and self._has_target(spec) for spec in specs
            )
        spec = SPECS[name]
        if state.replay is not None or (spec.target_rows != "none" and not self._has_target(spec)):
            return False
        return True if is_allowed(state, name) else None

    def action_manage(self, name: str) -> None:
        """Open the screen or prompt of an action."""
        target_rows = SPECS[name].target_rows
        is_on_marked_rows = target_rows == "marked"
        reason = self._screen.scope.mixed_systems_text()
        if not (reason or is_on_marked_rows):
            reason = self._other_system_text()
        if reason:
            self._screen.notify(reason, severity="warning", markup=False)
            return
        targets = self._targets() if is_on_marked_rows else self._cursor_targets()
        if SPECS[name].needs_consumer:
            targets = [target for target in targets if target.consumer is not None]
        if not targets and target_rows != "none":
            self._screen.notify("there is no row under the cursor", severity="warning", timeout=2)
            return
        if name == "pull":
            stream, consumer, *_ = targets[0]
            run_task(self._screen, open_pull, self._screen, stream, consumer)
        elif name == "messages":
            finding = finding_of_messages(self._screen.state, targets[0])
            self._screen.app.post_message(message_list_request(targets[0], finding))
        else:
            self._screen.app.post_message(Manage(name, tuple(targets)))

    def _other_system_text(self) -> str:
        """Return the reason why no key can act on the row under the cursor if rows of another
        system are marked; else an empty text.
        """
        screen = self._screen
        if not isinstance(screen, TableScreen):
            return ""
        cursor_systems = systems_of(find_target_keys(screen, only_cursor=True))
        if cursor_systems in ([], [screen.scope.system]):
            return ""
        return clean_line(
            f"rows of {screen.scope.system} are marked, but the cursor is on {cursor_systems[0]}: "
            "clear the marks"
        )

    def action_actions(self, kind: str) -> None:
        """Show a list of all actions that have a prompt, and execute the chosen one."""
        all_specs = STREAM_ACTIONS if kind == "stream" else CONSUMER_ACTIONS
        specs = [spec for spec in all_specs if spec.has_prompt]
        options = [(spec.word, self._help_or_refusal(spec)) for spec in specs]
        targets = [] if (reason := self._screen.scope.mixed_systems_text()) else self._targets()
        if reason:
            self._screen.notify(reason, severity="warning", markup=False)
            return
        if not targets:
            self._screen.notify("there is no row under the cursor", severity="warning", timeout=2)
            return
        stream, consumer, *_ = targets[0]
        asset = f"{stream} › {consumer}" if consumer else stream
        title = f"What to do with {asset if len(targets) == 1 else f'{len(targets)} {kind}s'}"
        run_task(self._screen, self._pick_action, PickDialog(title, options), specs)

    async def _pick_action(self, pick: PickDialog, specs: Sequence[ActionSpec]) -> None:
        label = await self._screen.app.push_screen_wait(pick)
        spec: ActionSpec | None = next((spec for spec in specs if spec.word == label), None)
        if spec is None:
            return
        if is_allowed(self._screen.state, spec.action):
            self.action_manage(spec.action)
        else:
            self._screen.notify(f"{spec.word}: {self._help_or_refusal(spec)}", severity="warning")

    def _help_or_refusal(self, spec: ActionSpec) -> str:
        if is_allowed(self._screen.state, spec.action):
            return spec.help
        return refusal_text(self._screen.state)
