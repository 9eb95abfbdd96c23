"""Sources of information about servers: system account, monitoring ports, or one's own account."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from urllib.parse import quote

import msgspec

from natstui.clock import steady_us
from natstui.config import Connection
from natstui.errors import (
    ConnectionLost,
    NatstuiError,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.http_client import http_request
from natstui.jetstream.connection.authentication import tls_options
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.requests import ServerReply, ServerRequests
from natstui.model.servers.server import Missing, Source

Options = Mapping[str, str | int]
"""Options by their names in JSON; booleans as integers."""
_RETRY_S = 30.0
LONG_S = 20.0
"""Timeout of a reply with all streams of an account: it takes seconds on busy servers."""
_SYSTEM = "$SYS.REQ.SERVER.PING."
NOT_SET = (
    'only the system account may request "$SYS.REQ.SERVER.PING.VARZ": name a user of it in '
    '[system] of the configuration, or the monitoring ports (monitoring = "http://HOST:8222"), '
    "which an operator opens with http_port in the server's configuration"
)
NOT_ALLOWED = NOT_SET.replace(
    "only the system account may request",
    "only a user of the system account with permission may request",
)
"""For a user without permission for any of these subjects, of any account."""
_ONLY_OF_SYSTEM = tuple(f"{_SYSTEM}{request}" for request in ("VARZ", "STATSZ", "JSZ", "CONNZ"))
_PORTS = {"VARZ": "/varz", "JSZ": "/jsz", "STATZ": "/accstatz"}
_SUBJECTS = {
    "VARZ": f"{_SYSTEM}VARZ",
    "JSZ": f"{_SYSTEM}JSZ",
    "STATZ": "$SYS.REQ.ACCOUNT.PING.STATZ",
}
_MAX_BYTES = 192 * 1024 * 1024
"""Limit of a server's reply: 10,000 streams with 5 consumers each are 68 MB."""


@dataclass(frozen=True, slots=True)
class CompleteSource:
    """A source with complete information about all servers."""

    name: Source
    request: Callable[[str, Options], Awaitable[list[ServerReply]]]
    """Returns each server's reply to `VARZ`, `JSZ` or `STATZ`, with options as in JSON."""
    request_uncompressed: Callable[[str, Options], Awaitable[list[ServerReply]]]
    """Like `request`, but without compression, which costs servers less. Only for replies that
    are known to be within the limit of the connection: a longer one would close it.
    """
    silent: Callable[[list[ServerReply]], tuple[str, ...]]
    """Returns the servers that replied before and are not in these replies."""


@dataclass
class SystemConnection:
    """Opens a connection of the system account when needed, and finds the best source of data."""

    connection: Connection
    own_client: Client | None = None
    """Our own connection, which may be of the system account itself; it stays open."""
    _client: Client | None = None
    _refusal: str = ""
    """Reason why our own connection is not of the system account; empty if it is, or unknown."""
    _servers: ServerRequests | None = None
    _ports: MonitoringPorts | None = None
    _failure: str = ""
    """Reason why the last attempt to connect failed."""
    _failed_at_s: float = float("-inf")
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def client(self) -> Client:
        """Return a connection of the system account; raises NatstuiError without one.

        Without [system] that is our own, if it is of that account. A failed one is not retried at
        once.
        """
        async with self._opening:
            if self._client is None:
                if monotonic() - self._failed_at_s < _RETRY_S:
                    raise RequestFailed(self._failure)
                connect_system = (
                    self._connect_named
                    if self.connection.system is not None
                    else self._connect_own
                )
                self._client = await connect_system()
            return self._client

    async def _connect_named(self) -> Client:
        try:
            assert self.connection.system is not None
            return await connect(self.connection.system)
        except NatstuiError as error:
            self._failure = f"the system account of [system]: {error}"
            self._failed_at_s = monotonic()
            raise RequestFailed(self._failure) from error

    async def _connect_own(self) -> Client:
        if self._refusal:
            raise UsageError(self._refusal)
        client = self.own_client or await connect(self.connection)
        try:
            self._refusal = await _refusal_of(client)
            if self._refusal:
                raise UsageError(self._refusal)
        except NatstuiError as error:
            if client is not self.own_client:
                await client.close()
            if not self._refusal:
                self._failure = str(error)
                self._failed_at_s = monotonic()
            raise
        return client

    async def find_source(self) -> tuple[CompleteSource | None, list[Missing]]:
        """Return the best available source or None, and the better sources that are missing."""
        missing = []
        if (
            self.connection.system is not None
            or self.own_client is not None
            or self._client is not None
        ):
            try:
                client = await self.client()
            except UsageError:
                pass  # no system account is named, and ours is another
            except (RequestFailed, ConnectionLost) as error:
                missing.append(Missing("the system account", str(error)))
            else:
                if self._servers is None:
                    self._servers = ServerRequests(client)
                send = self._request_system, partial(self._request_system, compressed=False)
                return CompleteSource("system", *send, self._servers.silent), missing
        if self.connection.monitoring:
            if self._ports is None:
                self._ports = MonitoringPorts(self.connection)
            requests = self._request_ports, self._request_ports
            return CompleteSource("monitoring", *requests, self._silent_ports), missing
        return None, missing

    async def _request_system(
        self, request: str, options: Options, *, compressed: bool = True
    ) -> list[ServerReply]:
        assert self._servers is not None
        # A server that does not know an account replies with an error; others know it.
        names_account = "account" in options
        try:
            return await self._servers.request_all(
                _SUBJECTS[request],
                options,
                compressed=compressed,
                some=names_account,
                timeout_s=LONG_S if names_account else None,
            )
        except RequestFailed as error:
            link = self._client.link if self._client is not None else None
            if error.code != 503 or link is None:
                raise
            user_text = f"{link.user or 'nobody'} of the account {link.account or 'unknown'}"
            sentence = (
                f'no reply on "{_SUBJECTS[request]}": [system] is {user_text}, which is not '
                "the server's system_account"
            )
            raise RequestFailed(sentence, code=503) from error

    async def _request_ports(self, request: str, options: Options) -> list[ServerReply]:
        assert self._ports is not None
        # Their names are those of the address line, where 1 is true.
        query = {
            _QUERY.get(name, name): quote(value) if isinstance(value, str) else int(value)
            for name, value in options.items()
        }
        limit_s = LONG_S if "account" in options else None
        return await self._ports.request_all(_PORTS[request], query, limit_s)

    def _silent_ports(self, _replies: list[ServerReply]) -> tuple[str, ...]:
        assert self._ports is not None
        return tuple(f"{address} ({reason})" for address, reason in self._ports.silent.items())

    async def close(self) -> None:
        """Close the system account's connection."""
        client, self._client = self._client, None
        if client is not None and client is not self.own_client:
            await client.close()


async def _refusal_of(client: Client) -> str:
    """Return the reason why servers do not reply to system requests; empty if they do.

    A user of that account may have no permission for one of the subjects. Raises PermissionDenied
    to receive replies at all, RequestTimedOut, and ConnectionLost.
    """
    servers = ServerRequests(client)
    for subject in _ONLY_OF_SYSTEM:
        try:
            return "" if await servers.request_all(subject, {}, some=True) else NOT_SET
        except PermissionDenied as denied:
            if denied.kind != "publish":
                raise
        except RequestFailed as error:
            if isinstance(error, RequestTimedOut):
                raise
            return NOT_SET
    return NOT_ALLOWED


_QUERY = {"include_unused": "unused", "account": "acc", "consumer": "consumers"}


class _ServerIdentity(msgspec.Struct):
    server_id: str
    server_name: str = ""


class MonitoringPorts:
    """The configured monitoring ports, each of one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._context: ssl.SSLContext | None = None
        if any(address.startswith("https://") for address in connection.monitoring):
            self._context = tls_options(connection, is_wanted=True)["tls"]
        self.silent: dict[str, str] = {}
        """Address → reason why its server did not reply to the last request."""

    async def request_all(
        self, path: str, options: Mapping[str, object], limit_s: float | None = None
    ) -> list[ServerReply]:
        """Return the reply of each server to a path, such as `/varz`; raises RequestFailed if none
        replies.
        """
        limit_s = limit_s or self._connection.request_timeout_s
        query = "&".join(f"{name}={value}" for name, value in options.items())
        urls = [f"{address.rstrip('/')}{path}?{query}" for address in self._connection.monitoring]
        results = await asyncio.gather(*(self._get(url, limit_s) for url in urls))
        self.silent = {
            _strip_url(url): result
            for url, result in zip(urls, results, strict=True)
            if isinstance(result, str)
        }
        replies = [result for result in results if isinstance(result, ServerReply)]
        if not replies:
            failures_text = "; ".join(f"{url}: {reason}" for url, reason in self.silent.items())
            raise RequestFailed(f"no monitoring port replies: {failures_text}")
        # Two addresses may lead to the same server.
        return list({reply.server_id: reply for reply in replies}.values())

    async def _get(self, url: str, limit_s: float) -> ServerReply | str:
        """Return the reply of a port, or the reason why there is none."""
        requested_us = steady_us()
        try:
            # Never through a proxy of the environment: these ports are inside.
            reply = await http_request(
                "GET", url, limit_s, tls=self._context, max_bytes=_MAX_BYTES
            )
            server_identity = read(_strip_url(url), reply.body, _ServerIdentity)
        except RequestFailed as error:
            return str(error)
        name = server_identity.server_name or server_identity.server_id
        return ServerReply(
            server_identity.server_id,
            name,
            None,
            None,
            reply.body,
            transferred_bytes=len(reply.body),
            requested_mono_us=requested_us,
            began_mono_us=reply.began_mono_us,
            ended_mono_us=steady_us(),
        )


def _strip_url(url: str) -> str:
    """Return an address without its query, user and password."""
    scheme, _, rest_of_url = url.partition("://")
    return f"{scheme}://{rest_of_url.partition('?')[0].rpartition('@')[2]}"
