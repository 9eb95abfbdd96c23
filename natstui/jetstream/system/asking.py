"""Questions to every server at once: answers are compressed, bounded, and joined by server."""

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
"""Nobody tells how many servers there are: after so long without an answer, those were all."""
_OF_ALL = "$SYS.REQ.SERVER.PING."
_MOST_BYTES = 64 * 1024 * 1024
"""An answer may grow to so much when it is unpacked."""
_GZIP = 31
"""The word for zlib that means gzip."""


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
    """What one server told; `data` is raw JSON."""

    server_id: str
    name: str
    cluster: str | None
    version: str | None
    data: bytes
    domain: str | None = None
    written_at: str | None = None
    """When the server sent it, by its own clock."""
    packed_bytes: int = 0
    """What came over the link."""
    asked_mono_us: int = 0
    began_mono_us: int = 0
    ended_mono_us: int = 0
    """When it was asked for, and when its first and last bytes came, by our clock."""


class Servers:
    """All servers of the cluster; it remembers who answered, and waits no longer for the next."""

    def __init__(self, client: Client, quiet_s: float = _QUIET_S) -> None:
        self._client = client
        self._quiet_s = quiet_s
        self._known: dict[str, str] = {}
        self._refusing: frozenset[str] = frozenset()
        """Servers that answered the last question, with an error."""
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
        """Return the answer of every server, each once; with `some`, without those that refuse.

        Unless it is `packed`, an answer may be more than the connection may hold, and cost it.
        Raises PermissionDenied and RequestFailed with how an operator opens the subject,
        RequestTimedOut, and ServerGone.
        """
        self.asked_count += 1
        alone = subject.startswith(_OF_ALL) and await self._is_alone()
        asking = self._client.answers(
            subject,
            json.dumps(body).encode(),
            timeout_s=timeout_s or self._client.connection.request_timeout_s,
            quiet_s=self._quiet_s,
            headers={"Accept-Encoding": "gzip"} if packed else None,
        )
        try:
            async with aclosing(asking) as replies:
                found = await self._collected(subject, replies, some=some, alone=alone)
        except PermissionDenied as denied:
            raise _opened_by(denied) from denied
        # A server that was started again has another id: nobody waits for the one before.
        again = {one.name for one in found.values()}
        kept = {server_id: name for server_id, name in self._known.items() if name not in again}
        self._known = kept | {one.server_id: one.name for one in found.values()}
        return list(found.values())

    async def _collected(
        self, subject: str, replies: AsyncIterator[Msg], *, some: bool, alone: bool
    ) -> dict[str, ServerAnswer]:
        """Read replies until all servers that are known have answered, or no more come."""
        found: dict[str, ServerAnswer] = {}
        refused: dict[str, RequestFailed] = {}
        asked_us = steady_us()
        async for message in replies:
            came = self._client.nc.arrival_of(message)
            reply = _reply_of(subject, message)
            if reply.error is not None:
                refused[reply.server.id] = _refusal(subject, reply.error)
                if not some:
                    raise refused[reply.server.id]
            else:
                one = _answer_of(reply, len(message.data), asked_us, came)
                # Over leafnodes the same server may answer twice.
                found.setdefault(one.server_id, one)
            told = found.keys() | refused.keys()
            if alone or (self._known and told >= self._known.keys()):
                break
        self._refusing = frozenset(refused)
        if not found and refused:
            raise next(iter(refused.values()))
        return found

    async def _is_alone(self) -> bool:
        """Return whether our server knows of no other now: then nobody else is waited for."""
        info = self._client.nc.server_info
        if info.get("cluster"):
            # Another may have joined a moment ago.
            return False
        subject = f"$SYS.REQ.SERVER.{info.get('server_id')}.STATSZ"
        try:
            reply = (await self._client.ask(subject, timeout_s=self._quiet_s)).data
            return read(subject, reply, _Statz).statsz.active_servers == 1
        except (RequestFailed, ServerGone):
            return False

    def silent(self, answers: list[ServerAnswer]) -> tuple[str, ...]:
        """Return the names of servers that answered before and not now."""
        told = {answer.server_id for answer in answers} | self._refusing
        return tuple(name for server_id, name in self._known.items() if server_id not in told)


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
    said = clean_line(error.description)
    return RequestFailed(f"{subject}: {said} ({error.code})", code=error.code)


def _answer_of(reply: _Reply, packed_bytes: int, asked_us: int, came: Arrival) -> ServerAnswer:
    who = reply.server
    return ServerAnswer(
        who.id,
        who.name or who.id,
        who.cluster,
        who.ver,
        bytes(reply.data),
        domain=who.domain,
        written_at=who.time,
        packed_bytes=packed_bytes,
        asked_mono_us=asked_us,
        began_mono_us=came.began_mono_us,
        ended_mono_us=came.ended_mono_us,
    )


def _unpacked(subject: str, data: bytes) -> bytes:
    """Return what was packed with gzip; raises RequestFailed when it is too much, or broken."""
    unpacking = zlib.decompressobj(_GZIP)
    try:
        whole = unpacking.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        raise RequestFailed(f"{subject}: the reply cannot be unpacked ({error})") from error
    if not unpacking.eof:
        most = f"{_MOST_BYTES // 1024 // 1024} MiB"
        raise RequestFailed(f"{subject}: the reply is cut short, or larger than {most}")
    return whole


def _opened_by(denied: PermissionDenied) -> PermissionDenied:
    """Return the same refusal with how an operator takes it back."""
    word = "publish" if denied.kind == "publish" else "subscribe"
    advice = (
        f"; an operator adds it to the user's permissions, {word}: {{ allow: "
        f'"{denied.subject}" }}, or with nsc edit user --allow-{word[:3]} "{denied.subject}"'
    )
    return PermissionDenied(denied.subject, denied.kind, advice)
