"""What is published to core subjects: counted by subject as it comes, with the newest messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.model.assets.subjects import is_internal, is_subject
from natstui.model.live.row_filter import compiled
from natstui.model.records.link import LinkChanged
from natstui.model.records.listening import (
    Heard,
    Listened,
    LookAtSubjects,
    ReadHeard,
    StartListening,
    StopListening,
    SubjectOrder,
    SubjectsLook,
)
from natstui.model.records.messages import Answered, StoredMessage
from natstui.model.records.record import Command
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import PendingRequest, run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.frame.table_text import Rows
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.big_table import BigTable, Sort
from natstui.tui.kit.table.view import HeaderSelected, RowSelected
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.messages.listening.cells import (
    HEARD_COLUMNS,
    SUBJECT_COLUMNS,
    HeardView,
    SubjectView,
    gap_text,
    look_text,
    newest_text,
    taken_from,
    waiting_text,
    whole_text,
)
from natstui.tui.messages.message import MessageScreen

_decoder = decoder_of(Heard)
_BOTH, _SUBJECTS, _MESSAGES = "-both", "-subjects", "-messages"
_PANES = (_BOTH, _SUBJECTS, _MESSAGES)
_DEEPEST_LEVEL = 16
_CHOICES = (("leave", "do not listen"), ("listen", "take its messages"))
_TOLD = (
    "Messages of a push consumer that arrive here",
    "are neither processed nor acknowledged.",
)


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


class HeldTable(BigTable):
    """A table whose rows come by themselves: space holds them, and marks nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.hold", "Hold", id="sub.hold"),
    ]


class Panes(ScreenPart):
    """Draws the tables, and has the keys that are about both."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "part('panes', 'next')", "Panes", id="sub.panes"),
        Binding("tab", "part('panes', 'other')", "Other table", id="sub.other"),
        Binding("c", "part('panes', 'copy')", "Copy", show=False, id="copy.name"),
    ]

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self.subjects = HeldTable(table_columns(SUBJECT_COLUMNS), id="subjects")
        self.heard = HeldTable(table_columns(HEARD_COLUMNS), id="heard")
        self._look = Static(id="look", classes="line", markup=False)
        self._newest = Static(id="newest", classes="line", markup=False)

    def widgets(self) -> Iterable[Widget]:
        """Return each table below the line about it."""
        return self._look, self.subjects, self._newest, self.heard

    def draw(self, listened: Listened | None, look: SubjectsLook, *, held: bool) -> None:
        """Show a picture; None: none has come yet."""
        if listened is not None:
            # What is shown may be older than what is wanted.
            look = listened.look
        rows = SubjectView(listened.rows if listened else (), as_tree=look.as_tree)
        heard = HeardView(listened.heard if listened else ())
        order = Sort(look.by, look.reverse)
        self.subjects.show(Rows(rows, SUBJECT_COLUMNS, rows.rows()), sort=order)
        self.heard.show(Rows(heard, HEARD_COLUMNS, heard.rows()))
        if listened is not None:
            self.say(look_text(listened, held=held), "warn" if held else "")
            self._newest.update(safe(newest_text(listened)))

    def say(self, text: str, look: str) -> None:
        """Show a line above the subjects."""
        self._look.update(safe(text, look))

    def explain(self, subjects: str, heard: str) -> None:
        """Say why a table has no rows, when it has none."""
        self.subjects.empty, self.heard.empty = subjects, heard

    def action_next(self) -> None:
        """Show both tables, only that of subjects, or only that of messages."""
        now = next((one for one in _PANES if self._screen.has_class(one)), _BOTH)
        after = _PANES[(_PANES.index(now) + 1) % len(_PANES)]
        self._screen.remove_class(*_PANES)
        self._screen.add_class(after)
        (self.heard if after == _MESSAGES else self.subjects).focus()

    def action_other(self) -> None:
        """Give the keys to the other table."""
        other = self.subjects if self.heard.has_focus else self.heard
        if other.display:
            other.focus()

    def action_copy(self) -> None:
        """Copy the subject under the cursor."""
        key = self.subjects.cursor_key
        if isinstance(key, tuple):
            name = safe_copy(str(key[2]))
            self._screen.app.copy_to_clipboard(name)
            self._screen.notify(f"copied {clean_line(name)}", markup=False, timeout=2)


class LookKeys(ScreenPart):
    """The look that is wanted, and the keys that change it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "part('looking', 'filter')", "Filter", key_display="/", id="sub.filter"),
        Binding("t", "part('looking', 'tree')", "Tree/list", id="sub.tree"),
        Binding(
            "right_square_bracket", "part('looking', 'deeper', 1)", "Deeper",
            key_display="]", id="sub.deeper",
        ),
        Binding(
            "left_square_bracket", "part('looking', 'deeper', -1)", "Less deep",
            key_display="[", id="sub.shallower",
        ),
        Binding("i", "part('looking', 'internal')", "Internal", id="sub.internal"),
    ]  # fmt: skip

    def __init__(
        self,
        look: SubjectsLook,
        ask_pattern: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """`ask_pattern` lets the user edit the filter, `changed` has the rows shown anew."""
        self.look = look
        self.wrong = ""
        """Why the last filter was not taken, until there is another."""
        self._ask_pattern, self._changed = ask_pattern, changed

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Grey what only a tree has, in a list."""
        return True if action != "deeper" or self.look.as_tree else None

    def change(self, look: SubjectsLook) -> None:
        """Show it so from now on; a bad expression is reported and not used."""
        try:
            compiled(look.pattern)
        except UsageError as error:
            self.wrong = str(error)
        else:
            self.wrong, self.look = "", look
        self._changed()

    def filter_by(self, pattern: str) -> None:
        """Keep the subjects that match a regular expression; empty keeps all."""
        self.change(replace(self.look, pattern=pattern))

    def show_all(self) -> bool:
        """Take the filter away; return whether there was one."""
        if not (self.look.pattern or self.wrong):
            return False
        self.filter_by("")
        return True

    def sort_by(self, column: str) -> None:
        """Sort by a column; by the present one in the other direction."""
        by = cast("SubjectOrder", column)
        again = by == self.look.by
        reverse = not self.look.reverse if again else by != "subject"
        self.change(replace(self.look, by=by, reverse=reverse))

    def open_or_close(self, path: str) -> None:
        """Open a token, or close it."""
        toggled = tuple(sorted({*self.look.toggled} ^ {path}))
        self.change(replace(self.look, toggled=toggled))

    def action_filter(self) -> None:
        """Filter by a regular expression; `!` in front keeps what does not match."""
        self._ask_pattern(self.look.pattern)

    def action_tree(self) -> None:
        """Show tokens below each other, or every subject in a row of its own."""
        self.change(replace(self.look, as_tree=not self.look.as_tree))

    def action_deeper(self, step: int) -> None:
        """Open one level more, or one less; what was opened by hand is forgotten."""
        level = max(1, min(_DEEPEST_LEVEL, self.look.open_level + step))
        self.change(replace(self.look, open_level=level, toggled=()))

    def action_internal(self) -> None:
        """Show also what servers and clients send among themselves, or not."""
        self.change(replace(self.look, internal=not self.look.internal))


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
