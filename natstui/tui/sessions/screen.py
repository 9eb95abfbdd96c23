"""Every recording; enter replays one, and keys rename, note, pack and delete it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from textual import on
from textual.binding import Binding, BindingType

from natstui.model.records.recording import (
    ListSessions,
    SessionSummary,
)
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.messages import Asked, Replay, answer_to, next_command_id
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.sessions.cells import SESSION_COLUMNS, SessionView
from natstui.tui.sessions.changes import RecordingChanges

_decoder = msgspec.json.Decoder(tuple[SessionSummary, ...])


class SessionsScreen(TableScreen):
    """The library of recordings, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="sessions.refresh"),
        *RecordingChanges.BINDINGS,
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = SESSION_COLUMNS
    NOUN = "sessions"
    START = Order("begun", reverse=True)

    def __init__(self) -> None:
        super().__init__()
        self._found: tuple[SessionSummary, ...] | None = None
        """None until the first list came."""
        self._asked_id = -1
        self.changing = RecordingChanges(self, self._chosen)

    def on_mount(self) -> None:
        """Ask for the list."""
        self.action_ask()

    def action_ask(self) -> None:
        """Look what there is now."""
        self._asked_id = next_command_id()
        self.app.post_message(Asked(ListSessions(self._asked_id)))

    def view(self) -> SessionView:
        """Return the recordings, as far as they are known."""
        if answer := answer_to(self.state, self._asked_id):
            self._asked_id = -1
            self._found = _decoder.decode(answer.body_json or "[]")
        if self.changing.has_answer(self.state):
            self.action_ask()
        return SessionView(self._found or ())

    def empty_text(self, total: int) -> str:
        """Return that the list is still made, or that there is nothing in it."""
        if self._found is None:
            return "looking for recordings …"
        return super().empty_text(total) if total else "no recordings: R records what you see"

    @on(RowSelected)
    def _replay(self) -> None:
        if isinstance(key := self.table.cursor_key, tuple):
            self.app.post_message(Replay(str(key[0])))

    def _chosen(self) -> SessionSummary | None:
        """Return the recording under the cursor."""
        key = self.table.cursor_key
        folder = key[0] if isinstance(key, tuple) else None
        found = next((one for one in self._found or () if one.folder == folder), None)
        if found is None:
            self.notify("there is no recording under the cursor", severity="warning", timeout=2)
        return found
