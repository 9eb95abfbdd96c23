"""Reads the servers every few seconds and the account's connections twice a minute.

Connections are read less often if a server has many thousands of them. The loss of a server is not
published: it is detected by missing replies.
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
from natstui.errors import ConnectionLost, NatstuiError, PermissionDenied, RequestFailed
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.connections import (
    PAGE_ROWS_COUNT,
    read_closed_connections,
    read_connections,
    read_subscriptions,
)
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.servers import read_heartbeat, read_servers
from natstui.jetstream.system.source import SystemConnection
from natstui.model.clients.connection import ClientConnection, Connections, busiest_connections
from natstui.model.clients.watch import (
    MAX_CONNECTIONS,
    ConnectionsRead,
    count_groups,
    summarize_clients,
)
from natstui.model.records.record import Advisory
from natstui.model.servers.server import MissingData, Servers
from natstui.model.servers.watch import NO_SERVERS, RefusedLogin, ServersRead, server_changes

HEARTBEAT_INTERVAL_S = 2.0
"""Interval of reading which servers reply."""
_COMPLETE_INTERVAL_S = 10.0
"""Interval of reading the servers completely, with JetStream and accounts."""
CLIENTS_INTERVAL_S = 30.0
_MAX_EARLY_START_S = 0.1
"""Time by which a reading may begin early: a sleep may end early."""
_CLIENTS_CORE_SHARE = 0.005
"""Share of a core of the server for reading its connections."""
_ROW_CPU_S, _SKIPPED_ROW_CPU_S = 15e-6, 1.5e-6
"""Processor time that nats-server 2.15 needs for a row, and for each row that it skips for a page
(measured).
"""
_MAX_CLOSED_CONNECTIONS = 256
_MAX_READ_SUBSCRIPTIONS, _MAX_READ_CONNECTIONS = 5_000, 256
"""Limits above which subscriptions are not read: the replies would have megabytes."""
_LAME_DUCK_SUBJECT = "$SYS.SERVER.*.LAMEDUCK"
_LOGIN_REFUSED_SUBJECT = "$SYS.SERVER.*.CLIENT.AUTH.ERR"
_REFUSED_LOGINS_WINDOW_S = 60.0
_MAX_KEPT_REFUSALS = 1_000
_MAX_REPORTED_REFUSALS = 20
_META_ELECTED_SUBJECT = "$JS.EVENT.ADVISORY.DOMAIN.LEADER_ELECTED"
_MAX_KEPT_ELECTIONS = 16
_REQUESTS_SHARE = 0.2
"""Share of the user's limit of requests per second for reading servers."""
_HEARTBEAT_REQUESTS_COUNT = 2
_RECONNECT_WAIT_S = 0.5
_DENIED_RETRY_S = 120.0
"""Interval of retries without permission to read the servers."""


async def watch_servers(client: Client, sink: Sink, requests_per_s: float | None = None) -> None:
    """Add `ServersRead` to `sink`, and an `Advisory` for each server event, until cancelled.

    The records name what cannot be read. `requests_per_s` is the user's limit.
    """
    watcher = _ServerWatcher(client, sink)
    min_interval_s = (
        _HEARTBEAT_REQUESTS_COUNT / (_REQUESTS_SHARE * requests_per_s) if requests_per_s else 0.0
    )
    try:
        while True:
            began_s = steady_s()
            pause_s = await watcher.read()
            await asyncio.sleep(max(0.1, max(pause_s, min_interval_s) - (steady_s() - began_s)))
    finally:
        await watcher.close()


class _ServerWatcher:
    def __init__(self, client: Client, sink: Sink) -> None:
        self._client, self._sink = client, sink
        self._server_requests, self._system_connection = (
            ServerRequests(client),
            SystemConnection(client.connection, client),
        )
        self._server_watch = NO_SERVERS
        self._last_servers: Servers | None = None
        self._complete_reading_due_s = 0.0
        self._lame_duck_servers: dict[str, None] = {}
        self._elected_at_us: deque[int] = deque(maxlen=_MAX_KEPT_ELECTIONS)
        self._refused_logins: deque[tuple[float, tuple[str, str, str | None]]] = deque(
            maxlen=_MAX_KEPT_REFUSALS
        )
        """Time of each refused login, and its server, client and user."""
        self._is_subscribed = False

    async def read(self) -> float:
        """Read the servers once; return the seconds from the start of this reading to the next."""
        try:
            servers = await self._read()
            is_denied = not servers.rows
        except ConnectionLost:
            self._complete_reading_due_s = 0.0
            return _RECONNECT_WAIT_S
        except RequestFailed as error:
            self._complete_reading_due_s = 0.0
            servers = Servers("account", (), missing=(MissingData("the servers", str(error)),))
            is_denied = isinstance(error, PermissionDenied)
        if self._client.lame_duck_server is not None:
            self._lame_duck_servers[self._client.lame_duck_server] = None
        servers_read = ServersRead(
            _now_us(), servers, tuple(self._lame_duck_servers), tuple(self._elected_at_us),
            self._count_refused_logins(),
        )  # fmt: skip
        before, self._server_watch = self._server_watch, self._server_watch.after(servers_read)
        for name, server_watched in self._server_watch.known.items():
            if server_watched.restarted_at_us[-1:] == (servers_read.at_us,):
                self._lame_duck_servers.pop(name, None)
        self._sink.add(servers_read)
        for change in server_changes(before, self._server_watch):
            body = json.dumps({"server": change.server})
            self._sink.add(
                Advisory(servers_read.at_us, change.type, None, None, change.text, body)
            )
        return _DENIED_RETRY_S if is_denied else HEARTBEAT_INTERVAL_S

    async def _read(self) -> Servers:
        before = self._last_servers
        if before is None or steady_s() >= self._complete_reading_due_s:
            self._complete_reading_due_s = steady_s() + _COMPLETE_INTERVAL_S
            # First, so that no event after a server's reply is missed.
            await self._subscribe()
            self._last_servers = await read_servers(
                self._server_requests, self._system_connection, before
            )
        else:
            self._last_servers = await read_heartbeat(
                self._server_requests, self._system_connection, before
            )
        return self._last_servers

    async def _subscribe(self) -> None:
        """Subscribe to events of servers in the system account, once."""
        if self._is_subscribed or self._client.connection.system is None:
            return
        try:
            client = await self._system_connection.client()
            await client.subscribe(_LAME_DUCK_SUBJECT, self._on_lame_duck, lambda _error: None)
            await client.subscribe(
                _META_ELECTED_SUBJECT, self._on_meta_elected, lambda _error: None
            )
            await client.subscribe(
                _LOGIN_REFUSED_SUBJECT, self._on_login_refused, lambda _error: None
            )
        except NatstuiError:
            # Without events, a server that stops is detected when it does not reply.
            return
        self._is_subscribed = True

    async def _on_lame_duck(self, message: Msg) -> None:
        name = _read_server_name(message.data)
        if name is not None:
            self._lame_duck_servers[name] = None

    async def _on_meta_elected(self, _message: Msg) -> None:
        self._elected_at_us.append(_now_us())

    async def _on_login_refused(self, message: Msg) -> None:
        try:
            refused_login = read("CLIENT.AUTH.ERR", message.data, _RefusedLogin)
        except RequestFailed:
            # Any user who may publish to the subject can forge one.
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
        self._refused_logins.append((steady_s(), names))

    def _count_refused_logins(self) -> tuple[RefusedLogin, ...]:
        """Return the numbers of refused logins in the last minute, by server, client and user."""
        while (
            self._refused_logins
            and steady_s() - self._refused_logins[0][0] > _REFUSED_LOGINS_WINDOW_S
        ):
            self._refused_logins.popleft()
        counts = Counter(names for _, names in self._refused_logins)
        return tuple(
            RefusedLogin(*names, count)
            for names, count in counts.most_common(_MAX_REPORTED_REFUSALS)
        )

    async def close(self) -> None:
        """Close the system account's connection."""
        await self._system_connection.close()


class _EventServer(msgspec.Struct):
    name: str


class _LoginClient(msgspec.Struct):
    name: str = ""
    user: str | None = None
    lang: str = ""


class _RefusedLogin(msgspec.Struct):
    server: _EventServer
    client: _LoginClient


def _read_server_name(data: bytes) -> str | None:
    """Return the name of the server in a lame duck event; None for another message."""
    try:
        name = json.loads(data).get("name")
    except (ValueError, AttributeError, RecursionError):
        # Any user who may publish to the subject can forge one.
        return None
    return name if isinstance(name, str) else None


async def watch_clients(client: Client, sink: Sink, *, connections: bool = False) -> None:
    """Add `ClientsRead` to `sink` until cancelled: a summary of open and last closed connections.

    With `connections`, also add the busiest open connections as `ConnectionsRead`.
    """
    rows: tuple[ClientConnection, ...] = ()
    clocks_ahead_us: dict[str, int] = {}
    due_s = 0.0
    while True:
        began_s = steady_s()
        try:
            if began_s >= due_s - _MAX_EARLY_START_S:
                # Servers reply at once; the reading takes longer, as it waits for more replies.
                requested_us = _now_us()
                connections_read = await read_connections(
                    client, ServerRequests(client), closed=False
                )
                rows = connections_read.rows
                clocks_ahead_us = {
                    server.server_id: server.at_us - requested_us
                    for server in connections_read.servers
                }
                due_s = began_s + connections_interval_s(connections_read)
                if connections:
                    sink.add(
                        ConnectionsRead(
                            _now_us(), busiest_connections(connections_read, MAX_CONNECTIONS)
                        )
                    )
            closed_connections, missing_reason = await _read_closed(client)
            subscriptions_count = sum(row.subscriptions_count for row in rows)
            groups = None
            if (
                subscriptions_count <= _MAX_READ_SUBSCRIPTIONS
                and len(rows) <= _MAX_READ_CONNECTIONS
            ):
                subscriptions = await read_subscriptions(ServerRequests(client))
                groups = count_groups(subscriptions.rows)
            sink.add(
                summarize_clients(
                    _now_us(), rows, closed_connections, missing_reason, groups, clocks_ahead_us
                )
            )
        except ConnectionLost:
            due_s = 0.0
            await asyncio.sleep(_RECONNECT_WAIT_S)
            continue
        except PermissionDenied:
            # `ServersRead` has the reason: the request is the same. Each denial is a line in the
            # server's log.
            await asyncio.sleep(_DENIED_RETRY_S)
            continue
        except RequestFailed as error:
            sink.add(summarize_clients(_now_us(), (), (), str(error)))
        await asyncio.sleep(max(_MAX_EARLY_START_S, began_s + CLIENTS_INTERVAL_S - steady_s()))


def connections_interval_s(connections_read: Connections) -> float:
    """Return the interval (s) of reading all connections, by the number on the fullest server."""
    count = max((server.total_count for server in connections_read.servers), default=0)
    work_s = count * (_ROW_CPU_S + _SKIPPED_ROW_CPU_S * count / PAGE_ROWS_COUNT)
    return max(CLIENTS_INTERVAL_S, work_s / _CLIENTS_CORE_SHARE)


async def _read_closed(client: Client) -> tuple[tuple[ClientConnection, ...], str | None]:
    """Return the connections that were closed last, or the reason why they cannot be read."""
    try:
        return await read_closed_connections(ServerRequests(client), _MAX_CLOSED_CONNECTIONS), None
    except RequestFailed as error:
        return (), str(error)


def _now_us() -> int:
    return time.time_ns() // 1000
