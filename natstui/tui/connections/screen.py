"""The screens of connections: open ones with their traffic, closed ones with the reason; and the
API audit.
"""

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
    API_AUDIT_DURATION_S,
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
from natstui.model.clients.text import connections_summary
from natstui.model.clients.watch import MAX_CONNECTIONS, ConnectionWatch
from natstui.model.keys import DEFAULT_KEYS
from natstui.model.records.messages import Answered
from natstui.model.records.record import ReadApiAudit
from natstui.model.records.system import ReadConnections
from natstui.model.traffic import Traffic
from natstui.tui.connections.cells import CONNECTION_COLUMNS, ConnectionView
from natstui.tui.connections.detail import ConnectionDetail, KickKey
from natstui.tui.frame.action_keys import KICK_CONNECTION
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.live import LiveScreen, RepeatedRequest
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.sections import Line, Section, SectionText, line
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe
from natstui.units import counted, duration_text

_decoder, _audit_decoder = decoder_of(Connections), decoder_of(ApiAudit)
_REREAD_INTERVAL_S = 5.0
_NOT_RECORDED_TEXT = (
    "this recording has no connections: connections = true in [session] records them"
)
_NO_CLOSED_TEXT = "a recording has no closed connections"


class AuditScreen(LiveScreen):
    """The API audit: reads all API requests for a fixed time, and lists them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("A", "again", "Again", id="audit.again")]

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def body(self) -> Iterable[Widget]:
        """Yield a caption line and the text of the audit."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(SectionText())

    def on_mount(self) -> None:
        """Start the audit."""
        self.action_again()

    def action_again(self) -> None:
        """Start the audit again."""
        duration = duration_text(API_AUDIT_DURATION_S)
        self._show_caption(
            f"reading every request for {duration}; polling is paused meanwhile", ""
        )
        run_task(self, self._run_audit, replaces="read")

    async def _run_audit(self) -> None:
        """Read the requests and show them, or the error."""
        reply = await self.engine.request(ReadApiAudit(0))
        if reply.body_json is None:
            self._show_caption(reply.text, "error")
            return
        audit = _audit_decoder.decode(reply.body_json)
        self._show_caption(audit_counts_text(audit), "")
        self.text.show(audit_sections(audit))

    def _show_caption(self, text: str, style_name: str) -> None:
        self.caption.update(safe(f"API audit  ·  {text}", style_name))


def audit_sections(audit: ApiAudit) -> list[Section]:
    """Return the sections of an audit: failed requests, other requests, cost."""
    failed_lines = tuple(
        _request_line(audited_requests)
        for audited_requests in audit.requests
        if audited_requests.err_code is not None
    )
    other_lines = tuple(
        _request_line(audited_requests)
        for audited_requests in audit.requests
        if audited_requests.err_code is None
    )
    sections = [
        Section("REQUESTS WITH AN ERROR", failed_lines or (line("", "no request had an error"),)),
        Section("OTHER REQUESTS", other_lines or (line("", "no other requests"),)),
    ]
    ending_lines = [line("", audit_cost_text(audit))]
    if audit.left_out_count:
        unlisted_text = (
            f"and {counted(f'{audit.left_out_count:,}', 'request')} that natstui does not list"
        )
        ending_lines.insert(0, line("", unlisted_text))
    return [*sections, Section("", tuple(ending_lines))]


def _request_line(audited_requests: AuditedRequests) -> Line:
    client_text = (
        audited_requests.client
        if audited_requests.user is None
        else f"{audited_requests.client} ({audited_requests.user})"
    )
    error = error_text(audited_requests)
    parts = [audited_requests.request, client_text, *([error] if error else [])]
    text = "  ·  ".join(map(clean_line, parts))
    return line(f"{audited_requests.times_count:,}", text, "bad" if error else "")


class ConnectionsScreen(TableScreen):
    """The connections of the account; while the screen is in view they are read repeatedly."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(DEFAULT_KEYS["connections.closed"], "closed", "Closed", id="connections.closed"),
        Binding("A", "audit", "API audit", id="connections.audit"),
        KICK_CONNECTION.binding("part('kicking', 'kick')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = CONNECTION_COLUMNS
    NOUN = "connections"
    DEFAULT_ORDER = SortAndFilter("name")

    def __init__(self) -> None:
        super().__init__()
        self._shows_closed = False
        self._repeated_request = RepeatedRequest(
            self,
            lambda: ReadConnections(0, self._shows_closed, MAX_CONNECTIONS),
            _REREAD_INTERVAL_S,
            self._store_reply,
            self._discard_connections,
        )
        self.kicking = KickKey(self, lambda: self.item_under_cursor(ClientConnection))
        self._discard_connections()

    def _discard_connections(self) -> None:
        """Discard the connections that were read."""
        self._last_connections: Connections | None = None
        self._traffic_by_connection: Mapping[tuple[str, int], Traffic] = {}
        self._error_text = ""

    def on_mount(self) -> None:
        """Start to read the connections repeatedly."""
        self._repeated_request.start()

    def refresh_state(self) -> None:
        """Show the connections, and read them again if due."""
        self._repeated_request.send_if_due()
        super().refresh_state()

    @property
    def _recorded_connections(self) -> ConnectionWatch | None:
        """Return the connections of the recording; None on a live server, or if the recording has
        none.
        """
        state = self.state
        return None if state.replay is None or self._shows_closed else state.connections

    @property
    def _newest_connections(self) -> Connections | None:
        """Return the connections of the last reply; in a replay, the recorded ones."""
        if self.state.replay is None:
            return self._last_connections
        return None if self._recorded_connections is None else self._recorded_connections.newest

    def _store_reply(self, reply: Answered) -> None:
        """Store the connections in a reply; after an error the previous ones stay."""
        if reply.status != "done" or reply.body_json is None:
            self._error_text = clean_line(reply.text)
            return
        previous_connections, self._last_connections = (
            self._last_connections,
            _decoder.decode(reply.body_json),
        )
        self._error_text = ""
        if previous_connections is not None and not self._shows_closed:
            self._traffic_by_connection = traffic_between(
                previous_connections, self._last_connections
            )

    def view(self) -> ConnectionView:
        """Return a view of the newest connections."""
        connections, recorded_connections = self._newest_connections, self._recorded_connections
        traffic_by_connection = (
            self._traffic_by_connection
            if recorded_connections is None
            else recorded_connections.traffic
        )
        return ConnectionView(
            () if connections is None else connections.rows, traffic_by_connection
        )

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return _NO_CLOSED_TEXT if self._shows_closed else _NOT_RECORDED_TEXT
        if self._error_text:
            return self._error_text
        if self._last_connections is None:
            return "querying every server …"
        if self._shows_closed:
            return "no closed connections: the servers remember none"
        return "no connections: no client is connected to this account"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the source of the rows, and what is missing."""
        counts_text = super().caption_text(shown, total)
        if (connections := self._newest_connections) is None:
            return counts_text
        parts = [
            clean_line(connections_summary(connections, closed=self._shows_closed)),
            counts_text.partition("  ·  ")[2],
        ]
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._error_text, *parts] if self._error_text else parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: closed connections and the audit only on a live
        server.
        """
        if action == "closed" and self.state.replay is not None:
            return self._shows_closed
        if action == "audit":
            return self.state.replay is None
        return super().check_action(action, parameters)

    @on(RowSelected)
    def _open_connection(self) -> None:
        """Open the screen of the connection under the cursor."""
        if (connection := self.item_under_cursor(ClientConnection)) is not None:
            self.app.push_screen(ConnectionDetail(connection))

    def action_audit(self) -> None:
        """Open the API audit."""
        self.app.push_screen(AuditScreen())

    def action_closed(self) -> None:
        """Switch between closed and open connections."""
        self._shows_closed = not self._shows_closed
        self._discard_connections()
        if self.state.replay is None:
            self._repeated_request.send_now()
        self.refresh_state()
