"""Reads the servers every few seconds and the account's connections twice a minute, by itself.

Where a server has many thousands of connections, they are read less often.

The loss of a server is not published: it is detected by missing replies.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, deque

import msgspec
from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.clock import steady_s
from natstui.errors import NatstuiError, PermissionDenied, RequestFailed, ServerGone
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.asking import ServerRequests
from natstui.jetstream.system.connections import (
    PAGE_COUNT,
    read_closed,
    read_connections,
    read_subscriptions,
)
from natstui.jetstream.system.servers import read_heartbeat, read_servers
from natstui.jetstream.system.source import System
from natstui.model.clients.connection import ClientConnection, Connections, busiest_connections
from natstui.model.clients.watch import (
    MOST_CONNECTIONS,
    ConnectionsRead,
    subscribed_groups,
    summarize_clients,
)
from natstui.model.records.record import Advisory
from natstui.model.servers.server import Missing, Servers
from natstui.model.servers.watch import NO_SERVERS, LoginsRefused, ServersRead, server_changes

BEAT_S = 2.0
"""Interval of checks which servers reply."""
_ALL_S = 10.0
"""Interval of complete readings, which read every stream."""
CLIENTS_S = 30.0
_EARLY_S = 0.1
"""How much before its time a reading may begin: a sleep may end early."""
_CLIENTS_SHARE = 0.005
"""Share of a core of the server for reading its connections."""
_ROW_S, _PASSED_ROW_S = 15e-6, 1.5e-6
"""which nats-server 2.15 needs for a row, and for each that it passes by for a page: measured as
its processor time."""
_CLOSED_COUNT = 256
_MOST_SUBSCRIPTIONS, _MOST_CONNECTIONS = 5_000, 256
"""Of more, it is not read who subscribes to what: it would be megabytes each time."""
_LEAVING = "$SYS.SERVER.*.LAMEDUCK"
_LOGIN_REFUSED = "$SYS.SERVER.*.CLIENT.AUTH.ERR"
_REFUSED_S = 60.0
_REFUSALS_KEPT = 1_000
_MOST_REFUSED_COUNT = 20
_META_ELECTED = "$JS.EVENT.ADVISORY.DOMAIN.LEADER_ELECTED"
_ELECTIONS_KEPT = 16
_REQUESTS_SHARE = 0.2
"""Share of the user's limit of requests per second."""
_BEAT_REQUESTS = 2
_GONE_S = 0.5
_DENIED_S = 120.0
"""Interval of retries without permission to read the servers."""


async def watch_servers(client: Client, sink: Sink, requests_per_s: float | None = None) -> None:
    """Add `ServersRead`, and an `Advisory` for an event of a server, until cancelled.

    What may not be read is named in the record. `requests_per_s` is the user's limit.
    """
    watching = _Watching(client, sink)
    least_s = _BEAT_REQUESTS / (_REQUESTS_SHARE * requests_per_s) if requests_per_s else 0.0
    try:
        while True:
            began_s = steady_s()
            pause_s = await watching.read()
            await asyncio.sleep(max(0.1, max(pause_s, least_s) - (steady_s() - began_s)))
    finally:
        await watching.close()


class _Watching:
    def __init__(self, client: Client, sink: Sink) -> None:
        self._client, self._sink = client, sink
        self._asking, self._system = ServerRequests(client), System(client.connection, client)
        self._watch = NO_SERVERS
        self._before: Servers | None = None
        self._all_due_s = 0.0
        self._leaving: dict[str, None] = {}
        self._elected_at_us: deque[int] = deque(maxlen=_ELECTIONS_KEPT)
        self._refused: deque[tuple[float, tuple[str, str, str | None]]] = deque(
            maxlen=_REFUSALS_KEPT
        )
        """Time of each refused login, with its server, client and user."""
        self._announced = False

    async def read(self) -> float:
        """Read the servers once, and return the seconds from its start to the next time."""
        try:
            servers = await self._read()
        except ServerGone:
            self._before = None
            return _GONE_S
        except RequestFailed as error:
            self._before = None
            servers = Servers("account", (), missing=(Missing("the servers", str(error)),))
        if self._client.leaving is not None:
            self._leaving[self._client.leaving] = None
        read_now = ServersRead(
            _now_us(), servers, tuple(self._leaving), tuple(self._elected_at_us),
            self._logins_refused(),
        )  # fmt: skip
        before, self._watch = self._watch, self._watch.after(read_now)
        for name, server_watched in self._watch.known.items():
            if server_watched.restarted_at_us[-1:] == (read_now.at_us,):
                self._leaving.pop(name, None)
        self._sink.add(read_now)
        for change in server_changes(before, self._watch):
            body = json.dumps({"server": change.server})
            self._sink.add(Advisory(read_now.at_us, change.type, None, None, change.text, body))
        return BEAT_S if servers.rows else _DENIED_S

    async def _read(self) -> Servers:
        before = self._before
        if before is None or steady_s() >= self._all_due_s:
            self._all_due_s = steady_s() + _ALL_S
            # First, so that a server that replies to the reading also sends its events here.
            await self._subscribe()
            self._before = await read_servers(self._asking, self._system)
        else:
            self._before = await read_heartbeat(self._asking, self._system, before)
        return self._before

    async def _subscribe(self) -> None:
        """Subscribe once to events of servers in the system account."""
        if self._announced or self._client.connection.system is None:
            return
        try:
            client = await self._system.client()
            await client.subscribe(_LEAVING, self._leaves, lambda _error: None)
            await client.subscribe(_META_ELECTED, self._elects, lambda _error: None)
            await client.subscribe(_LOGIN_REFUSED, self._refuses, lambda _error: None)
        except NatstuiError:
            # Without it, a server that leaves is found when it does not answer any more.
            return
        self._announced = True

    async def _leaves(self, message: Msg) -> None:
        name = _server_name(message.data)
        if name is not None:
            self._leaving[name] = None

    async def _elects(self, _message: Msg) -> None:
        self._elected_at_us.append(_now_us())

    async def _refuses(self, message: Msg) -> None:
        try:
            refused_login = read("CLIENT.AUTH.ERR", message.data, _LoginRefused)
        except RequestFailed:
            # Anybody who may publish there can forge one.
            return
        client, user = (
            refused_login.client.name or refused_login.client.lang or "a client",
            refused_login.client.user,
        )
        names = (
            clean_line(refused_login.server.name),
            clean_line(client),
            clean_line(user) if user else None,
        )
        self._refused.append((steady_s(), names))

    def _logins_refused(self) -> tuple[LoginsRefused, ...]:
        """Return the refused logins of the last minute."""
        while self._refused and steady_s() - self._refused[0][0] > _REFUSED_S:
            self._refused.popleft()
        counts = Counter(names for _, names in self._refused)
        return tuple(
            LoginsRefused(*names, count)
            for names, count in counts.most_common(_MOST_REFUSED_COUNT)
        )

    async def close(self) -> None:
        """Close the system account's connection."""
        await self._system.close()


class _Server(msgspec.Struct):
    name: str


class _Refused(msgspec.Struct):
    name: str = ""
    user: str | None = None
    lang: str = ""


class _LoginRefused(msgspec.Struct):
    server: _Server
    client: _Refused


def _server_name(data: bytes) -> str | None:
    """Return the name of the server in a lame duck event; None for another message."""
    try:
        name = json.loads(data).get("name")
    except (ValueError, AttributeError, RecursionError):
        # Anybody who may publish there can forge one.
        return None
    return name if isinstance(name, str) else None


async def watch_clients(client: Client, sink: Sink, *, connections: bool = False) -> None:
    """Add `ClientsRead` until cancelled: open ones by pages, and a page of closed ones.

    With `connections`, the open ones themselves as well, as `ConnectionsRead`.
    """
    rows: tuple[ClientConnection, ...] = ()
    due_s = 0.0
    while True:
        began_s = steady_s()
        try:
            if began_s >= due_s - _EARLY_S:
                connections_read = await read_connections(
                    client, ServerRequests(client), closed=False
                )
                rows = connections_read.rows
                due_s = began_s + connections_rest_s(connections_read)
                if connections:
                    sink.add(
                        ConnectionsRead(
                            _now_us(), busiest_connections(connections_read, MOST_CONNECTIONS)
                        )
                    )
            closed_connections, missing = await _closed(client)
            subscriptions_count = sum(row.subscriptions_count for row in rows)
            groups = None
            if subscriptions_count <= _MOST_SUBSCRIPTIONS and len(rows) <= _MOST_CONNECTIONS:
                subscriptions = await read_subscriptions(ServerRequests(client))
                groups = subscribed_groups(subscriptions.rows)
            sink.add(summarize_clients(_now_us(), rows, closed_connections, missing, groups))
        except ServerGone:
            due_s = 0.0
            await asyncio.sleep(_GONE_S)
            continue
        except PermissionDenied:
            # `ServersRead` has the reason: the request is the same. Each denial is a line in the
            # server's log.
            await asyncio.sleep(_DENIED_S)
            continue
        except RequestFailed as error:
            sink.add(summarize_clients(_now_us(), (), (), str(error)))
        await asyncio.sleep(max(_EARLY_S, began_s + CLIENTS_S - steady_s()))


def connections_rest_s(connections_read: Connections) -> float:
    """Return after how long all connections may be read again, from the number on the fullest
    server.
    """
    count = max((server.total_count for server in connections_read.servers), default=0)
    work_s = count * (_ROW_S + _PASSED_ROW_S * count / PAGE_COUNT)
    return max(CLIENTS_S, work_s / _CLIENTS_SHARE)


async def _closed(client: Client) -> tuple[tuple[ClientConnection, ...], str | None]:
    """Return the connections that were closed last, or why they cannot be read."""
    try:
        return await read_closed(ServerRequests(client), _CLOSED_COUNT), None
    except RequestFailed as error:
        return (), str(error)


def _now_us() -> int:
    return time.time_ns() // 1000
