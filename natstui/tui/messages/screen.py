"""The stored messages of a stream, newest first: browse, jump, publish, tail, pull, delete.

Browsing creates or changes no consumer.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.meaning import time_meaning
from natstui.model.records.messages import (
    Answered,
    BrowseMessages,
    CountSubjects,
    MessagePage,
    StoredMessage,
)
from natstui.tui.frame.action_keys import (
    DELETE_MESSAGE,
    PUBLISH,
    PUBLISH_AGAIN,
    PULL_NEXT,
    Target,
    is_allowed,
)
from natstui.tui.frame.action_runner import (
    choose_action,
    choose_consumer,
    finding_of_messages,
    open_pull,
)
from natstui.tui.frame.live import CommandPrompt, LiveScreen, poll_rows_first, prompt_command
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.lists import SingleChoiceList
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.raw.view import RawView
from natstui.tui.kit.text import safe
from natstui.tui.messages.message import MessageScreen
from natstui.tui.messages.text import (
    MESSAGE_LIST_HEAD,
    has_messages,
    message_line,
    message_text,
    page_caption,
    payload_of,
    requested_page_text,
)
from natstui.units import duration_text
from natstui.values import replace

_page_decoder = decoder_of(MessagePage)

MIN_PAGE_REREAD_INTERVAL_S = 3.0
"""Minimum time between two reads of a page; it is read again only if the stream has changed."""
_MIN_PAUSE_PER_READ_TIME = 9
"""Minimum pause after a read, as a multiple of its duration: a slow link is idle for 90 %."""
_STREAM_COUNTER_NAMES = ("created_at_us", "stored_msgs", "stored_bytes", "first_seq", "last_seq")


class MessagePages(Vertical):
    """Lists a page of messages, and reads it again when the stream has changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket,pageup", "older", "Older", key_display="[", id="msg.older"),
        Binding("right_square_bracket", "newer", "Newer", key_display="]", id="msg.newer"),
        Binding("g", "newest", "Newest", id="msg.newest"),
        Binding("G", "oldest", "Oldest", show=False, id="msg.oldest"),
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="msg.refresh"),
    ]
    DEFAULT_CSS = """
    MessagePages #head { height: 1; color: $text-muted; background: $panel; text-wrap: nowrap; }
    MessagePages > Horizontal > Vertical { width: 3fr; }
    MessagePages RawView {
        width: 2fr; border: round $foreground 25%;
        border-title-color: $text-accent; border-title-style: bold;
    }
    .-narrow MessagePages RawView { display: none; }
    MessagePages OptionList {
        height: 1fr; padding: 0; border: none !important;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    caption = getters.query_one("#caption", Static)
    message_list = getters.query_one(OptionList)

    def __init__(
        self,
        stream: str,
        live_screen: LiveScreen,
        first_seq: int | None = None,
        consumer: str | None = None,
    ) -> None:
        super().__init__()
        self.stream = stream
        self._consumer = consumer
        self._first_seq = first_seq
        self._live_screen = live_screen
        """The screen of the list, with the newest state and the note about the stream."""
        self.command = self._listed_command = BrowseMessages(0, stream)
        """The commands of the requested and of the listed page."""
        self.page: MessagePage | None = None
        self._reading_task: Worker[None] | None = None
        self._is_reply_pending = self._is_refresh = self._has_read_failed = False
        self._requested_at_s = self._replied_at_s = self._checked_at_s = monotonic()
        self._requested_counters: tuple[object, ...] | None = None
        """The stream's counters when the page was requested."""
        self._newest_poll_mono_us = 0
        # Before the widgets: a message may be highlighted while the screen closes.
        self.preview = RawView()
        self.preview.can_focus = False
        self._previewed_message: StoredMessage | None = None
        self._finding_seq_and_caption = (0, "")
        """First sequence of the finding that the page was opened for, and its text."""

    def compose(self) -> Iterable[Widget]:
        """Yield caption and list, and the preview of the message under the cursor."""
        yield Static(id="caption", markup=False)
        with Horizontal():
            with Vertical():
                yield Static(MESSAGE_LIST_HEAD, id="head", markup=False)
                yield SingleChoiceList()
            yield self.preview

    def on_mount(self) -> None:
        """Request the first page, and check the stream for changes every second."""
        if self._first_seq is None:
            self.read()
        else:
            self.read(from_seq=self._first_seq, newer=True)
        self.set_interval(1.0, self.refresh_page)

    def read(self, **changes: object) -> None:
        """Request another page with the same filter; `changes` are fields of `BrowseMessages` that
        differ from those of the newest page.
        """
        self._request(self.start_request(**changes))

    def start_request(self, **changes: object) -> BrowseMessages:
        """Prepare to read another page with the same filter, and return the command; `changes` are
        fields of the command that differ from those of the newest page.

        Its reply must be passed to `show`.
        """
        first_page_command = BrowseMessages(
            0, self.stream, filter_subject=self.command.filter_subject
        )
        self.command = replace(first_page_command, **changes)  # type: ignore[arg-type]
        self.caption.update(safe(f"{self.stream}  ·  reading …", "dim"))
        self._live_screen.note.accept_replacement()
        self._mark_reply_pending()
        return self.command

    def _mark_reply_pending(self, *, is_refresh: bool = False) -> None:
        if self._reading_task is not None:
            self._reading_task.cancel()
        self._is_reply_pending, self._is_refresh = True, is_refresh
        self._requested_at_s = monotonic()
        self._requested_counters = self._read_counters()

    def _request(self, command: BrowseMessages) -> None:
        self._reading_task = run_task(self._live_screen, self._read_page, command)

    async def _read_page(self, command: BrowseMessages) -> None:
        self.show(await self._live_screen.engine.request(command))

    def _read_counters(self) -> tuple[object, ...] | None:
        """Return the stream's counters; if they are unchanged, its messages are unchanged."""
        rows = self._live_screen.state.streams.roster.rows_of_stream.get(self.stream)
        if not rows:
            return None
        columns, row = self._live_screen.state.streams.columns, rows[-1]
        return tuple(getattr(columns, name)[row] for name in _STREAM_COUNTER_NAMES)

    def show(self, reply: Answered) -> None:
        """Show the requested page, or the error."""
        if not self._is_reply_pending:
            return
        self._is_reply_pending = False
        self._replied_at_s = monotonic()
        self._has_read_failed = reply.body_json is None
        if reply.body_json is None:
            self._show_error(reply.text)
        else:
            self._show_page(_page_decoder.decode(reply.body_json))

    def _show_error(self, reason: str) -> None:
        """Show the reason why a page could not be read; the listed page is read again."""
        self.caption.update(safe(reason, "error"))
        self._requested_counters = None
        if self.page is not None:
            self.command = self._listed_command

    def _show_page(self, page: MessagePage) -> None:
        """Show a page; after a refresh the cursor stays on its message."""
        self._checked_at_s = self._requested_at_s
        if not self._is_refresh:
            self._draw(page)
        elif self.page is not None and page.created_at_us == self.page.created_at_us:
            self._refresh_list(page)

    def _draw(self, page: MessagePage) -> None:
        self._listed_command = self.command
        self._fill_list(page)
        if page.messages:
            starts_at_oldest = self.command.newer or page.sought_seq is not None
            self.message_list.highlighted = len(page.messages) - 1 if starts_at_oldest else 0
        self._show_caption()

    def _refresh_list(self, page: MessagePage) -> None:
        if self.page is not None and page.messages != self.page.messages:
            previous_message, position = self.message, self.message_list.highlighted or 0
            self._fill_list(page)
            positions = (
                index
                for index, message in enumerate(self.listed_messages)
                if previous_message and message == previous_message
            )
            if self.listed_messages:
                self.message_list.highlighted = next(
                    positions, min(position, len(self.listed_messages) - 1)
                )
        self.page = page
        self._show_caption()

    @property
    def is_empty(self) -> bool:
        """Return whether the stream has no message."""
        return self.page is not None and not has_messages(self.page)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: page keys only in a stream with messages."""
        if action in ("older", "newer", "newest", "oldest") and self.is_empty:
            return False
        return super().check_action(action, parameters)

    def _fill_list(self, page: MessagePage) -> None:
        was_stream_empty, self.page = self.is_empty, page
        if (
            was_stream_empty is not self.is_empty
            or len(page.messages) != self.message_list.option_count
        ):
            self._live_screen.refresh_bindings()
        self.message_list.clear_options()
        self.message_list.add_options(
            [Option(message_line(message)) for message in self.listed_messages]
        )

    def _show_caption(self) -> None:
        if self.page is not None:
            age_s = int(monotonic() - self._checked_at_s)
            age = f"{duration_text(age_s)} ago" if age_s else "now"
            page_name = self._finding_text() or requested_page_text(self.command)
            text = page_caption(self.page, page_name, key_of(self._live_screen, PUBLISH.id))
            self.caption.update(safe(f"{text}  ·  {age}"))

    def _finding_text(self) -> str:
        """Return a text with the consumer's finding that the page was opened for; empty for
        another page.
        """
        command, consumer = self.command, self._consumer
        if consumer is None or not command.newer or command.from_seq is None:
            return ""
        target = Target(self.stream, consumer)
        finding = finding_of_messages(self._live_screen.state, target, command.from_seq)
        if finding is not None:
            label = f"{finding.kind.code} {finding.kind.word}"
            text = clean_line(f"from message {command.from_seq}: {label} of {consumer}")
            self._finding_seq_and_caption = (command.from_seq, text)
        # The page was opened for the finding, also if it has ended or changed since then.
        return (
            self._finding_seq_and_caption[1]
            if self._finding_seq_and_caption[0] == command.from_seq
            else ""
        )

    def refresh_page(self) -> None:
        """Show the age of the page, and request the page again if the stream has changed."""
        now_s, counters = monotonic(), self._read_counters()
        if (
            self._is_reply_pending
            or self.page is None
            or self._live_screen.note.replacement_note
            or self.app.screen is not self._live_screen
        ):
            return
        if counters == self._requested_counters:
            self._reset_age_after_poll()
        pause_s = max(
            MIN_PAGE_REREAD_INTERVAL_S,
            _MIN_PAUSE_PER_READ_TIME * (self._replied_at_s - self._requested_at_s),
        )
        if (
            counters not in (None, self._requested_counters)
            and now_s - self._replied_at_s >= pause_s
        ):
            sought_seq = self.page.sought_seq
            same_page_command = replace(
                self.command, from_seq=sought_seq, newer=True, jump=None, from_time=None
            )
            self._mark_reply_pending(is_refresh=True)
            self._request(self.command if sought_seq is None else same_page_command)
        if not self._has_read_failed:
            self._show_caption()

    def _reset_age_after_poll(self) -> None:
        """Set the page's age to 0 after a newer poll with unchanged counters."""
        rows = self._live_screen.state.streams.roster.rows_of_stream.get(self.stream)
        poll_mono_us = (
            self._live_screen.state.streams.columns.sampled_mono_us[rows[-1]] if rows else 0
        )
        if poll_mono_us > self._newest_poll_mono_us:
            self._newest_poll_mono_us = poll_mono_us
            self._checked_at_s = monotonic()

    @property
    def listed_messages(self) -> tuple[StoredMessage, ...]:
        """Return the messages of the page in the order of the list: newest first."""
        return self.page.messages[::-1] if self.page else ()

    @property
    def message(self) -> StoredMessage | None:
        """Return the message under the cursor; None in an empty list."""
        position = self.message_list.highlighted
        return (
            self.listed_messages[position]
            if position is not None and position < len(self.listed_messages)
            else None
        )

    @on(OptionList.OptionHighlighted)
    def _preview(self) -> None:
        """Show the message under the cursor in the preview."""
        if self.message is None or self.message is self._previewed_message:
            return
        self._previewed_message = self.message
        text, format_name, caption = message_text(self.message, "auto")
        self.preview.border_title = caption
        self.preview.show(text, "json" if format_name == "json" else "text")

    @on(OptionList.OptionSelected)
    def _open(self) -> None:
        if self.message is not None and self.message.stream_seq is not None:
            self.app.push_screen(MessageScreen(self.stream, self.message.stream_seq))

    def action_ask(self) -> None:
        """Request the same page again, also of a recreated stream."""
        self._live_screen.note.accept_replacement()
        self._mark_reply_pending()
        self._request(self.command)

    def action_older(self) -> None:
        """Request the page of older messages."""
        if self.page is not None and self.page.older_seq is not None:
            self.read(from_seq=self.page.older_seq)

    def action_newer(self) -> None:
        """Request the page of newer messages."""
        if self.page is not None and self.page.newer_seq is not None:
            self.read(from_seq=self.page.newer_seq, newer=True)

    def action_newest(self) -> None:
        """Request the newest page."""
        self.read()

    def action_oldest(self) -> None:
        """Request the oldest page."""
        self.read(newer=True)


_SPEC_BY_ACTION = {
    "write": PUBLISH, "row_actions": PUBLISH_AGAIN, "pull": PULL_NEXT, "delete": DELETE_MESSAGE,
}  # fmt: skip


_subject_counts_decoder = decoder_of(dict[str, int])


class MessageJumps(Vertical):
    """Prompts for a position or filter, and reads the page for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sequence", "Sequence", id="msg.sequence"),
        Binding("t", "time", "Time", id="msg.time"),
        Binding("slash", "subject", "Subject", key_display="/", id="msg.subject"),
        Binding("n", "subjects", "Subjects", id="msg.subjects"),
        Binding("l", "last", "Last each", id="msg.last"),
        Binding("o", "jump", "Consumer", id="msg.jump"),
        Binding("f", "find", "Find", show=False, id="msg.find"),
    ]

    pages = getters.query_one(MessagePages)

    def __init__(
        self, stream: str, consumer: str | None, live_screen: LiveScreen, first_seq: int | None
    ) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self._live_screen, self._first_seq = live_screen, first_seq

    def compose(self) -> Iterable[Widget]:
        """Yield the pages."""
        yield MessagePages(self.stream, self._live_screen, self._first_seq, self.consumer)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: jump keys only in a stream with messages."""
        pages = next(iter(self.query(MessagePages)), None)
        if f"action_{action}" in vars(MessageJumps) and pages is not None and pages.is_empty:
            return False
        return super().check_action(action, parameters)

    def action_sequence(self) -> None:
        """Prompt for a sequence, and jump to it."""

        def to_command(text: str) -> BrowseMessages:
            return self.pages.start_request(from_seq=int(text), newer=True)

        def refusal(text: str) -> str:
            return "" if text.strip().isdecimal() else f"{text!r} is not a sequence"

        title = "From which sequence?"
        prompt_command(
            self._live_screen,
            CommandPrompt(title, to_command, refusal=refusal, show=self.pages.show),
        )

    def action_time(self) -> None:
        """Prompt for a time, and jump to it."""

        def to_command(text: str) -> BrowseMessages:
            return self.pages.start_request(from_time=text.strip())

        title = "From which time? As 2026-01-31T12:00:00Z or 10m ago"
        prompt_command(
            self._live_screen,
            CommandPrompt(title, to_command, meaning=time_meaning, show=self.pages.show),
        )

    def action_subject(self) -> None:
        """Prompt for a subject or filter, and show only its messages."""

        def to_command(text: str) -> BrowseMessages:
            return self.pages.start_request(filter_subject=text.strip() or None)

        text = self.pages.command.filter_subject or ""
        title = "Only which subjects? Empty: all"
        prompt_command(
            self._live_screen, CommandPrompt(title, to_command, text=text, show=self.pages.show)
        )

    def action_subjects(self) -> None:
        """Count the messages by subject, and let the user pick one."""
        run_task(self._live_screen, self._pick_subject)

    async def _pick_subject(self) -> None:
        reply = await self._live_screen.engine.request(CountSubjects(0, self.stream))
        if reply.body_json is None:
            self.notify(reply.text, severity="error", markup=False)
            return
        counts = _subject_counts_decoder.decode(reply.body_json)
        largest_counts = sorted(counts.items(), key=lambda pair: -pair[1])[:1000]
        options = [(subject, f"{count:,}") for subject, count in largest_counts]
        subject = await self.app.push_screen_wait(PickDialog(f"{len(counts):,} subjects", options))
        if subject is not None:
            self.pages.read(filter_subject=subject)

    def action_last(self) -> None:
        """Switch between the last message of each subject and all messages."""
        self.pages.read(last_per_subject=not self.pages.command.last_per_subject)

    def action_jump(self) -> None:
        """Prompt for a consumer and its position, and jump to the position."""
        run_task(self._live_screen, self._jump_to_consumer)

    async def _jump_to_consumer(self) -> None:
        consumer = await choose_consumer(self._live_screen, self.stream, self.consumer)
        if not consumer:
            return
        options = [
            ("first_unacked", "the first message that is not acked"),
            ("ack_floor", "the ack floor: all messages up to here are acked"),
            ("next_to_deliver", "the next message to deliver"),
        ]
        position = await self.app.push_screen_wait(PickDialog(f"Where {consumer} is", options))
        if position is not None:
            self.pages.read(consumer=consumer, jump=position)

    def action_find(self) -> None:
        """Prompt for a text, and move to the next message on the page that contains it."""
        run_task(self._live_screen, self._prompt_and_find)

    async def _prompt_and_find(self) -> None:
        def refusal(text: str) -> str:
            index = self._find_index(text.strip())
            return f"{text!r} is not in the shown messages" if index is None else ""

        prompt = Prompt("Find in the shown messages", refusal=refusal)
        text = await self.app.push_screen_wait(prompt)
        index = None if text is None else self._find_index(text.strip())
        if index is not None:
            self.pages.message_list.highlighted = index

    def _find_index(self, text: str) -> int | None:
        """Return the list index of the next message after the cursor that contains a text; None if
        no message contains it.
        """
        start_index = (self.pages.message_list.highlighted or 0) + 1
        order: list[int] = [
            *range(start_index, len(self.pages.listed_messages)),
            *range(start_index),
        ]
        for index in order:
            message = self.pages.listed_messages[index]
            if text.encode() in payload_of(message) or text in message.subject:
                return index
        return None


class MessagesScreen(LiveScreen):
    """The message browser of a stream."""

    BINDINGS: ClassVar[list[BindingType]] = [
        PUBLISH.binding("write"),
        PUBLISH_AGAIN.menu_binding(),
        Binding("T", "tail", "Tail", show=False, id="msg.tail"),
        PULL_NEXT.binding("pull"),
        DELETE_MESSAGE.binding("delete"),
    ]

    pages = getters.query_one(MessagePages)

    def __init__(
        self, stream: str, consumer: str | None = None, first_seq: int | None = None
    ) -> None:
        """Create the browser of a stream; the page starts at `first_seq`, by default with the
        newest message.
        """
        super().__init__()
        self.stream, self.consumer, self._first_seq = stream, consumer, first_seq

    def asset(self) -> Target | None:
        """Return the stream whose messages are listed."""
        return Target(self.stream)

    def body(self) -> Iterable[Widget]:
        """Yield the pages with their keys."""
        yield MessageJumps(self.stream, self.consumer, self, self._first_seq)

    def on_mount(self) -> None:
        """Focus the list."""
        self.set_focus(self.pages.message_list)

    def on_screen_resume(self) -> None:
        """Request that the stream is polled first."""
        poll_rows_first(self, (self.stream,), ())

    def refresh_state(self) -> None:
        """Request the page again if the stream has changed."""
        self.pages.refresh_page()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: row actions only with a message; None without
        permission.
        """
        spec = _SPEC_BY_ACTION.get(action)
        if action in ("row_actions", "delete"):
            pages = next(iter(self.query(MessagePages)), None)
            if pages is None or pages.page is None or pages.message is None:
                return False
        if spec is not None and not is_allowed(self.state, spec.name):
            return None
        return super().check_action(action, parameters)

    def action_write(self) -> None:
        """Open the form that publishes a message."""
        self.app.post_message(Manage("publish", (Target(self.stream),)))

    def action_row_actions(self) -> None:
        """Show the actions for the message under the cursor."""
        if (message := self.pages.message) is not None:
            choose_action(
                self,
                f"What to do with message {message.stream_seq} of {self.stream}",
                [(PUBLISH_AGAIN, self.action_again), (DELETE_MESSAGE, self.action_delete),
                 (PULL_NEXT, self.action_pull), (PUBLISH, self.action_write)],
            )  # fmt: skip

    def action_again(self) -> None:
        """Open the form that publishes the message under the cursor again."""
        message = self.pages.message
        if message is not None and message.stream_seq is not None:
            sequence = str(message.stream_seq)
            self.app.post_message(Manage("publish", (Target(self.stream, sequence),)))

    def action_tail(self) -> None:
        """Open the tail of new messages."""
        self.app.post_message(Manage("tail", (Target(self.stream),)))

    def action_pull(self) -> None:
        """Pull the next message of a consumer."""
        run_task(self, open_pull, self, self.stream, self.consumer)

    def action_delete(self) -> None:
        """Delete the message under the cursor, after a prompt for its stream's name."""
        page, message = self.pages.page, self.pages.message
        if replacement_note := self.note.replacement_note:
            self.notify(replacement_note, severity="error")
        elif message is not None and page is not None:
            seq, stored_at_us = message.stream_seq, message.stored_at_us
            target = Target(self.stream, None, page.created_at_us, seq, stored_at_us)
            self.app.post_message(Manage(f"delete_message {seq}", (target,)))
