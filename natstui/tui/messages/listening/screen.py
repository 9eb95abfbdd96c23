"""What is published to core subjects: counted by subject as it comes, with the newest messages."""

from __future__ import annotations

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
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import PendingRequest, run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.frame.table_text import Rows
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.raw.payload import one_line
from natstui.tui.kit.table.big_table import BigTable, Sort
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import HeaderSelected, RowSelected
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.messages.cells import StoredView
from natstui.tui.messages.message import MessageScreen
from natstui.tui.messages.text import payload_of, time_text
from natstui.units import bytes_text, count_text, counted, duration_text, rate_text

T = TypeVar("T")

_OPEN, _CLOSED, _PLAIN = "▾ ", "▸ ", "  "
_INDENT = "  "
_SIDE_EFFECT = (
    "while natstui listens, requests without a responder time out instead of failing at once"
)


class SubjectView(Listed[SubjectRow]):
    """Rows of subjects as they came: they are in order already."""

    def __init__(self, rows: Sequence[SubjectRow], *, as_tree: bool) -> None:
        super().__init__(rows, [(row.kind == "rest", row.kind, row.path) for row in rows], ())
        self.as_tree = as_tree


def label_of(row: SubjectRow, *, as_tree: bool) -> str:
    """Return what the row of a subject says: its last token where it stands in a tree."""
    count = f"{row.subjects_count:,} more {'subject' if row.subjects_count == 1 else 'subjects'}"
    if row.kind == "others":
        return f"… and about {count} more subjects"
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
    one = view.things[row]
    look = {"branch": "strong", "rest": "dim", "others": "dim"}.get(one.kind, "")
    return Cell(label_of(one, as_tree=view.as_tree), look)


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
    """Return nothing to sort by: the engine has brought the rows into order."""
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
    """The newest messages, the newest first; each is named by the how manieth it was."""

    def __init__(self, heard: Sequence[Heard]) -> None:
        newest = heard[::-1]
        Listed.__init__(
            self, [one.message for one in newest], [one.heard_id for one in newest], ()
        )


def _number(view: HeardView, row: int) -> Cell:
    """The how manieth message it was, of all that came."""
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


def _payload(view: HeardView, row: int) -> Cell:
    """How the payload begins."""
    return Cell(clean_line(one_line(payload_of(view.things[row]))))


HEARD_COLUMNS: tuple[ColumnSpec[HeardView], ...] = (
    ColumnSpec("number", "#", 9, 3, _number, _unsorted),
    ColumnSpec("came", "CAME", 12, 1, _at, _unsorted, align="left"),
    ColumnSpec("of", "SUBJECT", 20, 0, _of_subject, _unsorted, align="left", flex=1),
    ColumnSpec("size", "SIZE", 10, 4, _size, _unsorted),
    ColumnSpec("payload", "PAYLOAD", 20, 2, _payload, _unsorted, align="left", flex=2,
               max_width=400),
)  # fmt: skip


def whole_text(subjects: tuple[str, ...], listened: Listened) -> str:
    """Return what came altogether."""
    about = "about " if listened.other_subjects_count else ""
    count = listened.subjects_count + listened.other_subjects_count
    return "  ·  ".join(
        [
            f"sub {', '.join(subjects)}",
            f"{rate_text(listened.msgs_per_s)} msgs/s",
            f"{bytes_text(listened.bytes_per_s)}/s",
            f"{listened.came_msgs:,} msgs, {bytes_text(listened.came_bytes)}",
            f"{about}{counted(f'{count:,}', 'subject')}",
            f"in {duration_text(listened.elapsed_s)}",
        ]
    )


def look_text(listened: Listened, *, held: bool) -> str:
    """Return how it is shown, and what is not."""
    look = listened.look
    count = counted(f"{listened.wanted_subjects_count:,}", "subject")
    arrow = "▼" if look.reverse else "▲"
    parts = [
        *(["HELD"] if held else []),
        f"{'tree of ' if look.as_tree else ''}{count} by {_TITLES[look.by]} {arrow}",
        *([f"/{look.pattern}"] if look.pattern else []),
    ]
    if listened.unwanted_msgs:
        what = "others" if look.pattern else "internal"
        parts.append(f"{listened.unwanted_msgs:,} msgs of {what} not shown")
    return "  ·  ".join(parts)


def gap_text(listened: Listened) -> str:
    """Return that some are missing, if some are."""
    if not listened.interruptions_count:
        return ""
    why = f" ({listened.interrupted_by})" if listened.interrupted_by else ""
    lost = counted(listened.interruptions_count, "time")
    return f"the connection was lost {lost}{why}: messages of that time are missing"


def newest_text(listened: Listened) -> str:
    """Return which messages are listed."""
    look = listened.look
    shown = len(listened.heard)
    is_all = not look.pattern and not listened.unwanted_msgs
    of = f" of {listened.came_msgs:,}" if is_all and shown < listened.came_msgs else ""
    if not shown:
        return "messages  ·  none yet"
    return f"messages  ·  the newest {shown:,}{of}, newest first"


def waiting_text(subjects: tuple[str, ...], look: SubjectsLook, listened: Listened | None) -> str:
    """Return why no subject is listed."""
    if listened is not None and listened.unwanted_msgs:
        if look.pattern:
            return f"no subject matches /{look.pattern}; escape clears the filter"
        return "only internal subjects arrived: i shows them"
    return f"nothing arrived on {', '.join(subjects)} yet; {_SIDE_EFFECT}"


def taken_from(state: State, subjects: tuple[str, ...]) -> list[str]:
    """Return the push consumers that would deliver to whoever listens to these subjects.

    A subject with a wildcard wakes none, and a group only its members (measured).
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
