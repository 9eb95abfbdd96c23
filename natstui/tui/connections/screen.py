"""Open connections with server and traffic, and why closed ones were closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.clients.api_audit import (
    API_AUDIT_S,
    ApiAudit,
    AuditedRequests,
    audit_cost_text,
    audit_counts_text,
    error_text,
)
from natstui.model.clients.connection import (
    ClientConnection,
    Connections,
    traffic_between,
)
from natstui.model.clients.watch import MOST_CONNECTIONS, ConnectionWatch
from natstui.model.clients.words import summary
from natstui.model.records.messages import Answered
from natstui.model.records.record import ReadApiAudit
from natstui.model.records.system import ReadConnections
from natstui.model.traffic import Traffic
from natstui.tui.connections.cells import CONNECTION_COLUMNS, ConnectionView
from natstui.tui.connections.detail import ConnectionDetail, Kicking
from natstui.tui.frame.action_keys import KICK
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import LiveScreen, Renewing
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.sections import Line, Section, SectionText, line
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe
from natstui.units import counted, duration_text

_decoder, _audit_decoder = decoder_of(Connections), decoder_of(ApiAudit)
_RENEWED_AFTER_S = 5.0
_NOT_RECORDED = "this recording has no connections: connections = true in [session] records them"
_NO_CLOSED = "a recording has no closed connections"


class AuditScreen(LiveScreen):
    """Records API requests for a fixed time after it is opened."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("A", "again", "Again", id="audit.again")]

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def body(self) -> Iterable[Widget]:
        """Yield a caption line and the text."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(SectionText())

    def on_mount(self) -> None:
        """Start the audit."""
        self.action_again()

    def action_again(self) -> None:
        """Start the audit again."""
        for_text = duration_text(API_AUDIT_S)
        self._say(f"reading every request for {for_text}; polling is paused meanwhile", "")
        run_task(self, self._read, replaces="read")

    async def _read(self) -> None:
        """Show the audit, or why it failed."""
        reply = await self.engine.request(ReadApiAudit(0))
        if reply.body_json is None:
            self._say(reply.text, "error")
            return
        audit = _audit_decoder.decode(reply.body_json)
        self._say(audit_counts_text(audit), "")
        self.text.show(audit_sections(audit))

    def _say(self, text: str, look: str) -> None:
        self.caption.update(safe(f"API audit  ·  {text}", look))


def audit_sections(audit: ApiAudit) -> list[Section]:
    """Return an audit as sections: failed requests first."""
    failed_lines = tuple(
        _line(requests) for requests in audit.requests if requests.err_code is not None
    )
    answered_lines = tuple(
        _line(requests) for requests in audit.requests if requests.err_code is None
    )
    sections = [
        Section("REQUESTS WITH AN ERROR", failed_lines or (line("", "no request had an error"),)),
        Section("OTHER REQUESTS", answered_lines or (line("", "no other requests"),)),
    ]
    ending = [line("", audit_cost_text(audit))]
    if audit.left_out_count:
        unlisted_text = (
            f"and {counted(f'{audit.left_out_count:,}', 'request')} that natstui does not list"
        )
        ending.insert(0, line("", unlisted_text))
    return [*sections, Section("", tuple(ending))]


def _line(requests: AuditedRequests) -> Line:
    client_text = (
        requests.client if requests.user is None else f"{requests.client} ({requests.user})"
    )
    error = error_text(requests)
    parts = [requests.request, client_text, *([error] if error else [])]
    text = "  ·  ".join(map(clean_line, parts))
    return line(f"{requests.times_count:,}", text, "bad" if error else "")


class ConnectionsScreen(TableScreen):
    """The connections of the account; while it is in view they are read repeatedly."""

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
        """Discard the rows."""
        self._seen: Connections | None = None
        self._rates: Mapping[tuple[str, int], Traffic] = {}
        self._problem = ""

    def on_mount(self) -> None:
        """Start to read the connections repeatedly."""
        self._renewing.begin()

    def refresh_state(self) -> None:
        """Show the rows, and request them again when due."""
        self._renewing.keep_up()
        super().refresh_state()

    @property
    def _recorded(self) -> ConnectionWatch | None:
        """Return the connections of a recording that contains them; None live."""
        state = self.state
        return None if state.replay is None or self._of_closed else state.connections

    @property
    def _shown(self) -> Connections | None:
        """Return the newest connections, read or recorded."""
        if self.state.replay is None:
            return self._seen
        return None if self._recorded is None else self._recorded.newest

    def _keep(self, reply: Answered) -> None:
        """Store newer rows; after an error the old ones stay, with the reason."""
        if reply.status != "done" or reply.body_json is None:
            self._problem = clean_line(reply.text)
            return
        before, self._seen = self._seen, _decoder.decode(reply.body_json)
        self._problem = ""
        if before is not None and not self._of_closed:
            self._rates = traffic_between(before, self._seen)

    def view(self) -> ConnectionView:
        """Return the connections that are known so far."""
        connections, recorded_watch = self._shown, self._recorded
        rates = self._rates if recorded_watch is None else recorded_watch.traffic
        return ConnectionView(() if connections is None else connections.rows, rates)

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
        """Return the caption: the source of the rows, and what is missing."""
        counts_text = super().caption_text(shown, total)
        if (connections := self._shown) is None:
            return counts_text
        parts = [
            clean_line(summary(connections, closed=self._of_closed)),
            counts_text.partition("  ·  ")[2],
        ]
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._problem, *parts] if self._problem else parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: closed connections only live."""
        if action == "closed" and self.state.replay is not None:
            return self._of_closed
        if action == "audit":
            return self.state.replay is None
        return super().check_action(action, parameters)

    @on(RowSelected)
    def _open(self) -> None:
        """Open the connection under the cursor."""
        if (connection := _chosen(self)) is not None:
            self.app.push_screen(ConnectionDetail(connection))

    def action_audit(self) -> None:
        """Open the API audit."""
        self.app.push_screen(AuditScreen())

    def action_closed(self) -> None:
        """Switch between closed and open connections."""
        self._of_closed = not self._of_closed
        self._forget()
        if self.state.replay is None:
            self._renewing.ask()
        self.refresh_state()


def _chosen(screen: ConnectionsScreen) -> ClientConnection | None:
    """Return the connection under the cursor."""
    rows, position = screen.rows, screen.table.cursor
    if rows is None or position >= len(rows.order):
        return None
    connection = rows.view.things[rows.order[position]]
    assert isinstance(connection, ClientConnection)
    return connection
