"""The table of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from natstui.model.columns.servers import SERVER_COLUMNS as COLUMNS
from natstui.model.columns.servers import ServerRow
from natstui.model.servers.leaders import LeaderCounts
from natstui.model.servers.server import Servers, ServerState
from natstui.model.servers.watch import NO_SERVERS, ServerWatch
from natstui.model.traffic import Traffic
from natstui.tui.frame.columns import ColumnSpec, ItemsView, column_spec
from natstui.tui.kit.table.rows import Cell
from natstui.values import replace


class ServerView(ItemsView[ServerState]):
    """The servers at one moment, by row."""

    def __init__(
        self,
        newest_servers: Servers | None,
        rates: Mapping[str, Traffic],
        leaders: LeaderCounts,
        watch: ServerWatch = NO_SERVERS,
        now_us: int = 0,
    ) -> None:
        """Create a row for each server in `newest_servers`, and each other server in `watch`."""
        replying_rows = () if newest_servers is None else newest_servers.rows
        down_s_by_name = {
            server_down.seen.name: (now_us - server_down.at_us) / 1e6 for server_down in watch.down
        }
        replying_servers = [
            server for server in replying_rows if server.name not in down_s_by_name
        ]
        names = {server.name for server in replying_servers}
        missing_servers = (
            server_seen.seen for name, server_seen in watch.known.items() if name not in names
        )
        servers = (*replying_servers, *missing_servers)
        texts = [
            " ".join(filter(None, (server.name, server.cluster, server.version)))
            for server in servers
        ]
        super().__init__(servers, [(server.name, server.server_id) for server in servers], texts)
        self._rows = [
            ServerRow(
                server,
                None if server.name in down_s_by_name else rates.get(server.server_id),
                None if newest_servers is None else newest_servers.meta_of(server),
                leaders,
                down_s_by_name.get(server.name),
            )
            for server in servers
        ]

    def at(self, row: int) -> ServerRow:
        """Return the server in a row, with its rates and leaders."""
        return self._rows[row]

    def has_problem(self, row: int) -> bool:
        """Return whether the server is down, busy, nearly full, or has slow consumers."""
        server = self._rows[row]
        if server.down_s is not None:
            return True
        return (
            bool(server.seen.slow_consumers_count)
            or server.is_storage_nearly_full
            or server.is_cpu_busy
        )


_COLUMNS = {column.key: column for column in COLUMNS}


def _spec(key: str, width: int, **layout: Any) -> ColumnSpec[ServerView]:
    """Return a column; its cells are red for a server that is down."""
    spec = column_spec(_COLUMNS[key], ServerView.at, width, **layout)

    def cell(view: ServerView, row: int) -> Cell:
        shown_cell = spec.cell(view, row)
        return shown_cell if view.at(row).down_s is None else Cell(shown_cell.text, "bad")

    cell.__doc__ = spec.cell.__doc__
    return replace(spec, cell=cell)


SERVER_COLUMNS: tuple[ColumnSpec[ServerView], ...] = (
    _spec("name", 10, flex=3),
    _spec("meta", 8),
    _spec("version", 7, max_width=14),
    _spec("cluster", 7, max_width=16),
    _spec("uptime", 7),
    _spec("cpu", 9, number_width=4),
    _spec("memory", 8),
    _spec("conns", 5),
    _spec("subs", 5),
    _spec("in_s", 6),
    _spec("out_s", 6),
    _spec("slow", 4),
    _spec("streams_led", 5),
    _spec("consumers_led", 7),
    _spec("behind", 6),
    _spec("file", 13, number_width=8),
    _spec("free", 8),
    _spec("store", 13, number_width=8),
    _spec("ha", 5),
    _spec("inflight", 7),
    _spec("errors", 7),
    _spec("routes", 6),
    _spec("in_b", 8),
    _spec("out_b", 8),
)
