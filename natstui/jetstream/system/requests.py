"""Requests to every server at once: replies are compressed, bounded, and joined by server."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.clock import steady_s, steady_us
from natstui.errors import ConnectionLost, PermissionDenied, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import read
from natstui.jetstream.connection.transport import Arrival
from natstui.model.servers.watch import REMOVED_AFTER_US

_QUIET_S = 1.0
"""Time without a reply after which all servers have replied, as their number is unknown."""
_DISCOVERY_INTERVAL_S = 30.0
"""Interval of requests that wait for servers which never replied before."""
_ALL_SERVERS_PREFIX = "$SYS.REQ.SERVER.PING."
_MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Limit of a decompressed reply."""
_GZIP_WBITS = 31
"""zlib's value for gzip."""


class _ServerIdentity(msgspec.Struct):
    id: str
    name: str = ""
    cluster: str | None = None
    domain: str | None = None
    ver: str | None = None
    time: str | None = None


class _ReplyError(msgspec.Struct):
    code: int = 0
    description: str = ""


class _Reply(msgspec.Struct):
    server: _ServerIdentity
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: _ReplyError | None = None


class _ServerStats(msgspec.Struct):
    active_servers: int = 0


class _Statz(msgspec.Struct):
    statsz: _ServerStats


class ServerReply(Struct, frozen=True):
    """The reply of one server; `data` is raw JSON."""

    server_id: str
    name: str
    cluster: str | None
    version: str | None
    data: bytes
    domain: str | None = None
    written_at: str | None = None
    """When the server sent it, by its own clock."""
    transferred_bytes: int = 0
    """Size over the link."""
    requested_mono_us: int = 0
    began_mono_us: int = 0
    ended_mono_us: int = 0
    """Times of the request, and of its first and last bytes, by our clock."""


class ServerRequests:
    """Sends requests to all servers, and waits for the servers that have replied before.

    The first request waits until no more replies come, and so does one every 30 s: a server that
    joined may be farther away than the others.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._name_by_server_id: dict[str, str] = {}
        self._refusing_server_ids: frozenset[str] = frozenset()
        """Servers that replied to the last request with an error."""
        self._silent_since_s_by_server_id: dict[str, float] = {}
        self._discovery_due_s = steady_s() + _DISCOVERY_INTERVAL_S
        self.sent_count = 0
        """Number of requests sent so far."""

    async def request_all(
        self,
        subject: str,
        body: Mapping[str, object],
        *,
        compressed: bool = True,
        timeout_s: float | None = None,
        skips_errors: bool = False,
    ) -> list[ServerReply]:
        """Return one reply of every server; with `skips_errors`, of those that reply no error.

        Without `compressed`, a reply may exceed the limit of the connection, which then closes.
        Raises PermissionDenied, which says how an operator allows the subject, RequestFailed,
        RequestTimedOut, and ConnectionLost.
        """
        self.sent_count += 1
        is_only_server = subject.startswith(_ALL_SERVERS_PREFIX) and await self._is_only_server()
        reply_stream = self._client.request_many(
            subject,
            json.dumps(body).encode(),
            timeout_s=timeout_s or self._client.connection.request_timeout_s,
            quiet_s=_QUIET_S,
            headers={"Accept-Encoding": "gzip"} if compressed else None,
        )
        try:
            async with aclosing(reply_stream) as replies:
                replies_by_id = await self._collect_replies(
                    subject, replies, skips_errors=skips_errors, is_only_server=is_only_server
                )
        except PermissionDenied as denied:
            raise _with_advice(denied) from denied
        # A server that was restarted has another id: its previous one is forgotten.
        replied_names = {server_reply.name for server_reply in replies_by_id.values()}
        forgotten_ids = {
            *self._find_previous_ids(replies_by_id),
            *self._find_removed(replies_by_id),
        }
        other_servers = {
            server_id: name
            for server_id, name in self._name_by_server_id.items()
            if name not in replied_names and server_id not in forgotten_ids
        }
        self._name_by_server_id = other_servers | {
            server_reply.server_id: server_reply.name for server_reply in replies_by_id.values()
        }
        return list(replies_by_id.values())

    def _find_previous_ids(self, replies_by_id: Mapping[str, ServerReply]) -> list[str]:
        """Return the previous ids of restarted servers without `server_name`.

        The name of such a server is its id, so each new one replaces one that does not reply.
        """
        new_count = sum(
            server_id == server_reply.name and server_id not in self._name_by_server_id
            for server_id, server_reply in replies_by_id.items()
        )
        replied_ids = replies_by_id.keys() | self._refusing_server_ids
        silent_ids = [
            server_id
            for server_id, name in self._name_by_server_id.items()
            if server_id == name and server_id not in replied_ids
        ]
        return silent_ids[:new_count]

    def _find_removed(self, replies_by_id: Mapping[str, ServerReply]) -> list[str]:
        """Return the ids of servers that have been silent for a day."""
        now_s, replied_ids = steady_s(), replies_by_id.keys() | self._refusing_server_ids
        self._silent_since_s_by_server_id = {
            server_id: self._silent_since_s_by_server_id.get(server_id, now_s)
            for server_id in self._name_by_server_id
            if server_id not in replied_ids
        }
        return [
            server_id
            for server_id, since_s in self._silent_since_s_by_server_id.items()
            if now_s - since_s > REMOVED_AFTER_US / 1e6
        ]

    async def _collect_replies(
        self,
        subject: str,
        replies: AsyncIterator[Msg],
        *,
        skips_errors: bool,
        is_only_server: bool,
    ) -> dict[str, ServerReply]:
        """Return replies by server id, once all known servers have replied or no more come.

        One reply is enough if `is_only_server`. Raises RequestFailed for an error reply; with
        `skips_errors` only if there is no other reply.
        """
        is_discovery_due = steady_s() >= self._discovery_due_s
        replies_by_id: dict[str, ServerReply] = {}
        errors_by_id: dict[str, RequestFailed] = {}
        requested_us = steady_us()
        async for message in replies:
            arrival = self._client.nc.arrival_of(message)
            reply = _read_reply(subject, message)
            if reply.error is not None:
                errors_by_id[reply.server.id] = _make_reply_error(subject, reply.error)
                if not skips_errors:
                    raise errors_by_id[reply.server.id]
            else:
                server_reply = _make_server_reply(reply, len(message.data), requested_us, arrival)
                # Over leaf nodes the same server may reply twice.
                replies_by_id.setdefault(server_reply.server_id, server_reply)
            replied_ids = replies_by_id.keys() | errors_by_id.keys()
            if is_only_server or (
                not is_discovery_due
                and self._name_by_server_id
                and replied_ids >= self._name_by_server_id.keys()
            ):
                break
        if is_discovery_due:
            self._discovery_due_s = steady_s() + _DISCOVERY_INTERVAL_S
        self._refusing_server_ids = frozenset(errors_by_id)
        if not replies_by_id and errors_by_id:
            raise next(iter(errors_by_id.values()))
        return replies_by_id

    async def _is_only_server(self) -> bool:
        """Return whether our server knows of no other server, so that only one reply will come."""
        info = self._client.nc.server_info
        if info.get("cluster"):
            # Another may have joined a moment ago.
            return False
        subject = f"$SYS.REQ.SERVER.{info.get('server_id')}.STATSZ"
        try:
            reply = (await self._client.request_subject(subject, timeout_s=_QUIET_S)).data
            return read(subject, reply, _Statz).statsz.active_servers == 1
        except (RequestFailed, ConnectionLost):
            return False

    def find_silent(self, replies: list[ServerReply]) -> tuple[str, ...]:
        """Return the names of servers that replied before and are not in these replies."""
        replied_ids = {reply.server_id for reply in replies} | self._refusing_server_ids
        return tuple(
            name
            for server_id, name in self._name_by_server_id.items()
            if server_id not in replied_ids
        )


def _read_reply(subject: str, message: Msg) -> _Reply:
    headers = message.headers or {}
    if status_of(headers) == "503":
        error_text = (
            f'no reply on "{subject}": the server is older than 2.4, or has no system account, '
            "which an operator names as system_account in its configuration"
        )
        raise RequestFailed(error_text, code=503)
    data = message.data
    if headers.get("Content-Encoding") == "gzip":
        data = _decompress(subject, data)
    return read(subject, data, _Reply)


def _make_reply_error(subject: str, error: _ReplyError) -> RequestFailed:
    description = clean_line(error.description)
    return RequestFailed(f"{subject}: {description} ({error.code})", code=error.code)


def _make_server_reply(
    reply: _Reply, transferred_bytes: int, requested_us: int, arrival: Arrival
) -> ServerReply:
    server = reply.server
    return ServerReply(
        server.id,
        server.name or server.id,
        server.cluster,
        server.ver,
        bytes(reply.data),
        domain=server.domain,
        written_at=server.time,
        transferred_bytes=transferred_bytes,
        requested_mono_us=requested_us,
        began_mono_us=arrival.began_mono_us,
        ended_mono_us=arrival.ended_mono_us,
    )


def _decompress(subject: str, data: bytes) -> bytes:
    """Return decompressed gzip data; raises RequestFailed if the data is too long or damaged."""
    decompressor = zlib.decompressobj(_GZIP_WBITS)
    try:
        decompressed = decompressor.decompress(data, _MAX_REPLY_BYTES)
    except zlib.error as error:
        raise RequestFailed(f"{subject}: the reply cannot be unpacked ({error})") from error
    if not decompressor.eof:
        limit_text = f"{_MAX_REPLY_BYTES // 1024 // 1024} MiB"
        raise RequestFailed(f"{subject}: the reply is cut short, or larger than {limit_text}")
    return decompressed


def _with_advice(error: PermissionDenied) -> PermissionDenied:
    """Return the same error with advice how an operator allows the subject."""
    verb = "publish" if error.kind == "publish" else "subscribe"
    advice = (
        f"; an operator adds it to the user's permissions, {verb}: {{ allow: "
        f'"{error.subject}" }}, or with nsc edit user --allow-{verb[:3]} "{error.subject}"'
    )
    return PermissionDenied(error.subject, error.kind, advice)
