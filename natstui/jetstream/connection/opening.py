"""Opens the first connection: tries all addresses within a timeout, and explains failures."""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Any

import nats.errors
from msgspec import Struct

from natstui.config import Connection
from natstui.config.servers import Address, parse_servers
from natstui.errors import AuthenticationFailed, ConnectionFailed, NatstuiError, UsageError
from natstui.jetstream.connection.authentication import auth_options, tls_options
from natstui.jetstream.connection.failures import (
    explain_failed_attempt,
    explain_refusal,
    is_closed_by_server,
    make_handshake_error,
)
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.transport import refusal_in

_PROBE_TIMEOUT_S = 1.0


_GREETINGS = {b"INFO ": "NATS", b"HTTP/": "HTTP"}
_NATS_ADVICE_BY_PROTOCOL = {
    "TLS": "it begins with a TLS handshake: set tls_first",
    "TLS NATS": "it begins with a TLS handshake: set tls_first",
    "HTTP": "it speaks HTTP: is this its monitoring port, or one for ws://?",
    "TLS HTTP": "it speaks HTTPS: is this its monitoring port, or one for wss://?",
}
_WEBSOCKET_ADVICE_BY_PROTOCOL = {
    "NATS": "it speaks NATS without WebSocket: use nats://",
    "TLS": "it begins with a TLS handshake: use wss://",
    "TLS NATS": "it speaks NATS after a TLS handshake, without WebSocket: use tls://",
    "TLS HTTP": "it begins with a TLS handshake: use wss://",
}


async def guess_protocol(host: str, port: int) -> str | None:
    """Return the protocol of a port: `NATS`, `HTTP`, `TLS`, `TLS NATS`, `TLS HTTP`, or None.

    A silent port takes 2 s. No certificate is checked.
    """
    insecure_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    insecure_context.check_hostname, insecure_context.verify_mode = False, ssl.CERT_NONE
    for context in (insecure_context, None):
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
        except (OSError, EOFError, ValueError):
            continue  # not that one; TimeoutError is an OSError
        try:
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                first_bytes = await reader.read(5)
        except OSError:
            first_bytes = b""
        finally:
            writer.transport.abort()
        protocol = (["TLS"] if context else []) + (
            [_GREETINGS[first_bytes]] if first_bytes in _GREETINGS else []
        )
        if protocol:
            return " ".join(protocol)
    return None


async def _advise_protocol(address: Address) -> str | None:
    """Return a clause with advice if the port has another protocol than its URL; else None."""
    protocol = await guess_protocol(address.host, address.port)
    if address.websocket and protocol == "HTTP":
        if address.tls:
            return "it speaks HTTP without TLS, so that nothing would be encrypted"
        return "it speaks HTTP without WebSocket: is this its monitoring port?"
    if address.websocket and address.tls and protocol == "NATS":
        return "it speaks NATS without WebSocket: use tls://"
    return (_WEBSOCKET_ADVICE_BY_PROTOCOL if address.websocket else _NATS_ADVICE_BY_PROTOCOL).get(
        protocol or ""
    )


_ATTEMPT_TIMEOUT_S = 2.5
_CLOSE_TIMEOUT_S = 1.5
_PING_INTERVAL_S = 2.0
"""Time without a byte after which a PING is sent."""
RECONNECT_INTERVAL_S = 0.5
_INBOX_PREFIX_PATTERN = re.compile(r"[^\s*>.]+(\.[^\s*>.]+)*\.?")


async def open_client(connection: Connection) -> GuardedClient:
    """Return a connected client that does not reconnect yet.

    Raises ConnectionFailed or AuthenticationFailed with the reason for every address, UsageError
    if a file or address of the settings is invalid.
    """
    plan = make_plan(connection)
    failures: list[ConnectionFailed] = []
    try:
        async with asyncio.timeout(connection.connect_timeout_s):
            for address in plan.addresses:
                try:
                    return await connect_to(plan, address)
                except ConnectionFailed as failure:
                    failures.append(failure)
    except TimeoutError:
        timeout_text = f"within {connection.connect_timeout_s:g} s"
        failures.append(ConnectionFailed(f"no connection could be made {timeout_text}"))
    raise _combine_failures(failures)


class ConnectPlan(Struct, frozen=True):
    """The checked settings of an attempt to connect."""

    connection: Connection
    addresses: tuple[Address, ...]
    options: dict[str, Any]
    """Arguments of nats-py's `connect`."""
    tls_only: bool


def make_plan(connection: Connection) -> ConnectPlan:
    """Return the checked addresses, identity and TLS files; raises UsageError for invalid ones."""
    addresses = parse_servers(connection.servers)
    is_tls_wanted = connection.requires_tls or any(address.tls for address in addresses)
    prefix = connection.inbox_prefix
    if not _INBOX_PREFIX_PATTERN.fullmatch(prefix):
        raise UsageError(f"inbox_prefix {prefix!r} is not a subject without wildcards")
    options = {
        "name": connection.client_name,
        "allow_reconnect": False,
        "max_reconnect_attempts": 1,
        "reconnect_time_wait": RECONNECT_INTERVAL_S,
        "connect_timeout": min(_ATTEMPT_TIMEOUT_S, connection.connect_timeout_s),
        "ping_interval": _PING_INTERVAL_S,
        "pending_size": 0,
        "dont_randomize": True,
        "inbox_prefix": prefix.rstrip("."),
        **auth_options(connection, addresses),
        **tls_options(connection, is_tls_wanted=is_tls_wanted),
    }
    return ConnectPlan(connection, addresses, options, is_tls_wanted)


async def connect_to(plan: ConnectPlan, address: Address) -> GuardedClient:
    """Return a client connected to one address; raises natstui's error with the reason."""
    client = GuardedClient(tls_only=plan.tls_only)
    is_connected = False
    try:
        await client.connect(servers=[address.url], error_cb=_raise_error, **plan.options)
        is_connected = True
    except (OSError, nats.errors.Error) as error:
        await dispose(client)
        failure = await _explain_attempt(plan.connection, address, client, error)
        raise explain_refusal(address.host_port, failure, plan.connection) from error
    finally:
        if not is_connected:
            await dispose(client)
    return client


async def _explain_attempt(
    connection: Connection, address: Address, client: GuardedClient, error: Exception
) -> NatstuiError:
    """Return natstui's error for a failed attempt, from all available information."""
    address_text, step = address.host_port, client.step
    is_silent = step == "greeting" and client.refusal is None
    if is_silent and connection.tls_first and not address.websocket:
        return make_handshake_error(address_text)
    is_handshake_error = address.websocket and step == "TLS" and isinstance(error, ssl.SSLError)
    is_certificate_error = isinstance(error, ssl.SSLCertVerificationError)
    if is_silent or (is_handshake_error and not is_certificate_error):
        protocol_advice = await _advise_protocol(address)
        if protocol_advice is not None:
            protocol = "WebSocket" if address.websocket else "NATS"
            reason = (
                f"{address_text} does not greet as a {protocol} server does; {protocol_advice}"
            )
            return ConnectionFailed(reason, step=step)
    refusal = await find_refusal(client, address.host, address.port, error)
    return explain_failed_attempt(address_text, step, error, refusal)


async def find_refusal(
    client: GuardedClient, host: str, port: int, error: Exception
) -> str | None:
    """Return the error that a server sent before it closed a connection, or None; within 1 s.

    A server that closes while we write resets the connection, and its error is lost. Then we
    connect once more and only read: a full server sends its error to every client.
    """
    if (
        client.refusal is not None
        or client.step != "authentication"
        or not is_closed_by_server(error)
    ):
        return client.refusal
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            return await _read_greeting_error(host, port)
    except (OSError, ValueError):
        return None  # no line, or one that is too long; TimeoutError is an OSError


async def _read_greeting_error(host: str, port: int) -> str | None:
    """Return the error that a server sends after its INFO; None without one."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await reader.readline()
        error_text = refusal_in(await reader.readline())
    finally:
        writer.transport.abort()
    # A timeout only means that we sent no identity now, and not why it closed before.
    return None if error_text is None or "timeout" in error_text.lower() else error_text


async def _raise_error(error: Exception) -> None:
    """Raise an error, so that nats-py stops at the first failure instead of retrying."""
    raise error


async def dispose(client: GuardedClient) -> None:
    """Close a client in any state, within 1.5 s."""
    close_task = asyncio.ensure_future(client.close())
    await asyncio.wait({close_task}, timeout=_CLOSE_TIMEOUT_S)
    client.abort()
    if not close_task.done():
        close_task.cancel()
        await asyncio.wait({close_task})


def _combine_failures(failures: list[ConnectionFailed]) -> ConnectionFailed:
    """Return one error with the failures of all addresses."""
    if len(failures) == 1:
        return failures[0]
    are_all_refused = all(isinstance(failure, AuthenticationFailed) for failure in failures)
    error_class = AuthenticationFailed if are_all_refused else ConnectionFailed
    return error_class("no server of the list can be used: " + "; ".join(map(str, failures)))
