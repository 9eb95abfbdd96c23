"""The stored messages of a stream: look, jump, publish, follow, pull, delete."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.tui.allowed import allowed, read_only
from natstui.tui.message_jumps import MessageJumps
from natstui.tui.messages import Manage


class MessagesScreen(MessageJumps):
    """The browser of one stream."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "write", "Publish", id="msg.write"),
        Binding("R", "again", "Re-publish", show=False, id="msg.again"),
        Binding("T", "tail", "Tail", show=False, id="msg.tail"),
        Binding("N", "pull", "Pull next", show=False, id="msg.pull"),
        Binding("ctrl+d", "delete", "Delete", show=False, id="msg.delete"),
        Binding("j", "row(1)", "Down", show=False, id="msg.down"),
        Binding("k", "row(-1)", "Up", show=False, id="msg.up"),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what writes when it is read-only, and what the user may not do."""
        if action in ("write", "again") and read_only(self.state):
            return None
        if not allowed(self.state, {"delete": "delete_message"}.get(action, action)):
            return None
        return super().check_action(action, parameters)

    def action_write(self) -> None:
        """Publish a message."""
        self.post_message(Manage("publish", ((self.stream, None),)))

    def action_again(self) -> None:
        """Publish the message under the cursor elsewhere."""
        if self.message is not None and self.message.stream_seq is not None:
            sequence = str(self.message.stream_seq)
            self.post_message(Manage("publish", ((self.stream, sequence),)))

    def action_tail(self) -> None:
        """Follow what arrives."""
        self.post_message(Manage("tail", ((self.stream, None),)))

    def action_pull(self) -> None:
        """Take the next message of a consumer."""

        def go(consumer: str) -> None:
            self.post_message(Manage("pull", ((self.stream, consumer),)))

        if self.consumer is None:
            self.prompt("Which consumer?", go)
        else:
            go(self.consumer)

    def action_delete(self) -> None:
        """Delete the message under the cursor, after its stream's name was typed."""
        if self.message is not None:
            self.post_message(
                Manage(f"delete_message {self.message.stream_seq}", ((self.stream, None),))
            )

    def action_row(self, step: int) -> None:
        """Move the cursor."""
        if step > 0:
            self.list.action_cursor_down()
        else:
            self.list.action_cursor_up()
