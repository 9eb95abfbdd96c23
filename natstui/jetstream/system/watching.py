"""Reads the servers every few seconds and the account's connections twice a minute, unasked.

Where a server has many thousands of connections, they are read less often.

That a server died is nowhere announced: only that it does not answer shows it.
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
from natstui.jetstream.system.asking import Servers as Asking
from natstui.jetstream.system.connections import (
    PAGE_COUNT,
    read_closed,
    read_connections,
    read_subscriptions,
)
from natstui.jetstream.system.servers import read_heartbeat, read_servers
from natstui.jetstream.system.source import System
from natstui.model.clients.connection import ClientConnection, Connections, busiest
from natstui.model.clients.watch import (
    MOST_CONNECTIONS,
    ConnectionsRead,
    clients_read,
    subscribed_groups,
)
from natstui.model.records.record import Advisory
from natstui.model.servers.server import Missing, Servers
from natstui.model.servers.watch import NO_SERVERS, LoginsRefused, ServersRead, changes

BEAT_S = 2.0
"""From one look at which servers answer to the next,"""
_ALL_S = 10.0
"""and from one reading of all that they tell to the next: it touches every stream."""
CLIENTS_S = 30.0
_CLIENTS_SHARE = 0.005
"""Of a core of the server, which reading its connections may take,"""
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
"""Of the requests a second that the user permits."""
_BEAT_REQUESTS = 2
_GONE_S = 0.5
_DENIED_S = 120.0
"""After so long it is tried again, where nobody may tell of the servers."""


async def watch_servers(client: Client, sink: Sink, requests_per_s: float | None = None) -> None:
    """Add `ServersRead`, and an `Advisory` for what happened to a server, until cancelled.

    What may not be read is named in the record. `requests_per_s` is the most the user permits.
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
        self._asking, self._system = Asking(client), System(client.connection, client)
        self._watch = NO_SERVERS
        self._before: Servers | None = None
        self._all_due_s = 0.0
        self._leaving: dict[str, None] = {}
        self._elected_at_us: deque[int] = deque(maxlen=_ELECTIONS_KEPT)
        self._refused: deque[tuple[float, tuple[str, str, str | None]]] = deque(
            maxlen=_REFUSALS_KEPT
        )
        """When a login was refused, by which server, of which client and user."""
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
        for name, one in self._watch.known.items():
            if one.restarted_at_us[-1:] == (read_now.at_us,):
                self._leaving.pop(name, None)
        self._sink.add(read_now)
        for change in changes(before, self._watch):
            body = json.dumps({"server": change.server})
            self._sink.add(Advisory(read_now.at_us, change.type, None, None, change.text, body))
        return BEAT_S if servers.rows else _DENIED_S

    async def _read(self) -> Servers:
        before = self._before
        if before is None or steady_s() >= self._all_due_s:
            self._all_due_s = steady_s() + _ALL_S
            self._before = await read_servers(self._asking, self._system)
            await self._subscribe()
        else:
            self._before = await read_heartbeat(self._asking, self._system, before)
        return self._before

    async def _subscribe(self) -> None:
        """Subscribe once to what servers announce to the system account."""
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
            told = read("CLIENT.AUTH.ERR", message.data, _LoginRefused)
        except RequestFailed:
            # Anybody who may publish there can forge one.
            return
        client, user = told.client.name or told.client.lang or "a client", told.client.user
        names = (
            clean_line(told.server.name),
            clean_line(client),
            clean_line(user) if user else None,
        )
        self._refused.append((steady_s(), names))

    def _logins_refused(self) -> tuple[LoginsRefused, ...]:
        """Return the clients that were not let in within the last minute."""
        while self._refused and steady_s() - self._refused[0][0] > _REFUSED_S:
            self._refused.popleft()
        counts = Counter(names for _, names in self._refused)
        return tuple(
            LoginsRefused(*names, count)
            for names, count in counts.most_common(_MOST_REFUSED_COUNT)
        )

    async def close(self) -> None:
        """End the system account's connection."""
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
    """Return the name of the server that announces that it leaves; None for what is no such."""
    try:
        name = json.loads(data).get("name")
    except (ValueError, AttributeError, RecursionError):
        # Anybody who may publish there can forge one.
        return None
    return name if isinstance(name, str) else None


async def watch_clients(client: Client, sink: Sink, *, connections: bool = False) -> None:
    """Add `ClientsRead` until cancelled: open ones by pages, and a page of those that ended.

    With `connections`, the open ones themselves as well, as `ConnectionsRead`.
    """
    rows: tuple[ClientConnection, ...] = ()
    due_s = 0.0
    while True:
        try:
            if steady_s() >= due_s:
                seen = await read_connections(client, Asking(client), closed=False)
                rows, due_s = seen.rows, steady_s() + connections_rest_s(seen)
                if connections:
                    sink.add(ConnectionsRead(_now_us(), busiest(seen, MOST_CONNECTIONS)))
            closed, missing = await _closed(client)
            subscriptions_count = sum(row.subscriptions_count for row in rows)
            groups = None
            if subscriptions_count <= _MOST_SUBSCRIPTIONS and len(rows) <= _MOST_CONNECTIONS:
                subscribed = await read_subscriptions(Asking(client))
                groups = subscribed_groups(subscribed.rows)
            sink.add(clients_read(_now_us(), rows, closed, missing, groups))
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
            sink.add(clients_read(_now_us(), (), (), str(error)))
        await asyncio.sleep(CLIENTS_S)


def connections_rest_s(seen: Connections) -> float:
    """Return after how long all connections may be read again, by those of the fullest server."""
    count = max((server.total_count for server in seen.servers), default=0)
    work_s = count * (_ROW_S + _PASSED_ROW_S * count / PAGE_COUNT)
    return max(CLIENTS_S, work_s / _CLIENTS_SHARE)


async def _closed(client: Client) -> tuple[tuple[ClientConnection, ...], str | None]:
    """Return the connections that ended last, or why they are not told."""
    try:
        return await read_closed(Asking(client), _CLOSED_COUNT), None
    except RequestFailed as error:
        return (), str(error)


def _now_us() -> int:
    return time.time_ns() // 1000
