"""Reads the account's connections on every server, page by page (CONNZ)."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import raise_unreadable, read
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.system.requests import ServerReply, ServerRequests
from natstui.model.clients.connection import (
    AccountServer,
    ClientConnection,
    Connections,
    Subscription,
)
from natstui.units import parse_duration_ns
from natstui.values import replace

CONNZ = "$SYS.REQ.ACCOUNT.PING.CONNZ"
"""Request that every user may send: the server returns only connections of the user's account."""
STATZ = "$SYS.REQ.ACCOUNT.PING.STATZ"
PAGE_ROWS_COUNT = 1024
"""Number of connections in a reply."""
_PAGE_WITH_SUBSCRIPTIONS_COUNT = 64
_OPEN_STATE, _CLOSED_STATE = 0, 1
_MAX_KEPT_SUBSCRIPTIONS = 500
"""Limit of a client's subscriptions that are returned."""
_DEFAULT_ACCOUNT = "$G"
_CLOSED_NOT_REPORTED_TEXT = (
    "servers do not report closed connections of the default account $G: an operator sees them "
    "at the monitoring port (/connz?state=closed); users of a named account may read theirs"
)


class _Subscription(msgspec.Struct):
    subject: str
    qgroup: str | None = None
    msgs: int = 0


class _ConnectionRow(msgspec.Struct):
    """One connection; of the user's JWT, which the server sends too, only the name is read."""

    cid: int
    start: str
    last_activity: str
    kind: str = "Client"
    type: str | None = None
    ip: str = ""
    port: int = 0
    rtt: str | None = None
    stop: str | None = None
    reason: str | None = None
    name: str | None = None
    lang: str | None = None
    version: str | None = None
    authorized_user: str | None = None
    jwt: str | None = None
    tls_version: str | None = None
    pending_bytes: int = 0
    stalls: int = 0
    in_msgs: int = 0
    in_bytes: int = 0
    out_msgs: int = 0
    out_bytes: int = 0
    subscriptions: int = 0
    subscriptions_list_detail: list[_Subscription] | None = None


class _ConnectionsPage(msgspec.Struct):
    now: str
    total: int = 0
    connections: list[_ConnectionRow] | None = None


class _Account(msgspec.Struct):
    slow_consumers: int = 0


class _Accounts(msgspec.Struct):
    account_statz: list[_Account] | None = None


async def read_connections(
    client: Client,
    servers: ServerRequests,
    *,
    closed: bool,
    page_rows_count: int = PAGE_ROWS_COUNT,
) -> Connections:
    """Return all connections of the account; with `closed`, those closed ones that servers list.

    Raises PermissionDenied, RequestTimedOut, ConnectionLost, else RequestFailed.
    """
    # With a token, an old server would send the token of each connection as its user.
    body: dict[str, object] = {"auth": client.connection.token is None}
    body |= {"state": _CLOSED_STATE} if closed else {}
    connections = await _read_pages(servers, body, page_rows_count)
    if closed and not connections.rows and client.link.account == _DEFAULT_ACCOUNT:
        raise RequestFailed(_CLOSED_NOT_REPORTED_TEXT)
    slow_count_by_server_id = await _read_slow_consumers(servers)
    servers_with_slow_counts = tuple(
        replace(server, slow_consumers_count=slow_count_by_server_id.get(server.server_id))
        for server in connections.servers
    )
    return replace(connections, servers=servers_with_slow_counts)


async def read_closed_connections(
    servers: ServerRequests, max_count: int
) -> tuple[ClientConnection, ...]:
    """Return the connections that were closed last, at most `max_count` of each server.

    Raises what `read_connections` raises.
    """
    body = {"state": _CLOSED_STATE, "sort": "stop", "limit": max_count, "auth": False}
    replies = await servers.request_all(CONNZ, body)
    rows = []
    for reply in replies:
        page = read(CONNZ, reply.data, _ConnectionsPage)
        with raise_unreadable(CONNZ):
            rows += [_make_connection(reply, page, row) for row in page.connections or ()]
    return tuple(rows)


async def read_connection(
    client: Client, servers: ServerRequests, server_id: str, connection_id: int
) -> Connections:
    """Return one connection with its subscriptions, open or closed; no row if servers forgot it.

    Raises what `read_connections` raises.
    """
    body: dict[str, object] = {
        "auth": client.connection.token is None,
        "cid": connection_id,
        "subscriptions_detail": True,
    }
    for state in (_OPEN_STATE, _CLOSED_STATE):
        connections = await _read_pages(
            servers, {**body, "state": state}, _PAGE_WITH_SUBSCRIPTIONS_COUNT
        )
        # Every server may have a connection with that number.
        rows = tuple(row for row in connections.rows if row.server_id == server_id)
        if rows:
            return replace(connections, rows=(_keep_busiest_subscriptions(rows[0]),))
    return replace(connections, rows=())


async def read_connection_on_server(
    servers: ServerRequests, server_id: str, connection_id: int
) -> ClientConnection | None:
    """Return one connection of any account, by the system account; None if the server forgot it.

    Raises RequestFailed when its server does not reply, and the other request errors.
    """
    subject = f"$SYS.REQ.SERVER.{server_id}.CONNZ"
    for state in (_OPEN_STATE, _CLOSED_STATE):
        body = {"cid": connection_id, "state": state, "auth": True}
        try:
            replies = await servers.request_all(subject, body)
        except RequestFailed as error:
            if error.code != 503:
                raise
            raise RequestFailed(f"server {server_id} does not reply", code=503) from error
        for reply in replies:
            page = read(subject, reply.data, _ConnectionsPage)
            with raise_unreadable(subject):
                for row in page.connections or ():
                    return _make_connection(reply, page, row)
    return None


def _keep_busiest_subscriptions(connection: ClientConnection) -> ClientConnection:
    sorted_subscriptions = sorted(
        connection.listening, key=lambda subscription: -subscription.delivered_msgs
    )
    return replace(connection, listening=tuple(sorted_subscriptions[:_MAX_KEPT_SUBSCRIPTIONS]))


async def read_subscribers(servers: ServerRequests, subject: str) -> Connections:
    """Return the connections with a subscription that matches a subject.

    Raises what `ServerRequests.request_all` raises.
    """
    body: dict[str, object] = {"filter_subject": subject, "subscriptions_detail": True}
    return await _read_pages(servers, body, _PAGE_WITH_SUBSCRIPTIONS_COUNT)


async def read_subscriptions(servers: ServerRequests) -> Connections:
    """Return all connections of the account with their subscriptions.

    Raises what `ServerRequests.request_all` raises.
    """
    body: dict[str, object] = {"subscriptions_detail": True}
    return await _read_pages(servers, body, _PAGE_WITH_SUBSCRIPTIONS_COUNT)


async def _read_pages(
    servers: ServerRequests, body: Mapping[str, object], page_rows_count: int
) -> Connections:
    servers_by_id: dict[str, AccountServer] = {}
    rows: dict[tuple[str, int], ClientConnection] = {}
    silent_names: set[str] = set()
    offset, max_total_count = 0, 1
    while offset < max_total_count:
        replies = await servers.request_all(
            CONNZ, {**body, "limit": page_rows_count, "offset": offset}
        )
        silent_names.update(servers.find_silent(replies))
        pages = [(reply, read(CONNZ, reply.data, _ConnectionsPage)) for reply in replies]
        for reply, page in pages:
            with raise_unreadable(CONNZ):
                servers_by_id.setdefault(reply.server_id, _make_server(reply, page))
                rows |= {(reply.server_id, row.cid): _make_connection(reply, page, row)
                         for row in page.connections or ()}  # fmt: skip
        offset += page_rows_count
        # A filter leaves fewer rows than the total: a page that is not full is the last one.
        max_total_count = max(
            (page.total for _, page in pages if _is_page_full(page, page_rows_count)), default=0
        )
    return Connections(
        tuple(servers_by_id.values()), tuple(rows.values()), tuple(sorted(silent_names))
    )


def _is_page_full(page: _ConnectionsPage, page_rows_count: int) -> bool:
    return len(page.connections or ()) >= page_rows_count


async def _read_slow_consumers(servers: ServerRequests) -> dict[str, int]:
    """Return server id → number of the account's slow consumers on it; empty if unknown."""
    try:
        replies = await servers.request_all(STATZ, {"include_unused": True})
    except RequestFailed:
        return {}
    rows_by_server_id = {
        reply.server_id: read(STATZ, reply.data, _Accounts).account_statz for reply in replies
    }
    return {
        server_id: sum(row.slow_consumers for row in rows or ())
        for server_id, rows in rows_by_server_id.items()
    }


def _make_server(reply: ServerReply, page: _ConnectionsPage) -> AccountServer:
    return AccountServer(
        server_id=reply.server_id,
        name=reply.name,
        cluster=reply.cluster,
        version=reply.version,
        at_us=time_us(page.now),
        total_count=page.total,
    )


def _make_connection(
    reply: ServerReply, page: _ConnectionsPage, row: _ConnectionRow
) -> ClientConnection:
    """Return a connection; raises ValueError for an invalid time."""
    started_us, active_us = time_us(row.start), time_us(row.last_activity)
    stopped_us = time_or_never_us(row.stop)
    until_us = time_us(page.now) if stopped_us is None else stopped_us
    host = f"[{row.ip}]" if ":" in row.ip else row.ip
    return ClientConnection(
        server_id=reply.server_id,
        connection_id=row.cid,
        server_name=reply.name,
        kind=row.kind,
        protocol=row.type,
        name=row.name or None,
        user=_read_user_name(row.jwt) or row.authorized_user or None,
        address=f"{host}:{row.port}",
        language=row.lang or None,
        version=row.version or None,
        tls_version=row.tls_version or None,
        rtt_us=parse_duration_ns(row.rtt) // 1000 if row.rtt else None,
        subscriptions_count=row.subscriptions,
        pending_bytes=row.pending_bytes,
        stalls_count=row.stalls,
        in_msgs=row.in_msgs,
        in_bytes=row.in_bytes,
        out_msgs=row.out_msgs,
        out_bytes=row.out_bytes,
        started_at_us=started_us,
        active_at_us=active_us,
        uptime_s=max(0, until_us - started_us) / 1e6,
        idle_s=max(0, until_us - active_us) / 1e6,
        stopped_at_us=stopped_us,
        reason=row.reason or None,
        listening=tuple(
            Subscription(subscription.subject, subscription.qgroup or None, subscription.msgs)
            for subscription in row.subscriptions_list_detail or ()
        ),
    )


class _UserClaims(msgspec.Struct):
    name: str = ""


def _read_user_name(jwt: str | None) -> str | None:
    """Return the name that the operator gave a user; None without a readable JWT."""
    if jwt is None:
        return None
    body = jwt.split(".")[1:2]
    try:
        text = base64.urlsafe_b64decode("".join(body) + "==")
        return decoder_of(_UserClaims).decode(text).name or None
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
