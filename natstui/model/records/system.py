"""Questions about the system around the account: connections and servers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadConnections:
    """Answer with the connections of the account on every server, as `Connections`."""

    command_id: int
    closed: bool
    """Those that ended instead."""
    rows_count: int
    """At most so many, the busiest."""


@dataclass(frozen=True, slots=True)
class ReadConnection:
    """Answer with one connection and its subscriptions, as `Connections` of one row or none."""

    command_id: int
    server_id: str
    connection_id: int


@dataclass(frozen=True, slots=True)
class ReadClients:
    """Answer with who holds a consumer, or publishes to a stream, as `ClientsFound`.

    Pulls and what is published are read for it, once at a time; who subscribes is known at once.
    """

    command_id: int
    stream: str
    consumer: str | None
    """None: who publishes to the stream."""
    for_s: float


@dataclass(frozen=True, slots=True)
class StopReadingClients:
    """Answer `ReadClients` now, with what was found until now."""

    command_id: int


@dataclass(frozen=True, slots=True)
class ReadServers:
    """Answer with the servers, as far as we may know them, as `Servers`."""

    command_id: int


@dataclass(frozen=True, slots=True)
class KickConnection:
    """Close one connection; only the system account may."""

    command_id: int
    server_id: str
    connection_id: int
    started_at_us: int
    """When the one that was seen began: the number alone may be another one's by then."""
    confirmed: str | None
    """What it is called, as the user typed it."""


@dataclass(frozen=True, slots=True)
class RemoveServer:
    """Take a server out of the meta group for good; only the system account may."""

    command_id: int
    server: str
    confirmed: str | None
    """Its name, as the user typed it."""


SystemCommand = (
    ReadConnections
    | ReadConnection
    | ReadClients
    | StopReadingClients
    | ReadServers
    | KickConnection
    | RemoveServer
)
