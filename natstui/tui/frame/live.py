"""The base class of screens: it receives every newer state while it is in view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import isawaitable
from time import monotonic
from typing import Any, ClassVar

from msgspec import Struct
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker

from natstui.defects import report_defects
from natstui.model.live.state import State
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command, SetViewedRows
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.head.status_strip import AssetNote, StatusStrip
from natstui.tui.frame.head.tabs import TabBar
from natstui.tui.frame.key_footer import KeyFooter
from natstui.tui.frame.messages import (
    EnteredCommand,
    LeaveReplay,
    ScreenShown,
    StateChanged,
)
from natstui.tui.frame.requests import SystemEngine, run_task, show_reply
from natstui.tui.frame.systems import SystemScope
from natstui.tui.frame.timeline import Timeline
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import TableView
from natstui.tui.kit.text import safe
from natstui.tui.kit.textual_fixes import TerminalSized

DEFECT_REPORT_INTERVAL_S = 60.0
"""Minimum time between two reports of the same defect, which may occur with every poll."""
_DISCARD_TEXT_OPTIONS = (
    ("keep", "go back to it"),
    ("drop", "close the form; typed text is lost"),
)
_PROMPT_CHECK_INTERVAL_S = 0.25
"""Interval of checks whether a prompt can be shown again."""
NO_SERVER = "this is a recording: there is no server to change"
_ACTIONS_NEEDING_SERVER = {"raw", "again", "row_actions"}


class ScreenPart:
    """A part of a screen: the actions of some of its keys, and when the keys are offered.

    A key names its action as `part('managing', 'manage', 'undo')`: the screen's attribute with the
    part, its method without `action_`, and the arguments. The screen lists the keys among its own.
    """

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered; None if its key is shown but disabled."""
        return True


def find_part(screen: object, name: object) -> ScreenPart:
    """Return the part of a screen in the attribute `name`."""
    part = getattr(screen, str(name))
    assert isinstance(part, ScreenPart)
    return part


class GuideLine(Static):
    """A line with the next step of the guide for beginners; hidden without a guide."""

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
        """Show a sentence; hide the line if the text is empty."""
        if text != self._text:
            self._text = text
            self.display = bool(text)
            # Toasts are drawn above the line.
            self.screen.set_class(bool(text), "-guided")
            self.update(safe(text))


class CommandPrompt(Struct, frozen=True):
    """A prompt for a text that becomes a command for the engine."""

    sentence: str
    command: Callable[[str], Command | None]
    """Creates the command from the text; None if there is nothing to do."""
    title: str | None = None
    """Title of the toast with the reply; None if the screen shows the reply itself."""
    refusal: Callable[[str], str] | None = None
    """Returns the reason why a text is refused; empty if it is accepted."""
    meaning: Callable[[str], str] | None = None
    """Returns the meaning of a text while it is typed."""
    text: str = ""
    system: str | None = None
    """System to send the command to; None for the one whose state the screen shows."""
    show: Callable[[Answered], None] = lambda _: None
    """Called with each reply while the screen is open."""
    changes_host: bool = False
    """Whether the command is a `HostCommand`: if not allowed, refused before the prompt."""


class LiveScreen(TerminalSized, Screen[None]):
    """A screen with tabs, status strip, command line and keys; subclasses provide the body."""

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
    """The columns of the screen's table, for the help."""
    SECOND_LINE_HELP: ClassVar[Sequence[tuple[str, str]]] = ()
    """The figures in the screen's second line with their meaning, for the help."""

    tabs = getters.query_one(TabBar)
    strip = getters.query_one(StatusStrip)
    command_line = getters.query_one(CommandLine)
    timeline = getters.query_one(Timeline)

    def __init__(self) -> None:
        super().__init__()
        self.scope = SystemScope()
        self.paused = False
        """Whether the user paused polling: the screen then pauses its own requests too."""
        self._can_leave_replay = False
        """Whether a replay is shown that was opened in this viewer and can be left."""
        # Not by a query: a timer may use the note while the screen closes and has no widgets.
        self.note = AssetNote(self.asset, lambda: self.state)
        self.guide = GuideLine()

    def compose(self) -> ComposeResult:
        """Yield the common widgets of a screen around its body."""
        # Before the widgets: Textual would set the class later, and style all of them again.
        width = self.app.size.width
        self.add_class(
            [name for min_width, name in self.HORIZONTAL_BREAKPOINTS if width >= min_width][-1]
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
        """Return the widgets between the status strip and the footer; none by default."""
        return ()

    @property
    def state(self) -> State:
        """Return the state of the acting system."""
        return self.scope.acting.state

    @property
    def poll_age_us(self) -> int:
        """Return the age in µs of the acting system's newest poll at the shown moment; 0 up to
        1.5 s.
        """
        return self.scope.acting.poll_age_us

    @property
    def engine(self) -> SystemEngine:
        """Return the engine of the system on which the screen's keys act."""
        return SystemEngine(self.app, self.scope.system)

    @property
    def shown_engine(self) -> SystemEngine:
        """Return the engine of the system whose state the screen shows; for prompts, because
        another system may become the current one while a prompt is open.
        """
        return SystemEngine(self.app, self.scope.shown_system)

    def second_line(self) -> list[Cell] | None:
        """Return the screen's second line; None to show the line of the account."""
        return None

    def tab(self) -> str:
        """Return the mode whose tab is highlighted; empty to keep the tab of the screen below."""
        return ""

    def _tab(self) -> str:
        """Return the mode whose tab is highlighted: of this screen, else of the nearest screen
        below that has one.
        """
        stack = self.app.screen_stack
        screens_below = stack[: stack.index(self)] if self in stack else stack
        tabs = (
            screen.tab()
            for screen in (self, *reversed(screens_below))
            if isinstance(screen, LiveScreen)
        )
        return next(filter(None, tabs), self.app.current_mode)

    @property
    def is_open(self) -> bool:
        """Return whether the screen is open; a closed screen loses its widgets before it ends."""
        return self.is_attached and self in self.app.screen_stack

    def asset(self) -> Target | None:
        """Return the stream or consumer that the screen shows; None if it shows no single one."""
        return None

    def on_screen_resume(self) -> None:
        """Request the newest state, and report the rows in view again: they are polled first only
        until another screen reports its rows.
        """
        self.app.post_message(ScreenShown())
        for table in self.query(TableView):
            table.visible_rows_reporter.report_again()

    def on_state_changed(self, message: StateChanged) -> None:
        """Store the newer state and show it."""
        message.stop()
        previous_state, previous_poll_age_us = self.state, self.poll_age_us
        was_paused, self.paused = self.paused, message.paused
        self.scope.set_states(message.acting, message.systems)
        has_entered_or_left_replay = self._can_leave_replay is not message.can_leave_replay
        self._can_leave_replay = message.can_leave_replay
        if has_entered_or_left_replay or self.state.permitted is not previous_state.permitted:
            self.refresh_bindings()
        if not (self.is_mounted and self.is_open):
            # The screen has no widgets yet, or was closed while the message was in the queue.
            return
        notify_error = partial(self.notify, severity="error", timeout=15)
        with report_defects("showing this", notify_error, repeat_after_s=DEFECT_REPORT_INTERVAL_S):
            self.timeline.show(self.state, message.mark_a_at_us)
            self.guide.show(message.guide)
            if (self.state.replay is None) is not (previous_state.replay is None):
                self.refresh_bindings()
            # While a replay plays, only its clock moves between two polls.
            is_only_position_changed = (
                self.poll_age_us == previous_poll_age_us
                and differ_only_in_replay_position(previous_state, self.state)
            )
            if self.paused is not was_paused or not is_only_position_changed:
                self.tabs.show(self.scope)
                self.strip.show(self.scope, paused=self.paused)
                self.note.refresh_note()
                self.refresh_state()

    def refresh_state(self) -> None:
        """Show `self.state`; each screen overrides this method."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: no command line where letters are typed, and no
        server actions in a replay.
        """
        if action == "part":
            part, name, *arguments = parameters
            if not self.is_mounted and not hasattr(self, str(part)):
                # Some parts are created with the widgets; the guide reads the keys before that.
                return False
            return find_part(self, part).is_offered(str(name), tuple(arguments))
        if action == "command":
            return not self.TYPING
        if self.state.replay is not None and needs_server(action, parameters):
            return False
        return super().check_action(action, parameters)

    async def action_part(self, part: str, action: str, *arguments: object) -> None:
        """Execute the action of a key in a part of the screen."""
        result = getattr(find_part(self, part), f"action_{action}")(*arguments)
        if isawaitable(result):
            await result

    @property
    def has_previous_screen(self) -> bool:
        """Return whether leaving this screen shows another one instead of quitting the app."""
        return self._can_leave_replay or self.app.screen_stack[:1] != [self]

    def key_label(self, binding: Binding) -> str:
        """Return the current label of a key; the key to quit is `Back` above another screen."""
        return "Back" if binding.id == "quit" and self.has_previous_screen else binding.description

    def action_command(self) -> None:
        """Open the command line."""
        self.command_line.open(":")

    def unsent_text(self) -> str:
        """Return a summary of typed text that would be lost with this screen; empty if there is
        none.
        """
        return ""

    def action_back(self) -> None:
        """Leave this screen, after a prompt if typed text would be lost."""
        if unsent_text := self.unsent_text():
            run_task(self, self._leave_after_prompt, unsent_text)
        else:
            self.leave()

    async def _leave_after_prompt(self, unsent_text: str) -> None:
        if (
            await self.app.push_screen_wait(
                PickDialog(f"{unsent_text} is not sent", _DISCARD_TEXT_OPTIONS)
            )
            == "drop"
        ):
            self.leave()

    def leave(self) -> None:
        """Close this screen; if it is the lowest one, leave the replay instead."""
        if self.app.screen_stack[0] is self:
            self.app.post_message(LeaveReplay())
        else:
            self.dismiss()

    @on(CommandLine.Entered)
    def _post_command(self, message: CommandLine.Entered) -> None:
        self.app.post_message(EnteredCommand(message.text))


def poll_rows_first(
    screen: LiveScreen,
    streams: tuple[str, ...],
    consumers: tuple[tuple[str, str], ...] = (),
    *,
    system: str | None = None,
) -> None:
    """Request that the engine of `system`, by default of the one on which keys act, polls these
    streams and consumers first; nothing is sent if the system is no longer watched.
    """
    engine = SystemEngine(screen.app, system or screen.scope.system)
    if engine.is_watched:
        engine.send(SetViewedRows(0, streams, consumers))


class RepeatedRequest:
    """A request that a screen repeats while it is in view and polling is not paused."""

    def __init__(
        self,
        screen: LiveScreen,
        command: Callable[[], Command],
        interval_s: float,
        show: Callable[[Answered], None],
        discard_reply: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a request; `show` is called with each reply, then the screen is refreshed.

        `discard_reply` is called when the screen's keys act on another system, to discard the last
        reply. `interval_s` is the time from a reply to the next request.
        """
        self._screen, self._command, self._interval_s = screen, command, interval_s
        self._show_reply, self._discard_reply, self._requested_system = show, discard_reply, ""
        self._task: Worker[None] | None = None
        self._replied_at_s = float("-inf")

    def start(self) -> None:
        """Check every second whether the request is due; to be called when the screen is
        mounted.
        """
        self._screen.set_interval(1.0, self.send_if_due)

    def send_if_due(self) -> None:
        """Send the request if it is due and no reply is pending; the first one is due at once."""
        system, previous_system = self._screen.scope.acting.name, self._requested_system
        self._requested_system = system
        if previous_system not in ("", system):
            self._cancel_pending_request()
            self._replied_at_s = float("-inf")
            self._discard_reply()
        link, is_first_request = self._screen.state.link, self._replied_at_s == float("-inf")
        # A recording has no server.
        if self._task is not None or self._screen.state.replay is not None:
            return
        # No reply would arrive; and without a state the screen does not know about a recording.
        if is_first_request and (link is None or link.state != "connected"):
            return
        if not self._screen.is_current or monotonic() - self._replied_at_s < self._interval_s:
            return
        if not self._screen.paused or is_first_request:
            self.send_now()

    def send_now(self) -> None:
        """Send the request now; a reply to an earlier request is ignored."""
        self._cancel_pending_request()
        self._task = run_task(self._screen, self._send_and_show_reply)

    def _cancel_pending_request(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task = None

    async def _send_and_show_reply(self) -> None:
        reply = await self._screen.engine.request(self._command())
        self._task, self._replied_at_s = None, monotonic()
        self._show_reply(reply)
        self._screen.refresh_state()


def differ_only_in_replay_position(state: State, other_state: State) -> bool:
    """Return whether two states differ only in the position of a replay."""
    if state.replay is None or other_state.replay is None:
        return False
    return all(
        getattr(state, name) is getattr(other_state, name)
        for name in State.__struct_fields__
        if name != "replay"
    )


def needs_server(action: str, parameters: tuple[object, ...]) -> bool:
    """Return whether an action needs a live server."""
    return action in _ACTIONS_NEEDING_SERVER or (action, parameters) == ("open", ("raw",))


def prompt_command(screen: LiveScreen, prompt: CommandPrompt) -> None:
    """Prompt for the text of a command and send the command; prompt again with the reason while
    the engine refuses it.
    """
    engine = (
        screen.shown_engine if prompt.system is None else SystemEngine(screen.app, prompt.system)
    )
    # A task of the app: the screen may be closed when the reply arrives.
    run_task(screen.app, _prompt_until_accepted, screen, engine, prompt)


async def _prompt_until_accepted(
    screen: LiveScreen, engine: SystemEngine, prompt: CommandPrompt
) -> None:
    app, text, reason = screen.app, prompt.text, ""
    if prompt.changes_host:
        engine.check_host_change()
    while True:
        dialog = Prompt(
            prompt.sentence, text, refusal=prompt.refusal, refused_reason=reason,
            meaning=prompt.meaning,
        )  # fmt: skip
        typed_text = await app.push_screen_wait(dialog)
        if typed_text is None or (command := prompt.command(typed_text)) is None:
            return
        request = engine.request(command)
        reply = await request
        if screen.is_attached:
            prompt.show(reply)
        if reply.status == "done":
            if prompt.title is not None:
                show_reply(app, reply, f"{request.system} {prompt.title}".strip())
            return
        text, reason = typed_text, reply.text
        if not _can_prompt_again(screen, prompt) and prompt.title is not None:
            show_reply(app, reply, prompt.title)
        while not _can_prompt_again(screen, prompt):
            # Without a title only the closed screen could show the reply.
            if prompt.title is None and not screen.is_attached:
                return
            await asyncio.sleep(_PROMPT_CHECK_INTERVAL_S)


def _can_prompt_again(screen: LiveScreen, prompt: CommandPrompt) -> bool:
    """Return whether the prompt may be shown above the screen in view, which need not be
    `screen`.
    """
    top_screen = screen.app.screen if screen.app.screen_stack else None
    if not isinstance(top_screen, LiveScreen) or top_screen.command_line.is_open:
        return False
    return top_screen is screen or (prompt.title is not None and not top_screen.TYPING)
