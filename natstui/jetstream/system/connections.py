"""The account's connections on every server, page by page (CONNZ)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read, reading
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.system.asking import ServerAnswer, Servers
from natstui.model.clients.connection import (
    AccountServer,
    ClientConnection,
    Connections,
    Subscription,
)
from natstui.units import parse_duration_ns

CONNZ = "$SYS.REQ.ACCOUNT.PING.CONNZ"
"""A plain user may ask it: the server tells only the connections of the user's own account."""
STATZ = "$SYS.REQ.ACCOUNT.PING.STATZ"
PAGE_COUNT = 1024
"""Connections that one answer has."""
_PAGE_WITH_SUBSCRIPTIONS_COUNT = 64
_OPEN, _CLOSED = 0, 1
_MOST_SUBSCRIPTIONS = 500
"""A client may have 100,000; nobody reads them all."""
_DEFAULT_ACCOUNT = "$G"
_NOT_TOLD = (
    "servers do not report closed connections of the default account $G: an operator sees them "
    "at the monitoring port (/connz?state=closed); users of a named account may read theirs"
)


class _Subscription(msgspec.Struct):
    subject: str
    qgroup: str | None = None
    msgs: int = 0


class _Row(msgspec.Struct):
    """One connection; the user's JWT, which the server sends too, is read for its name alone."""

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


class _Page(msgspec.Struct):
    now: str
    total: int = 0
    connections: list[_Row] | None = None


class _Account(msgspec.Struct):
    slow_consumers: int = 0


class _Accounts(msgspec.Struct):
    account_statz: list[_Account] | None = None


async def read_connections(
    client: Client, servers: Servers, *, closed: bool, page_count: int = PAGE_COUNT
) -> Connections:
    """Return all connections of the account, or those that ended and are still remembered.

    Raises PermissionDenied, RequestTimedOut, ServerGone, else RequestFailed.
    """
    # With a token, an old server would tell the token of each as its user.
    body: dict[str, object] = {"auth": client.connection.token is None}
    body |= {"state": _CLOSED} if closed else {}
    seen = await _pages(servers, body, page_count)
    if closed and not seen.rows and client.link.account == _DEFAULT_ACCOUNT:
        raise RequestFailed(_NOT_TOLD)
    slow = await _slow_consumers(servers)
    told = tuple(
        replace(server, slow_consumers_count=slow.get(server.server_id)) for server in seen.servers
    )
    return replace(seen, servers=told)


async def read_closed(servers: Servers, most_count: int) -> tuple[ClientConnection, ...]:
    """Return the connections that ended last, at most so many of each server.

    Raises what `read_connections` raises.
    """
    body = {"state": _CLOSED, "sort": "stop", "limit": most_count, "auth": False}
    answers = await servers.ask(CONNZ, body)
    rows = []
    for answer in answers:
        page = read(CONNZ, answer.data, _Page)
        with reading(CONNZ):
            rows += [_row(answer, page, row) for row in page.connections or ()]
    return tuple(rows)


async def read_connection(
    client: Client, servers: Servers, server_id: str, connection_id: int
) -> Connections:
    """Return one connection with its subscriptions, open or ended; no row when it is forgotten.

    Raises what `read_connections` raises.
    """
    body: dict[str, object] = {
        "auth": client.connection.token is None,
        "cid": connection_id,
        "subscriptions_detail": True,
    }
    for state in (_OPEN, _CLOSED):
        seen = await _pages(servers, {**body, "state": state}, _PAGE_WITH_SUBSCRIPTIONS_COUNT)
        # Every server has a connection of that number.
        rows = tuple(row for row in seen.rows if row.server_id == server_id)
        if rows:
            return replace(seen, rows=(_busiest_subscriptions(rows[0]),))
    return replace(seen, rows=())


async def read_connection_there(
    servers: Servers, server_id: str, connection_id: int
) -> ClientConnection | None:
    """Return one connection of any account, as the system account sees it; None: forgotten.

    Raises RequestFailed when its server does not reply, and the other request errors.
    """
    subject = f"$SYS.REQ.SERVER.{server_id}.CONNZ"
    for state in (_OPEN, _CLOSED):
        body = {"cid": connection_id, "state": state, "auth": True}
        try:
            answers = await servers.ask(subject, body)
        except RequestFailed as error:
            if error.code != 503:
                raise
            raise RequestFailed(f"server {server_id} does not reply", code=503) from error
        for answer in answers:
            page = read(subject, answer.data, _Page)
            with reading(subject):
                for row in page.connections or ():
                    return _row(answer, page, row)
    return None


def _busiest_subscriptions(one: ClientConnection) -> ClientConnection:
    by_use = sorted(one.listening, key=lambda it: -it.delivered_msgs)
    return replace(one, listening=tuple(by_use[:_MOST_SUBSCRIPTIONS]))


async def listeners(servers: Servers, subject: str) -> Connections:
    """Return the connections with a subscription that gets what is sent to a subject."""
    body: dict[str, object] = {"filter_subject": subject, "subscriptions_detail": True}
    return await _pages(servers, body, _PAGE_WITH_SUBSCRIPTIONS_COUNT)


async def read_subscriptions(servers: Servers) -> Connections:
    """Return all connections of the account with their subscriptions; raises as `Servers.ask`."""
    body: dict[str, object] = {"subscriptions_detail": True}
    return await _pages(servers, body, _PAGE_WITH_SUBSCRIPTIONS_COUNT)


async def _pages(servers: Servers, body: Mapping[str, object], limit: int) -> Connections:
    told: dict[str, AccountServer] = {}
    rows: dict[tuple[str, int], ClientConnection] = {}
    silent: set[str] = set()
    offset, most = 0, 1
    while offset < most:
        answers = await servers.ask(CONNZ, {**body, "limit": limit, "offset": offset})
        silent.update(servers.silent(answers))
        pages = [(one, read(CONNZ, one.data, _Page)) for one in answers]
        for answer, page in pages:
            with reading(CONNZ):
                told.setdefault(answer.server_id, _server(answer, page))
                rows |= {(answer.server_id, row.cid): _row(answer, page, row)
                         for row in page.connections or ()}  # fmt: skip
        offset += limit
        # What a filter leaves is less than the total: a page that is not full is the last.
        most = max((page.total for _, page in pages if _is_full(page, limit)), default=0)
    return Connections(tuple(told.values()), tuple(rows.values()), tuple(sorted(silent)))


def _is_full(page: _Page, limit: int) -> bool:
    return len(page.connections or ()) >= limit


async def _slow_consumers(servers: Servers) -> dict[str, int]:
    """Return server id → how many of the account it cut off; empty where it is not told."""
    try:
        answers = await servers.ask(STATZ, {"include_unused": True})
    except RequestFailed:
        return {}
    told = {
        answer.server_id: read(STATZ, answer.data, _Accounts).account_statz for answer in answers
    }
    return {one: sum(row.slow_consumers for row in rows or ()) for one, rows in told.items()}


def _server(answer: ServerAnswer, page: _Page) -> AccountServer:
    return AccountServer(
        server_id=answer.server_id,
        name=answer.name,
        cluster=answer.cluster,
        version=answer.version,
        at_us=time_us(page.now),
        total_count=page.total,
    )


def _row(answer: ServerAnswer, page: _Page, row: _Row) -> ClientConnection:
    """Return a connection; raises ValueError for a time that is none."""
    started_us, active_us = time_us(row.start), time_us(row.last_activity)
    stopped_us = time_or_never_us(row.stop)
    until_us = time_us(page.now) if stopped_us is None else stopped_us
    place = f"[{row.ip}]" if ":" in row.ip else row.ip
    return ClientConnection(
        server_id=answer.server_id,
        connection_id=row.cid,
        server_name=answer.name,
        kind=row.kind,
        protocol=row.type,
        name=row.name or None,
        user=_name_in(row.jwt) or row.authorized_user or None,
        address=f"{place}:{row.port}",
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
            Subscription(one.subject, one.qgroup or None, one.msgs)
            for one in row.subscriptions_list_detail or ()
        ),
    )


class _Claims(msgspec.Struct):
    name: str = ""


def _name_in(jwt: str | None) -> str | None:
    """Return the name that the operator gave a user; None without a JWT that can be read."""
    if jwt is None:
        return None
    body = jwt.split(".")[1:2]
    try:
        text = base64.urlsafe_b64decode("".join(body) + "==")
        return decoder_of(_Claims).decode(text).name or None
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
