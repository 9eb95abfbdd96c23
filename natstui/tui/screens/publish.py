"""Publishing a message, or sending a request, and what came back."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import ClassVar

import msgspec
from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.errors import UsageError
from natstui.model.stored import ReadMessage, StoredMessage
from natstui.tui.asking import answer_to, next_command_id
from natstui.tui.live import LiveScreen
from natstui.tui.messages import Asked
from natstui.tui.present.messages import message_text, payload_of
from natstui.tui.present.publish import PUBLISH_FIELDS, command_of
from natstui.tui.prompt import Prompt
from natstui.tui.text import safe, safe_lines
from natstui.tui.widgets.field_row import FieldRow

_decoder = msgspec.json.Decoder(StoredMessage)


class PublishScreen(LiveScreen):
    """Stays open, so that several can be sent."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "send", "Send", id="publish.send", priority=True),
        Binding("escape", "back", "Close", id="publish.close"),
        Binding("down", "app.focus_next", "Next", show=False, id="publish.down", priority=True),
        Binding("up", "app.focus_previous", "Back", show=False, id="publish.up", priority=True),
    ]
    DEFAULT_CSS = """
    PublishScreen #rows { height: auto; max-height: 60%; }
    PublishScreen #answer { padding: 1 1 0 1; }
    PublishScreen #found { height: 1fr; }
    PublishScreen #hint { height: 1; padding: 0 1; background: $surface; }
    """

    caption = getters.query_one("#caption", Static)
    answer = getters.query_one("#answer", Static)

    def __init__(self, stream: str, subject: str, seq: int | None) -> None:
        super().__init__()
        self.stream, self.seq = stream, seq
        self.texts = {"subject": subject}
        self._original: bytes | None = None
        self._read_id = self._sent_id = -1

    def body(self) -> Iterable[Widget]:
        """The fields, and the answer below them."""
        rows = [FieldRow(field, self.texts.get(field.path, "")) for field in PUBLISH_FIELDS]
        yield Static(id="caption", markup=False)
        yield VerticalScroll(*rows, id="rows", can_focus=False)
        yield VerticalScroll(Static(id="answer", markup=False), id="found", can_focus=False)
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Read the message to publish again, if there is one."""
        self.caption.update(safe("Publish  ·  ctrl+s sends it"))
        self.query(FieldRow).first().editor.focus()
        if self.seq is not None:
            self._read_id = next_command_id()
            self.post_message(Asked(ReadMessage(self._read_id, self.stream, self.seq)))

    @on(FieldRow.Edited)
    def _edited(self, message: FieldRow.Edited) -> None:
        self.texts[message.path] = message.text
        if message.path == "payload":
            self._original = None

    @on(FieldRow.Focused)
    def _explain(self, message: FieldRow.Focused) -> None:
        help_text = next(field.help for field in PUBLISH_FIELDS if field.path == message.path)
        self.query_one("#hint", Static).update(safe(help_text))

    def refresh_state(self) -> None:
        """Take answers when they come."""
        read = answer_to(self.state, self._read_id)
        if read is not None and read.body_json is not None:
            self._read_id = -1
            self._take_over(_decoder.decode(read.body_json))
        sent = answer_to(self.state, self._sent_id)
        if sent is not None:
            self._sent_id = -1
            style = "$text-success" if sent.status == "done" else "$text-error"
            self.answer.update(safe(sent.text, style))
            if self.texts.get("kind") == "request" and sent.body_json:
                text, _, _ = message_text(_decoder.decode(sent.body_json), "auto")
                self.answer.update(safe_lines(text))

    def _take_over(self, message: StoredMessage) -> None:
        """Fill the fields from a stored message; its payload goes byte by byte."""
        payload = payload_of(message)
        kept = ", ".join(
            f"{name}={text}" for name, text in message.headers if not name.startswith("Nats-")
        )
        shown = payload.decode(errors="replace").replace("\n", " ")
        texts = {"subject": message.subject, "headers": kept, "payload": shown}
        for row in self.query(FieldRow):
            if row.field.path in texts:
                with row.prevent(FieldRow.Edited):
                    row.set_text(texts[row.field.path])
        self.texts |= texts
        self._original = payload

    def action_send(self) -> None:
        """Send it; in production the subject has to be typed once more."""
        started = self.state.started
        if started is not None and started.production:
            subject = self.texts.get("subject", "")
            self.app.push_screen(Prompt(f"This is production. Type {subject}"), self._confirmed)
        else:
            self._send(None)

    def _confirmed(self, typed: str | None) -> None:
        if typed is not None:
            self._send(typed)

    def _send(self, confirmed: str | None) -> None:
        payload = self._original
        if payload is None:
            payload = self.texts.get("payload", "").encode()
        number = next_command_id()
        try:
            encoded = base64.b64encode(payload).decode()
            command = command_of(number, self.texts, encoded, confirmed)
        except UsageError as error:
            self.answer.update(safe(str(error), "$text-error"))
            return
        self._sent_id = number
        self.answer.update(safe("sending …"))
        self.post_message(Asked(command))
