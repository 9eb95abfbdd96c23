"""The publish form: publishes a message or sends a request, and shows the replies."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual import events, getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Label, Static, TextArea
from textual.worker import Worker

from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.model.assets.fields import Field
from natstui.model.assets.text import parse_field
from natstui.model.records.messages import PublishMessage, ReadMessage, RequestReply, StoredMessage
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.confirmation import SENDING_TEXT, FormServer, request_confirmed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.text import safe, safe_lines
from natstui.tui.messages.text import message_text, payload_of
from natstui.values import replace

PUBLISH_FIELDS = (
    Field("subject", "Subject", "subject", "", "Subject to publish to."),
    Field("payload", "Payload", "text", "", "Text of one or more lines, sent unchanged."),
    Field("headers", "Headers", "metadata", "", "Pairs key=value, separated by commas."),
    Field("message_id", "Nats-Msg-Id", "text", "",
        "The stream drops a second message with the same id."),
    Field("ttl", "Nats-TTL", "text", "",
        "Lifetime of the message, if the stream allows message TTL."),
    Field("last_seq", "Expect last seq", "count", "",
        "Publish only if this is the last sequence of the stream."),
    Field("subject_seq", "Expect subject seq", "count", "",
        "Publish only if this is the last sequence of the subject."),
    Field(
        "kind", "Wait for", "choice", "", "Wait for the ack of a stream, or for a reply.",
        default="stream", choices=("stream", "request"),
    ),
)  # fmt: skip

PAYLOAD_PATH = "payload"


class PayloadRow(Horizontal):
    """The row of the payload field, which has several lines."""

    DEFAULT_CSS = """
    PayloadRow { height: 6; }
    PayloadRow > Label { width: 24; padding: 0 1; color: $text-muted; }
    PayloadRow > TextArea { width: 1fr; height: 6; }
    """

    def compose(self) -> ComposeResult:
        """Yield the label and the text area."""
        yield Label("Payload", markup=False)
        yield TextArea(show_line_numbers=False, tab_behavior="focus", compact=True)

    def on_descendant_focus(self, _event: events.DescendantFocus) -> None:
        """Post that the payload has the focus."""
        self.post_message(FieldRow.Focused(PAYLOAD_PATH))


_FIELD_BY_PATH = {field.path: field for field in PUBLISH_FIELDS}


def build_publish_command(
    texts: Mapping[str, str], payload_base64: str
) -> PublishMessage | RequestReply:
    """Return the command that publishes or requests, from the fields' texts by path; raises
    UsageError for a text that is not valid.
    """
    try:
        values = {
            path: parse_field(_FIELD_BY_PATH[path], text) for path, text in texts.items() if text
        }
    except ValueError as error:
        raise UsageError(str(error)) from error
    subject = values.get("subject")
    if not isinstance(subject, str):
        raise UsageError("Subject: write where to publish")
    text_by_header = values.get("headers")
    headers = (
        tuple((str(name), str(text)) for name, text in text_by_header.items())
        if isinstance(text_by_header, dict)
        else ()
    )
    if texts.get("kind") == "request":
        for path in ("message_id", "ttl", "last_seq", "subject_seq"):
            if texts.get(path):
                raise UsageError(f"{_FIELD_BY_PATH[path].label}: only with Wait for: stream")
        return RequestReply(0, subject, payload_base64, headers)
    return PublishMessage(
        0,
        subject,
        payload_base64,
        headers,
        texts.get("message_id") or None,
        texts.get("ttl") or None,
        _int_or_none(values.get("last_seq")),
        _int_or_none(values.get("subject_seq")),
    )


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) else None


_decoder = decoder_of(StoredMessage)


class PublishScreen(LiveScreen):
    """The publish form; it stays open, so that several messages can be sent."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "send", "Send", id="publish.send", priority=True),
        Binding("escape", "back", "Close", id="publish.close"),
        Binding("down", "move(1)", "Next", show=False, id="publish.down", priority=True),
        Binding("up", "move(-1)", "Back", show=False, id="publish.up", priority=True),
    ]
    DEFAULT_CSS = """
    PublishScreen #rows { height: auto; max-height: 60%; }
    PublishScreen #answer { padding: 1 1 0 1; }
    PublishScreen #found { height: 1fr; }
    PublishScreen #hint { height: 1; padding: 0 1; background: $surface; }
    """

    caption = getters.query_one("#caption", Static)
    reply_text = getters.query_one("#answer", Static)

    def __init__(self, stream: str, subject: str, seq: int | None) -> None:
        super().__init__()
        self.stream, self.seq = stream, seq
        self.texts = {"subject": subject}
        self._unread_reason = "" if seq is None else f"message {seq} was not read yet"
        """Reason why the message to publish again was not read; nothing is sent until then."""
        self._original_payload: bytes | None = None
        self._original_headers: tuple[tuple[str, str], ...] | None = None
        """Headers of the message to publish again; None once their text was changed."""
        self._unsent_field_paths: set[str] = set()
        """Paths of fields with typed text that was not sent."""
        self._form_server = FormServer(self)
        self._sending_field_paths: set[str] = set()
        self._sending_task: Worker[None] | None = None
        """The task that sends the message; the key does nothing until the task has ended."""

    def asset(self) -> Target | None:
        """Return the stream that the form was opened on."""
        return Target(self.stream)

    def body(self) -> Iterable[Widget]:
        """Yield the fields, the reply below them, and the help of the focused field."""
        rows = [
            PayloadRow()
            if field.path == PAYLOAD_PATH
            else FieldRow(field, self.texts.get(field.path, ""))
            for field in PUBLISH_FIELDS
        ]
        yield Static(id="caption", markup=False)
        yield VerticalScroll(*rows, id="rows", can_focus=False)
        yield VerticalScroll(Static(id="answer", markup=False), id="found", can_focus=False)
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Focus the first field, and request the message to publish again, if any."""
        self.caption.update(safe(f"Publish  ·  {key_of(self, 'publish.send')} sends it"))
        self.set_focus(self.query(FieldRow).first().editor)
        run_task(self, self._form_server.read)
        if self.seq is not None:
            run_task(self, self._read, self.seq)

    async def _read(self, seq: int) -> None:
        reply = await self.engine.request(ReadMessage(0, self.stream, seq))
        if reply.body_json is None:
            self._unread_reason = f"message {seq} cannot be read: {reply.text}"
            self.reply_text.update(safe(self._unread_reason, "error"))
        else:
            self._unread_reason = ""
            self._fill_fields(_decoder.decode(reply.body_json))

    def action_move(self, step: int) -> None:
        """Focus another field; within the payload, move to another line."""
        editor = self.focused
        if isinstance(editor, TextArea):
            edge = editor.document.line_count - 1 if step > 0 else 0
            if editor.cursor_location[0] != edge:
                (editor.action_cursor_down if step > 0 else editor.action_cursor_up)()
                return
        (self.focus_next if step > 0 else self.focus_previous)()

    @on(TextArea.Changed)
    def _post_payload(self, event: TextArea.Changed) -> None:
        if event.text_area.text != self.texts.get(PAYLOAD_PATH, ""):
            self.post_message(FieldRow.Edited(PAYLOAD_PATH, event.text_area.text))

    @on(FieldRow.Edited)
    def _store_text(self, message: FieldRow.Edited) -> None:
        self.texts[message.path] = message.text
        self._unsent_field_paths.add(message.path)
        self._sending_field_paths.discard(message.path)
        if message.path == PAYLOAD_PATH:
            self._original_payload = None
        if message.path == "headers":
            self._original_headers = None

    @on(FieldRow.Focused)
    def _show_help(self, message: FieldRow.Focused) -> None:
        help_text = next(field.help for field in PUBLISH_FIELDS if field.path == message.path)
        self.query_one("#hint", Static).update(safe(help_text))

    def _fill_fields(self, message: StoredMessage) -> None:
        """Fill the fields without typed text from a message; its payload is sent unchanged unless
        its text is edited.
        """
        payload = payload_of(message)
        headers = tuple(header for header in message.headers if not header[0].startswith("Nats-"))
        headers_text = ", ".join(f"{name}={text}" for name, text in headers)
        payload_text = payload.decode(errors="replace")
        original_texts = {
            "subject": message.subject,
            "headers": headers_text,
            "payload": payload_text,
        }
        texts = {
            path: text
            for path, text in original_texts.items()
            if path not in self._unsent_field_paths
        }
        if PAYLOAD_PATH in texts:
            payload_area = self.query_one(TextArea)
            with payload_area.prevent(TextArea.Changed):
                payload_area.text = payload_text
            # The text area changes line ends: its text is not an edit.
            texts[PAYLOAD_PATH] = payload_area.text
        for row in self.query(FieldRow):
            if row.field.path in texts:
                with row.prevent(Input.Changed):
                    row.set_text(texts[row.field.path])
        self.texts |= texts
        if PAYLOAD_PATH in texts:
            self._original_payload = payload
        if "headers" in texts:
            self._original_headers = headers

    def unsent_text(self) -> str:
        """Return a summary of typed text that was not sent; empty if there is none."""
        return "the message" if self._unsent_field_paths else ""

    def action_send(self) -> None:
        """Send the message, after a prompt for the subject if the engine requires it."""
        if self._sending_task is None or self._sending_task.is_finished:
            self._sending_task = run_task(self, self._send)

    async def _send(self) -> None:
        if self._unread_reason:
            self.reply_text.update(safe(f"nothing was sent: {self._unread_reason}", "error"))
            return
        payload = self._original_payload
        if payload is None:
            payload = self.texts.get(PAYLOAD_PATH, "").encode()
        try:
            command = build_publish_command(self.texts, base64.b64encode(payload).decode())
        except UsageError as error:
            self.reply_text.update(safe(str(error), "error"))
            return
        if self._original_headers is not None:
            # The text can have only one value per header name.
            command = replace(command, headers=self._original_headers)
        command = replace(command, decided_on=self._form_server.confirmation_for(command.subject))
        self._sending_field_paths = set(self._unsent_field_paths)
        self.reply_text.update(safe(SENDING_TEXT))
        reply = await request_confirmed(self, command)
        if reply is None:
            self.reply_text.update(safe("not confirmed: nothing is sent", "warn"))
            return
        if reply.status == "done":
            self._unsent_field_paths -= self._sending_field_paths
        self.reply_text.update(safe(reply.text, "ok" if reply.status == "done" else "error"))
        if isinstance(command, RequestReply) and reply.status == "done" and reply.body_json:
            text, _, _ = message_text(_decoder.decode(reply.body_json), "auto")
            self.reply_text.update(safe_lines(text))
