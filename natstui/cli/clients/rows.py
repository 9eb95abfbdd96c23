"""Connections, and clients that a tap found, as tables for people and as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from natstui.clean import clean_line
from natstui.cli.text_table import Column, stdout_width, table
from natstui.model.clients.connection import ClientConnection, Connections, Traffic
from natstui.model.clients.requests import Asker, TappedRequests
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
COST = ("elapsed_s", "ended", "read_msgs", "read_bytes", "questions_count", "anonymous_msgs",
        "gone_msgs")  # fmt: skip
_SHOWN_COUNT = 3


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
    return sorted(rows, key=lambda row: (row.server_name, row.server_id, row.connection_id))


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
