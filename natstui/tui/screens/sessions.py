"""Every recording; enter replays one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from textual import on
from textual.binding import Binding, BindingType

from natstui.model.recording import ListSessions
from natstui.model.session_summary import SessionSummary
from natstui.tui.asking import answer_to, next_command_id
from natstui.tui.messages import Asked, Replay
from natstui.tui.present.columns import ColumnSpec, Order
from natstui.tui.present.sessions import SESSION_COLUMNS, SessionView
from natstui.tui.table_screen import TableScreen
from natstui.tui.widgets.table_messages import RowSelected

_decoder = msgspec.json.Decoder(tuple[SessionSummary, ...])


class SessionsScreen(TableScreen):
    """The library of recordings, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="sessions.refresh"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = SESSION_COLUMNS
    NOUN = "sessions"
    START = Order("begun", reverse=True)

    def __init__(self) -> None:
        super().__init__()
        self._found: tuple[SessionSummary, ...] = ()
        self._asked_id = -1

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
        return SessionView(self._found)

    @on(RowSelected)
    def _replay(self) -> None:
        if isinstance(key := self.table.cursor_key, tuple):
            self.post_message(Replay(str(key[0])))
