"""Checks a connection step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import Struct

from natstui.clean import clean_line
from natstui.config import Connection
from natstui.config.servers import Address
from natstui.errors import ConnectionFailed, NatstuiError, PermissionDenied, RequestFailed
from natstui.jetstream.connection.client import Client, make_client
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.opening import ConnectPlan, connect_to, dispose, make_plan
from natstui.model.assets.subjects import overlap
from natstui.model.live.permissions import READ_API_VERBS, may_publish
from natstui.model.servers.versions import version_problem

_STEPS = ("address", "TCP", "greeting", "TLS", "authentication")
_STEPS_TLS_FIRST = ("address", "TCP", "TLS", "greeting", "authentication")


class CheckStep(Struct, frozen=True):
    """A checked step towards a usable JetStream, and its result."""

    host_port: str
    """`host:port` of the server."""
    name: str
    text: str
    """The result of the step, or why it failed."""
    error: NatstuiError | None = None
    """The error of the step; None if it passed."""


async def check_connection(connection: Connection) -> AsyncIterator[CheckStep]:
    """Yield the checked steps: to every address, then those of JetStream on the first that works.

    Raises UsageError before any step if a file or address of the settings is invalid.
    """
    plan = make_plan(connection)
    usable_clients_and_addresses: list[tuple[GuardedClient, str]] = []
    for address in plan.addresses:
        nc, steps = await _connect(plan, address)
        for step in steps:
            yield step
        if nc is not None:
            usable_clients_and_addresses.append((nc, address.host_port))
    for nc, _ in usable_clients_and_addresses[1:]:
        await dispose(nc)
    if not usable_clients_and_addresses:
        return
    client = await make_client(connection, usable_clients_and_addresses[0][0], None)
    try:
        async for step in _check_jetstream(client, usable_clients_and_addresses[0][1]):
            yield step
    finally:
        await client.close()


async def _connect(
    plan: ConnectPlan, address: Address
) -> tuple[GuardedClient | None, list[CheckStep]]:
    """Connect to one address; return the client and the steps, up to the first that fails.

    The client is None if a step fails.
    """
    steps = _STEPS_TLS_FIRST if plan.connection.tls_first else _STEPS
    address_text = address.host_port
    try:
        client = await connect_to(plan, address)
    except ConnectionFailed as error:
        failed_step = error.step if error.step in steps else steps[-1]
        # What the server sent before the failure is not kept.
        result_by_step = {"address": address.host, "TCP": "connected"}
        passed_steps = [
            CheckStep(address_text, name, result_by_step.get(name, "passed"))
            for name in steps[: steps.index(failed_step)]
        ]
        return None, [*passed_steps, CheckStep(address_text, failed_step, error.reason, error)]
    info = client.server_info
    result_by_step = {
        "address": address.host,
        "TCP": "connected",
        "greeting": clean_line(f"{info.get('server_name')}, nats-server {info.get('version')}"),
        "TLS": client.encryption or "not encrypted",
        "authentication": "accepted",
    }
    return client, [CheckStep(address_text, name, result_by_step[name]) for name in steps]


async def _check_jetstream(client: Client, address_text: str) -> AsyncIterator[CheckStep]:
    """Yield the steps of version, account, JetStream and permissions."""
    link = client.link
    version_error = version_problem(link.server_version)
    if version_error is not None:
        text = clean_line(version_error)
        yield CheckStep(address_text, "version", text, ConnectionFailed(text))
    user_text = f"user {link.user}" if link.user else "no user"
    yield CheckStep(
        address_text, "account", clean_line(f"{link.account or 'not known'}, {user_text}")
    )
    try:
        await client.request("INFO")
    except RequestFailed as error:
        reason = link.reason if link.jetstream is False and link.reason else str(error)
        yield CheckStep(address_text, "JetStream", reason, error)
        return
    domain = f", domain {link.domain}" if link.domain else ""
    yield CheckStep(address_text, "JetStream", clean_line(f"API level {link.api_level}{domain}"))
    async for step in _check_permissions(client, address_text):
        yield step


async def _check_permissions(client: Client, address_text: str) -> AsyncIterator[CheckStep]:
    try:
        permissions = await client.permissions()
    except RequestFailed as error:
        yield CheckStep(address_text, "permissions", f"not known: {error}")
        return
    subjects = [f"{client.prefix}.{verb}" for verb in READ_API_VERBS]
    denied_subjects = [subject for subject in subjects if not may_publish(permissions, subject)]
    for subject in denied_subjects:
        denial = PermissionDenied(subject)
        yield CheckStep(address_text, "permissions", str(denial), denial)
    # Denied for some streams or consumers only.
    denied_patterns = [
        pattern
        for pattern in (text.split(" ")[0] for text in permissions.publish_deny)
        if any(overlap(pattern, subject) for subject in subjects if subject not in denied_subjects)
    ]
    for pattern in denied_patterns:
        denial = PermissionDenied(pattern)
        yield CheckStep(address_text, "permissions", str(denial), denial)
    if not denied_subjects and not denied_patterns:
        yield CheckStep(address_text, "permissions", "may read all streams and consumers")
