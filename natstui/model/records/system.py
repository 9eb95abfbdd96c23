"""Commands about the system around the account: connections and servers."""

from __future__ import annotations

from msgspec import Struct

from natstui.model.records.confirmation import Confirmation


class ReadConnections(Struct, frozen=True):
    """Reply with the connections of the account on every server, as `Connections`."""

    command_id: int
    closed: bool
    """Whether closed connections are read instead."""
    rows_count: int
    """Limit of rows, the busiest first."""


class ReadConnection(Struct, frozen=True):
    """Reply with one connection and its subscriptions, as `Connections` of one row or none."""

    command_id: int
    server_id: str
    connection_id: int


class ReadClients(Struct, frozen=True):
    """Reply with the clients of a consumer, or the publishers of a stream, as `FoundClients`.

    Pull requests and published messages are observed for some time, for one such command at a
    time; subscribers are known at once.
    """

    command_id: int
    stream: str
    consumer: str | None
    """None: search the publishers of the stream."""
    for_s: float


class StopReadingClients(Struct, frozen=True):
    """Reply to `ReadClients` now, with the clients found so far."""

    command_id: int


class ReadServers(Struct, frozen=True):
    """Reply with the servers, as far as they may be read, as `Servers`."""

    command_id: int


class KickConnection(Struct, frozen=True):
    """Close one connection; only the system account may."""

    command_id: int
    server_id: str
    connection_id: int
    started_at_us: int
    """Start of the connection that was shown: its number may be another one's by now."""
    confirmed: str | None = None
    """Its name, as typed by the user."""
    decided_on: Confirmation | None = None
    """The confirmation that was shown: in another system nothing is closed."""


class RemoveServer(Struct, frozen=True):
    """Remove a server from the meta group for good; only the system account may."""

    command_id: int
    server: str
    confirmed: str | None = None
    """Its name, as the user typed it."""
    decided_on: Confirmation | None = None
    """The confirmation that was shown: if the losses are others now, nothing is removed."""


SystemCommand = (
    ReadConnections
    | ReadConnection
    | ReadClients
    | StopReadingClients
    | ReadServers
    | KickConnection
    | RemoveServer
)
