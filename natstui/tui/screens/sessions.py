"""Every recording; enter replays one, and keys rename, note, pack and delete it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec
from textual import on
from textual.binding import Binding, BindingType

from natstui.model.recording import ChangeSession, ListSessions, SessionAction
from natstui.model.session_summary import SessionSummary
from natstui.tui.asking import answer_to, next_command_id
from natstui.tui.messages import Asked, Replay, Tend
from natstui.tui.pick import Pick
from natstui.tui.present.columns import ColumnSpec, Order
from natstui.tui.present.sessions import SESSION_COLUMNS, SessionView
from natstui.tui.present.tending import PACKS, asked_text, delete_text, title, word_to_type
from natstui.tui.prompt import Prompt
from natstui.tui.table_screen import TableScreen
from natstui.tui.widgets.table_messages import RowSelected

_decoder = msgspec.json.Decoder(tuple[SessionSummary, ...])


class SessionsScreen(TableScreen):
    """The library of recordings, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="sessions.refresh"),
        Binding("e", "change('rename')", "Rename", id="sessions.rename"),
        Binding("n", "change('note')", "Note", id="sessions.note"),
        Binding("w", "pack", "Pack", id="sessions.pack"),
        Binding("ctrl+d", "delete", "Delete", id="sessions.delete"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = SESSION_COLUMNS
    NOUN = "sessions"
    START = Order("begun", reverse=True)

    def __init__(self) -> None:
        super().__init__()
        self._found: tuple[SessionSummary, ...] = ()
        self._asked_id = self._changing_id = -1

    def on_mount(self) -> None:
        """Ask for the list."""
        self.action_ask()

    def action_ask(self) -> None:
        """Look what there is now."""
        self._asked_id = next_command_id()
        self.post_message(Asked(ListSessions(self._asked_id)))

    def view(self) -> SessionView:
        """Return the recordings, as far as they are known."""
        if answer := answer_to(self.state, self._asked_id):
            self._asked_id = -1
            self._found = _decoder.decode(answer.body_json or "[]")
        if answer_to(self.state, self._changing_id):
            self._changing_id = -1
            self.action_ask()
        return SessionView(self._found)

    @on(RowSelected)
    def _replay(self) -> None:
        if isinstance(key := self.table.cursor_key, tuple):
            self.post_message(Replay(str(key[0])))

    def _chosen(self) -> SessionSummary | None:
        """Return the recording under the cursor."""
        key = self.table.cursor_key
        folder = key[0] if isinstance(key, tuple) else None
        found = next((one for one in self._found if one.folder == folder), None)
        if found is None:
            self.notify("there is no recording under the cursor", severity="warning", timeout=2)
        return found

    def action_change(self, action: SessionAction) -> None:
        """Ask for the text, then do it."""
        if it := self._chosen():
            question, text = asked_text(action, it)
            self.app.push_screen(Prompt(question, text), partial(self._change, action, it))

    def action_pack(self) -> None:
        """Make one file of a recording, to send to somebody."""
        if it := self._chosen():

            def do(word: str | None) -> None:
                if word is not None:
                    self.action_change("pack redacted" if word == "redacted" else "pack")

            self.app.push_screen(Pick(f"Pack {title(it)}", list(PACKS.items())), do)

    def action_delete(self) -> None:
        """Delete a recording, once its name is typed."""
        if it := self._chosen():
            word = word_to_type(it)

            def confirmed(text: str | None) -> None:
                if text == word:
                    self._change("delete", it, text)
                elif text is not None:
                    what = f"not deleted: that was not {word}"
                    self.notify(what, severity="warning", markup=False)

            self.app.push_screen(Prompt(delete_text(it)), confirmed)

    def _change(self, action: SessionAction, it: SessionSummary, text: str | None) -> None:
        if text is not None and text.strip():
            self._changing_id = next_command_id()
            command = ChangeSession(self._changing_id, action, it.folder, text)
            self.post_message(Tend(command))
