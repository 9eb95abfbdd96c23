"""Connections, and clients that a tap found, as tables for people and as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from natstui.clean import clean_line
from natstui.cli.text_table import Column, stdout_width, table, text_column
from natstui.model.clients.connection import ClientConnection, Connections
from natstui.model.clients.requests import Asker, TappedRequests
from natstui.model.clients.words import summary
from natstui.model.columns.connections import CONNECTION_COLUMNS, ConnectionRow
from natstui.model.traffic import Traffic
from natstui.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    duration_text,
)

Rates = Mapping[tuple[str, int], Traffic]

_COLUMNS = {column.key: column for column in CONNECTION_COLUMNS}
_PLACE = {"name": 0, "user": 2, "address": 0, "client": 3, "server": 1}
"""Column → its place among those that are left out where space is short; 0: it never is."""
_FIRST = {
    "name": 0, "user": 2, "address": 0, "client": 3, "rtt": 8, "subs": 7, "pending": 6,
    "in": 4, "in_total": 10, "out": 4, "out_total": 10,
}  # fmt: skip
_RATES = {"in_s": 1, "in_b": 9, "out_s": 1, "out_b": 9}
_LAST = {"uptime": 5, "idle": 5, "server": 2, "slow": 1}
_ENDED = {"ended": 0, "reason": 0}
_SHRINKS = {"name", "user", "client", "reason"}
COST = ("elapsed_s", "ended", "read_msgs", "read_bytes", "questions_count", "anonymous_msgs",
        "gone_msgs")  # fmt: skip
_SHOWN_COUNT = 3


def connection_lines(
    seen: Connections, rates: Rates | None, *, closed: bool, width_cells: int | None
) -> list[str]:
    """Return what was seen as lines: a sentence, then a table, ordered by server and number."""
    shown = _FIRST | (_RATES if rates is not None else {}) | _LAST | (_ENDED if closed else {})
    connections = [ConnectionRow(at, (rates or {}).get(at.key)) for at in ordered(seen.rows)]
    rows = [[_COLUMNS[key].text(row) for key in shown] for row in connections]
    lines = table(_text_columns(shown), rows, width_cells)
    return [clean_line(summary(seen, closed=closed)), *lines]


def _text_columns(shown: Mapping[str, int]) -> list[Column]:
    return [
        text_column(_COLUMNS[key], order, shrinks=key in _SHRINKS) for key, order in shown.items()
    ]


def ordered(rows: Iterable[ClientConnection]) -> list[ClientConnection]:
    """Return connections by server and the order in which they came."""
    return sorted(rows, key=lambda row: (row.server_name, row.server_id, row.connection_id))


def place_columns() -> list[Column]:
    """Return the columns that say who and where a client is."""
    return _text_columns(_PLACE)


def place_cells(connection: ClientConnection) -> list[str]:
    """Return the cells that say who and where a client is."""
    return [_COLUMNS[key].text(ConnectionRow(connection)) for key in _PLACE]


def connections_json(seen: Connections, rates: Rates | None) -> str:
    """Return one JSON object, of printable ASCII only; times are UTC microseconds."""
    whole = {
        "schema": 1,
        "servers": [asdict(server) for server in seen.servers],
        "silent": list(seen.silent),
        "connections": [connection_json(one, rates) for one in ordered(seen.rows)],
    }
    return json.dumps(whole).replace("\x7f", "\\u007f")


def connection_json(one: ClientConnection, rates: Rates | None = None) -> dict[str, object]:
    """Return a connection as an object of JSON."""
    fields = asdict(one)
    # Nobody asked for the subscriptions, and an empty list would say that there are none.
    del fields["listening"]
    fields["was_slow"] = one.was_slow
    if rates is not None:
        known = rates.get(one.key)
        names = Traffic.__dataclass_fields__
        fields |= asdict(known) if known is not None else dict.fromkeys(names)
    return fields


def asker_lines(
    heard: TappedRequests,
    count: str,
    about: str,
    *,
    published: bool = False,
    pins: Sequence[str] = (),
) -> list[str]:
    """Return the clients as a table; `count` and `about` are the titles of what they asked.

    What was `published` has a size; others got messages, and may have sent one of the `pins`.
    """
    if not heard.askers:
        return ["no client was found"]
    columns = (
        *place_columns(),
        Column(count),
        Column("SIZE" if published else "DELIVERED", drop_order=2),
        Column(about, numeric=False, shrinks=True),
        Column("LAST SEEN"),
        *([Column("PINNED", numeric=False)] if pins else ()),
    )
    rows = [_asker_cells(asker, published, pins) for asker in heard.askers]
    return table(columns, rows, stdout_width())


def _asker_cells(one: Asker, published: bool, pins: Sequence[str]) -> list[str]:
    ago_s = max(0.0, time.time() - one.last_at_us / 1e6)
    if one.connection is not None:
        cells = place_cells(one.connection)
    else:
        unknown = [UNKNOWN] * (len(place_columns()) - 1)
        cells = [f"account {one.account}" if one.account else "another account", *unknown]
    more = len(one.about) - _SHOWN_COUNT
    about = ", ".join(one.about[:_SHOWN_COUNT]) + (f" +{more}" if more > 0 else "")
    cells.append(count_text(one.requests_count))
    got = count_text(one.delivered_msgs)
    cells.append(bytes_text(one.request_bytes) if published else got)
    cells += [about, f"{duration_text(ago_s)} ago"]
    return [*cells, ", ".join(pin for pin in pins if pin in one.pins)] if pins else cells


def asker_json(one: Asker, count: str, about: str) -> dict[str, object]:
    """Return a client as an object of JSON; `count` and `about` name what it asked."""
    return {
        "connection": None if one.connection is None else connection_json(one.connection),
        "account": one.account,
        count: one.requests_count,
        "request_bytes": one.request_bytes,
        about: list(one.about),
        "last_at_us": one.last_at_us,
        "delivered_msgs": one.delivered_msgs,
        "longest_wait_s": one.longest_wait_s,
        "pins": list(one.pins),
    }
