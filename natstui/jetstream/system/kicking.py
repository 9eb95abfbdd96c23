"""Closes a client's connection through the system account."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from natstui.errors import ActionRefusal, NotFound, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.system.connections import read_connection_on_server
from natstui.jetstream.system.requests import ServerRequests
from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.text import kick_loss_text, kick_prompt
from natstui.model.records.system import KickConnection

_CLOSE_TIMEOUT_S = 10.0
_CHECK_INTERVAL_S = 0.1


async def kick(writer: Writer, own_client: Client | None, command: KickConnection) -> str:
    """Close the connection that a command names, and wait for its end; return the result as text.

    `writer` is of the system account, `own_client` is natstui's other connection, which must not
    be closed. Raises NotFound if the connection has ended, MissingConfirmation without the typed
    name, ActionRefusal, and the request errors.
    """
    servers = ServerRequests(writer.client)
    connection = await _find_connection(servers, command)
    if connection.key in {
        _read_connection_key(client)
        for client in (writer.client, own_client)
        if client is not None
    }:
        raise ActionRefusal(
            f"{connection.display_name} is the connection of natstui itself: q leaves natstui"
        )

    async def send() -> dict[str, Any]:
        subject = f"$SYS.REQ.SERVER.{command.server_id}.KICK"
        await servers.request_all(subject, {"cid": command.connection_id})
        return {"reason": "Kicked"}

    journal_fields = {
        "server": connection.server_name,
        "server_id": connection.server_id,
        "connection_id": connection.connection_id,
        "started_at_us": connection.started_at_us,
        "user": connection.user,
        "address": connection.address,
    }
    draft = JournalDraft("kick_connection", connection.display_name, None, journal_fields)
    names = connection.display_name, command.confirmed
    await writer.send(
        draft, names, send, lambda reply: reply, kick_loss_text(connection),
        prompt=kick_prompt(connection),
    )  # fmt: skip
    return await _wait_until_closed(servers, connection)


async def _find_connection(servers: ServerRequests, command: KickConnection) -> ClientConnection:
    """Return the connection of a command; raises NotFound if it has ended."""
    connection = await read_connection_on_server(servers, command.server_id, command.connection_id)
    if (
        connection is None
        or connection.stopped_at_us is not None
        or connection.started_at_us != command.started_at_us
    ):
        raise NotFound(
            f"connection {command.connection_id} has ended already: nothing was changed"
        )
    return connection


def _read_connection_key(client: Client) -> tuple[str, int]:
    info = client.nc.server_info
    return str(info.get("server_id", "")), int(info.get("client_id", -1))


async def _wait_until_closed(servers: ServerRequests, connection: ClientConnection) -> str:
    deadline_s = monotonic() + _CLOSE_TIMEOUT_S
    while True:
        current_connection = await read_connection_on_server(servers, *connection.key)
        if current_connection is None or current_connection.stopped_at_us is not None:
            reason_text = (
                f": {current_connection.reason}"
                if current_connection is not None and current_connection.reason
                else ""
            )
            return (
                f"{connection.display_name} is not connected to {connection.server_name} any "
                f"more{reason_text}"
            )
        if monotonic() > deadline_s:
            raise RequestFailed(f"{connection.display_name} was kicked, and is still connected")
        await asyncio.sleep(_CHECK_INTERVAL_S)
