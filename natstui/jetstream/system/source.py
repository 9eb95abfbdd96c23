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
from msgspec import Struct

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
from natstui.model.servers.server import MissingData, Source

RequestOptions = Mapping[str, str | int]
"""Options by their names in JSON; booleans as integers."""
_CONNECT_RETRY_S = 30.0
LONG_REPLY_TIMEOUT_S = 20.0
"""Timeout of a reply with all streams of an account: it takes seconds on busy servers."""
_SYSTEM_PREFIX = "$SYS.REQ.SERVER.PING."
NO_SYSTEM_USER_TEXT = (
    'only the system account may request "$SYS.REQ.SERVER.PING.VARZ": name a user of it in '
    '[system] of the configuration, or the monitoring ports (monitoring = "http://HOST:8222"), '
    "which an operator opens with http_port in the server's configuration"
)
NOT_PERMITTED_TEXT = NO_SYSTEM_USER_TEXT.replace(
    "only the system account may request",
    "only a user of the system account with permission may request",
)
"""For a user without permission for any of these subjects, of any account."""
_TRIED_SYSTEM_SUBJECTS = tuple(
    f"{_SYSTEM_PREFIX}{request}" for request in ("VARZ", "STATSZ", "JSZ", "CONNZ")
)
_PORT_PATH_BY_REQUEST = {"VARZ": "/varz", "JSZ": "/jsz", "STATZ": "/accstatz"}
_SUBJECT_BY_REQUEST = {
    "VARZ": f"{_SYSTEM_PREFIX}VARZ",
    "JSZ": f"{_SYSTEM_PREFIX}JSZ",
    "STATZ": "$SYS.REQ.ACCOUNT.PING.STATZ",
}
MAX_REPLY_ACCOUNTS = 1 << 20
"""Limit of accounts in a reply to JSZ: without one, a server sends 1,024."""
_MAX_REPLY_BYTES = 192 * 1024 * 1024
"""Limit of a server's reply: 10,000 streams with 5 consumers each are 68 MB."""


class CompleteSource(Struct, frozen=True):
    """A source with complete information about all servers."""

    name: Source
    request: Callable[[str, RequestOptions], Awaitable[list[ServerReply]]]
    """Returns each server's reply to `VARZ`, `JSZ` or `STATZ`, with options as in JSON."""
    request_uncompressed: Callable[[str, RequestOptions], Awaitable[list[ServerReply]]]
    """Like `request`, but without compression, which costs servers less. Only for replies that
    are known to be within the limit of the connection: a longer one would close it.
    """
    find_silent: Callable[[list[ServerReply]], tuple[str, ...]]
    """Returns the servers that replied before and are not in these replies."""


@dataclass
class SystemConnection:
    """Opens a connection of the system account when needed, and finds the best source of data."""

    connection: Connection
    own_client: Client | None = None
    """Our own connection, which may be of the system account itself; it stays open."""
    _client: Client | None = None
    _refusal_reason: str = ""
    """Reason why our own connection is not of the system account; empty if it is, or unknown."""
    _servers: ServerRequests | None = None
    _monitoring_ports: MonitoringPorts | None = None
    _failure_text: str = ""
    """Reason why the last attempt to connect failed."""
    _failed_at_s: float = float("-inf")
    _connect_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def client(self) -> Client:
        """Return a connection of the system account; raises NatstuiError without one.

        Without [system] in the configuration, that is our own connection, if it is of the system
        account. After a failure, it raises the same error for 30 s.
        """
        async with self._connect_lock:
            if self._client is None:
                if monotonic() - self._failed_at_s < _CONNECT_RETRY_S:
                    raise RequestFailed(self._failure_text)
                connect_system = (
                    self._connect_configured
                    if self.connection.system is not None
                    else self._connect_own_client
                )
                self._client = await connect_system()
            return self._client

    async def _connect_configured(self) -> Client:
        try:
            assert self.connection.system is not None
            return await connect(self.connection.system)
        except NatstuiError as error:
            self._failure_text = f"the system account of [system]: {error}"
            self._failed_at_s = monotonic()
            raise RequestFailed(self._failure_text) from error

    async def _connect_own_client(self) -> Client:
        if self._refusal_reason:
            raise UsageError(self._refusal_reason)
        client = self.own_client or await connect(self.connection)
        try:
            self._refusal_reason = await _find_refusal(client)
            if self._refusal_reason:
                raise UsageError(self._refusal_reason)
        except NatstuiError as error:
            if client is not self.own_client:
                await client.close()
            if not self._refusal_reason:
                self._failure_text = str(error)
                self._failed_at_s = monotonic()
            raise
        return client

    async def find_source(self) -> tuple[CompleteSource | None, list[MissingData]]:
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
                missing.append(MissingData("the system account", str(error)))
            else:
                if self._servers is None:
                    self._servers = ServerRequests(client)
                system_request_functions = (
                    self._request_system,
                    partial(self._request_system, compressed=False),
                )
                return CompleteSource(
                    "system", *system_request_functions, self._servers.find_silent
                ), missing
        if self.connection.monitoring:
            try:
                if self._monitoring_ports is None:
                    self._monitoring_ports = MonitoringPorts(self.connection)
            except UsageError as error:
                missing.append(MissingData("the monitoring ports", str(error)))
                return None, missing
            port_request_functions = self._request_ports, self._request_ports
            return CompleteSource(
                "monitoring", *port_request_functions, self._silent_ports
            ), missing
        return None, missing

    async def _request_system(
        self, request: str, options: RequestOptions, *, compressed: bool = True
    ) -> list[ServerReply]:
        assert self._servers is not None
        # A server that does not know an account replies with an error; others know it.
        has_account_option = "account" in options
        try:
            return await self._servers.request_all(
                _SUBJECT_BY_REQUEST[request],
                options,
                compressed=compressed,
                skips_errors=has_account_option,
                timeout_s=LONG_REPLY_TIMEOUT_S if has_account_option else None,
            )
        except RequestFailed as error:
            link = self._client.link if self._client is not None else None
            if error.code != 503 or link is None:
                raise
            user_text = f"{link.user or 'nobody'} of the account {link.account or 'unknown'}"
            error_text = (
                f'no reply on "{_SUBJECT_BY_REQUEST[request]}": [system] is {user_text}, '
                "which is not the server's system_account"
            )
            raise RequestFailed(error_text, code=503) from error

    async def _request_ports(self, request: str, options: RequestOptions) -> list[ServerReply]:
        assert self._monitoring_ports is not None
        # Their names are those of the address line, where 1 is true.
        query = {
            _QUERY_NAMES.get(name, name): quote(value) if isinstance(value, str) else int(value)
            for name, value in options.items()
        }
        timeout_s = LONG_REPLY_TIMEOUT_S if "account" in options else None
        return await self._monitoring_ports.request_all(
            _PORT_PATH_BY_REQUEST[request], query, timeout_s
        )

    def _silent_ports(self, _replies: list[ServerReply]) -> tuple[str, ...]:
        assert self._monitoring_ports is not None
        return tuple(
            f"{address} ({reason})"
            for address, reason in self._monitoring_ports.failure_by_url.items()
        )

    async def close(self) -> None:
        """Close the system account's connection."""
        client, self._client = self._client, None
        if client is not None and client is not self.own_client:
            await client.close()


async def _find_refusal(client: Client) -> str:
    """Return the reason why servers do not reply to system requests; empty if they do.

    It tries several subjects, because a user of the system account may lack permission for one.
    Raises PermissionDenied if the user may not receive replies, RequestTimedOut, and
    ConnectionLost.
    """
    servers = ServerRequests(client)
    for subject in _TRIED_SYSTEM_SUBJECTS:
        try:
            return (
                ""
                if await servers.request_all(subject, {}, skips_errors=True)
                else NO_SYSTEM_USER_TEXT
            )
        except PermissionDenied as denied:
            if denied.kind != "publish":
                raise
        except RequestFailed as error:
            if isinstance(error, RequestTimedOut):
                raise
            return NO_SYSTEM_USER_TEXT
    return NOT_PERMITTED_TEXT


_QUERY_NAMES = {"include_unused": "unused", "account": "acc", "consumer": "consumers"}


class _ServerIdentity(msgspec.Struct):
    server_id: str
    server_name: str = ""


class MonitoringPorts:
    """The configured monitoring ports, each of one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tls_context: ssl.SSLContext | None = None
        if any(address.startswith("https://") for address in connection.monitoring):
            self._tls_context = tls_options(connection, is_tls_wanted=True)["tls"]
        self.failure_by_url: dict[str, str] = {}
        """Address → reason why its server did not reply to the last request."""

    async def request_all(
        self, path: str, options: Mapping[str, object], timeout_s: float | None = None
    ) -> list[ServerReply]:
        """Return the reply of each server to a path, such as `/varz`; raises RequestFailed if none
        replies.
        """
        timeout_s = timeout_s or self._connection.request_timeout_s
        query = "&".join(f"{name}={value}" for name, value in options.items())
        urls = [f"{address.rstrip('/')}{path}?{query}" for address in self._connection.monitoring]
        replies_or_reasons = await asyncio.gather(
            *(self._request_port(url, timeout_s) for url in urls)
        )
        self.failure_by_url = {
            _strip_url(url): result
            for url, result in zip(urls, replies_or_reasons, strict=True)
            if isinstance(result, str)
        }
        replies = [result for result in replies_or_reasons if isinstance(result, ServerReply)]
        if not replies:
            failures_text = "; ".join(
                f"{url}: {reason}" for url, reason in self.failure_by_url.items()
            )
            raise RequestFailed(f"no monitoring port replies: {failures_text}")
        # Two addresses may lead to the same server.
        return list({reply.server_id: reply for reply in replies}.values())

    async def _request_port(self, url: str, timeout_s: float) -> ServerReply | str:
        """Return the reply of a port, or the reason why there is none."""
        requested_us = steady_us()
        try:
            # Never through a proxy of the environment: these ports are inside.
            reply = await http_request(
                "GET", url, timeout_s, tls=self._tls_context, max_bytes=_MAX_REPLY_BYTES
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
