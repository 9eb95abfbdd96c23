"""What is published to core subjects: counted by subject as it comes, with the newest messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.decoding import decoder_of
from natstui.model.assets.subjects import is_internal, is_subject
from natstui.model.records.link import LinkChanged
from natstui.model.records.listening import (
    Heard,
    Listened,
    LookAtSubjects,
    ReadHeard,
    StartListening,
    StopListening,
    SubjectsLook,
)
from natstui.model.records.messages import Answered, StoredMessage
from natstui.model.records.record import Command
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import PendingRequest, run_task
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.view import HeaderSelected, RowSelected
from natstui.tui.kit.text import safe
from natstui.tui.messages.listening.cells import SUBJECT_COLUMNS
from natstui.tui.messages.listening.look import LookKeys
from natstui.tui.messages.listening.panes import Panes
from natstui.tui.messages.listening.text import (
    gap_text,
    taken_from,
    waiting_text,
    whole_text,
)
from natstui.tui.messages.message import MessageScreen

_decoder = decoder_of(Heard)


class HeardSource:
    """The newest messages that came, which are in no stream that is known."""

    stream = ""

    def command(self, number: int) -> Command:
        """Return the command that reads one."""
        return ReadHeard(0, number)

    def message_of(self, body_json: str) -> tuple[StoredMessage, str]:
        """Return the message of an answer, and where its reply is awaited."""
        heard = _decoder.decode(body_json)
        return heard.message, heard.reply

    def called(self, number: int) -> str:
        """Return the how manieth it was."""
        return f"heard {number:,}"


_CHOICES = (("leave", "do not listen"), ("listen", "take its messages"))
_TOLD = (
    "A push consumer delivers to whoever listens to its deliver subject,",
    "and here nobody processes or acknowledges what comes.",
)


class ListenScreen(LiveScreen):
    """Subjects above, the newest messages below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *LookKeys.BINDINGS,
        Binding("s", "subject", "Subject", id="sub.subject"),
        Binding("z", "zero", "From zero", id="sub.zero"),
        *Panes.BINDINGS,
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = SUBJECT_COLUMNS
    DEFAULT_CSS = """
    ListenScreen .line { height: 1; padding: 0 1; color: $text-muted; }
    ListenScreen #gaps { display: none; color: $text-warning; }
    ListenScreen.-gaps #gaps { display: block; }
    ListenScreen #subjects { height: 3fr; }
    ListenScreen #heard { height: 2fr; }
    ListenScreen.-subjects #heard, ListenScreen.-subjects #newest { display: none; }
    ListenScreen.-messages #subjects, ListenScreen.-messages #look { display: none; }
    """

    newest: ClassVar[dict[str, int]] = {}
    """The id of the newest request to listen by system: it ended those before it."""

    caption = getters.query_one("#caption", Static)
    gaps = getters.query_one("#gaps", Static)

    def __init__(self, subjects: tuple[str, ...]) -> None:
        super().__init__()
        self.subjects = subjects
        self._request: PendingRequest | None = None
        self._refusal = ""
        self.held = False
        self._refused_by: LinkChanged | None = None
        """What the link was when nothing could be listened to."""
        self.looking = LookKeys(
            _first_look(subjects),
            lambda pattern: self.command_line.open("/", pattern),
            self._look_changed,
        )
        self.panes = Panes(self)
        self._newest: Listened | None = None
        self.shown: Listened | None = None
        """The picture on the screen; a held one stays while newer ones come."""

    def body(self) -> Iterable[Widget]:
        """The tables, each below what it shows."""
        yield Static(id="caption", markup=False)
        yield Static(id="gaps", classes="line", markup=False)
        yield from self.panes.widgets()

    def on_mount(self) -> None:
        """Begin to listen."""
        self.panes.subjects.focus()
        # What lies on a screen that is not drawn yet gets no keys.
        self.call_after_refresh(self._listen_to, self.subjects)

    def on_unmount(self) -> None:
        """Listen no longer."""
        if self._request is not None:
            self.engine.send(StopListening(0, self._request.command_id))

    def _listen_to(self, subjects: tuple[str, ...]) -> None:
        run_task(self, self._begin, subjects)

    async def _begin(self, subjects: tuple[str, ...]) -> None:
        """Begin to listen, but ask first where that takes messages that somebody needs."""
        if taken := taken_from(self.state, subjects):
            pick = Pick(f"{', '.join(taken)} delivers to us", _CHOICES, _TOLD)
            if await self.app.push_screen_wait(pick) != "listen":
                if self._request is None:
                    self.leave()
                return
        self.subjects, self.looking.look = subjects, _first_look(subjects)
        self.action_zero()

    def action_zero(self) -> None:
        """Count anew from now on."""
        self.shown, self.held, self._refusal = None, False, ""
        command = StartListening(0, self.subjects, self.looking.look)
        self._request = self.engine.request(command)
        self.newest[self.where.acting.name] = self._request.command_id
        run_task(self, self._follow, self._request, replaces="follow")
        self.caption.update(safe(f"sub {', '.join(self.subjects)}  ·  connecting …"))
        self._draw()

    def refresh_state(self) -> None:
        """Listen again once another screen, or a lost connection, has ended it."""
        if self._refusal and self._is_silent:
            self._retry()
        elif self._request is not None and self.is_current:
            newest = self.newest.get(self.where.acting.name)
            if newest != self._request.command_id:
                self.action_zero()

    @property
    def _is_silent(self) -> bool:
        return self._newest is None or not self._newest.came_msgs

    async def _follow(self, request: PendingRequest) -> None:
        """Show each newer picture, or why there is none."""
        self._newest = None
        async for record in request:
            if isinstance(record, Listened):
                self._newest = record
            elif isinstance(record, Answered) and record.status != "done":
                self._refusal = record.text
            self._show_newest()

    def _show_newest(self) -> None:
        if self._refusal and self._is_silent:
            self._retry()
        elif self._newest is not None:
            self._show(self._newest)

    def _show(self, listened: Listened) -> None:
        """Show a newer picture; of a held one only what tells that it is old."""
        self.caption.update(safe(whole_text(self.subjects, listened)))
        gaps = "  ·  ".join(filter(None, (self._refusal, gap_text(listened))))
        self.set_class(bool(gaps), "-gaps")
        self.gaps.update(safe(gaps, "warn"))
        if not self.held:
            self.shown = listened
            self._draw()

    def _retry(self) -> None:
        """Show why nothing is listened to, and try again with the next connection."""
        text = f"sub {', '.join(self.subjects)}  ·  {self._refusal}"
        self.caption.update(safe(text, "error"))
        self.panes.explain("", "")
        link = self.state.link
        if self._refused_by is not None and link is not self._refused_by:
            self._refused_by = None
            self.action_zero()
        elif link is not None:
            self._refused_by = link

    def _draw(self) -> None:
        look = self.looking.look
        self.panes.explain(waiting_text(self.subjects, look, self.shown), "no message")
        self.panes.draw(self.shown, look, held=self.held)
        if self.looking.wrong:
            self.panes.say(self.looking.wrong, "error")

    def _look_changed(self) -> None:
        """Have the engine show it so; what is on the screen stays until it does."""
        self.held = False
        self.refresh_bindings()
        self._draw()
        if not self.looking.wrong:
            self.engine.send(LookAtSubjects(0, self.looking.look))

    @on(CommandLine.LookedFor)
    def _filter(self, message: CommandLine.LookedFor) -> None:
        self.looking.filter_by(message.text)

    @on(HeaderSelected, "#subjects")
    def _sort(self, message: HeaderSelected) -> None:
        self.looking.sort_by(message.column_id)

    @on(RowSelected)
    def _open(self, message: RowSelected) -> None:
        """Show a message in full; open a token or close it; of a subject show it alone."""
        if isinstance(message.key, int):
            self.app.push_screen(MessageScreen("", message.key, HeardSource()))
            return
        _, kind, path = message.key if isinstance(message.key, tuple) else ("", "", "")
        if kind == "branch":
            self.looking.open_or_close(str(path))
        elif kind == "subject":
            self.looking.filter_by(f"^{re.escape(str(path))}$")

    def action_hold(self) -> None:
        """Hold the picture, or let it go on; what comes meanwhile is counted."""
        self.held = not self.held
        self._draw()

    def action_subject(self) -> None:
        """Listen to another subject."""

        def refusal(text: str) -> str:
            wrong = [one for one in text.split() or [""] if not is_subject(one)]
            return f"{wrong[0]!r} is not a subject" if wrong else ""

        run_task(self, self._type_subjects, refusal)

    async def _type_subjects(self, refusal: Callable[[str], str]) -> None:
        words = "Listen to which subject? * is one token, > all the rest"
        prompt = Prompt(words, " ".join(self.subjects), refusal=refusal)
        text = await self.app.push_screen_wait(prompt)
        if text is not None:
            await self._begin(tuple(text.split()))

    def action_back(self) -> None:
        """Clear the filter first, then leave."""
        if not self.looking.show_all():
            super().action_back()


def _first_look(subjects: tuple[str, ...]) -> SubjectsLook:
    """Return how it is shown at first; internal subjects where they are asked for by name."""
    return SubjectsLook(internal=any(map(is_internal, subjects)))
