"""Messages on core subjects: live counts by subject, and the newest messages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar, cast

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.model.assets.subjects import is_internal, is_valid_subject
from natstui.model.live.row_filter import compile_filter
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.records.listening import (
    Listened,
    ListeningMessage,
    ReadListeningMessage,
    SetSubjectRowOptions,
    StartListening,
    StopListening,
    SubjectOrder,
    SubjectRow,
    SubjectRowOptions,
)
from natstui.model.records.messages import Answered, StoredMessage
from natstui.model.records.record import Command
from natstui.tui.frame.columns import ColumnSpec, ItemsView
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.requests import PendingRequest, run_task
from natstui.tui.frame.row_order import Rows
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.big_table import BigTable, Sort
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import HeaderSelected, RowSelected
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.messages.cells import StoredMessagesView, payload_cell
from natstui.tui.messages.message import MessageScreen
from natstui.tui.messages.text import time_text
from natstui.units import bytes_text, count_text, counted, duration_text, rate_text
from natstui.values import replace

ItemT = TypeVar("ItemT")

_EXPANDED_MARK, _COLLAPSED_MARK, _NO_BRANCH_MARK = "▾ ", "▸ ", "  "
_INDENT = "  "
_LISTENING_SIDE_EFFECT_TEXT = (
    "while natstui listens, requests without a responder time out instead of failing at once"
)


class SubjectView(ItemsView[SubjectRow]):
    """A view of subjects with their counts, in the order in which the engine sorted them."""

    def __init__(self, rows: Sequence[SubjectRow], *, as_tree: bool) -> None:
        super().__init__(rows, [(row.kind == "rest", row.kind, row.path) for row in rows], ())
        self.as_tree = as_tree


def row_label(row: SubjectRow, *, as_tree: bool) -> str:
    """Return the label of a row: the subject, in a tree its last token, or the number of subjects
    without a row.
    """
    count = counted(f"{row.subjects_count:,}", "more subject")
    if row.kind == "others":
        return f"… and about {count}"
    mark = (
        (_EXPANDED_MARK if row.is_open else _COLLAPSED_MARK)
        if row.kind == "branch"
        else _NO_BRANCH_MARK
    )
    indent = _INDENT * row.deep_level + mark if as_tree else ""
    if row.kind == "rest":
        return f"{indent}… and {count}"
    if not as_tree:
        return clean_line(row.path)
    token = ".".join(row.path.split(".")[row.deep_level :])
    return f"{indent}{clean_line(token)}"


def _subject(view: SubjectView, row: int) -> Cell:
    """Subject; in the tree a token, whose figures are those of all subjects below it together."""
    subject_row = view.items[row]
    style_name = {"branch": "strong", "rest": "dim", "others": "dim"}.get(subject_row.kind, "")
    return Cell(row_label(subject_row, as_tree=view.as_tree), style_name)


def _msgs_per_s(view: SubjectView, row: int) -> Cell:
    """Messages a second, over the last 3 seconds."""
    return _rate_cell(view.items[row].msgs_per_s, rate_text)


def _bytes_per_s(view: SubjectView, row: int) -> Cell:
    """Bytes of headers and payloads a second, over the last 3 seconds."""
    return _rate_cell(view.items[row].bytes_per_s, bytes_text)


def _rate_cell(rate_per_s: float | None, format_value: Callable[[float | None], str]) -> Cell:
    return Cell(format_value(rate_per_s), "accent" if rate_per_s else "dim")


def _msgs_count(view: SubjectView, row: int) -> Cell:
    """Messages received since the screen subscribed."""
    return Cell(f"{view.items[row].came_msgs:,}")


def _received_bytes(view: SubjectView, row: int) -> Cell:
    """Bytes of headers and payloads received since the screen subscribed."""
    return Cell(bytes_text(view.items[row].came_bytes))


def _subjects_count(view: SubjectView, row: int) -> Cell:
    """Number of subjects in a branch of the tree, or in a row for the rest."""
    count = view.items[row].subjects_count
    return Cell("" if view.items[row].kind == "subject" else count_text(count), "dim")


def _no_sort_values(view: ItemsView[ItemT]) -> Sequence[object]:
    """Return the row numbers as sort values, so that the rows stay as the engine sorted them."""
    return range(len(view))


SUBJECT_COLUMNS: tuple[ColumnSpec[SubjectView], ...] = (
    ColumnSpec("subject", "SUBJECT", 24, 0, _subject, _no_sort_values, align="left", flex=1,
               max_width=200, descends=False),
    ColumnSpec("msgs_per_s", "MSGS/S", 7, 1, _msgs_per_s, _no_sort_values),
    ColumnSpec("bytes_per_s", "B/S", 8, 2, _bytes_per_s, _no_sort_values),
    ColumnSpec("msgs", "MSGS", 11, 3, _msgs_count, _no_sort_values),
    ColumnSpec("bytes", "BYTES", 8, 4, _received_bytes, _no_sort_values),
    ColumnSpec("subjects", "SUBJECTS", 8, 5, _subjects_count, _no_sort_values),
)  # fmt: skip
_TITLES = {spec.id: spec.title for spec in SUBJECT_COLUMNS}


class ReceivedMessagesView(StoredMessagesView):
    """A view of the newest messages, newest first; the key of a message is its number since the
    screen subscribed.
    """

    def __init__(self, messages: Sequence[ListeningMessage]) -> None:
        messages_newest_first = messages[::-1]
        ItemsView.__init__(
            self,
            [message.message for message in messages_newest_first],
            [message.heard_id for message in messages_newest_first],
            (),
        )


def _message_number(view: ReceivedMessagesView, row: int) -> Cell:
    """Number of the message since the screen subscribed."""
    return Cell(f"{view.key(row):,}", "accent")


def _received_time(view: ReceivedMessagesView, row: int) -> Cell:
    """Local time at which the message arrived."""
    return Cell(time_text(view.items[row].stored_at_us), "dim")


def _message_subject(view: ReceivedMessagesView, row: int) -> Cell:
    """Subject to which the message was published."""
    return Cell(clean_line(view.items[row].subject), "strong")


def _payload_size(view: ReceivedMessagesView, row: int) -> Cell:
    """Bytes of the payload; ▪ after the number if the message has headers."""
    message = view.items[row]
    return Cell(bytes_text(message.payload_bytes) + (" ▪" if message.headers else "  "), "dim")


RECEIVED_COLUMNS: tuple[ColumnSpec[ReceivedMessagesView], ...] = (
    ColumnSpec("number", "#", 9, 3, _message_number, _no_sort_values),
    ColumnSpec("came", "CAME", 12, 1, _received_time, _no_sort_values, align="left"),
    ColumnSpec("of", "SUBJECT", 20, 0, _message_subject, _no_sort_values, align="left", flex=1),
    ColumnSpec("size", "SIZE", 10, 4, _payload_size, _no_sort_values),
    ColumnSpec("payload", "PAYLOAD", 20, 2, payload_cell, _no_sort_values, align="left", flex=2,
               max_width=400),
)  # fmt: skip


def totals_text(subjects: tuple[str, ...], update: Listened) -> str:
    """Return the caption with the totals and rates of the received messages."""
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


def subjects_caption(update: Listened, *, is_paused: bool) -> str:
    """Return the caption of the subjects: order, filter, and the messages of hidden subjects."""
    options = update.look
    count = counted(f"{update.wanted_subjects_count:,}", "subject")
    arrow = "▼" if options.reverse else "▲"
    parts = [
        *(["PAUSED"] if is_paused else []),
        f"{'tree of ' if options.as_tree else ''}{count} by {_TITLES[options.by]} {arrow}",
        *([f"/{options.pattern}"] if options.pattern else []),
    ]
    if update.unwanted_msgs:
        hidden_kind = "others" if options.pattern else "internal"
        parts.append(f"{update.unwanted_msgs:,} msgs of {hidden_kind} not shown")
    return "  ·  ".join(parts)


def gap_text(update: Listened) -> str:
    """Return the sentence about messages lost with the connection; empty if none were lost."""
    if not update.interruptions_count:
        return ""
    reason = f" ({update.interrupted_by})" if update.interrupted_by else ""
    interruptions_text = counted(update.interruptions_count, "time")
    return (
        f"the connection was lost {interruptions_text}{reason}: messages of that time are missing"
    )


def messages_caption(update: Listened) -> str:
    """Return the caption of the messages: how many are listed."""
    options = update.look
    listed_count = len(update.heard)
    is_unfiltered = not options.pattern and not update.unwanted_msgs
    total_text = (
        f" of {update.came_msgs:,}" if is_unfiltered and listed_count < update.came_msgs else ""
    )
    if not listed_count:
        return "messages  ·  none yet"
    return f"messages  ·  the newest {listed_count:,}{total_text}, newest first"


def empty_text(
    subjects: tuple[str, ...], requested_options: SubjectRowOptions, update: Listened | None
) -> str:
    """Return the text that explains an empty table of subjects."""
    if update is not None and update.unwanted_msgs:
        if requested_options.pattern:
            return f"no subject matches /{requested_options.pattern}; escape clears the filter"
        return "only internal subjects arrived: i shows them"
    return f"nothing arrived on {', '.join(subjects)} yet; {_LISTENING_SIDE_EFFECT_TEXT}"


def find_push_consumers(state: State, subjects: tuple[str, ...]) -> list[str]:
    """Return the names of push consumers that would deliver to a subscriber of these subjects.

    A subject with a wildcard activates no push consumer; a consumer with a queue group delivers
    only to the members of the group (measured).
    """
    return [
        f"{consumer_configuration.stream} > {consumer_configuration.name}"
        for consumer_configuration in state.consumer_configurations.values()
        if consumer_configuration.deliver_subject in subjects
        and not consumer_configuration.deliver_group
    ]


_decoder = decoder_of(ListeningMessage)
_BOTH_PANES_CLASS, _SUBJECTS_PANE_CLASS, _MESSAGES_PANE_CLASS = "-both", "-subjects", "-messages"
_PANE_CLASSES = (_BOTH_PANES_CLASS, _SUBJECTS_PANE_CLASS, _MESSAGES_PANE_CLASS)
_DEEPEST_LEVEL = 16
_LISTEN_OPTIONS = (("leave", "do not listen"), ("listen", "receive its messages"))
_PUSH_CONSUMER_WARNING_LINES = (
    "Messages of a push consumer that arrive here",
    "are neither processed nor acknowledged.",
)


class ReceivedSource:
    """The received messages as a source for the message screen; their stream is not known."""

    stream = ""

    def command(self, number: int) -> Command:
        """Return the command that reads the message with this number since the subscription."""
        return ReadListeningMessage(0, number)

    def message_of(self, body_json: str) -> tuple[StoredMessage, str]:
        """Return the message in a reply to the command, and its reply subject."""
        received_message = _decoder.decode(body_json)
        return received_message.message, received_message.reply

    def caption_start(self, number: int) -> str:
        """Return the start of a message's caption: its number since the screen subscribed."""
        return f"received {number:,}"


class PausableTable(BigTable):
    """A table with live rows: space pauses it instead of marking rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.hold", "Pause", id="sub.hold"),
    ]


class SubjectAndMessagePanes(ScreenPart):
    """Draws the tables of subjects and messages, and has the keys for them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "part('panes', 'next')", "Panes", id="sub.panes"),
        Binding("tab", "part('panes', 'other')", "Other table", id="sub.other"),
        Binding("c", "part('panes', 'copy')", "Copy", show=False, id="copy.name"),
    ]

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self.subjects = PausableTable(table_columns(SUBJECT_COLUMNS), id="subjects")
        self.messages = PausableTable(table_columns(RECEIVED_COLUMNS), id="heard")
        self._subjects_caption = Static(id="look", classes="line", markup=False)
        self._messages_caption = Static(id="newest", classes="line", markup=False)

    def widgets(self) -> Iterable[Widget]:
        """Return the widgets: each table with its caption above it."""
        return self._subjects_caption, self.subjects, self._messages_caption, self.messages

    def draw(
        self, update: Listened | None, options: SubjectRowOptions, *, is_paused: bool
    ) -> None:
        """Show an update in both tables; None shows empty tables, for the requested `options`."""
        if update is not None:
            # The update may be older than the requested options.
            options = update.look
        rows = SubjectView(update.rows if update else (), as_tree=options.as_tree)
        messages_view = ReceivedMessagesView(update.heard if update else ())
        order = Sort(options.by, options.reverse)
        self.subjects.show(Rows(rows, SUBJECT_COLUMNS, rows.rows()), sort=order)
        self.messages.show(Rows(messages_view, RECEIVED_COLUMNS, messages_view.rows()))
        if update is not None:
            self.show_caption(
                subjects_caption(update, is_paused=is_paused), "warn" if is_paused else ""
            )
            self._messages_caption.update(safe(messages_caption(update)))

    def show_caption(self, text: str, style_name: str) -> None:
        """Show a caption above the subjects."""
        self._subjects_caption.update(safe(text, style_name))

    def set_empty_texts(self, subjects: str, messages_text: str) -> None:
        """Set the texts that explain the empty tables."""
        self.subjects.empty, self.messages.empty = subjects, messages_text

    def action_next(self) -> None:
        """Switch between both tables, only subjects, and only messages."""
        shown_class = next(
            (pane_class for pane_class in _PANE_CLASSES if self._screen.has_class(pane_class)),
            _BOTH_PANES_CLASS,
        )
        next_class = _PANE_CLASSES[(_PANE_CLASSES.index(shown_class) + 1) % len(_PANE_CLASSES)]
        self._screen.remove_class(*_PANE_CLASSES)
        self._screen.add_class(next_class)
        (self.messages if next_class == _MESSAGES_PANE_CLASS else self.subjects).focus()

    def action_other(self) -> None:
        """Focus the other table."""
        other_table = self.subjects if self.messages.has_focus else self.messages
        if other_table.display:
            other_table.focus()

    def action_copy(self) -> None:
        """Copy the subject under the cursor."""
        key = self.subjects.cursor_key
        if isinstance(key, tuple):
            name = safe_copy(str(key[2]))
            self._screen.app.copy_to_clipboard(name)
            self._screen.notify(f"copied {clean_line(name)}", markup=False, timeout=2)


class SubjectOptionKeys(ScreenPart):
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
        options: SubjectRowOptions,
        prompt_pattern: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        """Create with a start order, filter and tree; `prompt_pattern` prompts for the filter,
        `on_change` is called after a change.
        """
        self.options = options
        self.error_text = ""
        """The error of the last filter if it was not valid; empty after a valid one."""
        self._prompt_pattern, self._on_change = prompt_pattern, on_change

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered; None, a disabled key, for the levels of the tree
        while the subjects are shown as a list.
        """
        return True if action != "deeper" or self.options.as_tree else None

    def change(self, options: SubjectRowOptions) -> None:
        """Change order, filter or tree; a filter that is no valid expression is only reported."""
        try:
            compile_filter(options.pattern)
        except UsageError as error:
            self.error_text = str(error)
        else:
            self.error_text, self.options = "", options
        self._on_change()

    def filter_by(self, pattern: str) -> None:
        """Show only subjects that match a regular expression; empty shows all."""
        self.change(replace(self.options, pattern=pattern))

    def show_all(self) -> bool:
        """Remove the filter; return whether there was one."""
        if not (self.options.pattern or self.error_text):
            return False
        self.filter_by("")
        return True

    def sort_by(self, column: str) -> None:
        """Sort by a column; if the table is sorted by it, reverse the direction."""
        order = cast("SubjectOrder", column)
        is_sort_column = order == self.options.by
        reverse = not self.options.reverse if is_sort_column else order != "subject"
        self.change(replace(self.options, by=order, reverse=reverse))

    def toggle_branch(self, path: str) -> None:
        """Expand or collapse the token with a path."""
        toggled_paths = tuple(sorted({*self.options.toggled} ^ {path}))
        self.change(replace(self.options, toggled=toggled_paths))

    def action_filter(self) -> None:
        """Prompt for a filter, a regular expression; `!` in front inverts it."""
        self._prompt_pattern(self.options.pattern)

    def action_tree(self) -> None:
        """Switch between a tree of tokens and a row per subject."""
        self.change(replace(self.options, as_tree=not self.options.as_tree))

    def action_deeper(self, step: int) -> None:
        """Expand the tree by `step` levels; tokens expanded by hand are reset."""
        open_level = max(1, min(_DEEPEST_LEVEL, self.options.open_level + step))
        self.change(replace(self.options, open_level=open_level, toggled=()))

    def action_internal(self) -> None:
        """Show or hide internal subjects of servers and clients."""
        self.change(replace(self.options, internal=not self.options.internal))


class ListenScreen(LiveScreen):
    """The screen of core subjects: subjects with counts above, the newest messages below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *SubjectOptionKeys.BINDINGS,
        Binding("s", "subject", "Subject", id="sub.subject"),
        Binding("z", "subscribe_again", "From zero", id="sub.zero"),
        *SubjectAndMessagePanes.BINDINGS,
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
    gaps_text = getters.query_one("#gaps", Static)

    def __init__(self, subjects: tuple[str, ...]) -> None:
        super().__init__()
        self.subjects = subjects
        self._request: PendingRequest | None = None
        self._refusal = ""
        self._was_replaced = False
        """Whether another screen has ended the subscription."""
        self.is_paused = False
        self._link_at_refusal: LinkChanged | None = None
        """The status of the connection when the subscription was refused."""
        self.looking = SubjectOptionKeys(
            _initial_options(subjects),
            lambda pattern: self.command_line.open("/", pattern),
            self._request_options,
        )
        self.panes = SubjectAndMessagePanes(self)
        self._newest_update: Listened | None = None
        self.shown_update: Listened | None = None
        """The update on the screen; it is not replaced while the screen is paused."""

    def body(self) -> Iterable[Widget]:
        """Yield the tables with their captions."""
        yield Static(id="caption", markup=False)
        yield Static(id="gaps", classes="line", markup=False)
        yield from self.panes.widgets()

    def on_mount(self) -> None:
        """Subscribe to the subjects."""
        self.panes.subjects.focus()
        # Above a screen that is not drawn yet a dialog receives no keys.
        self.call_after_refresh(self._listen_to, self.subjects)

    def on_screen_resume(self) -> None:
        """Subscribe again if another screen has ended the subscription."""
        if self._was_replaced:
            self.action_subscribe_again()

    def on_unmount(self) -> None:
        """Unsubscribe from the subjects."""
        if self._request is not None:
            self.engine.send(StopListening(0, self._request.command_id))
            self._request.close()

    def _listen_to(self, subjects: tuple[str, ...]) -> None:
        run_task(self, self._listen_after_prompt, subjects)

    async def _listen_after_prompt(self, subjects: tuple[str, ...]) -> None:
        """Subscribe, after a prompt if that would consume messages of push consumers."""
        if consumers := find_push_consumers(self.state, subjects):
            pick = PickDialog(
                f"{', '.join(consumers)} delivers to us",
                _LISTEN_OPTIONS,
                _PUSH_CONSUMER_WARNING_LINES,
            )
            if await self.app.push_screen_wait(pick) != "listen":
                if self._request is None:
                    self.leave()
                return
        self.subjects, self.looking.options = subjects, _initial_options(subjects)
        self.action_subscribe_again()

    def action_subscribe_again(self) -> None:
        """Subscribe again, which resets the counts."""
        self.shown_update, self.is_paused = None, False
        self._refusal, self._was_replaced = "", False
        command = StartListening(0, self.subjects, self.looking.options)
        if self._request is not None:
            self._request.close()
        self._request = self.engine.request(command)
        run_task(self, self._follow, self._request, replaces="follow")
        self.caption.update(safe(f"sub {', '.join(self.subjects)}  ·  connecting …"))
        self._draw()

    def refresh_state(self) -> None:
        """Subscribe again if a lost connection has ended the subscription."""
        if self._refusal and self._has_no_messages:
            self._show_refusal_and_retry()

    @property
    def _has_no_messages(self) -> bool:
        return self._newest_update is None or not self._newest_update.came_msgs

    async def _follow(self, request: PendingRequest) -> None:
        """Show each update of a subscription, or its error."""
        self._newest_update = None
        async for record in request:
            if isinstance(record, Listened):
                self._newest_update = record
            elif isinstance(record, Answered):
                if record.status == "replaced":
                    self._was_replaced = True
                    break
                if record.status != "done":
                    self._refusal = record.text
                elif note := json.loads(record.body_json or "null"):
                    self.notify(note, severity="warning", markup=False)
            self._show_newest_update()
        if self._was_replaced and self.is_active:
            self.action_subscribe_again()

    def _show_newest_update(self) -> None:
        if self._refusal and self._has_no_messages:
            self._show_refusal_and_retry()
        elif self._newest_update is not None:
            self._show(self._newest_update)

    def _show(self, update: Listened) -> None:
        """Show an update; on a paused screen only its totals."""
        self.caption.update(safe(totals_text(self.subjects, update)))
        gap_sentences = "  ·  ".join(filter(None, (self._refusal, gap_text(update))))
        self.set_class(bool(gap_sentences), "-gaps")
        self.gaps_text.update(safe(gap_sentences, "warn"))
        if not self.is_paused:
            self.shown_update = update
            self._draw()

    def _show_refusal_and_retry(self) -> None:
        """Show why the subscription was refused; subscribe again with the next connection."""
        text = f"sub {', '.join(self.subjects)}  ·  {self._refusal}"
        self.caption.update(safe(text, "error"))
        self.panes.set_empty_texts("", "")
        link = self.state.link
        if self._link_at_refusal is not None and link is not self._link_at_refusal:
            self._link_at_refusal = None
            self.action_subscribe_again()
        elif link is not None:
            self._link_at_refusal = link

    def _draw(self) -> None:
        options = self.looking.options
        self.panes.set_empty_texts(
            empty_text(self.subjects, options, self.shown_update), "no message"
        )
        self.panes.draw(self.shown_update, options, is_paused=self.is_paused)
        if self.looking.error_text:
            self.panes.show_caption(self.looking.error_text, "error")

    def _request_options(self) -> None:
        """Request the changed order, filter or tree; the last update stays until the reply."""
        self.is_paused = False
        self.refresh_bindings()
        self._draw()
        if not self.looking.error_text:
            self.engine.send(SetSubjectRowOptions(0, self.looking.options))

    @on(CommandLine.FilterChanged)
    def _apply_filter(self, message: CommandLine.FilterChanged) -> None:
        self.looking.filter_by(message.text)

    @on(HeaderSelected, "#subjects")
    def _sort(self, message: HeaderSelected) -> None:
        self.looking.sort_by(message.column_id)

    @on(RowSelected)
    def _open_row(self, message: RowSelected) -> None:
        """Open a message, toggle a token of the tree, or filter for a single subject."""
        if isinstance(message.key, int):
            self.app.push_screen(MessageScreen("", message.key, ReceivedSource()))
            return
        _, kind, path = message.key if isinstance(message.key, tuple) else ("", "", "")
        if kind == "branch":
            self.looking.toggle_branch(str(path))
        elif kind == "subject":
            self.looking.filter_by(f"^{re.escape(str(path))}$")

    def action_hold(self) -> None:
        """Pause or resume the screen; messages are still counted."""
        self.is_paused = not self.is_paused
        self._draw()

    def action_subject(self) -> None:
        """Prompt for other subjects, and subscribe to them."""

        def refusal(text: str) -> str:
            invalid_subjects = [
                subject for subject in text.split() or [""] if not is_valid_subject(subject)
            ]
            return f"{invalid_subjects[0]!r} is not a subject" if invalid_subjects else ""

        run_task(self, self._prompt_subjects, refusal)

    async def _prompt_subjects(self, refusal: Callable[[str], str]) -> None:
        title = "Listen to which subject? * is one token, > all the rest"
        prompt = Prompt(title, " ".join(self.subjects), refusal=refusal)
        text = await self.app.push_screen_wait(prompt)
        if text is not None:
            await self._listen_after_prompt(tuple(text.split()))

    def action_back(self) -> None:
        """Remove the filter; without a filter leave the screen."""
        if not self.looking.show_all():
            super().action_back()


def _initial_options(subjects: tuple[str, ...]) -> SubjectRowOptions:
    """Return the first order, filter and tree; internal subjects are included if `subjects` has
    one.
    """
    return SubjectRowOptions(internal=any(map(is_internal, subjects)))
