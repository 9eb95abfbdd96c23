"""A screen that shows the state: it receives every newer one while it is in view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from inspect import isawaitable
from time import monotonic
from typing import Any, ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker

from natstui.defects import contained
from natstui.model.live.state import State
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command, Watch
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.head.strip import AssetNote, StatusStrip
from natstui.tui.frame.head.tabs import TabBar
from natstui.tui.frame.key_footer import KeyFooter
from natstui.tui.frame.messages import (
    CameIntoView,
    LeaveReplay,
    StateChanged,
    Typed,
)
from natstui.tui.frame.requests import SystemEngine, run_task, show_reply
from natstui.tui.frame.systems import ActingSystemValue, SystemState, Where
from natstui.tui.frame.timeline import Timeline
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe
from natstui.tui.kit.textual_fixes import TerminalSized

_TOLD_AGAIN_S = 60.0
"""How long a defect that occurs with every poll is not reported again."""
_KEEP_OR_DROP = (
    ("keep", "go back to it"),
    ("drop", "close the form; typed text is lost"),
)
_ASKED_AGAIN_S = 0.25
"""Interval of checks whether a prompt may be shown again."""
NO_SERVER = "this is a recording: there is no server to change"
_OF_A_SERVER = {"raw", "again", "row_actions"}


class ScreenPart:
    """Actions of a screen's keys, and when they are offered.

    A key names its action as `part('managing', 'manage', 'undo')`: the screen's attribute with the
    part, its method without `action_`, and the arguments. The screen lists the keys among its own.
    """

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered; None shows its key in grey."""
        return True


def part_of(screen: object, name: object) -> ScreenPart:
    """Return the part that a screen holds under a name."""
    part = getattr(screen, str(name))
    assert isinstance(part, ScreenPart)
    return part


class GuideLine(Static):
    """A line with the next step of the guide; hidden without a guide."""

    DEFAULT_CSS = """
    GuideLine {
        height: auto; max-height: 3; padding: 0 1; display: none;
        background: $primary 20%; color: $foreground;
    }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._text = ""

    def show(self, text: str) -> None:
        """Show a sentence; hide the line for an empty one."""
        if text != self._text:
            self._text = text
            self.display = bool(text)
            # Toasts leave it free.
            self.screen.set_class(bool(text), "-guided")
            self.update(safe(text))


@dataclass(frozen=True)
class Question:
    """A prompt for a text that becomes a command for the engine."""

    words: str
    command: Callable[[str], Command | None]
    """Creates the command from the text; None: there is nothing to do."""
    title: str | None = None
    """Title of the toast with the reply; None: the screen shows the reply itself."""
    refusal: Callable[[str], str] | None = None
    """Returns why a text is refused; empty if it is accepted."""
    meaning: Callable[[str], str] | None = None
    """Returns the meaning of a text while it is typed."""
    text: str = ""
    system: str | None = None
    """System to send the command to; None: the acting one of the screen."""
    show: Callable[[Answered], None] = lambda _: None
    """Receives each reply while the screen exists."""
    changes_host: bool = False
    """Whether it is a `HostCommand`: refused before the prompt where those are not allowed."""


class LiveScreen(TerminalSized, Screen[None]):
    """A screen with status strip, keys and command line; subclasses provide the body."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "app.help", "Help", key_display="?", id="help"),
        Binding("q", "app.leave", "Quit", id="quit"),
        Binding("colon", "command", "Command", key_display=":", id="command"),
        Binding("escape", "back", "Back", show=False, id="back"),
    ]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - Textual declares it so
        (0, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]

    TYPING: ClassVar[bool] = False
    """Whether letters are typed on the screen: the app's own letter keys are disabled then."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = ()
    """The columns of its table, which the help explains."""
    FIGURES: ClassVar[Sequence[tuple[str, str]]] = ()
    """The figures in its second line, with their meaning."""

    state = ActingSystemValue(lambda one: one.state)
    """The state of the acting system."""
    late_us = ActingSystemValue(lambda one: one.late_us)
    """How long before the shown moment the newest poll of the acting system came."""
    tabs = getters.query_one(TabBar)
    strip = getters.query_one(StatusStrip)
    command_line = getters.query_one(CommandLine)
    timeline = getters.query_one(Timeline)

    def __init__(self) -> None:
        super().__init__()
        self.where = Where()
        self.paused = False
        """The user stopped polling: a screen that asks for more by itself rests too."""
        self._covers_another = False
        """It shows a replay that was opened from a live server, or from another recording."""
        # Not by a query: a timer may ask it while the screen closes and has no widgets any more.
        self.note = AssetNote(self.asset, lambda: self.state)
        self.guide = GuideLine()

    def compose(self) -> ComposeResult:
        """Yield the frame of the screen with its body."""
        # Before there is anything in it: Textual would set it later, and style all of it again.
        width = self.app.size.width
        self.add_class(
            [name for from_cells, name in self.HORIZONTAL_BREAKPOINTS if width >= from_cells][-1]
        )
        yield TabBar(self._tab)
        yield StatusStrip(self.second_line)
        yield self.note
        yield from self.body()
        yield Timeline()
        yield self.guide
        yield CommandLine()
        yield KeyFooter(self.key_label)

    def body(self) -> Iterable[Widget]:
        """Return the widgets of the body."""
        return ()

    @property
    def engine(self) -> SystemEngine:
        """Return the engine of the acting system."""
        return SystemEngine(self.app, self.where.system)

    def second_line(self) -> list[Cell] | None:
        """Return the screen's own second line; None: the account's line is shown."""
        return None

    def tab(self) -> str:
        """Return the mode whose tab is lit; empty: that of the screen below."""
        return ""

    def _tab(self) -> str:
        """Return the mode whose tab is lit: of this screen, else of the nearest one below."""
        stack = self.app.screen_stack
        below = stack[: stack.index(self)] if self in stack else stack
        tabs = (
            screen.tab() for screen in (self, *reversed(below)) if isinstance(screen, LiveScreen)
        )
        return next(filter(None, tabs), self.app.current_mode)

    @property
    def is_open(self) -> bool:
        """Return whether it can be drawn: a closed screen loses its widgets before it ends."""
        return self.is_attached and self in self.app.screen_stack

    def asset(self) -> Target | None:
        """Return the stream or consumer that the screen is about, if any."""
        return None

    def on_screen_resume(self) -> None:
        """Request the newest state."""
        self.app.post_message(CameIntoView())

    def on_state_changed(self, message: StateChanged) -> None:
        """Store the newer state and show it."""
        message.stop()
        before, late_us_before = self.state, self.late_us
        paused_before, self.paused = self.paused, message.paused
        current = SystemState(message.acting, "", message.state, message.late_us)
        self.where.hear(current, message.systems)
        has_switched = self._covers_another is not message.covers_another
        self._covers_another = message.covers_another
        if has_switched or self.state.permitted is not before.permitted:
            self.refresh_bindings()
        if not (self.is_mounted and self.is_open):
            # It has no widgets yet, or none any more: it was closed while this was on its way.
            return
        report = partial(self.notify, severity="error", timeout=15)
        with contained("showing this", report, again_s=_TOLD_AGAIN_S):
            self.timeline.show(self.state, message.a_at_us)
            self.guide.show(message.guide)
            if (self.state.replay is None) is not (before.replay is None):
                self.refresh_bindings()
            # While a replay plays, only its clock moves between two polls.
            is_only_move = self.late_us == late_us_before and only_moved(before, self.state)
            if self.paused is not paused_before or not is_only_move:
                self.tabs.show(self.where)
                self.strip.show(self.where, paused=self.paused)
                self.note.keep_up()
                self.refresh_state()

    def refresh_state(self) -> None:
        """Show `self.state`; each screen overrides this."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the command line where letters are typed, and server actions in a replay."""
        if action == "part":
            part, name, *arguments = parameters
            if not self.is_mounted and not hasattr(self, str(part)):
                # Some come with the widgets, and the guide asks for keys before these are there.
                return False
            return part_of(self, part).may(str(name), tuple(arguments))
        if action == "command":
            return not self.TYPING
        if self.state.replay is not None and needs_server(action, parameters):
            return False
        return super().check_action(action, parameters)

    async def action_part(self, part: str, action: str, *arguments: object) -> None:
        """Execute the action of a key in a part of the screen."""
        result = getattr(part_of(self, part), f"action_{action}")(*arguments)
        if isawaitable(result):
            await result

    @property
    def goes_back(self) -> bool:
        """Return whether leaving this screen leads to another one, not out of the app."""
        return self._covers_another or self.app.screen_stack[:1] != [self]

    def key_label(self, binding: Binding) -> str:
        """Return the current label of a key: the key to quit may lead back."""
        return "Back" if binding.id == "quit" and self.goes_back else binding.description

    def action_command(self) -> None:
        """Open the command line."""
        self.command_line.open(":")

    def unsent(self) -> str:
        """Return a summary of typed text that would be lost with this screen; empty: none."""
        return ""

    def action_back(self) -> None:
        """Leave this screen, after a prompt if typed text would be lost."""
        if unsent_text := self.unsent():
            run_task(self, self._leave_unsent, unsent_text)
        else:
            self.leave()

    async def _leave_unsent(self, unsent_text: str) -> None:
        if (
            await self.app.push_screen_wait(Pick(f"{unsent_text} is not sent", _KEEP_OR_DROP))
            == "drop"
        ):
            self.leave()

    def leave(self) -> None:
        """Close this screen if another one is below it, else leave a replay on top of a server."""
        if self.app.screen_stack[0] is self:
            self.app.post_message(LeaveReplay())
        else:
            self.dismiss()

    @on(CommandLine.Entered)
    def _entered(self, message: CommandLine.Entered) -> None:
        self.app.post_message(Typed(message.text))


def watch_rows(
    screen: LiveScreen,
    streams: tuple[str, ...],
    consumers: tuple[tuple[str, str], ...] = (),
    *,
    system: str | None = None,
) -> None:
    """Request that the engine polls these first, in one of several systems if given."""
    SystemEngine(screen.app, system or screen.where.system).send(Watch(0, streams, consumers))


class Renewing:
    """A request that a screen repeats while it is in view and polling is not paused."""

    def __init__(
        self,
        screen: LiveScreen,
        command: Callable[[], Command],
        every_s: float,
        show: Callable[[Answered], None],
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a request; `show` receives each reply, and the screen is refreshed after it.

        `forget` discards the last reply: the next comes from another system.
        """
        self._screen, self._command, self._every_s = screen, command, every_s
        self._show, self._forget, self._system = show, forget, ""
        self._task: Worker[None] | None = None
        self._replied_s = float("-inf")

    def begin(self) -> None:
        """Check every second whether the request is due; call it when the screen is mounted."""
        self._screen.set_interval(1.0, self.keep_up)

    def keep_up(self) -> None:
        """Send the request when it is due and no reply is pending; the first one is always due."""
        system, before = self._screen.where.acting.name, self._system
        self._system = system
        if before not in ("", system):
            self._stop()
            self._replied_s = float("-inf")
            self._forget()
        link, is_first = self._screen.state.link, self._replied_s == float("-inf")
        # A recording has no server to ask.
        if self._task is not None or self._screen.state.replay is not None:
            return
        # There would be no reply yet; and before its first state a screen knows of no recording.
        if is_first and (link is None or link.state != "connected"):
            return
        if not self._screen.is_current or monotonic() - self._replied_s < self._every_s:
            return
        if not self._screen.paused or is_first:
            self.ask()

    def ask(self) -> None:
        """Send the request now; the reply of an earlier one is ignored."""
        self._stop()
        self._task = run_task(self._screen, self._request)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task = None

    async def _request(self) -> None:
        reply = await self._screen.engine.request(self._command())
        self._task, self._replied_s = None, monotonic()
        self._show(reply)
        self._screen.refresh_state()


def only_moved(before: State, after: State) -> bool:
    """Return whether two states differ only in the position of a replay."""
    if before.replay is None or after.replay is None:
        return False
    return all(
        getattr(before, field.name) is getattr(after, field.name)
        for field in fields(State)
        if field.name != "replay"
    )


def needs_server(action: str, parameters: tuple[object, ...]) -> bool:
    """Return whether an action needs a live server."""
    return action in _OF_A_SERVER or (action, parameters) == ("open", ("raw",))


def ask(asker: LiveScreen, question: Question) -> None:
    """Prompt for the text of a command, and again with the reason when the engine refuses it."""
    engine = SystemEngine(asker.app, question.system or asker.where.system)
    # Not of the screen, which may be closed when the reply comes.
    run_task(asker.app, _ask, asker, engine, question)


async def _ask(asker: LiveScreen, engine: SystemEngine, question: Question) -> None:
    app, text, reason = asker.app, question.text, ""
    if question.changes_host:
        engine.check_host_change()
    while True:
        prompt = Prompt(
            question.words, text, refusal=question.refusal, refused_reason=reason,
            meaning=question.meaning,
        )  # fmt: skip
        typed_text = await app.push_screen_wait(prompt)
        if typed_text is None or (command := question.command(typed_text)) is None:
            return
        request = engine.request(command)
        reply = await request
        if asker.is_attached:
            question.show(reply)
        if reply.status == "done":
            if question.title is not None:
                show_reply(app, reply, f"{request.system} {question.title}".strip())
            return
        text, reason = typed_text, reply.text
        if not _may_ask_again(asker, question) and question.title is not None:
            show_reply(app, reply, question.title)
        while not _may_ask_again(asker, question):
            # What only the screen that asks can show is of no use without it.
            if question.title is None and not asker.is_attached:
                return
            await asyncio.sleep(_ASKED_AGAIN_S)


def _may_ask_again(asker: LiveScreen, question: Question) -> bool:
    screen = asker.app.screen if asker.app.screen_stack else None
    if not isinstance(screen, LiveScreen) or screen.command_line.is_open:
        return False
    return screen is asker or (question.title is not None and not screen.TYPING)
