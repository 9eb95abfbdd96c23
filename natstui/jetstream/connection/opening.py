"""Opens the first connection: one address after the other, each failure explained, within a
timeout.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from typing import Any

import nats.errors

from natstui.config import Connection
from natstui.config.servers import Address, parse_servers
from natstui.errors import AuthenticationFailed, ConnectionFailed, NatstuiError, UsageError
from natstui.jetstream.connection.authentication import auth_options, tls_options
from natstui.jetstream.connection.failures import (
    explain,
    explain_refusal,
    handshake_not_first,
    hung_up,
)
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.transport import refusal_in

_PROBE_S = 1.0


_GREETINGS = {b"INFO ": "NATS", b"HTTP/": "HTTP"}
_OF_NATS = {
    "TLS": "it begins with a TLS handshake: set tls_first",
    "TLS NATS": "it begins with a TLS handshake: set tls_first",
    "HTTP": "it speaks HTTP: is this its monitoring port, or one for ws://?",
    "TLS HTTP": "it speaks HTTPS: is this its monitoring port, or one for wss://?",
}
_OF_WEBSOCKET = {
    "NATS": "it speaks NATS without WebSocket: use nats://",
    "TLS": "it begins with a TLS handshake: use wss://",
    "TLS NATS": "it speaks NATS after a TLS handshake, without WebSocket: use tls://",
    "TLS HTTP": "it begins with a TLS handshake: use wss://",
}


async def guess_protocol(host: str, port: int) -> str | None:
    """Return the protocol of a port: `NATS`, `HTTP`, `TLS`, `TLS NATS`, `TLS HTTP`, or None.

    Takes 2 s on a silent port; no certificate is checked.
    """
    insecure = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
    for context in (insecure, None):
        try:
            async with asyncio.timeout(_PROBE_S):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
        except (OSError, EOFError, ValueError):
            continue  # not that one; TimeoutError is an OSError
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            async with asyncio.timeout(_PROBE_S):
                first_bytes = await reader.read(5)
        except OSError:
            first_bytes = b""
        finally:
            writer.transport.abort()
        spoken = (["TLS"] if context else []) + (
            [_GREETINGS[first_bytes]] if first_bytes in _GREETINGS else []
        )
        if spoken:
            return " ".join(spoken)
    return None


async def _other_protocol(address: Address) -> str | None:
    """Return half a sentence on the other protocol of an address, with advice; else None."""
    spoken = await guess_protocol(address.host, address.port)
    if address.websocket and spoken == "HTTP":
        if address.tls:
            return "it speaks HTTP without TLS, so that nothing would be encrypted"
        return "it speaks HTTP without WebSocket: is this its monitoring port?"
    if address.websocket and address.tls and spoken == "NATS":
        return "it speaks NATS without WebSocket: use tls://"
    return (_OF_WEBSOCKET if address.websocket else _OF_NATS).get(spoken or "")


_STEP_S = 2.5
_CLOSE_S = 1.5
# After so long without a byte a PING is sent.
_PING_S = 2.0
RETRY_S = 0.5
_INBOX = re.compile(r"[^\s*>.]+(\.[^\s*>.]+)*\.?")


async def open_client(connection: Connection) -> GuardedClient:
    """Return a connected client that does not reconnect yet.

    Raises ConnectionFailed or AuthenticationFailed with the reason of every address, UsageError
    when our own files or addresses are wrong.
    """
    plan = prepare(connection)
    failures: list[ConnectionFailed] = []
    try:
        async with asyncio.timeout(connection.connect_timeout_s):
            for address in plan.addresses:
                try:
                    return await attempt(plan, address)
                except ConnectionFailed as failure:
                    failures.append(failure)
    except TimeoutError:
        timeout_text = f"within {connection.connect_timeout_s:g} s"
        failures.append(ConnectionFailed(f"no connection could be made {timeout_text}"))
    raise _summary(failures)


@dataclass(frozen=True, slots=True)
class Plan:
    """The resolved and checked inputs of an attempt to connect."""

    connection: Connection
    addresses: tuple[Address, ...]
    options: dict[str, Any]
    """Arguments of nats-py's `connect`."""
    tls_only: bool


def prepare(connection: Connection) -> Plan:
    """Resolve addresses, identity and TLS files; raises UsageError when one is wrong."""
    addresses = parse_servers(connection.servers)
    is_tls_wanted = connection.wants_tls or any(address.tls for address in addresses)
    prefix = connection.inbox_prefix
    if not _INBOX.fullmatch(prefix):
        raise UsageError(f"inbox_prefix {prefix!r} is not a subject without wildcards")
    options = {
        "name": connection.client_name,
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,
        "reconnect_time_wait": RETRY_S,
        "connect_timeout": min(_STEP_S, connection.connect_timeout_s),
        "ping_interval": _PING_S,
        "pending_size": 0,
        "dont_randomize": True,
        "inbox_prefix": prefix.rstrip("."),
        **auth_options(connection, addresses),
        **tls_options(connection, is_wanted=is_tls_wanted),
    }
    return Plan(connection, addresses, options, is_tls_wanted)


async def attempt(plan: Plan, address: Address) -> GuardedClient:
    """Connect to one address, or raise the explained reason."""
    client = GuardedClient(tls_only=plan.tls_only)
    is_connected = False
    try:
        await client.connect(servers=[address.url], error_cb=_raise, **plan.options)
        is_connected = True
    except (OSError, nats.errors.Error) as error:
        await dispose(client)
        failure = await _failure(plan.connection, address, client, error)
        raise explain_refusal(address.place, failure, plan.connection) from error
    finally:
        if not is_connected:
            await dispose(client)
    return client


async def _failure(
    connection: Connection, address: Address, client: GuardedClient, error: Exception
) -> NatstuiError:
    """Return why an attempt failed, from all available information."""
    address_text, step = address.place, client.step
    silent = step == "greeting" and client.refusal is None
    if silent and connection.tls_first and not address.websocket:
        return handshake_not_first(address_text)
    no_handshake = address.websocket and step == "TLS" and isinstance(error, ssl.SSLError)
    certificate = isinstance(error, ssl.SSLCertVerificationError)
    if silent or (no_handshake and not certificate):
        other_protocol = await _other_protocol(address)
        if other_protocol is not None:
            kind = "WebSocket" if address.websocket else "NATS"
            reason = f"{address_text} does not greet as a {kind} server does; {other_protocol}"
            return ConnectionFailed(reason, step=step)
    refusal = await refusal_of(client, address.host, address.port, error)
    return explain(address_text, step, error, refusal)


async def refusal_of(client: GuardedClient, host: str, port: int, error: Exception) -> str | None:
    """Return the server's error before it closed a connection; takes 1 s at most.

    A server that closes while we write resets the connection, and its error is lost. Then we
    connect once more and only read: a full server sends its error to anybody.
    """
    if client.refusal is not None or client.step != "authentication" or not hung_up(error):
        return client.refusal
    try:
        async with asyncio.timeout(_PROBE_S):
            return await _said_unasked(host, port)
    except (OSError, ValueError):
        return None  # it says nothing, or too much; TimeoutError is an OSError


async def _said_unasked(host: str, port: int) -> str | None:
    """Return the error after the INFO of a server; None without one."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await reader.readline()
        error_text = refusal_in(await reader.readline())
    finally:
        writer.transport.abort()
    # That we do not say who we are is what it complains of then, and not why it hung up before.
    return None if error_text is None or "timeout" in error_text.lower() else error_text


async def _raise(error: Exception) -> None:
    """Raise the error, to stop nats-py at the first failure instead of retrying."""
    raise error


async def dispose(client: GuardedClient) -> None:
    """Close a client in any state, in a bounded time."""
    closing = asyncio.ensure_future(client.close())
    await asyncio.wait({closing}, timeout=_CLOSE_S)
    client.abort()
    if not closing.done():
        closing.cancel()
        await asyncio.wait({closing})


def _summary(failures: list[ConnectionFailed]) -> ConnectionFailed:
    """Return one error for the failures of all addresses."""
    if len(failures) == 1:
        return failures[0]
    all_auth = all(isinstance(failure, AuthenticationFailed) for failure in failures)
    kind = AuthenticationFailed if all_auth else ConnectionFailed
    return kind("no server of the list can be used: " + "; ".join(map(str, failures)))
