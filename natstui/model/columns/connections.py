"""The columns of connections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from natstui.model.clients.connection import ClientConnection
from natstui.model.columns.column import Column, column, text_or_dash
from natstui.model.columns.traffic import rate_columns, total_columns
from natstui.model.traffic import Traffic
from natstui.units import bytes_text, count_text, duration_text, moment_text


class ConnectionRow(NamedTuple):
    """A connection with its traffic per second, if known."""

    connection: ClientConnection
    traffic: Traffic | None = None


def _library(row: ConnectionRow) -> str | None:
    connection = row.connection
    return connection.library or ("leafnode" if connection.kind == "Leafnode" else None)


def _state(row: ConnectionRow) -> str:
    connection = row.connection
    if connection.stopped_at_us is not None:
        return connection.reason or "ended"
    return connection.slow_text or "open"


def _state_level(row: ConnectionRow) -> str:
    connection = row.connection
    if connection.stopped_at_us is not None:
        return "bad" if connection.slow_text else "dim"
    return "warn" if connection.slow_text else "ok"


def _rtt_s(row: ConnectionRow) -> float | None:
    rtt_us = row.connection.rtt_us
    return None if rtt_us is None else rtt_us / 1e6


_text: Callable[..., Column[ConnectionRow]] = partial(column, format=text_or_dash, numeric=False)
_number: Callable[..., Column[ConnectionRow]] = partial(column, format=count_text)

IDENTITY_COLUMNS: tuple[Column[ConnectionRow], ...] = (
    _text("name", "NAME", "Name that the client gave itself.", lambda row: row.connection.name,
          level=lambda row: "strong", priority=0, may_be_cut=True),
    _text("user", "USER", "User of the client: its name, otherwise its public key.",
          lambda row: row.connection.user, priority=6, may_be_cut=True),
    _text("address", "ADDRESS", "Address of the client, as the server sees it.",
          lambda row: row.connection.address, priority=4),
    _text("client", "CLIENT",
          "Language and version of the client library; a leafnode is another server.", _library,
          priority=10, may_be_cut=True),
    _text("server", "SERVER", "Server that the client is connected to.",
          lambda row: row.connection.server_name, priority=3),
)  # fmt: skip
"""The columns that identify a client."""
CONNECTION_COLUMNS: tuple[Column[ConnectionRow], ...] = (
    *IDENTITY_COLUMNS,
    _text("state", "STATE",
          "Open, or why it was closed; whether publishers had to wait for this client.",
          _state, level=_state_level, priority=1, screen_only=True),
    _number("rtt", "RTT", "Round-trip time of the server's last PING to the client, perhaps "
                          "minutes ago.",
            _rtt_s, format=duration_text, dims_unknown=False, priority=7),
    _number("subs", "SUBS", "Number of subscriptions of the client.",
            lambda row: row.connection.subscriptions_count, priority=8),
    _number("pending", "PENDING", "Bytes waiting in the server until the client reads them.",
            lambda row: row.connection.pending_bytes, format=bytes_text,
            level=lambda row: "warn" if row.connection.pending_bytes else "", priority=5),
    *rate_columns(lambda row: row.traffic, "sent by the client, between the last two polls.",
                  "received by the client, between the last two polls."),
    *total_columns(lambda row: row.connection, "sent by the client since it connected.",
                   "received by the client since it connected."),
    _number("uptime", "UPTIME", "How long the client has been, or was, connected.",
            lambda row: row.connection.uptime_s, format=duration_text, priority=9),
    _number("idle", "IDLE", "How long the client has neither sent nor received anything.",
            lambda row: row.connection.idle_s, format=duration_text, priority=11),
    _text("slow", "SLOW", "Whether the client did not read fast enough.",
          lambda row: row.connection.slow_text, format=lambda slow_text: slow_text or "",
          priority=4),
    _text("ended", "ENDED", "When the connection was closed.",
          lambda row: row.connection.stopped_at_us, format=moment_text, priority=2),
    _text("reason", "REASON", "Why the connection was closed.", lambda row: row.connection.reason,
          priority=1, may_be_cut=True),
)  # fmt: skip
