"""The stored messages of a stream, newest first: look, jump, publish, follow, pull, delete.

No consumer is made or moved by looking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.widget import Widget

from natstui.tui.frame.action_keys import (
    DELETE_MESSAGE,
    PUBLISH,
    PUBLISH_AGAIN,
    PULL_NEXT,
    Target,
)
from natstui.tui.frame.action_runner import with_consumer
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Manage
from natstui.tui.messages.jumps import MessageJumps
from natstui.tui.messages.pages import MessagePages

_SENDING = {
    "write": PUBLISH, "again": PUBLISH_AGAIN, "pull": PULL_NEXT, "delete": DELETE_MESSAGE,
}  # fmt: skip


class MessagesScreen(LiveScreen):
    """The browser of one stream."""

    BINDINGS: ClassVar[list[BindingType]] = [
        PUBLISH.binding("write"),
        PUBLISH_AGAIN.binding("again"),
        Binding("T", "tail", "Tail", show=False, id="msg.tail"),
        PULL_NEXT.binding("pull"),
        DELETE_MESSAGE.binding("delete"),
    ]

    jumps = getters.query_one(MessageJumps)
    pages = getters.query_one(MessagePages)

    def __init__(self, stream: str, consumer: str | None = None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer

    def asset(self) -> Target | None:
        """Return the stream whose messages are listed."""
        return Target(self.stream)

    def body(self) -> Iterable[Widget]:
        """The pages, with the keys that move among them."""
        yield MessageJumps(self.stream, self.consumer, self)

    def on_mount(self) -> None:
        """Give the keys to the list, and have the stream polled first."""
        self.watch_rows((self.stream,), ())
        self.set_focus(self.pages.list)

    def refresh_state(self) -> None:
        """Hand the newer state to the parts."""
        self.pages.take_state()
        self.jumps.take_state()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what writes when it is read-only, and what the user may not do."""
        spec = _SENDING.get(action)
        if spec is not None and not allowed(self.state, spec.name):
            return None
        return super().check_action(action, parameters)

    def action_write(self) -> None:
        """Publish a message."""
        self.app.post_message(Manage("publish", (Target(self.stream),)))

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

        def go(consumer: str) -> None:
            self.app.post_message(Manage("pull", (Target(self.stream, consumer),)))

        with_consumer(self, self.stream, self.consumer, go, pulled=True)

    def action_delete(self) -> None:
        """Delete the message under the cursor, after its stream's name was typed."""
        page, message = self.pages.page, self.pages.message
        if became := self.note.became:
            self.notify(became, severity="error")
        elif message is not None and page is not None:
            target = Target(self.stream, None, page.created_at_us)
            self.app.post_message(Manage(f"delete_message {message.stream_seq}", (target,)))
