"""What is published to core subjects: counted by subject as it comes, with the newest messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.model.assets.subjects import is_internal, is_subject
from natstui.model.records.listening import (
    Listened,
    LookAtSubjects,
    StartListening,
    StopListening,
    SubjectsLook,
)
from natstui.model.records.record import LinkChanged
from natstui.tui.frame.columns import ColumnSpec
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, answer_to, next_command_id
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
)
from natstui.tui.messages.listening.look import LookKeys
from natstui.tui.messages.listening.message import HeardSource
from natstui.tui.messages.listening.text import (
    gap_text,
    look_text,
    newest_text,
    taken_from,
    waiting_text,
    whole_text,
)
from natstui.tui.messages.message import MessageScreen

_CHOICES = (("leave", "do not listen"), ("listen", "take its messages"))
_TOLD = (
    "A push consumer delivers to whoever listens to its deliver subject,",
    "and here nobody processes or acknowledges what comes.",
)
_BOTH, _SUBJECTS, _MESSAGES = "-both", "-subjects", "-messages"
_PANES = (_BOTH, _SUBJECTS, _MESSAGES)


class HeldTable(BigTable):
    """A table whose rows come by themselves: space holds them, and marks nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.hold", "Hold", id="sub.hold"),
    ]


class ListenScreen(LiveScreen):
    """Subjects above, the newest messages below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *LookKeys.BINDINGS,
        Binding("s", "subject", "Subject", id="sub.subject"),
        Binding("z", "zero", "From zero", id="sub.zero"),
        Binding("m", "panes", "Panes", id="sub.panes"),
        Binding("tab", "other", "Other table", id="sub.other"),
        Binding("c", "copy", "Copy", show=False, id="copy.name"),
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

    caption = getters.query_one("#caption", Static)
    subject_table = getters.query_one("#subjects", HeldTable)
    heard_table = getters.query_one("#heard", HeldTable)

    def __init__(self, subjects: tuple[str, ...]) -> None:
        super().__init__()
        self.subjects = subjects
        self.number = -1
        self.held = False
        self._refused_by: LinkChanged | None = None
        """What the link was when nothing could be listened to."""
        self.looking = LookKeys(_first_look(subjects), self._ask_pattern, self._look_changed)
        self._newest: Listened | None = None
        self.shown: Listened | None = None
        """The picture on the screen; a held one stays while newer ones come."""

    def body(self) -> Iterable[Widget]:
        """The tables, each below what it shows."""
        yield Static(id="caption", markup=False)
        yield Static(id="gaps", classes="line", markup=False)
        yield Static(id="look", classes="line", markup=False)
        yield HeldTable(table_columns(SUBJECT_COLUMNS), id="subjects")
        yield Static(id="newest", classes="line", markup=False)
        yield HeldTable(table_columns(HEARD_COLUMNS), id="heard")

    def on_mount(self) -> None:
        """Begin to listen."""
        self.subject_table.focus()
        self._listen_to(self.subjects)

    def on_unmount(self) -> None:
        """Listen no longer."""
        self.app.post_message(Asked(StopListening(next_command_id())))

    def _listen_to(self, subjects: tuple[str, ...]) -> None:
        """Begin to listen, but ask first where that takes messages that somebody needs."""

        def answered(word: str | None) -> None:
            if word == "listen":
                self.subjects, self.looking.look = subjects, _first_look(subjects)
                self.action_zero()
            elif self.number < 0:
                self.leave()

        taken = taken_from(self.state, subjects)
        if not taken:
            answered("listen")
            return
        self.app.push_screen(Pick(f"{', '.join(taken)} delivers to us", _CHOICES, _TOLD), answered)

    def action_zero(self) -> None:
        """Count anew from now on."""
        self.number, self.shown, self.held = next_command_id(), None, False
        asked = StartListening(self.number, self.subjects, self.looking.look)
        self.app.post_message(Asked(asked))
        self._say("connecting …", "")
        self._draw(None)

    def refresh_state(self) -> None:
        """Show the newest picture, or why there is none."""
        answer, listened = answer_to(self.state, self.number), self.state.listened
        refused = answer.text if answer is not None and answer.status != "done" else ""
        own = listened if listened and listened.command_id == self.number else None
        if refused and not (own and own.came_msgs):
            self._refused(refused)
        elif listened is not None and listened.command_id > self.number:
            # Another screen began to listen meanwhile, which ended this one.
            if self.is_current:
                self.action_zero()
        elif own is not None and own is not self._newest:
            self._take(own, refused)

    def _take(self, listened: Listened, refused: str) -> None:
        """Show a newer picture; of a held one only what says that it is old."""
        self._newest = listened
        self.caption.update(safe(whole_text(self.subjects, listened)))
        gaps = "  ·  ".join(filter(None, (refused, gap_text(listened))))
        self.set_class(bool(gaps), "-gaps")
        self.query_one("#gaps", Static).update(safe(gaps, "warn"))
        if not self.held:
            self.shown = listened
            self._draw(listened)

    def _refused(self, reason: str) -> None:
        """Say why nothing is listened to, and try again with the next connection."""
        self._say(reason, "error")
        self.subject_table.empty = self.heard_table.empty = ""
        link = self.state.link
        if self._refused_by is not None and link is not self._refused_by:
            self._refused_by = None
            self.action_zero()
        elif link is not None:
            self._refused_by = link

    def _say(self, text: str, look: str) -> None:
        self.caption.update(safe(f"sub {', '.join(self.subjects)}  ·  {text}", look))

    def _draw(self, listened: Listened | None) -> None:
        look, line = self.looking.look, self.query_one("#look", Static)
        rows = SubjectView(listened.rows if listened else (), as_tree=look.as_tree)
        heard = HeardView(listened.heard if listened else ())
        self.subject_table.empty = waiting_text(self.subjects, look, listened)
        self.heard_table.empty = "no message"
        order = Sort(look.by, look.reverse)
        self.subject_table.show(Rows(rows, SUBJECT_COLUMNS, rows.rows()), sort=order)
        self.heard_table.show(Rows(heard, HEARD_COLUMNS, heard.rows()))
        if listened is None:
            return
        if self.looking.wrong:
            line.update(safe(self.looking.wrong, "error"))
        else:
            said = look_text(listened, look, held=self.held)
            line.update(safe(said, "warn" if self.held else ""))
        self.query_one("#newest", Static).update(safe(newest_text(listened, look)))

    def _ask_pattern(self, pattern: str) -> None:
        self.command_line.open("/", pattern)

    def _look_changed(self) -> None:
        """Have the engine show it so; what is on the screen stays until it does."""
        self.held = False
        self.refresh_bindings()
        self._draw(self.shown)
        if not self.looking.wrong:
            asked = LookAtSubjects(next_command_id(), self.looking.look)
            self.app.post_message(Asked(asked))

    @on(CommandLine.Edited)
    @on(CommandLine.Entered)
    @on(CommandLine.Cancelled)
    def _filter(
        self, message: CommandLine.Edited | CommandLine.Entered | CommandLine.Cancelled
    ) -> None:
        if message.prefix == "/":
            text = "" if isinstance(message, CommandLine.Cancelled) else message.text
            self.looking.filter_by(text)

    @on(HeaderSelected, "#subjects")
    def _sort(self, message: HeaderSelected) -> None:
        self.looking.sort_by(message.column_id)

    @on(RowSelected, "#subjects")
    def _open_or_close(self, message: RowSelected) -> None:
        """Open a token or close it; of a subject show the messages alone."""
        _, kind, path = message.key if isinstance(message.key, tuple) else ("", "", "")
        if kind == "branch":
            self.looking.open_or_close(str(path))
        elif kind == "subject":
            self.looking.filter_by(f"^{re.escape(str(path))}$")

    @on(RowSelected, "#heard")
    def _open_message(self, message: RowSelected) -> None:
        """Show a message in full."""
        if isinstance(message.key, int):
            self.app.push_screen(MessageScreen("", message.key, HeardSource()))

    def action_hold(self) -> None:
        """Hold the picture, or let it go on; what comes meanwhile is counted."""
        self.held = not self.held
        self._draw(self.shown)

    def action_subject(self) -> None:
        """Listen to another subject."""

        def refusal(text: str) -> str:
            wrong = [one for one in text.split() or [""] if not is_subject(one)]
            return f"{wrong[0]!r} is not a subject" if wrong else ""

        def go(text: str | None) -> None:
            if text is not None:
                self._listen_to(tuple(text.split()))

        words = "Listen to which subject? * is one token, > all the rest"
        self.app.push_screen(Prompt(words, " ".join(self.subjects), refusal=refusal), go)

    def action_panes(self) -> None:
        """Show both tables, only that of subjects, or only that of messages."""
        now = next((one for one in _PANES if self.has_class(one)), _BOTH)
        after = _PANES[(_PANES.index(now) + 1) % len(_PANES)]
        self.remove_class(*_PANES)
        self.add_class(after)
        (self.heard_table if after == _MESSAGES else self.subject_table).focus()

    def action_other(self) -> None:
        """Give the keys to the other table."""
        if self.has_class(_SUBJECTS, _MESSAGES):
            return
        (self.subject_table if self.heard_table.has_focus else self.heard_table).focus()

    def action_copy(self) -> None:
        """Copy the subject under the cursor."""
        key = self.subject_table.cursor_key
        if isinstance(key, tuple):
            name = safe_copy(str(key[2]))
            self.app.copy_to_clipboard(name)
            self.notify(f"copied {clean_line(name)}", markup=False, timeout=2)

    def action_back(self) -> None:
        """Clear the filter first, then leave."""
        if not self.looking.show_all():
            super().action_back()


def _first_look(subjects: tuple[str, ...]) -> SubjectsLook:
    """Return how it is shown at first; internal subjects where they are asked for by name."""
    return SubjectsLook(internal=any(map(is_internal, subjects)))
