"""The servers of the system; below them our permissions, and the cost of monitoring."""

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
from natstui.model.servers.leaders import Leaders, leaders_of
from natstui.model.servers.server import Meta, Servers, ServerSeen, rates_between
from natstui.model.servers.watch import NO_SERVERS
from natstui.model.servers.words import removable_members, removal_question, summary
from natstui.model.traffic import Traffic
from natstui.tui.frame.action_keys import REMOVE_SERVER, allowed
from natstui.tui.frame.columns import ColumnSpec, Order, with_values
from natstui.tui.frame.live import LiveScreen, Renewing, ScreenPart
from natstui.tui.frame.requests import SystemEngine, run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.table.view import RowHighlighted
from natstui.tui.servers.cells import SERVER_COLUMNS, ServerView
from natstui.tui.servers.text import around_sections, monitor_sections, server_sections


class Removing(ScreenPart):
    """The key that removes a silent peer from the meta group."""

    def __init__(self, screen: LiveScreen, get_servers: Callable[[], Servers | None]) -> None:
        """Create for a screen; `get_servers` returns the newest servers."""
        self._screen, self._seen = screen, get_servers

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether the key is offered: live, with a removable peer; None in
        read-only mode.
        """
        state = self._screen.state
        if state.replay is not None or not self.members():
            return False
        return True if allowed(state, REMOVE_SERVER.name) else None

    def members(self) -> Mapping[str, Meta]:
        """Return the removable peers by name: those that do not reply."""
        if (servers := self._seen()) is None:
            return {}
        replying = {row.name for row in servers.rows}
        return {name: meta for meta in servers.metas for name in removable_members(meta, replying)}

    def action_remove(self) -> None:
        """Pick a peer, prompt for its name, and remove it."""
        run_task(self._screen, self._remove, self._screen.engine, self.members())

    async def _remove(self, engine: SystemEngine, peers: Mapping[str, Meta]) -> None:
        app = self._screen.app
        options = [(name, f"of {meta.cluster}; no contact") for name, meta in peers.items()]
        name = await app.push_screen_wait(Pick("Which server will not come back?", options))
        if not name:
            return
        title = f"{removal_question(peers[name], name)}. Type {name} to confirm"
        typed_name = await app.push_screen_wait(Prompt(title, word_to_type=name))
        if typed_name is not None:
            engine.start(RemoveServer(0, name, typed_name), f"remove {name}")


_decoder = decoder_of(Servers)
_RENEWED_AFTER_S = 5.0
_MOST_ROWS = 12


class ServerScreen(TableScreen):
    """A table of servers; the one under the cursor, our connection and our cost below."""

    BINDINGS: ClassVar[list[BindingType]] = [REMOVE_SERVER.binding("part('removing', 'remove')")]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = SERVER_COLUMNS
    NOUN = "servers"
    START = Order("name")
    DEFAULT_CSS = "ServerScreen #texts { height: 1fr; }"

    around = getters.query_one("#around", SectionText)
    server = getters.query_one("#server", SectionText)
    monitor = getters.query_one("#monitor", SectionText)

    def __init__(self) -> None:
        super().__init__()
        self._forget()
        self.removing = Removing(self, lambda: self._seen)
        self._renewing = Renewing(
            self, lambda: ReadServers(0), _RENEWED_AFTER_S, self._keep, self._forget
        )

    def _forget(self) -> None:
        """Discard the rows."""
        self._seen: Servers | None = None
        self._rates: Mapping[str, Traffic] = {}
        self._leaders = Leaders()
        self._problem = ""

    def body(self) -> Iterable[Widget]:
        """Yield the table, and three texts side by side, or below each other on a narrow
        screen.
        """
        yield from super().body()
        texts = Horizontal(
            SectionText(id="around"),
            SectionText(id="server"),
            SectionText(id="monitor"),
            id="two-texts",
        )
        scroll = VerticalScroll(texts, id="texts")
        scroll.border_title = "This system"
        yield scroll

    def on_mount(self) -> None:
        """Start to read the servers repeatedly."""
        self._renewing.begin()

    def refresh_state(self) -> None:
        """Show the newer state, and request the servers again when due."""
        self._renewing.keep_up()
        if self.state.replay is not None:
            self._leaders = leaders_of(self.state.streams.columns, self.state.consumers.columns)
        super().refresh_state()
        rows = 1 if self._shown is None else len(self._shown.rows)
        self.table.styles.height = 1 + max(1, min(rows, _MOST_ROWS))
        self.server.show(server_sections(self.state))
        self.monitor.show(monitor_sections(self.state))
        self._tell()

    @property
    def _shown(self) -> Servers | None:
        """Return the newest servers, read or recorded."""
        return self._seen if self.state.replay is None else self.state.servers.newest

    def _keep(self, reply: Answered) -> None:
        """Store newer rows; after an error the old ones stay, with the reason."""
        if reply.status != "done" or reply.body_json is None:
            self._problem = clean_line(reply.text)
            return
        could_remove = bool(self.removing.members())
        before, self._seen = self._seen, _decoder.decode(reply.body_json)
        self._problem = ""
        if bool(self.removing.members()) is not could_remove:
            self.refresh_bindings()
        self._rates = {} if before is None else rates_between(before, self._seen)
        # Not with every poll: it looks at each replica of each row.
        self._leaders = leaders_of(self.state.streams.columns, self.state.consumers.columns)

    def view(self) -> ServerView:
        """Return the servers that are known so far."""
        state = self.state
        watch = NO_SERVERS if self._shown is None else state.servers
        # Until it was asked twice here, those that are known anyway, as in a recording.
        rates = self._rates if self._rates and state.replay is None else state.servers.rates
        return ServerView(self._shown, rates, self._leaders, watch, shown_at_us(state))

    def offered(self, view: Any, specs: Sequence[ColumnSpec[Any]]) -> Sequence[ColumnSpec[Any]]:
        """Return the columns without those that no server reported: the text below explains it."""
        return with_values(view, specs, view.rows())

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return "this recording has no servers"
        if self._seen is not None and not self._problem:
            return "no server could be read: UNAVAILABLE says why"
        return self._problem or "asking every server …"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the source of the rows, and what is missing."""
        counts_text = super().caption_text(shown, total)
        if (servers := self._shown) is None:
            return counts_text
        parts = [clean_line(summary(servers)), counts_text.partition("  ·  ")[2]]
        if self.has_class("-narrow"):
            parts = parts[:1]
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._problem, *parts] if self._problem else parts)

    def chosen(self) -> ServerSeen | None:
        """Return the server under the cursor."""
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return None
        server = rows.view.things[rows.order[position]]
        assert isinstance(server, ServerSeen)
        return server

    @on(RowHighlighted)
    def _tell(self) -> None:
        """Show the server under the cursor in full."""
        leaders = Leaders() if self._shown is None else self._leaders
        around = around_sections(self._shown, self.chosen(), leaders)
        self.around.show(around)
        # The others have its room when there is nothing in it.
        self.around.display = bool(around)
