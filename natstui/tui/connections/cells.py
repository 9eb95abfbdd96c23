"""The view and columns of the table of connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from natstui.clean import clean_line
from natstui.model.clients.connection import ClientConnection
from natstui.model.columns.connections import CONNECTION_COLUMNS as COLUMNS
from natstui.model.columns.connections import ConnectionRow
from natstui.model.traffic import Traffic
from natstui.tui.frame.columns import ColumnSpec, ItemsView, column_spec
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN


class ConnectionView(ItemsView[ClientConnection]):
    """The rows of the table of connections, with their rates."""

    def __init__(
        self,
        connections: Sequence[ClientConnection],
        traffic_by_connection: Mapping[tuple[str, int], Traffic],
    ) -> None:
        keys = [
            (connection.name or connection.address, *connection.key, connection.server_name)
            for connection in connections
        ]
        texts = [
            " ".join(filter(None, _searchable_texts(connection))) for connection in connections
        ]
        super().__init__(connections, keys, texts)
        self._traffic_by_connection = traffic_by_connection

    def at(self, row: int) -> ConnectionRow:
        """Return the connection of a row with its rates."""
        connection = self.items[row]
        return ConnectionRow(connection, self._traffic_by_connection.get(connection.key))

    def has_problem(self, row: int) -> bool:
        """Return whether the client of a row was a slow consumer."""
        return self.items[row].slow_text is not None


def _searchable_texts(connection: ClientConnection) -> tuple[str | None, ...]:
    return (
        connection.name,
        connection.user,
        connection.address,
        connection.library,
        connection.server_name,
        connection.reason,
    )


def client_text_cell(text: str | None, style_name: str = "") -> Cell:
    """Return the cell with a text that a client sent; unknown for None."""
    return Cell(UNKNOWN, "dim") if text is None else Cell(clean_line(text), style_name)


_COLUMNS = {column.key: column for column in COLUMNS}


def _spec(key: str, width: int, **layout: Any) -> ColumnSpec[ConnectionView]:
    return column_spec(_COLUMNS[key], ConnectionView.at, width, **layout)


CONNECTION_COLUMNS: tuple[ColumnSpec[ConnectionView], ...] = (
    _spec("name", 18, flex=3),
    _spec("state", 10, flex=1),
    _spec("user", 8, flex=1, max_width=20),
    _spec("address", 15, flex=1),
    _spec("client", 14, flex=1),
    _spec("server", 8, max_width=20),
    _spec("rtt", 6),
    _spec("subs", 5),
    _spec("pending", 8),
    _spec("in_s", 6),
    _spec("out_s", 6),
    _spec("in_b", 8),
    _spec("out_b", 8),
    _spec("in", 6),
    _spec("out", 6),
    _spec("uptime", 7),
    _spec("idle", 7),
)
