"""A connection, tried step by step, each step with what it found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from natstui.clean import clean_line
from natstui.config import Connection
from natstui.config.servers import Address
from natstui.errors import ConnectionFailed, NatstuiError, PermissionDenied, RequestFailed
from natstui.jetstream.connection.client import Client, client_of
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.opening import Plan, attempt, dispose, prepare
from natstui.model.live.permissions import READING, may_publish
from natstui.model.servers.versions import too_old

_STEPS = ("address", "TCP", "greeting", "TLS", "authentication")
_STEPS_TLS_FIRST = ("address", "TCP", "TLS", "greeting", "authentication")


@dataclass(frozen=True, slots=True)
class Step:
    """One step towards a usable JetStream."""

    place: str
    """`host:port` of the server."""
    name: str
    text: str
    """What was found, or why it failed."""
    error: NatstuiError | None = None
    """Why it failed; None is passed."""


async def check(connection: Connection) -> AsyncIterator[Step]:
    """Yield the steps to every address, then those of JetStream at the first that connects.

    Raises UsageError when our own files or addresses are wrong, before any step.
    """
    plan = prepare(connection)
    usable: list[tuple[GuardedClient, str]] = []
    for address in plan.addresses:
        nc, steps = await _connect(plan, address)
        for step in steps:
            yield step
        if nc is not None:
            usable.append((nc, address.place))
    for nc, _ in usable[1:]:
        await dispose(nc)
    if not usable:
        return
    client = await client_of(connection, usable[0][0], None)
    try:
        async for step in _check_jetstream(client, usable[0][1]):
            yield step
    finally:
        await client.close()


async def _connect(plan: Plan, address: Address) -> tuple[GuardedClient | None, list[Step]]:
    """Try one address; return the steps up to the one that failed."""
    way = _STEPS_TLS_FIRST if plan.connection.tls_first else _STEPS
    place = address.place
    try:
        client = await attempt(plan, address)
    except ConnectionFailed as error:
        failed = error.step if error.step in way else way[-1]
        # What the server sent before the failure is not kept.
        known = {"address": address.host, "TCP": "connected"}
        passed = [
            Step(place, name, known.get(name, "passed")) for name in way[: way.index(failed)]
        ]
        return None, [*passed, Step(place, failed, error.reason, error)]
    info = client.server_info
    found = {
        "address": address.host,
        "TCP": "connected",
        "greeting": clean_line(f"{info.get('server_name')}, nats-server {info.get('version')}"),
        "TLS": client.encryption or "not encrypted",
        "authentication": "accepted",
    }
    return client, [Step(place, name, found[name]) for name in way]


async def _check_jetstream(client: Client, place: str) -> AsyncIterator[Step]:
    """Yield the steps for our account, for JetStream, and for what we may read of it."""
    link = client.link
    unsupported = too_old(link.server_version)
    if unsupported is not None:
        text = clean_line(unsupported)
        yield Step(place, "version", text, ConnectionFailed(text))
    who = f"user {link.user}" if link.user else "no user"
    yield Step(place, "account", clean_line(f"{link.account or 'not known'}, {who}"))
    try:
        await client.request("INFO")
    except RequestFailed as error:
        reason = link.reason if link.jetstream is False and link.reason else str(error)
        yield Step(place, "JetStream", reason, error)
        return
    domain = f", domain {link.domain}" if link.domain else ""
    yield Step(place, "JetStream", clean_line(f"API level {link.api_level}{domain}"))
    async for step in _check_permissions(client, place):
        yield step


async def _check_permissions(client: Client, place: str) -> AsyncIterator[Step]:
    try:
        permitted = await client.permissions()
    except RequestFailed as error:
        yield Step(place, "permissions", f"not known: {error}")
        return
    subjects = [f"{client.prefix}.{verb}" for verb in READING]
    denied = [subject for subject in subjects if not may_publish(permitted, subject)]
    for subject in denied:
        denial = PermissionDenied(subject)
        yield Step(place, "permissions", str(denial), denial)
    if not denied:
        yield Step(place, "permissions", "may read all streams and consumers")
