"""The server screen: the table of servers, and texts about the system below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.live.state import shown_at_us
from natstui.model.records.messages import Answered
from natstui.model.records.system import ReadServers, RemoveServer
from natstui.model.servers.leaders import LeaderCounts, count_leaders
from natstui.model.servers.server import Meta, Servers, ServerState, rates_between
from natstui.model.servers.text import removable_members, summary
from natstui.model.servers.watch import NO_SERVERS
from natstui.model.traffic import Traffic
from natstui.tui.frame.action_keys import REMOVE_SERVER, is_allowed
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter, find_filled_specs
from natstui.tui.frame.confirmation import request_and_show_reply
from natstui.tui.frame.live import LiveScreen, RepeatedRequest, ScreenPart
from natstui.tui.frame.requests import SystemEngine, run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.table.view import RowHighlighted
from natstui.tui.servers.cells import SERVER_COLUMNS, ServerView
from natstui.tui.servers.text import monitor_sections, server_sections, system_sections


class ServerRemoval(ScreenPart):
    """The key that removes a peer without replies from the meta group."""

    def __init__(self, screen: LiveScreen, get_servers: Callable[[], Servers | None]) -> None:
        """Create the key of a screen; `get_servers` returns the newest servers."""
        self._screen, self._get_servers = screen, get_servers

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether the key is offered: live, with a removable peer; None in
        read-only mode.
        """
        state = self._screen.state
        if state.replay is not None or not self.removable_peers():
            return False
        return True if is_allowed(state, REMOVE_SERVER.name) else None

    def removable_peers(self) -> Mapping[str, Meta]:
        """Return name → meta group of the peers that do not reply, and so can be removed."""
        if (servers := self._get_servers()) is None:
            return {}
        replying_names = {row.name for row in servers.rows}
        return {
            name: meta
            for meta in servers.metas
            for name in removable_members(meta, replying_names)
        }

    def action_remove(self) -> None:
        """Prompt for a removable peer and its typed name, and remove the peer."""
        run_task(self._screen, self._remove, self._screen.shown_engine, self.removable_peers())

    async def _remove(self, engine: SystemEngine, peers: Mapping[str, Meta]) -> None:
        app = self._screen.app
        options = [(name, f"of {meta.cluster}; no contact") for name, meta in peers.items()]
        name = await app.push_screen_wait(PickDialog("Which server will not come back?", options))
        if not name:
            return
        command, title = RemoveServer(0, name), f"remove {name}"
        await request_and_show_reply(self._screen, command, engine, title)


_decoder = decoder_of(Servers)
_REQUEST_INTERVAL_S = 5.0
_MAX_TABLE_ROWS = 12


class ServerScreen(TableScreen):
    """A table of servers; below it the server under the cursor, connection, account and cost."""

    BINDINGS: ClassVar[list[BindingType]] = [REMOVE_SERVER.binding("part('removing', 'remove')")]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = SERVER_COLUMNS
    NOUN = "servers"
    DEFAULT_ORDER = SortAndFilter("name")
    DEFAULT_CSS = "ServerScreen #texts { height: 1fr; }"

    system_text = getters.query_one("#around", SectionText)
    server = getters.query_one("#server", SectionText)
    monitor_text = getters.query_one("#monitor", SectionText)

    def __init__(self) -> None:
        super().__init__()
        self._clear_rows()
        self.removing = ServerRemoval(self, lambda: self._newest_servers)
        self._repeated_request = RepeatedRequest(
            self, lambda: ReadServers(0), _REQUEST_INTERVAL_S, self._store_reply, self._clear_rows
        )

    def _clear_rows(self) -> None:
        """Discard the servers read so far."""
        self._newest_servers: Servers | None = None
        self._rates: Mapping[str, Traffic] = {}
        self._leaders = LeaderCounts()
        self._error_text = ""

    def body(self) -> Iterable[Widget]:
        """Yield the table and three texts: side by side, on a narrow screen one below another."""
        yield from super().body()
        texts = Horizontal(
            SectionText(id="around"),
            SectionText(id="server"),
            SectionText(id="monitor"),
            id="two-texts",
        )
        texts_scroll = VerticalScroll(texts, id="texts")
        texts_scroll.border_title = "This system"
        yield texts_scroll

    def on_mount(self) -> None:
        """Start the repeated request for the servers."""
        self._repeated_request.start()

    def refresh_state(self) -> None:
        """Show the newer state, and send the repeated request if it is due."""
        self._repeated_request.send_if_due()
        if self.state.replay is not None:
            self._leaders = count_leaders(self.state.streams.columns, self.state.consumers.columns)
        super().refresh_state()
        rows = len(self.view().rows())
        self.table.styles.height = 1 + max(1, min(rows, _MAX_TABLE_ROWS))
        self.server.show(server_sections(self.state))
        self.monitor_text.show(monitor_sections(self.state))
        self._show_selected_server()

    @property
    def _servers(self) -> Servers | None:
        """Return the newest servers: in a replay the recorded ones, else those last read."""
        return self._newest_servers if self.state.replay is None else self.state.servers.newest

    def _store_reply(self, reply: Answered) -> None:
        """Store the servers of a reply; after an error store its text and keep the servers."""
        if reply.status != "done" or reply.body_json is None:
            self._error_text = clean_line(reply.text)
            return
        had_removable_peers = bool(self.removing.removable_peers())
        previous_servers, self._newest_servers = (
            self._newest_servers,
            _decoder.decode(reply.body_json),
        )
        self._error_text = ""
        if bool(self.removing.removable_peers()) is not had_removable_peers:
            self.refresh_bindings()
        self._rates = (
            {}
            if previous_servers is None
            else rates_between(previous_servers, self._newest_servers)
        )
        # Not with every poll: it reads each replica of each row.
        self._leaders = count_leaders(self.state.streams.columns, self.state.consumers.columns)

    def view(self) -> ServerView:
        """Return the rows: the newest servers, and those known from the state."""
        state = self.state
        watch = NO_SERVERS if self._servers is None else state.servers
        # Before the second reply, and in a replay, the rates are those of the state.
        rates = self._rates if self._rates and state.replay is None else state.servers.rates
        return ServerView(self._servers, rates, self._leaders, watch, shown_at_us(state))

    def default_specs(
        self, view: Any, specs: Sequence[ColumnSpec[Any]]
    ) -> Sequence[ColumnSpec[Any]]:
        """Return the columns for which at least one server reported a value."""
        return find_filled_specs(view, specs, view.rows())

    def empty_text(self, total: int) -> str:
        """Return the text of an empty table: the reason why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return "this recording has no servers"
        if self._newest_servers is not None and not self._error_text:
            return "no server could be read: UNAVAILABLE says why"
        return self._error_text or "querying every server …"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: error, source of the rows, sort order, and whether it is paused."""
        counts_text = super().caption_text(shown, total)
        if (servers := self._servers) is None:
            return counts_text
        parts = [clean_line(summary(servers)), counts_text.partition("  ·  ")[2]]
        if self.has_class("-narrow"):
            parts = parts[:1]
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._error_text, *parts] if self._error_text else parts)

    @on(RowHighlighted)
    def _show_selected_server(self) -> None:
        """Show the details of the server under the cursor, and the texts about all servers."""
        leaders = LeaderCounts() if self._servers is None else self._leaders
        sections = system_sections(self._servers, self.item_under_cursor(ServerState), leaders)
        self.system_text.show(sections)
        # Without content, the other texts get the space.
        self.system_text.display = bool(sections)
