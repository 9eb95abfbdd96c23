"""The put form: a key's value, typed on several lines or from a file."""

from __future__ import annotations

import base64
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual import getters, on
from textual.app import App, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static, TextArea

from natstui.clean import clean_text
from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.files import MAX_PAYLOAD_BYTES, read_regular_file
from natstui.model.assets.fields import Field
from natstui.model.records.messages import Answered
from natstui.model.records.stores import ChangeKey, KeysPage, ReadRevisions
from natstui.paths import expand_user_path
from natstui.tui.frame.confirmation import SENDING_TEXT, FormServer, request_confirmed
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task, show_reply
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.text import safe
from natstui.tui.stores.cells import value_of


def editor_command() -> list[str]:
    """Return the command of the user's editor; raises UsageError if the environment names none."""
    for name in ("VISUAL", "EDITOR"):
        if command := os.environ.get(name, "").strip():
            try:
                return shlex.split(command)
            except ValueError as error:
                raise UsageError(f"{name} is no command: {error}") from error
    raise UsageError("neither VISUAL nor EDITOR names an editor")


def edit_in_terminal(app: App[int], text: str) -> str:
    """Return a text edited in the user's editor, which uses the terminal meanwhile.

    Raises UsageError if the editor fails or cannot run here.
    """
    command = editor_command()
    try:
        with app.suspend():
            # No error may leave the block: Textual would not draw again.
            try:
                edited_text, failure = edit_text(command, text), None
            except UsageError as error:
                edited_text, failure = text, error
    except SuspendNotSupported as error:
        raise UsageError("no editor can run in this terminal") from error
    if failure is not None:
        raise failure
    return edited_text


def edit_text(command: list[str], text: str) -> str:
    """Return a text after a command has edited it in a file.

    Many editors end every file with a line feed: an added one is removed. Raises UsageError if
    the editor fails.
    """
    with tempfile.TemporaryDirectory(prefix="natstui-") as folder:  # open to this user alone
        file = Path(folder) / ("value.json" if text.lstrip()[:1] in ("{", "[") else "value.txt")
        file.write_bytes(text.encode())
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode
            if code:
                raise UsageError(f"{command[0]} ended with {code}: the text was not changed")
            if not file.exists():
                raise UsageError(f"{command[0]} removed the file: the text was not changed")
            edited_text = read_regular_file(file, MAX_PAYLOAD_BYTES).decode()
        except OSError as error:
            raise UsageError(f"{command[0]}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError("the file of the editor is not UTF-8 text") from error
    if (
        edited_text.endswith("\n")
        and not text.endswith("\n")
        and edited_text.count("\n") > text.count("\n")
    ):
        edited_text = edited_text[:-1]
    return edited_text


_decoder = decoder_of(KeysPage)

_KEY_FIELD = Field("key", "Key", "text", "", "Letters, digits, - _ = / and dots between words.")
_FILE_FIELD = Field(
    "file", "From file", "text", "", "If set, the content of this file is the value."
)
_NOT_EDITABLE_REASON = "the value is not text that can be edited here; use a file"
_NOT_READ_YET_REASON = "the value was not read yet"


class PutScreen(LiveScreen):
    """The form that puts a key's value; it closes when the value is stored."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "send", "Put", id="put.send", priority=True),
        Binding("ctrl+o", "editor", "Editor", id="put.editor", priority=True),
        Binding("escape", "back", "Close", id="put.close", priority=True),
    ]
    DEFAULT_CSS = """
    PutScreen TextArea { height: 1fr; border: none; padding: 0 1; background: $surface; }
    PutScreen TextArea:focus { border: none; }
    PutScreen TextArea > .text-area--placeholder { color: $text-disabled; }
    PutScreen #answer { height: auto; padding: 0 1; }
    """

    caption = getters.query_one("#caption", Static)
    reply_text = getters.query_one("#answer", Static)
    area = getters.query_one(TextArea)

    def __init__(self, bucket: str, key: str = "") -> None:
        super().__init__()
        self.bucket, self.key = bucket, key
        self._file = ""
        self._revision: int | None = None
        self._stored_at_us: int | None = None
        """Number and time of the edited revision; a newer one is not overwritten."""
        self._created_at_us: int | None = None
        """Creation time of the bucket that was read."""
        self._unread_reason = _NOT_READ_YET_REASON if key else ""
        """Reason why the current value was not read; it is not overwritten until then."""
        self._value_hidden_reason = ""
        """Reason why the current value is not shown; only a file or typed text replaces it."""
        self._form_server = FormServer(self)
        self._start_text = ""
        self._is_sending = False

    def body(self) -> Iterable[Widget]:
        """Yield the fields for key and file, the reply, and the value."""
        yield Static(id="caption", markup=False)
        for field, text, locked_reason in (
            (_KEY_FIELD, self.key, "this is the current value of the key" if self.key else None),
            (_FILE_FIELD, "", None),
        ):
            row = FieldRow(field, text, locked_reason)
            row.show_placeholder(field.help)
            yield row
        yield Static(id="answer", markup=False)
        yield TextArea(soft_wrap=True, tab_behavior="focus", id="value")

    def on_mount(self) -> None:
        """Focus the first field, and request the value to edit, if any."""
        send_key, edit_key = key_of(self, "put.send"), key_of(self, "put.editor")
        self.area.placeholder = f"The value: typed here, or in your own editor with {edit_key}."
        self.caption.update(safe(f"Put into {self.bucket} · {send_key} stores it"))
        self.set_focus(self.area if self.key else self.query(FieldRow).first().editor)
        run_task(self, self._form_server.read)
        if self.key:
            run_task(self, self._read)

    async def _read(self) -> None:
        self._show_value(await self.engine.request(ReadRevisions(0, self.bucket, self.key)))

    def _show_value(self, reply: Answered) -> None:
        if reply.body_json is None:
            self._unread_reason = f"the value cannot be read: {reply.text}"
            self.reply_text.update(safe(self._unread_reason, "error"))
        else:
            self._unread_reason = ""
            self._fill_value(_decoder.decode(reply.body_json))

    @on(FieldRow.Edited)
    def _store_text(self, message: FieldRow.Edited) -> None:
        if message.path == "key":
            self.key = message.text.strip()
        else:
            self._file = message.text.strip()

    def _fill_value(self, page: KeysPage) -> None:
        """Show the newest value if it can be edited as text."""
        self._created_at_us = page.created_at_us
        if not page.rows:
            self._revision = 0
            self.reply_text.update(safe("the key has no value any more", "warn"))
            return
        newest_row = page.rows[-1]
        self._revision, value = newest_row.revision_seq, value_of(newest_row)
        self._stored_at_us = newest_row.created_at_us
        note = f"revision {newest_row.revision_seq}"
        if newest_row.operation != "PUT":
            note = f"{note}: the key is deleted"
        try:
            text = value.decode()
            is_text = newest_row.value_bytes == len(value) and clean_text(text) == text
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            self._value_hidden_reason = _NOT_EDITABLE_REASON
        elif not self.area.text:
            self.area.load_text(text)
            if self.area.text != text:  # mixed line ends: they would be changed
                self.area.load_text("")
                self._value_hidden_reason = _NOT_EDITABLE_REASON
            self._start_text = self.area.text
        self.reply_text.update(
            safe(
                f"{note}: {self._value_hidden_reason}" if self._value_hidden_reason else note,
                "dim",
            )
        )

    def unsent_text(self) -> str:
        """Return a summary of typed text that was not sent; empty if there is none."""
        is_typed = self.area.text != self._start_text or bool(self._file)
        return "the value" if is_typed and not self._is_sending else ""

    def action_send(self) -> None:
        """Put the value, after a prompt if the engine requires one."""
        try:
            value = self._value()
        except UsageError as error:
            self.reply_text.update(safe(str(error), "error"))
            return
        if self._is_sending:
            return
        value_base64 = base64.b64encode(value).decode()
        change = ChangeKey(
            0,
            "put_key",
            self.bucket,
            self.key,
            value_base64,
            if_revision_seq=self._revision,
            if_stored_at_us=self._stored_at_us,
            created_at_us=self._created_at_us,
            decided_on=self._form_server.confirmation_for(self.key),
        )
        run_task(self, self._send, change)

    async def _send(self, change: ChangeKey) -> None:
        self._is_sending = True
        self.reply_text.update(safe(SENDING_TEXT))
        reply = await request_confirmed(self, change)
        self._is_sending = False
        if reply is None:
            self.reply_text.update(safe("not confirmed: nothing is stored", "warn"))
            return
        show_reply(self.app, reply)
        if reply.status == "done":
            self._start_text = self.area.text
            self._file = ""
            self.leave()
        else:
            self.reply_text.update(safe(reply.text, "error"))

    def action_editor(self) -> None:
        """Edit the value in the user's own editor."""
        previous_text = self.area.text
        if reason := self._unread_reason or (
            self._value_hidden_reason if not previous_text else ""
        ):
            self.reply_text.update(safe(f"there is nothing to edit: {reason}", "error"))
            return
        try:
            text = edit_in_terminal(self.app, previous_text)
        except UsageError as error:
            self.reply_text.update(safe(str(error), "error"))
            return
        self.area.load_text(text)
        if self.area.text != text or clean_text(text) != text:
            self.area.load_text(previous_text)
            self.reply_text.update(safe("this text cannot be kept exactly here; use a file"))
        else:
            self.reply_text.update(
                safe("unchanged" if text == previous_text else "edited, not sent yet")
            )

    def _value(self) -> bytes:
        """Return the value to put: the content of the file if one is set, else the typed text.

        Raises UsageError if the file or the current value could not be read, or without typed
        text if the current value is not shown.
        """
        if self._unread_reason:
            raise UsageError(f"nothing was put: {self._unread_reason}")
        if not self._file:
            if self._value_hidden_reason and not self.area.text:
                raise UsageError(f"nothing was put: {self._value_hidden_reason}")
            return self.area.text.encode()
        try:
            return read_regular_file(expand_user_path(self._file), MAX_PAYLOAD_BYTES)
        except OSError as error:
            raise UsageError(f"{self._file}: {error.strerror}") from error
