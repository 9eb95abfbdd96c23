"""Requests to every server at once: replies are compressed, bounded, and joined by server."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.clock import steady_us
from natstui.errors import PermissionDenied, RequestFailed, ServerGone
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import read
from natstui.jetstream.connection.transport import Arrival

_QUIET_S = 1.0
"""Time without a reply after which all servers have replied, as their number is unknown."""
_OF_ALL = "$SYS.REQ.SERVER.PING."
_MOST_BYTES = 64 * 1024 * 1024
"""Limit of a decompressed reply."""
_GZIP = 31
"""zlib's value for gzip."""


class _ServerIdentity(msgspec.Struct):
    id: str
    name: str = ""
    cluster: str | None = None
    domain: str | None = None
    ver: str | None = None
    time: str | None = None


class _Error(msgspec.Struct):
    code: int = 0
    description: str = ""


class _Reply(msgspec.Struct):
    server: _ServerIdentity
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


class _Stats(msgspec.Struct):
    active_servers: int = 0


class _Statz(msgspec.Struct):
    statsz: _Stats


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The reply of one server; `data` is raw JSON."""

    server_id: str
    name: str
    cluster: str | None
    version: str | None
    data: bytes
    domain: str | None = None
    written_at: str | None = None
    """When the server sent it, by its own clock."""
    packed_bytes: int = 0
    """Size over the link."""
    asked_mono_us: int = 0
    began_mono_us: int = 0
    ended_mono_us: int = 0
    """Times of the request, and of its first and last bytes, by our clock."""


class ServerRequests:
    """All servers of the cluster; remembers who replied, and does not wait longer the next
    time.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, str] = {}
        self._refusing: frozenset[str] = frozenset()
        """Servers that replied to the last request with an error."""
        self.asked_count = 0
        """How many questions were sent."""

    async def ask(
        self,
        subject: str,
        body: Mapping[str, object],
        *,
        packed: bool = True,
        timeout_s: float | None = None,
        some: bool = False,
    ) -> list[ServerAnswer]:
        """Return the reply of every server, each once; with `some`, without those that refuse.

        Unless it is `packed`, a reply may exceed the limit of the connection, which then closes.
        Raises PermissionDenied and RequestFailed with how an operator allows the subject,
        RequestTimedOut, and ServerGone.
        """
        self.asked_count += 1
        is_alone = subject.startswith(_OF_ALL) and await self._is_alone()
        asking = self._client.answers(
            subject,
            json.dumps(body).encode(),
            timeout_s=timeout_s or self._client.connection.request_timeout_s,
            quiet_s=_QUIET_S,
            headers={"Accept-Encoding": "gzip"} if packed else None,
        )
        try:
            async with aclosing(asking) as replies:
                replies_by_id = await self._collected(
                    subject, replies, some=some, is_alone=is_alone
                )
        except PermissionDenied as denied:
            raise _opened_by(denied) from denied
        # A server that was started again has another id: nobody waits for the one before.
        replied_names = {server_reply.name for server_reply in replies_by_id.values()}
        other_servers = {
            server_id: name for server_id, name in self._known.items() if name not in replied_names
        }
        self._known = other_servers | {
            server_reply.server_id: server_reply.name for server_reply in replies_by_id.values()
        }
        return list(replies_by_id.values())

    async def _collected(
        self, subject: str, replies: AsyncIterator[Msg], *, some: bool, is_alone: bool
    ) -> dict[str, ServerAnswer]:
        """Read replies until all known servers have replied, or no more come."""
        replies_by_id: dict[str, ServerAnswer] = {}
        errors_by_id: dict[str, RequestFailed] = {}
        asked_us = steady_us()
        async for message in replies:
            arrival = self._client.nc.arrival_of(message)
            reply = _reply_of(subject, message)
            if reply.error is not None:
                errors_by_id[reply.server.id] = _refusal(subject, reply.error)
                if not some:
                    raise errors_by_id[reply.server.id]
            else:
                server_reply = _answer_of(reply, len(message.data), asked_us, arrival)
                # Over leafnodes the same server may answer twice.
                replies_by_id.setdefault(server_reply.server_id, server_reply)
            replied_ids = replies_by_id.keys() | errors_by_id.keys()
            if is_alone or (self._known and replied_ids >= self._known.keys()):
                break
        self._refusing = frozenset(errors_by_id)
        if not replies_by_id and errors_by_id:
            raise next(iter(errors_by_id.values()))
        return replies_by_id

    async def _is_alone(self) -> bool:
        """Return whether our server knows of no other now: then no other reply is waited for."""
        info = self._client.nc.server_info
        if info.get("cluster"):
            # Another may have joined a moment ago.
            return False
        subject = f"$SYS.REQ.SERVER.{info.get('server_id')}.STATSZ"
        try:
            reply = (await self._client.ask(subject, timeout_s=_QUIET_S)).data
            return read(subject, reply, _Statz).statsz.active_servers == 1
        except (RequestFailed, ServerGone):
            return False

    def silent(self, replies: list[ServerAnswer]) -> tuple[str, ...]:
        """Return the names of servers that replied before and not now."""
        replied_ids = {reply.server_id for reply in replies} | self._refusing
        return tuple(
            name for server_id, name in self._known.items() if server_id not in replied_ids
        )


def _reply_of(subject: str, message: Msg) -> _Reply:
    headers = message.headers or {}
    if status_of(headers) == "503":
        sentence = (
            f'no reply on "{subject}": the server is older than 2.4, or has no system account, '
            "which an operator names as system_account in its configuration"
        )
        raise RequestFailed(sentence, code=503)
    data = message.data
    if headers.get("Content-Encoding") == "gzip":
        data = _unpacked(subject, data)
    return read(subject, data, _Reply)


def _refusal(subject: str, error: _Error) -> RequestFailed:
    description = clean_line(error.description)
    return RequestFailed(f"{subject}: {description} ({error.code})", code=error.code)


def _answer_of(reply: _Reply, packed_bytes: int, asked_us: int, arrival: Arrival) -> ServerAnswer:
    server = reply.server
    return ServerAnswer(
        server.id,
        server.name or server.id,
        server.cluster,
        server.ver,
        bytes(reply.data),
        domain=server.domain,
        written_at=server.time,
        packed_bytes=packed_bytes,
        asked_mono_us=asked_us,
        began_mono_us=arrival.began_mono_us,
        ended_mono_us=arrival.ended_mono_us,
    )


def _unpacked(subject: str, data: bytes) -> bytes:
    """Return decompressed gzip data; raises RequestFailed when it is too long, or broken."""
    unpacking = zlib.decompressobj(_GZIP)
    try:
        decompressed = unpacking.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        raise RequestFailed(f"{subject}: the reply cannot be unpacked ({error})") from error
    if not unpacking.eof:
        limit_text = f"{_MOST_BYTES // 1024 // 1024} MiB"
        raise RequestFailed(f"{subject}: the reply is cut short, or larger than {limit_text}")
    return decompressed


def _opened_by(error: PermissionDenied) -> PermissionDenied:
    """Return the same error with how an operator allows it."""
    verb = "publish" if error.kind == "publish" else "subscribe"
    advice = (
        f"; an operator adds it to the user's permissions, {verb}: {{ allow: "
        f'"{error.subject}" }}, or with nsc edit user --allow-{verb[:3]} "{error.subject}"'
    )
    return PermissionDenied(error.subject, error.kind, advice)
