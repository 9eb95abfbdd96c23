"""Who leads the meta group, and who belongs to it; only the system account may change that."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from time import monotonic
from typing import Any

from natstui.errors import Refused, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.servers import read_metas
from natstui.jetstream.system.source import System
from natstui.model.records.system import RemoveServer
from natstui.model.servers.server import Meta
from natstui.model.servers.words import cluster_text, removal_loss

_LEADS_WITHIN_S = 15.0
_LOOKED_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class StepDown:
    """What is stepped down, to whom, and what the user typed to confirm it."""

    meta: Meta
    preferred: str | None
    confirmed: str | None


async def read_meta(system: System) -> Meta:
    """Return the meta group; raises RequestFailed when there is none, or are several."""
    metas = await read_metas(system)
    if len(metas) != 1:
        told = ", ".join(meta.cluster for meta in metas) or "none: JetStream is not clustered"
        raise RequestFailed(f"natstui needs exactly one meta group: {told}")
    return metas[0]


async def step_down_meta(writer: Writer, system: System, asked: StepDown) -> str:
    """Step down, and wait for who leads then; return what became of it, in a sentence.

    Raises Refused and the request errors; the server refuses a name it does not know.
    """
    before, preferred = asked.meta.leader, asked.preferred
    if preferred is not None and preferred == before:
        return f"{asked.meta.cluster} is led by {preferred} already: nothing was changed"
    body = {"placement": {"preferred": preferred}} if preferred else None

    async def ask() -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(
            await writer.client.request("META.LEADER.STEPDOWN", body)
        )
        return reply

    arguments = {"preferred": preferred} if preferred else {}
    draft = JournalDraft("step_down_meta", asked.meta.cluster, None, arguments)
    await writer.send(draft, (asked.meta.cluster, asked.confirmed), ask, lambda reply: reply)
    now = await _led_after(system, before)
    if now in (None, before):
        return f"{before} stepped down, and {asked.meta.cluster} has no new leader yet"
    return f"{asked.meta.cluster} is led by {now} now"


async def _led_after(system: System, before: str | None) -> str | None:
    end = monotonic() + _LEADS_WITHIN_S
    while True:
        now = next((one.leader for one in await read_metas(system)), None)
        if now not in (None, before) or monotonic() > end:
            return now
        await asyncio.sleep(_LOOKED_AGAIN_S)


async def meta_without(client: Client, system: System, server: str) -> Meta:
    """Return the meta group that a server may be taken out of.

    Raises Refused for a server that still answers or is no member, and the request errors.
    """
    meta, servers = await read_meta(system), Servers(client)
    answering = {one.name for one in await servers.ask("$SYS.REQ.SERVER.PING.STATSZ", {})}
    if server in answering:
        raise Refused(
            f"{server} still replies: stop it first; only a stopped server can be removed"
        )
    if not meta.peers and meta.size_count > 1:
        who = f"its leader {meta.leader} does not reply" if meta.leader else "it has no leader now"
        raise Refused(f"{cluster_text(meta)} cannot remove a member: {who}")
    if meta.peer(server) is None:
        members = ", ".join(
            sorted({*filter(None, [meta.leader]), *(peer.name for peer in meta.peers)})
        )
        raise Refused(
            f"{server} is not a member of {cluster_text(meta)}: its members are {members}"
        )
    return meta


async def remove_server(writer: Writer, system: System, asked: RemoveServer) -> str:
    """Take a server that is gone out of the meta group, and wait until it is out.

    Raises Refused for one that still answers or is not in the group, and the request errors.
    """
    meta = await meta_without(writer.client, system, asked.server)

    async def ask() -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(
            await writer.client.request("SERVER.REMOVE", {"peer": asked.server})
        )
        return reply

    draft = JournalDraft("remove_server", asked.server, None, {"peer": asked.server})
    loses = removal_loss(meta, asked.server)
    confirmed = asked.server, asked.confirmed
    await writer.send(draft, confirmed, ask, lambda reply: reply, loses=loses)
    end = monotonic() + _LEADS_WITHIN_S
    while any(one.peer(asked.server) is not None for one in await read_metas(system)):
        if monotonic() > end:
            return f"{asked.server} is being removed, and is still listed as a member"
        await asyncio.sleep(_LOOKED_AGAIN_S)
    return f"{asked.server} is not a member of {cluster_text(meta)} any more"
