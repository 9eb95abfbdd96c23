"""Counts of the clients of the account over time: leaks, reconnects, slow consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import nlargest

from msgspec import Struct, field

from natstui.model.clients.connection import (
    MAX_CONNECTIONS_REASON,
    SLOW_CONSUMER_REASON,
    ClientConnection,
    Connections,
    traffic_between,
)
from natstui.model.traffic import Traffic

CLOSED_WINDOW_US = 60_000_000
"""Time span in which closed connections are counted."""
MAX_CONNECTIONS = 2_000
"""Limit of connections in a record, the busiest first."""
_MAX_LISTED_CLIENTS = 10
_MAX_CLOSED_CLIENTS = 100
_MAX_SUBJECTS_WITH_GROUPS = 1_000
"""Limit of subjects whose queue groups are counted, the subjects with most connections first."""
_INBOX_PREFIX = "_INBOX."


class ClientCount(Struct, frozen=True):
    """A count for a client, or for all clients with the same name."""

    client: str
    times_count: int


class ClosedClient(Struct, frozen=True):
    """A client whose connection ended, by the server's clock."""

    client: str
    started_at_us: int
    active_at_us: int
    """Time of its last activity."""
    stopped_at_us: int


class ClientsRead(Struct, frozen=True):
    """Counts and recently closed clients among the connections of the account. Never recorded."""

    at_us: int
    connections_count: int
    most_subscribed: tuple[ClientCount, ...]
    """Connections with the most subscriptions, the worst first."""
    closed: tuple[ClientCount, ...]
    """Client names with the most closed connections within the last minute."""
    slow: tuple[ClientCount, ...]
    """Client names whose connections were closed by servers for not reading fast enough."""
    missing: str | None = None
    """Reason why closed connections are unknown; None if known."""
    groups_count: dict[str, dict[str, int]] | None = None
    """Subject → queue group (empty: none) → number of connections; None if there are too many
    subscriptions to read."""
    ended: tuple[ClosedClient, ...] = ()
    """Clients whose connections ended within the last minute, the newest first."""
    refused_count: int = 0
    """Clients refused by servers within the last minute because of the account's limit."""


class ConnectionsRead(Struct, frozen=True):
    """The busiest 2,000 open connections of the account.

    Only with `[session] connections = true`, as they have users and addresses.
    """

    at_us: int
    connections: Connections


_MAX_TRAFFIC_INTERVAL_US = 120_000_000
"""Maximum time between two readings for a rate."""


class ConnectionWatch(Struct, frozen=True):
    """The newest connections, with their traffic since the previous reading."""

    newest: Connections
    at_us: int
    """Time of the reading."""
    traffic: Mapping[tuple[str, int], Traffic] = field(default_factory=dict)

    def after(self, reading: ConnectionsRead) -> ConnectionWatch:
        """Return the watch after one more reading.

        Its traffic is empty if the readings are more than 2 minutes apart.
        """
        is_interval_short = 0 < reading.at_us - self.at_us <= _MAX_TRAFFIC_INTERVAL_US
        traffic = traffic_between(self.newest, reading.connections) if is_interval_short else {}
        return ConnectionWatch(reading.connections, reading.at_us, traffic)


def count_groups(rows: Iterable[ClientConnection]) -> dict[str, dict[str, int]]:
    """Return subject → queue group (empty: none) → number of subscribed connections.

    It has the 1,000 subjects with the most connections, without inboxes.
    """
    group_counts_by_subject: dict[str, Counter[str]] = {}
    for row in rows:
        for subject, queue in {
            (subscription.subject, subscription.queue or "") for subscription in row.listening
        }:
            if not subject.startswith(_INBOX_PREFIX):
                group_counts_by_subject.setdefault(subject, Counter())[queue] += 1
    busiest_subjects = nlargest(
        _MAX_SUBJECTS_WITH_GROUPS,
        group_counts_by_subject.items(),
        key=lambda item: item[1].total(),
    )
    return {subject: dict(counts) for subject, counts in busiest_subjects}


def summarize_clients(
    at_us: int,
    rows: Iterable[ClientConnection],
    closed_connections: Iterable[ClientConnection],
    missing_reason: str | None,
    groups: dict[str, dict[str, int]] | None = None,
    clocks_ahead_us: Mapping[str, int] | None = None,
) -> ClientsRead:
    """Return counts of open connections (`rows`) and of connections closed in the last minute.

    `missing_reason` is the reason why closed connections are unknown, None if they are known;
    `groups` is the result of `count_groups`, None if unknown. `clocks_ahead_us` has by server id
    how far the clock of a server is ahead of that of `at_us`.
    """
    clocks_ahead_us = clocks_ahead_us or {}
    clients = [row for row in rows if row.kind == "Client"]
    most_subscribed_connections = sorted(clients, key=lambda client: -client.subscriptions_count)[
        :_MAX_LISTED_CLIENTS
    ]
    recently_closed_connections = [
        connection
        for connection in closed_connections
        if connection.stopped_at_us is not None
        and connection.stopped_at_us - clocks_ahead_us.get(connection.server_id, 0)
        > at_us - CLOSED_WINDOW_US
    ]
    # A refused client retries repeatedly: the account's limit is the cause, not the client.
    ended_connections = [
        connection
        for connection in recently_closed_connections
        if not (connection.reason or "").startswith(MAX_CONNECTIONS_REASON)
    ]
    ended_connections_by_name = Counter(
        connection.name or connection.user or connection.library or "a client"
        for connection in ended_connections
    )
    slow_consumers_by_name = Counter(
        connection.display_name
        for connection in recently_closed_connections
        if connection.reason is not None and connection.reason.startswith(SLOW_CONSUMER_REASON)
    )
    return ClientsRead(
        at_us,
        len(clients),
        tuple(
            ClientCount(connection.display_name, connection.subscriptions_count)
            for connection in most_subscribed_connections
        ),
        tuple(
            ClientCount(*name_and_count)
            for name_and_count in ended_connections_by_name.most_common(_MAX_LISTED_CLIENTS)
        ),
        tuple(
            ClientCount(*name_and_count)
            for name_and_count in slow_consumers_by_name.most_common(_MAX_LISTED_CLIENTS)
        ),
        missing_reason,
        groups,
        _list_closed_clients(ended_connections),
        len(recently_closed_connections) - len(ended_connections),
    )


def _list_closed_clients(
    ended_connections: Iterable[ClientConnection],
) -> tuple[ClosedClient, ...]:
    """Return the clients of ended connections, the newest first."""
    closed_clients = [
        ClosedClient(
            connection.display_name,
            connection.started_at_us,
            connection.active_at_us,
            connection.stopped_at_us,
        )
        for connection in ended_connections
        if connection.kind == "Client" and connection.stopped_at_us is not None
    ]
    return tuple(
        sorted(closed_clients, key=lambda connection: -connection.stopped_at_us)[
            :_MAX_CLOSED_CLIENTS
        ]
    )
