"""The message screen: headers and payload of a stored or received message."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import ClassVar, Protocol

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.files import file_name, open_atomic_file
from natstui.model.records.messages import ReadMessage, StoredMessage
from natstui.model.records.record import Command
from natstui.paths import expand_user_path
from natstui.tui.frame.action_keys import PUBLISH_OPEN_MESSAGE_AGAIN, Target, is_allowed
from natstui.tui.frame.action_runner import choose_action
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.raw.payload import PAYLOAD_FORMATS
from natstui.tui.kit.raw.view import RawView
from natstui.tui.kit.text import safe
from natstui.tui.messages.text import message_text, payload_of
from natstui.units import counted

_decoder = decoder_of(StoredMessage)


class MessageSource(Protocol):
    """Where the message screen reads messages by number: a stream, or received messages."""

    stream: str
    """The stream of the messages; empty without one."""

    def command(self, number: int) -> Command:
        """Return the command that reads a message."""

    def message_of(self, body_json: str) -> tuple[StoredMessage, str]:
        """Return the message in a reply to the command, and its reply subject; empty if it has
        none.
        """

    def caption_start(self, number: int) -> str:
        """Return the start of a message's caption."""


class StreamSource:
    """A stream as a source of messages."""

    def __init__(self, stream: str) -> None:
        self.stream = stream

    def command(self, number: int) -> Command:
        """Return the command that reads a message."""
        return ReadMessage(0, self.stream, number)

    def message_of(self, body_json: str) -> tuple[StoredMessage, str]:
        """Return the message in a reply; stored messages have no reply subject."""
        return _decoder.decode(body_json), ""

    def caption_start(self, _number: int) -> str:
        """Return the stream's name, with which the caption starts."""
        return self.stream


class MessageScreen(LiveScreen):
    """The screen of a message: headers, and the payload as JSON, text or bytes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "look", "As JSON/text/hex", id="message.look"),
        Binding("slash", "search", "Search", key_display="/", id="message.search"),
        Binding("ctrl+s", "save", "Save", id="message.save"),
        PUBLISH_OPEN_MESSAGE_AGAIN.menu_binding(),
        Binding("right_square_bracket", "step(1)", "Next", key_display="]", id="message.next"),
        Binding("left_square_bracket", "step(-1)", "Before", key_display="[", id="message.before"),
    ]

    caption = getters.query_one("#caption", Static)
    raw = getters.query_one(RawView)

    def __init__(self, stream: str, seq: int, source: MessageSource | None = None) -> None:
        """Create the screen of message `seq` of the stream, or number `seq` of another source."""
        super().__init__()
        self.stream, self.seq = stream, seq
        self._source = source or StreamSource(stream)
        self.message: StoredMessage | None = None
        self._reply = ""
        self._payload_formats = itertools.cycle(PAYLOAD_FORMATS)
        self._payload_format = next(self._payload_formats)

    def asset(self) -> Target | None:
        """Return the message's stream, if any."""
        return Target(self.stream) if self.stream else None

    def body(self) -> Iterable[Widget]:
        """Yield caption and text."""
        yield Static(id="caption", markup=False)
        yield RawView()

    def on_mount(self) -> None:
        """Request the message."""
        self.raw.focus()
        self._read()

    def _read(self) -> None:
        # Until the reply, the previous message must not be saved under the new sequence.
        self.message = None
        run_task(self, self._read_message, replaces="read")

    async def _read_message(self) -> None:
        reply = await self.engine.request(self._source.command(self.seq))
        if reply.body_json is None:
            self.raw.show("", "text")
            self.caption.update(safe(reply.text, "error"))
        else:
            self.message, self._reply = self._source.message_of(reply.body_json)
            self._draw()

    def _draw(self) -> None:
        if self.message is not None:
            text, format_name, caption = message_text(
                self.message, self._payload_format, self._reply
            )
            self.raw.show(text, "json" if format_name == "json" else "text")
            self.caption.update(safe(f"{self._source.caption_start(self.seq)}  ·  {caption}"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled; publishing again is None in read-only mode, and
        False without a stream.
        """
        if action == "row_actions" and not self.stream:
            return False
        if action == "row_actions" and not is_allowed(self.state, PUBLISH_OPEN_MESSAGE_AGAIN.name):
            return None
        return super().check_action(action, parameters)

    def action_look(self) -> None:
        """Switch the payload between JSON, text and bytes."""
        self._payload_format = next(self._payload_formats)
        self._draw()

    def action_step(self, step: int) -> None:
        """Request the message with the next or previous sequence."""
        self.seq = max(1, self.seq + step)
        self._read()

    def action_search(self) -> None:
        """Prompt for a text, and search for it in the shown message."""

        def search_text(text: str | None) -> None:
            if text:
                count = self.raw.search(text)
                self.notify(f"{count} matches", timeout=2)

        self.app.push_screen(Prompt("Search for"), search_text)

    def action_save(self) -> None:
        """Write the payload bytes to a file."""
        if self.message is None:
            self.notify(f"message {self.seq} is not read", severity="warning", timeout=2)
            return
        name = f"{file_name(self.stream or 'message')}-{self.seq}.bin"
        run_task(self, self._save, self.message, name)

    async def _save(self, message: StoredMessage, name: str) -> None:
        """Prompt for the name of the file, again with the reason if it cannot be written."""
        self.engine.check_host_change()
        reason = ""
        while True:
            prompt = Prompt("Save the payload as", name, refused_reason=reason)
            typed_path = await self.app.push_screen_wait(prompt)
            if not typed_path:
                return
            name = typed_path
            try:
                with open_atomic_file(expand_user_path(typed_path), replaces=False) as file:
                    file.write(payload_of(message))
            except OSError as error:
                reason = f"{typed_path}: {error.strerror}"
            except UsageError as error:
                reason = str(error)
            else:
                size = counted(f"{message.payload_bytes:,}", "byte")
                self.notify(f"saved {size} as {typed_path}", markup=False)
                return

    @on(RawView.CopyRequested)
    def _copy(self, message: RawView.CopyRequested) -> None:
        self.app.copy_to_clipboard(message.text)
        self.notify("copied", timeout=2)

    def action_row_actions(self) -> None:
        """Show the actions for the message."""
        choose_action(
            self, f"What to do with message {self.seq} of {self.stream}",
            [(PUBLISH_OPEN_MESSAGE_AGAIN, self.action_again)],
        )  # fmt: skip

    def action_again(self) -> None:
        """Publish this message to another subject."""
        self.app.post_message(Manage("publish", (Target(self.stream, str(self.seq)),)))
