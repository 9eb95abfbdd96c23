"""Reads the meta group, steps its leader down and removes servers: by the system account."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any

from msgspec import Struct

from natstui.errors import ActionRefusal, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import JournalDraft, Writer, add_state_if_unknown
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.servers import read_metas
from natstui.jetstream.system.source import SystemConnection
from natstui.model.records.system import RemoveServer
from natstui.model.servers.server import Meta
from natstui.model.servers.text import (
    cluster_text,
    removal_loss,
    removal_prompt,
    step_down_failure_text,
)

_CHANGE_TIMEOUT_S = 15.0
_CHECK_INTERVAL_S = 0.2


class StepDownRequest(Struct, frozen=True):
    """A request to step down the meta leader, with the preferred leader and typed confirmation."""

    meta: Meta
    preferred_leader: str | None
    confirmed: str | None


async def read_meta(system: SystemConnection) -> Meta:
    """Return the meta group; raises RequestFailed if there is none, or more than one."""
    meta_groups = await read_metas(system)
    if len(meta_groups) != 1:
        clusters_text = (
            ", ".join(meta.cluster for meta in meta_groups) or "none: JetStream is not clustered"
        )
        raise RequestFailed(f"natstui needs exactly one meta group: {clusters_text}")
    return meta_groups[0]


async def step_down_meta(
    writer: Writer, system: SystemConnection, request: StepDownRequest
) -> str:
    """Step down the meta leader, and wait for the new one; return the result as text.

    Raises RequestFailed if no other server, or not the preferred one, becomes leader,
    ActionRefusal and the request errors.
    """
    previous_leader, preferred_server = request.meta.leader, request.preferred_leader
    if preferred_server is not None and preferred_server == previous_leader:
        return f"{request.meta.cluster} is led by {preferred_server} already: nothing was changed"
    body = {"placement": {"preferred": preferred_server}} if preferred_server else None

    async def send() -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(
            await writer.client.request("META.LEADER.STEPDOWN", body)
        )
        return reply

    arguments = {"preferred": preferred_server} if preferred_server else {}
    draft = JournalDraft("step_down_meta", request.meta.cluster, None, arguments)
    names = request.meta.cluster, request.confirmed
    target_text = f" to {preferred_server}" if preferred_server else ""
    prompt = (
        f"this will step down {previous_leader or 'no leader'} from {request.meta.cluster}"
        f"{target_text}"
    )
    send_coroutine = writer.send(draft, names, send, lambda reply: reply, prompt=prompt)

    async def describe_leader() -> str:
        return f"{request.meta.cluster} is led by {(await read_meta(system)).leader}"

    await add_state_if_unknown(send_coroutine, describe_leader)
    leader = await _wait_for_leader(system, previous_leader)
    failure = step_down_failure_text(
        request.meta.cluster, previous_leader, leader, preferred_server, _CHANGE_TIMEOUT_S
    )
    if failure:
        raise RequestFailed(failure)
    return f"{request.meta.cluster} is led by {leader} now"


async def _wait_for_leader(system: SystemConnection, previous_leader: str | None) -> str | None:
    deadline_s = monotonic() + _CHANGE_TIMEOUT_S
    while True:
        leader = next((group.leader for group in await read_metas(system)), None)
        if leader not in (None, previous_leader) or monotonic() > deadline_s:
            return leader
        await asyncio.sleep(_CHECK_INTERVAL_S)


async def read_meta_for_removal(client: Client, system: SystemConnection, server: str) -> Meta:
    """Return the meta group of a server that may be removed.

    Raises ActionRefusal for a server that still replies or is no member, or if the group has no
    leader, and the request errors.
    """
    meta, servers = await read_meta(system), ServerRequests(client)
    replying_names = {
        reply.name for reply in await servers.request_all("$SYS.REQ.SERVER.PING.STATSZ", {})
    }
    if server in replying_names:
        raise ActionRefusal(
            f"{server} still replies: stop it first; only a stopped server can be removed"
        )
    if not meta.peers and meta.size_count > 1:
        leader_text = (
            f"its leader {meta.leader} does not reply" if meta.leader else "it has no leader now"
        )
        raise ActionRefusal(f"{cluster_text(meta)} cannot remove a member: {leader_text}")
    if meta.peer(server) is None:
        members_text = ", ".join(
            sorted({*filter(None, [meta.leader]), *(peer.name for peer in meta.peers)})
        )
        raise ActionRefusal(
            f"{server} is not a member of {cluster_text(meta)}: its members are {members_text}"
        )
    return meta


async def remove_server(writer: Writer, system: SystemConnection, request: RemoveServer) -> str:
    """Remove a lost server from the meta group, and wait for the result; return it as text.

    Raises ActionRefusal for a server that still replies or is no member, MissingConfirmation
    without the typed name, RequestFailed if it stays a member, and the request errors.
    """
    meta = await read_meta_for_removal(writer.client, system, request.server)

    async def send() -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(
            await writer.client.request("SERVER.REMOVE", {"peer": request.server})
        )
        return reply

    draft = JournalDraft("remove_server", request.server, None, {"peer": request.server})
    loss_text = removal_loss(meta, request.server)
    writer.check_loss(request.server, loss_text)
    names = request.server, request.confirmed
    send_coroutine = writer.send(
        draft, names, send, lambda reply: reply, loss_text,
        prompt=removal_prompt(meta, request.server),
    )  # fmt: skip

    async def describe_membership() -> str:
        is_member = (await read_meta(system)).peer(request.server) is not None
        return f"{request.server} is {'still a member' if is_member else 'not a member any more'}"

    await add_state_if_unknown(send_coroutine, describe_membership)
    deadline_s = monotonic() + _CHANGE_TIMEOUT_S
    while any(group.peer(request.server) is not None for group in await read_metas(system)):
        if monotonic() > deadline_s:
            raise RequestFailed(
                f"{request.server} is still a member of {cluster_text(meta)} "
                f"{_CHANGE_TIMEOUT_S:g} s after the server accepted to remove it"
            )
        await asyncio.sleep(_CHECK_INTERVAL_S)
    return f"{request.server} is not a member of {cluster_text(meta)} any more"
