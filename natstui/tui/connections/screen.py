"""Who is connected to which server, what they send and get, and why those that ended did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.clients.connection import (
    ClientConnection,
    Connections,
    traffic_between,
)
from natstui.model.clients.watch import MOST_CONNECTIONS, ConnectionWatch
from natstui.model.clients.words import summary
from natstui.model.records.messages import Answered
from natstui.model.records.system import ReadConnections
from natstui.model.traffic import Traffic
from natstui.tui.connections.audit import AuditScreen
from natstui.tui.connections.cells import CONNECTION_COLUMNS, ConnectionView
from natstui.tui.connections.detail import ConnectionDetail
from natstui.tui.connections.kicking import Kicking
from natstui.tui.frame.action_keys import KICK
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import Renewing
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.view import RowSelected

_decoder = decoder_of(Connections)

_RENEWED_AFTER_S = 5.0
_NOT_RECORDED = "this recording has no connections: connections = true in [session] records them"
_NO_CLOSED = "a recording has no closed connections"


class ConnectionsScreen(TableScreen):
    """The connections of the account; while it is in view they are read again and again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "closed", "Closed", id="connections.closed"),
        Binding("A", "audit", "API audit", id="connections.audit"),
        KICK.binding("part('kicking', 'kick')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = CONNECTION_COLUMNS
    NOUN = "connections"
    START = Order("name")

    def __init__(self) -> None:
        super().__init__()
        self._of_closed = False
        self._renewing = Renewing(
            self,
            lambda: ReadConnections(0, self._of_closed, MOST_CONNECTIONS),
            _RENEWED_AFTER_S,
            self._keep,
            self._forget,
        )
        self.kicking = Kicking(self, lambda: _chosen(self))
        self._forget()

    def _forget(self) -> None:
        """Know nothing of what was shown."""
        self._seen: Connections | None = None
        self._rates: Mapping[tuple[str, int], Traffic] = {}
        self._problem = ""

    def on_mount(self) -> None:
        """Read them again and again."""
        self._renewing.begin()

    def refresh_state(self) -> None:
        """Show what is known, and read it again when that is due."""
        self._renewing.keep_up()
        super().refresh_state()

    @property
    def _recorded(self) -> ConnectionWatch | None:
        """The connections of a recording, where it holds them; None live."""
        state = self.state
        return None if state.replay is None or self._of_closed else state.connections

    @property
    def _shown(self) -> Connections | None:
        """What is known of the connections: as they were read last, or as a recording has them."""
        if self.state.replay is None:
            return self._seen
        return None if self._recorded is None else self._recorded.newest

    def _keep(self, reply: Answered) -> None:
        """Keep newer rows; what cannot be read leaves those that are known, with the reason."""
        if reply.status != "done" or reply.body_json is None:
            self._problem = clean_line(reply.text)
            return
        before, self._seen = self._seen, _decoder.decode(reply.body_json)
        self._problem = ""
        if before is not None and not self._of_closed:
            self._rates = traffic_between(before, self._seen)

    def view(self) -> ConnectionView:
        """Return the connections, as far as they are known."""
        seen, recorded = self._shown, self._recorded
        rates = self._rates if recorded is None else recorded.traffic
        return ConnectionView(() if seen is None else seen.rows, rates)

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return _NO_CLOSED if self._of_closed else _NOT_RECORDED
        if self._problem:
            return self._problem
        if self._seen is None:
            return "asking every server …"
        if self._of_closed:
            return "no closed connections: the servers remember none"
        return "no connections: no client is connected to this account"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table: who told, and what is missing."""
        rest = super().caption_text(shown, total)
        if (seen := self._shown) is None:
            return rest
        parts = [
            clean_line(summary(seen, closed=self._of_closed)),
            rest.partition("  ·  ")[2],
        ]
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._problem, *parts] if self._problem else parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer closed connections only live: a recording has none; offer the way back."""
        if action == "closed" and self.state.replay is not None:
            return self._of_closed
        if action == "audit":
            return self.state.replay is None
        return super().check_action(action, parameters)

    @on(RowSelected)
    def _open(self) -> None:
        """Show everything about the connection under the cursor."""
        if (one := _chosen(self)) is not None:
            self.app.push_screen(ConnectionDetail(one))

    def action_audit(self) -> None:
        """Read which client requests what of the JetStream API."""
        self.app.push_screen(AuditScreen())

    def action_closed(self) -> None:
        """Show those that ended, or those that are there again."""
        self._of_closed = not self._of_closed
        self._forget()
        if self.state.replay is None:
            self._renewing.ask()
        self.refresh_state()


def _chosen(screen: ConnectionsScreen) -> ClientConnection | None:
    """Return the connection under the cursor."""
    rows, at = screen.rows, screen.table.cursor
    if rows is None or at >= len(rows.order):
        return None
    found = rows.view.things[rows.order[at]]
    assert isinstance(found, ClientConnection)
    return found
