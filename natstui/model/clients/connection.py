"""The connections of an account, as every server of the cluster tells them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from natstui.model.traffic import Traffic, traffic_of

SLOW = "Slow Consumer"
"""How the server's reason begins when it ended a connection that did not read fast enough."""
REFUSED = "Maximum Account Connections"
"""How it begins when the account has as many connections as it may have."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription of a connection (`subscriptions_list_detail`)."""

    subject: str
    queue: str | None
    """Its queue group."""
    delivered_msgs: int
    """How many messages the server sent for it."""


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """One connection to one server; `server_id` and `connection_id` together name it."""

    server_id: str
    connection_id: int
    """`cid`: every server counts its own."""
    server_name: str
    kind: str
    """`Client`, or `Leafnode` for a whole other server."""
    protocol: str | None
    """`nats`, `mqtt` or `websocket`."""
    name: str | None
    """What the client calls itself."""
    user: str | None
    address: str
    """`ip:port`, as the server sees it."""
    language: str | None
    version: str | None
    """Of the client's library."""
    tls_version: str | None
    rtt_us: int | None
    """Of the server's last PING, which may be minutes ago."""
    subscriptions_count: int
    pending_bytes: int
    """What waits in the server because the client does not read it."""
    stalls_count: int
    """How often a publisher was made to wait because this client did not read."""
    in_msgs: int
    """What the client sent to the server,"""
    in_bytes: int
    out_msgs: int
    """and what the server sent to the client."""
    out_bytes: int
    started_at_us: int
    """By the server's clock, as all times here."""
    active_at_us: int
    uptime_s: float
    idle_s: float
    stopped_at_us: int | None = None
    """When it ended; None is connected."""
    reason: str | None = None
    """Why it ended."""
    listening: tuple[Subscription, ...] = ()
    """Its subscriptions, where they were asked for."""

    @property
    def key(self) -> tuple[str, int]:
        """Return what no other connection has."""
        return self.server_id, self.connection_id

    @property
    def called(self) -> str:
        """Return what people call it: its own name, else where it comes from."""
        return self.name or self.address

    @property
    def library(self) -> str | None:
        """Return language and version, as `go 1.48.0`."""
        return " ".join(word for word in (self.language, self.version) if word) or None

    @property
    def was_slow(self) -> str | None:
        """Return in which way the client did not read fast enough; None when it did."""
        if self.reason is not None and self.reason.startswith(SLOW):
            return "cut off"
        return "stalled publishers" if self.stalls_count else None


@dataclass(frozen=True, slots=True)
class AccountServer:
    """A server of the cluster that told its part of the account."""

    server_id: str
    name: str
    cluster: str | None
    version: str | None
    at_us: int
    """When it answered, by its own clock."""
    total_count: int
    """Connections of the account there."""
    slow_consumers_count: int | None = None
    """How often one of the account read too slowly, since the server began; None is not known."""


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections of the account at one moment."""

    servers: tuple[AccountServer, ...]
    rows: tuple[ClientConnection, ...]
    silent: tuple[str, ...] = ()
    """Servers that answered at first and then not: rows of theirs are missing."""
    left_out_count: int = 0
    """Rows beyond these that were read."""


def busiest(seen: Connections, most_count: int) -> Connections:
    """Return at most so many of the connections: those that sent and got the most messages."""
    left_out = len(seen.rows) - most_count
    if left_out <= 0:
        return seen
    rows = sorted(seen.rows, key=lambda row: -row.in_msgs - row.out_msgs)[:most_count]
    return replace(seen, rows=tuple(rows), left_out_count=left_out)


def traffic_between(before: Connections, after: Connections) -> dict[tuple[str, int], Traffic]:
    """Return the rates of the connections that both looks saw, by their keys."""
    was_at_us = {server.server_id: server.at_us for server in before.servers}
    elapsed_s = {
        server.server_id: (server.at_us - was_at_us[server.server_id]) / 1e6
        for server in after.servers
        if server.at_us > was_at_us.get(server.server_id, server.at_us)
    }
    old = {row.key: row for row in before.rows}
    # A server that was restarted begins to count its connections again, under another id.
    rates = {}
    for new in after.rows:
        if new.key in old and new.server_id in elapsed_s:
            traffic = traffic_of(old[new.key], new, elapsed_s[new.server_id])
            if traffic is not None:
                rates[new.key] = traffic
    return rates
