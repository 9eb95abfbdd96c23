"""The connections of an account, as reported by every server of the cluster."""

from __future__ import annotations

from msgspec import Struct

from natstui.model.traffic import Traffic, traffic_of
from natstui.values import replace

SLOW_CONSUMER_REASON = "Slow Consumer"
"""Prefix of the server's reason for closing a connection that did not read fast enough."""
MAX_CONNECTIONS_REASON = "Maximum Account Connections"
"""Prefix of the server's reason for refusing a connection above the account's limit."""


class Subscription(Struct, frozen=True):
    """A subscription of a connection (`subscriptions_list_detail`)."""

    subject: str
    queue: str | None
    """Its queue group."""
    delivered_msgs: int
    """Number of messages that the server sent for it."""


class ClientConnection(Struct, frozen=True):
    """A connection to a server; `server_id` and `connection_id` together identify it."""

    server_id: str
    connection_id: int
    """`cid`, unique per server."""
    server_name: str
    kind: str
    """`Client`, or `Leafnode` for another server."""
    protocol: str | None
    """`nats`, `mqtt` or `websocket`."""
    name: str | None
    """The name that the client sent when it connected; None without one."""
    user: str | None
    address: str
    """`ip:port`, as the server sees it."""
    language: str | None
    version: str | None
    """Version of the client library."""
    tls_version: str | None
    rtt_us: int | None
    """Round-trip time of the server's last PING, which may be minutes ago."""
    subscriptions_count: int
    pending_bytes: int
    """Bytes that wait in the server until the client reads them."""
    stalls_count: int
    """Number of times that a publisher had to wait because this client did not read."""
    in_msgs: int
    """Messages from the client to the server."""
    in_bytes: int
    out_msgs: int
    """Messages from the server to the client."""
    out_bytes: int
    started_at_us: int
    """Start of the connection by the server's clock, as all times here."""
    active_at_us: int
    uptime_s: float
    idle_s: float
    stopped_at_us: int | None = None
    """Time of its end; None while it is connected."""
    reason: str | None = None
    """The server's reason of its end."""
    listening: tuple[Subscription, ...] = ()
    """Its subscriptions, if they were requested."""

    @property
    def key(self) -> tuple[str, int]:
        """Return the identity: server id and connection id."""
        return self.server_id, self.connection_id

    @property
    def display_name(self) -> str:
        """Return the name of the client, else its address."""
        return self.name or self.address

    @property
    def library(self) -> str | None:
        """Return language and version of the client library, as `go 1.48.0`; None if unknown."""
        return " ".join(word for word in (self.language, self.version) if word) or None

    @property
    def slow_text(self) -> str | None:
        """Return the effect of a client that reads too slowly, as text; None without one."""
        if self.reason is not None and self.reason.startswith(SLOW_CONSUMER_REASON):
            return "cut off"
        return "stalled publishers" if self.stalls_count else None


class AccountServer(Struct, frozen=True):
    """A server of the cluster that reported its connections of the account."""

    server_id: str
    name: str
    cluster: str | None
    version: str | None
    at_us: int
    """Time of its reply, by its own clock."""
    total_count: int
    """Connections of the account on this server."""
    slow_consumers_count: int | None = None
    """Slow consumers of the account since the server's start; None if unknown."""


class Connections(Struct, frozen=True):
    """The connections of the account at one time."""

    servers: tuple[AccountServer, ...]
    rows: tuple[ClientConnection, ...]
    silent: tuple[str, ...] = ()
    """Servers that stopped replying during the reading: some of their rows are missing."""
    left_out_count: int = 0
    """Number of rows that were read but left out."""


def busiest_connections(connections: Connections, max_count: int) -> Connections:
    """Return at most `max_count` connections, those with the most messages."""
    left_out_count = len(connections.rows) - max_count
    if left_out_count <= 0:
        return connections
    rows = sorted(connections.rows, key=lambda row: -row.in_msgs - row.out_msgs)[:max_count]
    return replace(connections, rows=tuple(rows), left_out_count=left_out_count)


def traffic_between(before: Connections, after: Connections) -> dict[tuple[str, int], Traffic]:
    """Return the traffic per second of the connections in both readings, by `key`: the ids of
    server and connection.
    """
    at_us_before_by_server = {server.server_id: server.at_us for server in before.servers}
    elapsed_s_by_server = {
        server.server_id: (server.at_us - at_us_before_by_server[server.server_id]) / 1e6
        for server in after.servers
        if server.at_us > at_us_before_by_server.get(server.server_id, server.at_us)
    }
    connection_before_by_key = {row.key: row for row in before.rows}
    # A restarted server has another id, and counts its connections from 1 again.
    traffic_by_key = {}
    for connection in after.rows:
        if (
            connection.key in connection_before_by_key
            and connection.server_id in elapsed_s_by_server
        ):
            traffic = traffic_of(
                connection_before_by_key[connection.key],
                connection,
                elapsed_s_by_server[connection.server_id],
            )
            if traffic is not None:
                traffic_by_key[connection.key] = traffic
    return traffic_by_key
