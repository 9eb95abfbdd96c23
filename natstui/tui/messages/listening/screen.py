"""Messages on core subjects: live counts by subject, and the newest messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

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
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.records.listening import (
    Heard,
    Listened,
    LookAtSubjects,
    ReadHeard,
    StartListening,
    StopListening,
    SubjectOrder,
    SubjectRow,
    SubjectsLook,
)
from natstui.model.records.messages import Answered, StoredMessage
from natstui.model.records.record import Command
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.requests import PendingRequest, run_task
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.frame.table_text import Rows
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.big_table import BigTable, Sort
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import HeaderSelected, RowSelected
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.messages.cells import StoredView, payload_cell
from natstui.tui.messages.message import MessageScreen
from natstui.tui.messages.text import time_text
from natstui.units import bytes_text, count_text, counted, duration_text, rate_text

T = TypeVar("T")

_OPEN, _CLOSED, _PLAIN = "▾ ", "▸ ", "  "
_INDENT = "  "
_SIDE_EFFECT = (
    "while natstui listens, requests without a responder time out instead of failing at once"
)


class SubjectView(Listed[SubjectRow]):
    """Rows of subjects, in the order of the engine."""

    def __init__(self, rows: Sequence[SubjectRow], *, as_tree: bool) -> None:
        super().__init__(rows, [(row.kind == "rest", row.kind, row.path) for row in rows], ())
        self.as_tree = as_tree


def label_of(row: SubjectRow, *, as_tree: bool) -> str:
    """Return the label of a subject's row: its last token in a tree."""
    count = counted(f"{row.subjects_count:,}", "more subject")
    if row.kind == "others":
        return f"… and about {count}"
    mark = (_OPEN if row.is_open else _CLOSED) if row.kind == "branch" else _PLAIN
    indent = _INDENT * row.deep_level + mark if as_tree else ""
    if row.kind == "rest":
        return f"{indent}… and {count}"
    if not as_tree:
        return clean_line(row.path)
    token = ".".join(row.path.split(".")[row.deep_level :])
    return f"{indent}{clean_line(token)}"


def _subject(view: SubjectView, row: int) -> Cell:
    """Subject; in the tree a token, whose figures are those of all subjects below it together."""
    subject_row = view.things[row]
    look = {"branch": "strong", "rest": "dim", "others": "dim"}.get(subject_row.kind, "")
    return Cell(label_of(subject_row, as_tree=view.as_tree), look)


def _msgs_per_s(view: SubjectView, row: int) -> Cell:
    """Messages a second, over the last 3 seconds."""
    return _rate_cell(view.things[row].msgs_per_s, rate_text)


def _bytes_per_s(view: SubjectView, row: int) -> Cell:
    """Bytes of headers and payloads a second, over the last 3 seconds."""
    return _rate_cell(view.things[row].bytes_per_s, bytes_text)


def _rate_cell(per_s: float | None, text: Callable[[float | None], str]) -> Cell:
    return Cell(text(per_s), "accent" if per_s else "dim")


def _msgs(view: SubjectView, row: int) -> Cell:
    """Messages that came since the screen began to listen."""
    return Cell(f"{view.things[row].came_msgs:,}")


def _bytes(view: SubjectView, row: int) -> Cell:
    """Bytes of headers and payloads that came since then."""
    return Cell(bytes_text(view.things[row].came_bytes))


def _subjects(view: SubjectView, row: int) -> Cell:
    """Different subjects that the row stands for."""
    count = view.things[row].subjects_count
    return Cell("" if view.things[row].kind == "subject" else count_text(count), "dim")


def _unsorted(view: Listed[T]) -> Sequence[object]:
    """Return no sort values: the engine has sorted the rows."""
    return range(len(view))


SUBJECT_COLUMNS: tuple[ColumnSpec[SubjectView], ...] = (
    ColumnSpec("subject", "SUBJECT", 24, 0, _subject, _unsorted, align="left", flex=1,
               max_width=200, descends=False),
    ColumnSpec("msgs_per_s", "MSGS/S", 7, 1, _msgs_per_s, _unsorted),
    ColumnSpec("bytes_per_s", "B/S", 8, 2, _bytes_per_s, _unsorted),
    ColumnSpec("msgs", "MSGS", 11, 3, _msgs, _unsorted),
    ColumnSpec("bytes", "BYTES", 8, 4, _bytes, _unsorted),
    ColumnSpec("subjects", "SUBJECTS", 8, 5, _subjects, _unsorted),
)  # fmt: skip
_TITLES = {spec.id: spec.title for spec in SUBJECT_COLUMNS}


class HeardView(StoredView):
    """The newest messages, newest first; a message's key is its number since the screen began to
    listen.
    """

    def __init__(self, messages: Sequence[Heard]) -> None:
        newest = messages[::-1]
        Listed.__init__(
            self,
            [message.message for message in newest],
            [message.heard_id for message in newest],
            (),
        )


def _number(view: HeardView, row: int) -> Cell:
    """Number of the message since the screen began to listen."""
    return Cell(f"{view.key(row):,}", "accent")


def _at(view: HeardView, row: int) -> Cell:
    """When it came here, in local time."""
    return Cell(time_text(view.things[row].stored_at_us), "dim")


def _of_subject(view: HeardView, row: int) -> Cell:
    """Subject it was published to."""
    return Cell(clean_line(view.things[row].subject), "strong")


def _size(view: HeardView, row: int) -> Cell:
    """Bytes of the payload; ▪ behind them: it has headers too."""
    message = view.things[row]
    return Cell(bytes_text(message.payload_bytes) + (" ▪" if message.headers else "  "), "dim")


HEARD_COLUMNS: tuple[ColumnSpec[HeardView], ...] = (
    ColumnSpec("number", "#", 9, 3, _number, _unsorted),
    ColumnSpec("came", "CAME", 12, 1, _at, _unsorted, align="left"),
    ColumnSpec("of", "SUBJECT", 20, 0, _of_subject, _unsorted, align="left", flex=1),
    ColumnSpec("size", "SIZE", 10, 4, _size, _unsorted),
    ColumnSpec("payload", "PAYLOAD", 20, 2, payload_cell, _unsorted, align="left", flex=2,
               max_width=400),
)  # fmt: skip


def whole_text(subjects: tuple[str, ...], update: Listened) -> str:
    """Return the total number and rate of the received messages."""
    prefix = "about " if update.other_subjects_count else ""
    count = update.subjects_count + update.other_subjects_count
    return "  ·  ".join(
        [
            f"sub {', '.join(subjects)}",
            f"{rate_text(update.msgs_per_s)} msgs/s",
            f"{bytes_text(update.bytes_per_s)}/s",
            f"{update.came_msgs:,} msgs, {bytes_text(update.came_bytes)}",
            f"{prefix}{counted(f'{count:,}', 'subject')}",
            f"in {duration_text(update.elapsed_s)}",
        ]
    )


def look_text(update: Listened, *, is_paused: bool) -> str:
    """Return the order and filter of the list, and the subjects that are not listed."""
    look = update.look
    count = counted(f"{update.wanted_subjects_count:,}", "subject")
    arrow = "▼" if look.reverse else "▲"
    parts = [
        *(["HELD"] if is_paused else []),
        f"{'tree of ' if look.as_tree else ''}{count} by {_TITLES[look.by]} {arrow}",
        *([f"/{look.pattern}"] if look.pattern else []),
    ]
    if update.unwanted_msgs:
        hidden_kind = "others" if look.pattern else "internal"
        parts.append(f"{update.unwanted_msgs:,} msgs of {hidden_kind} not shown")
    return "  ·  ".join(parts)


def gap_text(update: Listened) -> str:
    """Return that messages are missing; empty if none are."""
    if not update.interruptions_count:
        return ""
    reason = f" ({update.interrupted_by})" if update.interrupted_by else ""
    interruptions = counted(update.interruptions_count, "time")
    return f"the connection was lost {interruptions}{reason}: messages of that time are missing"


def newest_text(update: Listened) -> str:
    """Return which messages are listed."""
    look = update.look
    listed_count = len(update.heard)
    is_all = not look.pattern and not update.unwanted_msgs
    total_text = f" of {update.came_msgs:,}" if is_all and listed_count < update.came_msgs else ""
    if not listed_count:
        return "messages  ·  none yet"
    return f"messages  ·  the newest {listed_count:,}{total_text}, newest first"


def waiting_text(
    subjects: tuple[str, ...], wanted_look: SubjectsLook, update: Listened | None
) -> str:
    """Return why no subject is listed."""
    if update is not None and update.unwanted_msgs:
        if wanted_look.pattern:
            return f"no subject matches /{wanted_look.pattern}; escape clears the filter"
        return "only internal subjects arrived: i shows them"
    return f"nothing arrived on {', '.join(subjects)} yet; {_SIDE_EFFECT}"


def taken_from(state: State, subjects: tuple[str, ...]) -> list[str]:
    """Return the push consumers that would deliver to a subscriber of these subjects.

    A subject with a wildcard activates none, and a queue group only its members (measured).
    """
    return [
        f"{consumer_configuration.stream} > {consumer_configuration.name}"
        for consumer_configuration in state.consumer_configurations.values()
        if consumer_configuration.deliver_subject in subjects
        and not consumer_configuration.deliver_group
    ]


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
    """The newest received messages as a source for the message screen: they are in no known
    stream.
    """

    stream = ""

    def command(self, number: int) -> Command:
        """Return the command that reads a message."""
        return ReadHeard(0, number)

    def message_of(self, body_json: str) -> tuple[StoredMessage, str]:
        """Return the message in a reply, and its reply subject."""
        received = _decoder.decode(body_json)
        return received.message, received.reply

    def called(self, number: int) -> str:
        """Return the caption of a message: its number since the screen began to listen."""
        return f"heard {number:,}"


class HeldTable(BigTable):
    """A table with live rows: space pauses it instead of marking rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.hold", "Hold", id="sub.hold"),
    ]


class Panes(ScreenPart):
    """Draws both tables, and has the keys for them."""

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
        """Yield each table with its caption above it."""
        return self._look, self.subjects, self._newest, self.heard

    def draw(self, update: Listened | None, look: SubjectsLook, *, is_paused: bool) -> None:
        """Show an update; None before the first one."""
        if update is not None:
            # What is shown may be older than what is wanted.
            look = update.look
        rows = SubjectView(update.rows if update else (), as_tree=look.as_tree)
        messages_view = HeardView(update.heard if update else ())
        order = Sort(look.by, look.reverse)
        self.subjects.show(Rows(rows, SUBJECT_COLUMNS, rows.rows()), sort=order)
        self.heard.show(Rows(messages_view, HEARD_COLUMNS, messages_view.rows()))
        if update is not None:
            self.say(look_text(update, is_paused=is_paused), "warn" if is_paused else "")
            self._newest.update(safe(newest_text(update)))

    def say(self, text: str, look: str) -> None:
        """Show a line above the subjects."""
        self._look.update(safe(text, look))

    def explain(self, subjects: str, messages_text: str) -> None:
        """Set the texts of the empty tables."""
        self.subjects.empty, self.heard.empty = subjects, messages_text

    def action_next(self) -> None:
        """Switch between both tables, only subjects, and only messages."""
        now = next((css_class for css_class in _PANES if self._screen.has_class(css_class)), _BOTH)
        after = _PANES[(_PANES.index(now) + 1) % len(_PANES)]
        self._screen.remove_class(*_PANES)
        self._screen.add_class(after)
        (self.heard if after == _MESSAGES else self.subjects).focus()

    def action_other(self) -> None:
        """Focus the other table."""
        other_table = self.subjects if self.heard.has_focus else self.heard
        if other_table.display:
            other_table.focus()

    def action_copy(self) -> None:
        """Copy the subject under the cursor."""
        key = self.subjects.cursor_key
        if isinstance(key, tuple):
            name = safe_copy(str(key[2]))
            self._screen.app.copy_to_clipboard(name)
            self._screen.notify(f"copied {clean_line(name)}", markup=False, timeout=2)


class LookKeys(ScreenPart):
    """The requested order, filter and tree of the subjects, and the keys that change them."""

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
        on_change: Callable[[], None],
    ) -> None:
        """Create with a start look; `ask_pattern` prompts for the filter, `on_change` requests the
        rows again.
        """
        self.look = look
        self.wrong = ""
        """Why the last filter was not taken, until there is another."""
        self._ask_pattern, self._changed = ask_pattern, on_change

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered; tree keys are grey in a list."""
        return True if action != "deeper" or self.look.as_tree else None

    def change(self, look: SubjectsLook) -> None:
        """Change the look; an invalid expression is reported and not used."""
        try:
            compiled(look.pattern)
        except UsageError as error:
            self.wrong = str(error)
        else:
            self.wrong, self.look = "", look
        self._changed()

    def filter_by(self, pattern: str) -> None:
        """Show only subjects that match a regular expression; empty shows all."""
        self.change(replace(self.look, pattern=pattern))

    def show_all(self) -> bool:
        """Remove the filter; return whether there was one."""
        if not (self.look.pattern or self.wrong):
            return False
        self.filter_by("")
        return True

    def sort_by(self, column: str) -> None:
        """Sort by a column; the current one reverses the direction."""
        order = cast("SubjectOrder", column)
        is_same = order == self.look.by
        reverse = not self.look.reverse if is_same else order != "subject"
        self.change(replace(self.look, by=order, reverse=reverse))

    def open_or_close(self, path: str) -> None:
        """Expand a token, or collapse it."""
        toggled_paths = tuple(sorted({*self.look.toggled} ^ {path}))
        self.change(replace(self.look, toggled=toggled_paths))

    def action_filter(self) -> None:
        """Prompt for a filter, a regular expression; `!` in front inverts it."""
        self._ask_pattern(self.look.pattern)

    def action_tree(self) -> None:
        """Switch between a tree of tokens and a row per subject."""
        self.change(replace(self.look, as_tree=not self.look.as_tree))

    def action_deeper(self, step: int) -> None:
        """Expand one level more or less; tokens expanded by hand are reset."""
        level = max(1, min(_DEEPEST_LEVEL, self.look.open_level + step))
        self.change(replace(self.look, open_level=level, toggled=()))

    def action_internal(self) -> None:
        """Show or hide internal subjects of servers and clients."""
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
    """System → id of its newest request to listen, which ended earlier ones."""

    caption = getters.query_one("#caption", Static)
    gaps = getters.query_one("#gaps", Static)

    def __init__(self, subjects: tuple[str, ...]) -> None:
        super().__init__()
        self.subjects = subjects
        self._request: PendingRequest | None = None
        self._refusal = ""
        self.held = False
        self._refused_by: LinkChanged | None = None
        """The link status when listening was refused."""
        self.looking = LookKeys(
            _first_look(subjects),
            lambda pattern: self.command_line.open("/", pattern),
            self._look_changed,
        )
        self.panes = Panes(self)
        self._newest: Listened | None = None
        self.shown: Listened | None = None
        """The update on the screen; when paused it stays while newer ones come."""

    def body(self) -> Iterable[Widget]:
        """Yield the tables with their captions."""
        yield Static(id="caption", markup=False)
        yield Static(id="gaps", classes="line", markup=False)
        yield from self.panes.widgets()

    def on_mount(self) -> None:
        """Start to listen."""
        self.panes.subjects.focus()
        # What lies on a screen that is not drawn yet gets no keys.
        self.call_after_refresh(self._listen_to, self.subjects)

    def on_unmount(self) -> None:
        """Stop listening."""
        if self._request is not None:
            self.engine.send(StopListening(0, self._request.command_id))

    def _listen_to(self, subjects: tuple[str, ...]) -> None:
        run_task(self, self._begin, subjects)

    async def _begin(self, subjects: tuple[str, ...]) -> None:
        """Start to listen, after a prompt if that would consume messages of push consumers."""
        if consumers := taken_from(self.state, subjects):
            pick = Pick(f"{', '.join(consumers)} delivers to us", _CHOICES, _TOLD)
            if await self.app.push_screen_wait(pick) != "listen":
                if self._request is None:
                    self.leave()
                return
        self.subjects, self.looking.look = subjects, _first_look(subjects)
        self.action_zero()

    def action_zero(self) -> None:
        """Reset the counts."""
        self.shown, self.held, self._refusal = None, False, ""
        command = StartListening(0, self.subjects, self.looking.look)
        self._request = self.engine.request(command)
        self.newest[self.where.acting.name] = self._request.command_id
        run_task(self, self._follow, self._request, replaces="follow")
        self.caption.update(safe(f"sub {', '.join(self.subjects)}  ·  connecting …"))
        self._draw()

    def refresh_state(self) -> None:
        """Listen again after another screen, or a lost connection, has ended it."""
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
        """Show each update, or the error."""
        self._newest = None
        async for record in request:
            if isinstance(record, Listened):
                self._newest = record
            elif isinstance(record, Answered):
                if record.status != "done":
                    self._refusal = record.text
                elif note := json.loads(record.body_json or "null"):
                    self.notify(note, severity="warning", markup=False)
            self._show_newest()

    def _show_newest(self) -> None:
        if self._refusal and self._is_silent:
            self._retry()
        elif self._newest is not None:
            self._show(self._newest)

    def _show(self, update: Listened) -> None:
        """Show an update; when paused, only show that the screen is old."""
        self.caption.update(safe(whole_text(self.subjects, update)))
        gaps = "  ·  ".join(filter(None, (self._refusal, gap_text(update))))
        self.set_class(bool(gaps), "-gaps")
        self.gaps.update(safe(gaps, "warn"))
        if not self.held:
            self.shown = update
            self._draw()

    def _retry(self) -> None:
        """Show why listening failed, and retry with the next connection."""
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
        self.panes.draw(self.shown, look, is_paused=self.held)
        if self.looking.wrong:
            self.panes.say(self.looking.wrong, "error")

    def _look_changed(self) -> None:
        """Request the changed look; the screen stays until the reply."""
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
        """Open a message; expand or collapse a token; show a single subject alone."""
        if isinstance(message.key, int):
            self.app.push_screen(MessageScreen("", message.key, HeardSource()))
            return
        _, kind, path = message.key if isinstance(message.key, tuple) else ("", "", "")
        if kind == "branch":
            self.looking.open_or_close(str(path))
        elif kind == "subject":
            self.looking.filter_by(f"^{re.escape(str(path))}$")

    def action_hold(self) -> None:
        """Pause or resume the screen; messages are counted meanwhile."""
        self.held = not self.held
        self._draw()

    def action_subject(self) -> None:
        """Prompt for another subject."""

        def refusal(text: str) -> str:
            invalid = [subject for subject in text.split() or [""] if not is_subject(subject)]
            return f"{invalid[0]!r} is not a subject" if invalid else ""

        run_task(self, self._type_subjects, refusal)

    async def _type_subjects(self, refusal: Callable[[str], str]) -> None:
        title = "Listen to which subject? * is one token, > all the rest"
        prompt = Prompt(title, " ".join(self.subjects), refusal=refusal)
        text = await self.app.push_screen_wait(prompt)
        if text is not None:
            await self._begin(tuple(text.split()))

    def action_back(self) -> None:
        """Clear the filter first, then leave."""
        if not self.looking.show_all():
            super().action_back()


def _first_look(subjects: tuple[str, ...]) -> SubjectsLook:
    """Return the look at the start; with internal subjects if they are named in the request."""
    return SubjectsLook(internal=any(map(is_internal, subjects)))
