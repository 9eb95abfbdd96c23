"""Closes a client's connection through the system account."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from natstui.errors import NotFound, Refused, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.system.asking import ServerRequests
from natstui.jetstream.system.connections import read_connection_there
from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.words import kick_loss
from natstui.model.records.system import KickConnection

_ENDS_WITHIN_S = 10.0
_LOOKED_AGAIN_S = 0.1


async def kick(writer: Writer, own_client: Client | None, command: KickConnection) -> str:
    """Close the given connection, and wait for its end; return the result as text.

    `writer` is of the system account, `own_client` the connection beside it. Raises NotFound when
    it has ended, Refused, and the request errors.
    """
    servers = ServerRequests(writer.client)
    connection = await _seen(servers, command)
    if connection.key in {
        _key_of(client) for client in (writer.client, own_client) if client is not None
    }:
        raise Refused(f"{connection.called} is the connection of natstui itself: q leaves natstui")

    async def ask() -> dict[str, Any]:
        subject = f"$SYS.REQ.SERVER.{command.server_id}.KICK"
        await servers.ask(subject, {"cid": command.connection_id})
        return {"reason": "Kicked"}

    journalled_fields = {
        "server": connection.server_name,
        "server_id": connection.server_id,
        "connection_id": connection.connection_id,
        "started_at_us": connection.started_at_us,
        "user": connection.user,
        "address": connection.address,
    }
    draft = JournalDraft("kick_connection", connection.called, None, journalled_fields)
    names = connection.called, command.confirmed
    await writer.send(draft, names, ask, lambda reply: reply, loses=kick_loss(connection))
    return await _became(servers, connection)


async def _seen(servers: ServerRequests, command: KickConnection) -> ClientConnection:
    """Return the connection of a command; raises NotFound when it has ended."""
    connection = await read_connection_there(servers, command.server_id, command.connection_id)
    if (
        connection is None
        or connection.stopped_at_us is not None
        or connection.started_at_us != command.started_at_us
    ):
        raise NotFound(
            f"connection {command.connection_id} has ended already: nothing was changed"
        )
    return connection


def _key_of(client: Client) -> tuple[str, int]:
    info = client.nc.server_info
    return str(info.get("server_id", "")), int(info.get("client_id", -1))


async def _became(servers: ServerRequests, connection: ClientConnection) -> str:
    end = monotonic() + _ENDS_WITHIN_S
    while True:
        now = await read_connection_there(servers, *connection.key)
        if now is None or now.stopped_at_us is not None:
            reason_text = f": {now.reason}" if now is not None and now.reason else ""
            return (
                f"{connection.called} is not connected to {connection.server_name} any "
                f"more{reason_text}"
            )
        if monotonic() > end:
            raise RequestFailed(f"{connection.called} was kicked, and is still connected")
        await asyncio.sleep(_LOOKED_AGAIN_S)
