"""Connections as a table for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from natstui.clean import clean_line
from natstui.cli.text_table import Column, table
from natstui.model.clients.connection import ClientConnection, Connections, Traffic
from natstui.model.clients.words import summary
from natstui.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    duration_text,
    moment_text,
    rate_text,
)

Rates = Mapping[tuple[str, int], Traffic]

_FIRST = (
    Column("NAME", numeric=False, shrinks=True),
    Column("USER", numeric=False, shrinks=True, drop_order=2),
    Column("ADDRESS", numeric=False),
    Column("CLIENT", numeric=False, shrinks=True, drop_order=3),
    Column("RTT", drop_order=8),
    Column("SUBS", drop_order=7),
    Column("PENDING", drop_order=6),
    Column("IN MSGS", drop_order=4),
    Column("IN BYTES", drop_order=10),
    Column("OUT MSGS", drop_order=4),
    Column("OUT BYTES", drop_order=10),
)
_RATES = (
    Column("IN/S", drop_order=1),
    Column("IN B/S", drop_order=9),
    Column("OUT/S", drop_order=1),
    Column("OUT B/S", drop_order=9),
)
_LAST = (
    Column("UPTIME", drop_order=5),
    Column("IDLE", drop_order=5),
    Column("SERVER", numeric=False, drop_order=2),
    Column("SLOW", numeric=False, drop_order=1),
)
_ENDED = (
    Column("ENDED", numeric=False),
    Column("REASON", numeric=False, shrinks=True),
)


def connection_lines(
    seen: Connections, rates: Rates | None, *, closed: bool, width_cells: int | None
) -> list[str]:
    """Return what was seen as lines: a sentence, then a table, ordered by server and number."""
    columns = (
        *_FIRST,
        *(_RATES if rates is not None else ()),
        *_LAST,
        *(_ENDED if closed else ()),
    )
    rows = [_cells(one, rates, closed=closed) for one in ordered(seen.rows)]
    return [clean_line(summary(seen, closed=closed)), *table(columns, rows, width_cells)]


def ordered(rows: Iterable[ClientConnection]) -> list[ClientConnection]:
    """Return connections by server and the order in which they came."""
    return sorted(rows, key=lambda one: (one.server_name, one.server_id, one.connection_id))


def _cells(one: ClientConnection, rates: Rates | None, *, closed: bool) -> Sequence[str]:
    cells = [
        one.name or UNKNOWN,
        one.user or UNKNOWN,
        one.address,
        _library(one),
        duration_text(None if one.rtt_us is None else one.rtt_us / 1e6),
        count_text(one.subscriptions_count),
        bytes_text(one.pending_bytes),
        count_text(one.in_msgs),
        bytes_text(one.in_bytes),
        count_text(one.out_msgs),
        bytes_text(one.out_bytes),
    ]
    if rates is not None:
        cells += _rate_cells(rates.get(one.key))
    cells += [duration_text(one.uptime_s), duration_text(one.idle_s), one.server_name]
    cells.append(one.was_slow or "")
    return [*cells, moment_text(one.stopped_at_us), one.reason or UNKNOWN] if closed else cells


def place_columns() -> tuple[Column, ...]:
    """Return the columns that say who and where a client is."""
    server = Column("SERVER", numeric=False, drop_order=1)
    return (*(one for one in _FIRST if not one.numeric), server)


def place_cells(one: ClientConnection) -> list[str]:
    """Return the cells that say who and where a client is."""
    return [one.name or UNKNOWN, one.user or UNKNOWN, one.address, _library(one), one.server_name]


def _library(one: ClientConnection) -> str:
    return one.library or ("leafnode" if one.kind == "Leafnode" else UNKNOWN)


def _rate_cells(rates: Traffic | None) -> list[str]:
    if rates is None:
        return [UNKNOWN] * len(_RATES)
    return [
        rate_text(rates.in_msgs_per_s),
        bytes_text(rates.in_bytes_per_s),
        rate_text(rates.out_msgs_per_s),
        bytes_text(rates.out_bytes_per_s),
    ]


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
