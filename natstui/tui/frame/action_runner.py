"""What the keys of the actions do, the same on tables and details."""

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
    made_at_us,
)
from natstui.tui.frame.allowed import allowed, not_allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt


async def choose_consumer(
    screen: LiveScreen, stream: str, consumer: str | None, *, pulled: bool = False
) -> str:
    """Return the consumer named, else the only one, else one picked or typed; empty: none."""
    if consumer is not None:
        return consumer
    names, unknown = consumers_of(screen.state, stream, pulled=pulled)
    kind = "pull consumer" if pulled else "consumer"
    question = f"Which {kind} of {stream}?"
    if len(names) == 1:
        return names[0]
    if names:
        pick = Pick(question, [(name, "") for name in names])
        return await screen.app.push_screen_wait(pick) or ""
    if unknown:
        return (await screen.app.push_screen_wait(Prompt(question)) or "").strip()
    screen.notify(f"{stream} has no {kind}", severity="warning", markup=False)
    return ""


def choose_action(
    screen: LiveScreen, title: str, actions: Sequence[tuple[ActionSpec, Callable[[], None]]]
) -> None:
    """List what can be done with the row under the cursor, and do one of it."""
    may = {spec.label: do for spec, do in actions if allowed(screen.state, spec.name)}
    words = [(spec.label, spec.told) for spec, _ in actions if spec.label in may]

    def do(word: str | None) -> None:
        if word is not None:
            may[word]()

    screen.app.push_screen(Pick(title, words), do)


async def open_pull(screen: LiveScreen, stream: str, consumer: str | None) -> None:
    """Open the screen that pulls from a consumer, one that is chosen if none is named."""
    system = screen.where.system
    if name := await choose_consumer(screen, stream, consumer, pulled=True):
        message = Manage("pull", (Target(stream, name),))
        message.system = system
        screen.app.post_message(message)


def messages_from(target: Target, finding: Finding | None) -> Manage:
    """Return what lists messages: from the first one of the evidence on, else the newest."""
    first = f" {finding.sequences[0]}" if finding is not None and finding.sequences else ""
    return Manage(f"messages{first}", (target,))


def finding_of_messages(
    state: State, target: Target, first_seq: int | None = None
) -> Finding | None:
    """Return the worst open finding of a consumer that names messages, or begins with this one."""
    made = made_at_us(state, target) if target.consumer is not None else None
    if made is None:
        return None
    findings = state.findings.of(Entity(target.stream, target.consumer or "", made))
    named = (finding for finding in findings if finding.sequences)
    return next((finding for finding in named if first_seq in (None, finding.sequences[0])), None)


def consumers_of(state: State, stream: str, *, pulled: bool) -> tuple[list[str], bool]:
    """Return the names of a stream's consumers, and whether it has some that are not known."""
    table = state.consumers
    rows = table.roster.rows_of_stream.get(stream, [])
    names = sorted(str(table.roster.keys[row][1]) for row in rows)
    of_stream = state.streams.roster.rows_of_stream.get(stream)
    count = state.streams.columns.consumers_count[of_stream[-1]] if of_stream else 1
    known = state.consumer_configurations
    if pulled:
        # One whose configuration is not known yet may be a pull consumer.
        pushed = {name for name in names if _is_pushed(known.get((stream, name)))}
        return [name for name in names if name not in pushed], count > len(names)
    return names, count > len(names)


def _is_pushed(config: ConsumerConfiguration | None) -> bool:
    return config is not None and config.deliver_subject is not None


class Managing(ScreenPart):
    """Does something to the targets of a screen: those marked, else the one under the cursor."""

    def __init__(
        self,
        screen: LiveScreen,
        targets: Callable[[], list[Target]],
        has_target: Callable[[ActionSpec], bool] = lambda spec: True,
    ) -> None:
        """`has_target` returns whether there is something that an action can be done to."""
        self._screen, self._targets, self._has_target = screen, targets, has_target

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer what has a target, and nothing in a replay; grey what is not allowed."""
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
        """Open the screen that does it."""
        if refused := self._screen.where.across():
            self._screen.notify(refused, severity="warning", markup=False)
            return
        targets, takes = self._targets(), SPECS[name].takes
        if SPECS[name].needs_consumer:
            targets = [target for target in targets if target.consumer is not None]
        if not targets and takes != "none":
            self._screen.notify("there is no row under the cursor", severity="warning", timeout=2)
            return
        wanted = targets[:1] if takes == "one" else targets
        if name == "pull":
            stream, consumer, _ = targets[0]
            run_task(self._screen, open_pull, self._screen, stream, consumer)
        elif name == "messages":
            finding = finding_of_messages(self._screen.state, wanted[0])
            self._screen.app.post_message(messages_from(wanted[0], finding))
        else:
            self._screen.app.post_message(Manage(name, tuple(wanted)))

    def action_actions(self, kind: str) -> None:
        """List everything that can be done, and do one of it."""
        rows = STREAM_ACTIONS if kind == "stream" else CONSUMER_ACTIONS
        specs = [spec for spec in rows if spec.is_asked]
        words = [(spec.word, self._help_of(spec)) for spec in specs]
        targets = [] if (refused := self._screen.where.across()) else self._targets()
        if refused:
            self._screen.notify(refused, severity="warning", markup=False)
            return
        if not targets:
            self._screen.notify("there is no row under the cursor", severity="warning", timeout=2)
            return
        stream, consumer, _ = targets[0]
        asset = f"{stream} › {consumer}" if consumer else stream
        title = f"What to do with {asset if len(targets) == 1 else f'{len(targets)} {kind}s'}"

        def do(word: str | None) -> None:
            spec: ActionSpec | None = next((asset for asset in specs if asset.word == word), None)
            if spec is None:
                return
            if allowed(self._screen.state, spec.action):
                self.action_manage(spec.action)
            else:
                self._screen.notify(f"{spec.word}: {self._help_of(spec)}", severity="warning")

        self._screen.app.push_screen(Pick(title, words), do)

    def _help_of(self, spec: ActionSpec) -> str:
        if allowed(self._screen.state, spec.action):
            return spec.help
        return not_allowed(self._screen.state)
