"""The leader and peers of the meta group, and changes, which need the system account."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from time import monotonic
from typing import Any

from natstui.errors import Refused, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import JournalDraft, Writer, with_state_now
from natstui.jetstream.system.asking import ServerRequests
from natstui.jetstream.system.servers import read_metas
from natstui.jetstream.system.source import System
from natstui.model.records.system import RemoveServer
from natstui.model.servers.server import Meta
from natstui.model.servers.words import cluster_text, not_taken_over, removal_loss

_LEADS_WITHIN_S = 15.0
_LOOKED_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class StepDown:
    """A step-down of the meta leader: target, and the typed confirmation."""

    meta: Meta
    preferred: str | None
    confirmed: str | None


async def read_meta(system: System) -> Meta:
    """Return the meta group; raises RequestFailed when there is none, or are several."""
    metas = await read_metas(system)
    if len(metas) != 1:
        clusters = ", ".join(meta.cluster for meta in metas) or "none: JetStream is not clustered"
        raise RequestFailed(f"natstui needs exactly one meta group: {clusters}")
    return metas[0]


async def step_down_meta(writer: Writer, system: System, request: StepDown) -> str:
    """Step down, and wait for the new leader; return the result in a sentence.

    Raises RequestFailed where it does not take over, Refused and the request errors; the server
    refuses a name it does not know.
    """
    before, preferred_server = request.meta.leader, request.preferred
    if preferred_server is not None and preferred_server == before:
        return f"{request.meta.cluster} is led by {preferred_server} already: nothing was changed"
    body = {"placement": {"preferred": preferred_server}} if preferred_server else None

    async def ask() -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(
            await writer.client.request("META.LEADER.STEPDOWN", body)
        )
        return reply

    arguments = {"preferred": preferred_server} if preferred_server else {}
    draft = JournalDraft("step_down_meta", request.meta.cluster, None, arguments)
    names = request.meta.cluster, request.confirmed
    writing = writer.send(draft, names, ask, lambda reply: reply)

    async def leader_now() -> str:
        return f"{request.meta.cluster} is led by {(await read_meta(system)).leader}"

    await with_state_now(writing, leader_now)
    now = await _led_after(system, before)
    failure = not_taken_over(request.meta.cluster, before, now, preferred_server, _LEADS_WITHIN_S)
    if failure:
        raise RequestFailed(failure)
    return f"{request.meta.cluster} is led by {now} now"


async def _led_after(system: System, before: str | None) -> str | None:
    end = monotonic() + _LEADS_WITHIN_S
    while True:
        now = next((group.leader for group in await read_metas(system)), None)
        if now not in (None, before) or monotonic() > end:
            return now
        await asyncio.sleep(_LOOKED_AGAIN_S)


async def meta_without(client: Client, system: System, server: str) -> Meta:
    """Return the meta group from which a server may be removed.

    Raises Refused for a server that still replies or is no member, and the request errors.
    """
    meta, servers = await read_meta(system), ServerRequests(client)
    answering = {reply.name for reply in await servers.ask("$SYS.REQ.SERVER.PING.STATSZ", {})}
    if server in answering:
        raise Refused(
            f"{server} still replies: stop it first; only a stopped server can be removed"
        )
    if not meta.peers and meta.size_count > 1:
        leader_text = (
            f"its leader {meta.leader} does not reply" if meta.leader else "it has no leader now"
        )
        raise Refused(f"{cluster_text(meta)} cannot remove a member: {leader_text}")
    if meta.peer(server) is None:
        members = ", ".join(
            sorted({*filter(None, [meta.leader]), *(peer.name for peer in meta.peers)})
        )
        raise Refused(
            f"{server} is not a member of {cluster_text(meta)}: its members are {members}"
        )
    return meta


async def remove_server(writer: Writer, system: System, request: RemoveServer) -> str:
    """Remove a lost server from the meta group, and wait until it is removed.

    Raises Refused for one that still replies or is not in the group, RequestFailed where it stays
    one, and the request errors.
    """
    meta = await meta_without(writer.client, system, request.server)

    async def ask() -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(
            await writer.client.request("SERVER.REMOVE", {"peer": request.server})
        )
        return reply

    draft = JournalDraft("remove_server", request.server, None, {"peer": request.server})
    loses = removal_loss(meta, request.server)
    names = request.server, request.confirmed
    writing = writer.send(draft, names, ask, lambda reply: reply, loses=loses)

    async def member_now() -> str:
        is_member = (await read_meta(system)).peer(request.server) is not None
        return f"{request.server} is {'still a member' if is_member else 'not a member any more'}"

    await with_state_now(writing, member_now)
    end = monotonic() + _LEADS_WITHIN_S
    while any(group.peer(request.server) is not None for group in await read_metas(system)):
        if monotonic() > end:
            raise RequestFailed(
                f"{request.server} is still a member of {cluster_text(meta)} "
                f"{_LEADS_WITHIN_S:g} s after the server accepted to remove it"
            )
        await asyncio.sleep(_LOOKED_AGAIN_S)
    return f"{request.server} is not a member of {cluster_text(meta)} any more"
