"""Questions about the system around the account: connections and servers."""

from __future__ import annotations

from natstui.values import dataclass


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
class ReadServers:
    """Answer with the servers, as far as we may know them, as `Servers`."""

    command_id: int


SystemCommand = ReadConnections | ReadConnection | ReadServers
