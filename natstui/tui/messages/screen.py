"""The stored messages of a stream, newest first: look, jump, publish, follow, pull, delete.

No consumer is made or moved by looking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from natstui.decoding import decoder_of
from natstui.model.assets.meaning import understood_moment
from natstui.model.records.messages import BrowseMessages, CountSubjects
from natstui.tui.frame.action_keys import (
    DELETE_MESSAGE,
    PUBLISH,
    PUBLISH_AGAIN,
    PULL_NEXT,
    Target,
)
from natstui.tui.frame.action_runner import choose_action, choose_consumer, open_pull
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.live import LiveScreen, Question, ask, watch_rows
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.messages.pages import MessagePages
from natstui.tui.messages.text import payload_of

_SENDING = {
    "write": PUBLISH, "row_actions": PUBLISH_AGAIN, "pull": PULL_NEXT, "delete": DELETE_MESSAGE,
}  # fmt: skip


_counts = decoder_of(dict[str, int])


class MessageJumps(Vertical):
    """Asks where to go, and has the pages inside it go there."""

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
        self, stream: str, consumer: str | None, live: LiveScreen, first_seq: int | None
    ) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self._live, self._first_seq = live, first_seq

    def compose(self) -> Iterable[Widget]:
        """The pages."""
        yield MessagePages(self.stream, self._live, self._first_seq, self.consumer)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to go elsewhere in a stream that has messages."""
        pages = next(iter(self.query(MessagePages)), None)
        if f"action_{action}" in vars(MessageJumps) and pages is not None and pages.is_empty:
            return False
        return super().check_action(action, parameters)

    def action_sequence(self) -> None:
        """Go to a sequence."""

        def go(text: str) -> BrowseMessages:
            return self.pages.reading(from_seq=int(text), newer=True)

        def refusal(text: str) -> str:
            return "" if text.strip().isdecimal() else f"{text!r} is not a sequence"

        words = "From which sequence?"
        ask(self._live, Question(words, go, refusal=refusal, show=self.pages.show))

    def action_time(self) -> None:
        """Go to a time."""

        def go(text: str) -> BrowseMessages:
            return self.pages.reading(from_time=text.strip())

        words = "From which time? As 2026-01-31T12:00:00Z or 10m ago"
        ask(self._live, Question(words, go, meaning=understood_moment, show=self.pages.show))

    def action_subject(self) -> None:
        """Show only messages of a subject or filter."""

        def go(text: str) -> BrowseMessages:
            return self.pages.reading(filter_subject=text.strip() or None)

        text = self.pages.asked.filter_subject or ""
        words = "Only which subjects? Empty: all"
        ask(self._live, Question(words, go, text=text, show=self.pages.show))

    def action_subjects(self) -> None:
        """Count the subjects, and pick one."""
        run_task(self._live, self._pick_subject)

    async def _pick_subject(self) -> None:
        reply = await self._live.engine.request(CountSubjects(0, self.stream))
        if reply.body_json is None:
            self.notify(reply.text, severity="error", markup=False)
            return
        counted = _counts.decode(reply.body_json)
        most = sorted(counted.items(), key=lambda pair: -pair[1])[:1000]
        words = [(subject, f"{count:,}") for subject, count in most]
        subject = await self.app.push_screen_wait(Pick(f"{len(counted):,} subjects", words))
        if subject is not None:
            self.pages.read(filter_subject=subject)

    def action_last(self) -> None:
        """Show the last message of each subject, or all again."""
        self.pages.read(last_per_subject=not self.pages.asked.last_per_subject)

    def action_jump(self) -> None:
        """Go to a place of a consumer."""
        run_task(self._live, self._jump)

    async def _jump(self) -> None:
        consumer = await choose_consumer(self._live, self.stream, self.consumer)
        if not consumer:
            return
        options = [
            ("first_unacked", "the first message that is not acked"),
            ("ack_floor", "the ack floor: all messages up to here are acked"),
            ("next_to_deliver", "the next message to deliver"),
        ]
        jump = await self.app.push_screen_wait(Pick(f"Where {consumer} is", options))
        if jump is not None:
            self.pages.read(consumer=consumer, jump=jump)

    def action_find(self) -> None:
        """Go to the next message on this page that holds a text."""

        def refusal(text: str) -> str:
            found = self._place_of(text.strip())
            return f"{text!r} is not in the shown messages" if found is None else ""

        def go(text: str | None) -> None:
            at = None if text is None else self._place_of(text.strip())
            if at is not None:
                self.pages.list.highlighted = at

        self.app.push_screen(Prompt("Find in the shown messages", refusal=refusal), go)

    def _place_of(self, text: str) -> int | None:
        """Return where the next message is that holds a text."""
        start = (self.pages.list.highlighted or 0) + 1
        order: list[int] = [*range(start, len(self.pages.shown)), *range(start)]
        for place in order:
            message = self.pages.shown[place]
            if text.encode() in payload_of(message) or text in message.subject:
                return place
        return None


class MessagesScreen(LiveScreen):
    """The browser of one stream."""

    BINDINGS: ClassVar[list[BindingType]] = [
        PUBLISH.binding("write"),
        PUBLISH_AGAIN.menu(),
        Binding("T", "tail", "Tail", show=False, id="msg.tail"),
        PULL_NEXT.binding("pull"),
        DELETE_MESSAGE.binding("delete"),
    ]

    jumps = getters.query_one(MessageJumps)
    pages = getters.query_one(MessagePages)

    def __init__(
        self, stream: str, consumer: str | None = None, first_seq: int | None = None
    ) -> None:
        """`first_seq` is the message to begin at; without it, the newest ones are shown."""
        super().__init__()
        self.stream, self.consumer, self._first_seq = stream, consumer, first_seq

    def asset(self) -> Target | None:
        """Return the stream whose messages are listed."""
        return Target(self.stream)

    def body(self) -> Iterable[Widget]:
        """The pages, with the keys that move among them."""
        yield MessageJumps(self.stream, self.consumer, self, self._first_seq)

    def on_mount(self) -> None:
        """Give the keys to the list, and have the stream polled first."""
        watch_rows(self, (self.stream,), ())
        self.set_focus(self.pages.list)

    def refresh_state(self) -> None:
        """Read the page again when the stream has moved."""
        self.pages.keep_up()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what is done to a message while there is one; grey what is not allowed."""
        spec = _SENDING.get(action)
        if action in ("row_actions", "delete"):
            pages = next(iter(self.query(MessagePages)), None)
            if pages is None or pages.page is None or pages.message is None:
                return False
        if spec is not None and not allowed(self.state, spec.name):
            return None
        return super().check_action(action, parameters)

    def action_write(self) -> None:
        """Publish a message."""
        self.app.post_message(Manage("publish", (Target(self.stream),)))

    def action_row_actions(self) -> None:
        """List what can be done with the message under the cursor."""
        if (message := self.pages.message) is not None:
            choose_action(
                self,
                f"What to do with message {message.stream_seq} of {self.stream}",
                [(PUBLISH_AGAIN, self.action_again), (DELETE_MESSAGE, self.action_delete),
                 (PULL_NEXT, self.action_pull), (PUBLISH, self.action_write)],
            )  # fmt: skip

    def action_again(self) -> None:
        """Publish the message under the cursor elsewhere."""
        message = self.pages.message
        if message is not None and message.stream_seq is not None:
            sequence = str(message.stream_seq)
            self.app.post_message(Manage("publish", (Target(self.stream, sequence),)))

    def action_tail(self) -> None:
        """Follow what arrives."""
        self.app.post_message(Manage("tail", (Target(self.stream),)))

    def action_pull(self) -> None:
        """Take the next message of a consumer."""
        run_task(self, open_pull, self, self.stream, self.consumer)

    def action_delete(self) -> None:
        """Delete the message under the cursor, after its stream's name was typed."""
        page, message = self.pages.page, self.pages.message
        if became := self.note.became:
            self.notify(became, severity="error")
        elif message is not None and page is not None:
            target = Target(self.stream, None, page.created_at_us)
            self.app.post_message(Manage(f"delete_message {message.stream_seq}", (target,)))
