"""Connections, and clients whose requests were read, as tables and as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence

from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.text_table import (
    TextColumn,
    entity_table,
    stdout_width,
    table,
    text_column,
    text_table_columns,
)
from natstui.model.clients.connection import ClientConnection, Connections
from natstui.model.clients.requests import Requester, TappedRequests
from natstui.model.clients.text import connections_summary
from natstui.model.columns.connections import CONNECTION_COLUMNS, IDENTITY_COLUMNS, ConnectionRow
from natstui.model.columns.traffic import RATE_COLUMN_KEYS
from natstui.model.traffic import Traffic
from natstui.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    duration_text,
)

TrafficByServerAndConnectionId = Mapping[tuple[str, int], Traffic]
"""Id of a server and number of a connection on it → traffic per second."""

_END_COLUMN_KEYS = frozenset(("ended", "reason"))
_CLIENT_COLUMNS = text_table_columns(IDENTITY_COLUMNS)
READING_STATISTICS_FIELDS = (
    "elapsed_s", "ended", "read_msgs", "read_bytes", "questions_count", "anonymous_msgs",
    "gone_msgs",
)  # fmt: skip
_MAX_SHOWN_SUBJECTS = 3


def connection_lines(
    connections_read: Connections,
    rates: TrafficByServerAndConnectionId | None,
    *,
    closed: bool,
    width_cells: int | None,
) -> list[str]:
    """Return connections as lines: a sentence, then a table in the order of `sort_connections`.

    `rates` add columns of messages and bytes per second, `closed` columns of the end and its
    reason. `width_cells` is the width of the terminal; None for a pipe, which has no limit.
    """
    connections = [
        ConnectionRow(client_connection, (rates or {}).get(client_connection.key))
        for client_connection in sort_connections(connections_read.rows)
    ]
    left_out_keys = (frozenset() if rates is not None else RATE_COLUMN_KEYS) | (
        frozenset() if closed else _END_COLUMN_KEYS
    )
    columns = text_table_columns(CONNECTION_COLUMNS, left_out_keys)
    lines = entity_table(columns, connections, width_cells)
    return [clean_line(connections_summary(connections_read, closed=closed)), *lines]


def sort_connections(rows: Iterable[ClientConnection]) -> list[ClientConnection]:
    """Return connections ordered by server name, then by connection id: the oldest first."""
    return sorted(rows, key=lambda row: (row.server_name, row.server_id, row.connection_id))


def client_columns() -> list[TextColumn]:
    """Return the table columns of a client: name, user, address, client library, server."""
    return [text_column(column) for column in _CLIENT_COLUMNS]


def client_cells(connection: ClientConnection) -> list[str]:
    """Return the cells of a client, in the order of `client_columns`."""
    return [column.text(ConnectionRow(connection)) for column in _CLIENT_COLUMNS]


def connections_json(
    connections_read: Connections, rates: TrafficByServerAndConnectionId | None
) -> str:
    """Return the connections as one JSON object of printable ASCII.

    It has `schema`, `servers`, `silent` (servers without a reply) and `connections`, whose fields
    have their units in their names; times are UTC µs.
    """
    json_fields = {
        "schema": 1,
        "servers": [to_builtins(server) for server in connections_read.servers],
        "silent": list(connections_read.silent),
        "connections": [
            connection_json(client_connection, rates)
            for client_connection in sort_connections(connections_read.rows)
        ],
    }
    return json.dumps(json_fields).replace("\x7f", "\\u007f")


def connection_json(
    client_connection: ClientConnection, rates: TrafficByServerAndConnectionId | None = None
) -> dict[str, object]:
    """Return the fields of a connection for JSON; times are UTC µs.

    `rates` add its traffic per second, null where it is unknown; None adds nothing.
    """
    connection_fields: dict[str, object] = to_builtins(client_connection)
    # The subscriptions were not requested: an empty list would mean that there are none.
    del connection_fields["listening"]
    connection_fields["was_slow"] = client_connection.slow_text
    if rates is not None:
        traffic = rates.get(client_connection.key)
        names = Traffic.__struct_fields__
        connection_fields |= to_builtins(traffic) if traffic is not None else dict.fromkeys(names)
    return connection_fields


def requester_lines(
    requests: TappedRequests,
    count_title: str,
    details_title: str,
    *,
    is_publish: bool = False,
    pins: Sequence[str] = (),
) -> list[str]:
    """Return the lines of a table of the clients whose requests were read; a sentence if none
    was.

    `count_title` is the title of the column with the number of requests, `details_title` that of
    the column with their subjects or batches. With `is_publish`, a column has sizes in bytes,
    otherwise deliveries. `pins` are pin ids of priority groups: if any, a column has the pins of
    each client.
    """
    if not requests.requesters:
        return ["no client was found"]
    columns = (
        *client_columns(),
        TextColumn(count_title),
        TextColumn("SIZE" if is_publish else "DELIVERED", priority=2),
        TextColumn(details_title, numeric=False, may_be_cut=True),
        TextColumn("LAST SEEN"),
        *([TextColumn("PINNED", numeric=False)] if pins else ()),
    )
    rows = [_requester_cells(requester, is_publish, pins) for requester in requests.requesters]
    return table(columns, rows, stdout_width())


def _requester_cells(requester: Requester, is_publish: bool, pins: Sequence[str]) -> list[str]:
    last_request_age_s = max(0.0, time.time() - requester.last_at_us / 1e6)
    if requester.connection is not None:
        cells = client_cells(requester.connection)
    else:
        unknown_cells = [UNKNOWN] * (len(client_columns()) - 1)
        cells = [
            f"account {requester.account}" if requester.account else "another account",
            *unknown_cells,
        ]
    left_out_count = len(requester.about) - _MAX_SHOWN_SUBJECTS
    details_text = ", ".join(requester.about[:_MAX_SHOWN_SUBJECTS]) + (
        f" +{left_out_count}" if left_out_count > 0 else ""
    )
    cells.append(count_text(requester.requests_count))
    delivered_text = count_text(requester.delivered_msgs)
    cells.append(bytes_text(requester.request_bytes) if is_publish else delivered_text)
    cells += [details_text, f"{duration_text(last_request_age_s)} ago"]
    return [*cells, ", ".join(pin for pin in pins if pin in requester.pins)] if pins else cells


def requester_json(
    requester: Requester, count_field: str, details_field: str
) -> dict[str, object]:
    """Return a client whose requests were read, for JSON; times are UTC µs.

    `count_field` is the name of the field with the number of its requests, `details_field` that of
    the field with their subjects or batches.
    """
    return {
        "connection": None
        if requester.connection is None
        else connection_json(requester.connection),
        "account": requester.account,
        count_field: requester.requests_count,
        "request_bytes": requester.request_bytes,
        details_field: list(requester.about),
        "last_at_us": requester.last_at_us,
        "delivered_msgs": requester.delivered_msgs,
        "longest_wait_s": requester.longest_wait_s,
        "pins": list(requester.pins),
    }
