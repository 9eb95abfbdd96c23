"""The clients of the account over time, as facts: who leaks, who flaps, who was too slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest

from natstui.model.clients.connection import (
    REFUSED,
    SLOW,
    ClientConnection,
    Connections,
    traffic_between,
)
from natstui.model.traffic import Traffic

WINDOW_US = 60_000_000
"""Connections that were closed within so long are counted."""
MOST_CONNECTIONS = 2_000
"""Of connections that are passed on one by one, the busiest."""
_KEPT_COUNT = 10
_ENDED_COUNT = 100
_SUBJECTS_COUNT = 1_000
"""Subjects of which the queue groups are passed on: those of the most connections."""
_INBOX = "_INBOX."


@dataclass(frozen=True, slots=True)
class ClientCount:
    """A client, or all that bear the same name, and how often something was found of it."""

    client: str
    times_count: int


@dataclass(frozen=True, slots=True)
class ClosedClient:
    """A client whose connection ended, by the server's clock."""

    client: str
    started_at_us: int
    active_at_us: int
    """When it sent or received something last."""
    stopped_at_us: int


@dataclass(frozen=True, slots=True)
class ClientsRead:
    """Facts about the connections of the account now. Never recorded."""

    at_us: int
    connections_count: int
    subscribed: tuple[ClientCount, ...]
    """Connections with the most subscriptions, the worst first."""
    closed: tuple[ClientCount, ...]
    """Names whose connections were closed most often within the last minute."""
    slow: tuple[ClientCount, ...]
    """Names of which the servers closed connections that did not read fast enough."""
    missing: str | None = None
    """Why the closed ones are not known, if they are not."""
    groups_count: dict[str, dict[str, int]] | None = None
    """Subject → queue group, empty for none → connections that subscribe so; None where there are
    too many subscriptions to read them all."""
    ended: tuple[ClosedClient, ...] = ()
    """Clients whose connections ended within the last minute, the newest first."""
    refused_count: int = 0
    """Clients that servers refused within the last minute: the account has no room for more."""


@dataclass(frozen=True, slots=True)
class ConnectionsRead:
    """The open connections of the account now, the busiest 2,000 of them.

    Only where `[session] connections = true` asks for it: they hold users and addresses.
    """

    at_us: int
    connections: Connections


_TRAFFIC_US = 120_000_000
"""Between readings so far apart, a rate says little of either moment."""


@dataclass(frozen=True, slots=True)
class ConnectionWatch:
    """The connections as they were read last, and what each sent and got since the time before."""

    newest: Connections
    at_us: int
    """When they were read."""
    traffic: Mapping[tuple[str, int], Traffic] = field(default_factory=dict)

    def after(self, read: ConnectionsRead) -> ConnectionWatch:
        """Return the same after one more reading."""
        near = 0 < read.at_us - self.at_us <= _TRAFFIC_US
        traffic = traffic_between(self.newest, read.connections) if near else {}
        return ConnectionWatch(read.connections, read.at_us, traffic)


def subscribed_groups(rows: Iterable[ClientConnection]) -> dict[str, dict[str, int]]:
    """Return how many connections subscribe to each subject in which queue group.

    Inboxes are left out: each is of one client.
    """
    groups: dict[str, Counter[str]] = {}
    for row in rows:
        for subject, queue in {(each.subject, each.queue or "") for each in row.listening}:
            if not subject.startswith(_INBOX):
                groups.setdefault(subject, Counter())[queue] += 1
    most = nlargest(_SUBJECTS_COUNT, groups.items(), key=lambda item: item[1].total())
    return {subject: dict(counts) for subject, counts in most}


def clients_read(
    at_us: int,
    rows: Iterable[ClientConnection],
    closed: Iterable[ClientConnection],
    missing: str | None,
    groups: dict[str, dict[str, int]] | None = None,
) -> ClientsRead:
    """Return the facts about open and closed connections."""
    clients = [row for row in rows if row.kind == "Client"]
    subscribed = sorted(clients, key=lambda client: -client.subscriptions_count)[:_KEPT_COUNT]
    recent = [
        one
        for one in closed
        if one.stopped_at_us is not None and one.stopped_at_us > at_us - WINDOW_US
    ]
    # A client that is refused tries again and again; that there is no room is its cause.
    ended = [one for one in recent if not (one.reason or "").startswith(REFUSED)]
    named = Counter(one.name or one.user or one.library or "a client" for one in ended)
    slow = Counter(
        one.called for one in recent if one.reason is not None and one.reason.startswith(SLOW)
    )
    return ClientsRead(
        at_us,
        len(clients),
        tuple(ClientCount(one.called, one.subscriptions_count) for one in subscribed),
        tuple(ClientCount(*each) for each in named.most_common(_KEPT_COUNT)),
        tuple(ClientCount(*each) for each in slow.most_common(_KEPT_COUNT)),
        missing,
        groups,
        _closed_clients(ended),
        len(recent) - len(ended),
    )


def _closed_clients(ended: Iterable[ClientConnection]) -> tuple[ClosedClient, ...]:
    """Return clients whose connections ended, the newest first."""
    closed = [
        ClosedClient(one.called, one.started_at_us, one.active_at_us, one.stopped_at_us)
        for one in ended
        if one.kind == "Client" and one.stopped_at_us is not None
    ]
    return tuple(sorted(closed, key=lambda one: -one.stopped_at_us)[:_ENDED_COUNT])
