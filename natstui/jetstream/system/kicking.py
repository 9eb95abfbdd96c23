"""Closing the connection of a client, as the system account may."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from natstui.errors import NotFound, Refused, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.connections import read_connection_there
from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.words import kick_loss
from natstui.model.records.system import KickConnection

_ENDS_WITHIN_S = 10.0
_LOOKED_AGAIN_S = 0.1


async def kick(writer: Writer, own: Client | None, asked: KickConnection) -> str:
    """Close the connection that was seen, and wait for its end; return what became of it.

    `writer` is of the system account, `own` the connection beside it. Raises NotFound when it has
    ended, Refused, and the request errors.
    """
    servers = Servers(writer.client)
    one = await _seen(servers, asked)
    if one.key in {_key_of(client) for client in (writer.client, own) if client is not None}:
        raise Refused(f"{one.called} is the connection of natstui itself: q leaves natstui")

    async def ask() -> dict[str, Any]:
        subject = f"$SYS.REQ.SERVER.{asked.server_id}.KICK"
        await servers.ask(subject, {"cid": asked.connection_id})
        return {"reason": "Kicked"}

    journalled = {
        "server": one.server_name,
        "server_id": one.server_id,
        "connection_id": one.connection_id,
        "started_at_us": one.started_at_us,
        "user": one.user,
        "address": one.address,
    }
    draft = JournalDraft("kick_connection", one.called, None, journalled)
    confirmed = one.called, asked.confirmed
    await writer.send(draft, confirmed, ask, lambda reply: reply, loses=kick_loss(one))
    return await _became(servers, one)


async def _seen(servers: Servers, asked: KickConnection) -> ClientConnection:
    """Return the connection that was seen; raises NotFound when it has ended."""
    one = await read_connection_there(servers, asked.server_id, asked.connection_id)
    if one is None or one.stopped_at_us is not None or one.started_at_us != asked.started_at_us:
        raise NotFound(f"connection {asked.connection_id} has ended already: nothing was changed")
    return one


def _key_of(client: Client) -> tuple[str, int]:
    info = client.nc.server_info
    return str(info.get("server_id", "")), int(info.get("client_id", -1))


async def _became(servers: Servers, one: ClientConnection) -> str:
    end = monotonic() + _ENDS_WITHIN_S
    while True:
        now = await read_connection_there(servers, *one.key)
        if now is None or now.stopped_at_us is not None:
            why = f": {now.reason}" if now is not None and now.reason else ""
            return f"{one.called} is not connected to {one.server_name} any more{why}"
        if monotonic() > end:
            raise RequestFailed(f"{one.called} was kicked, and is still connected")
        await asyncio.sleep(_LOOKED_AGAIN_S)
