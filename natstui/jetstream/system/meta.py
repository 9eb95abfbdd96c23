"""Letting another server lead the meta group; only the system account may."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from time import monotonic
from typing import Any

from natstui.errors import RequestFailed
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.system.servers import read_metas
from natstui.jetstream.system.source import System
from natstui.model.servers.server import Meta

_LEADS_WITHIN_S = 15.0
_LOOKED_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Stepping:
    """What is stepped down, to whom, and what the user typed to confirm it."""

    meta: Meta
    preferred: str | None
    confirmed: str | None


async def read_meta(system: System) -> Meta:
    """Return the meta group; raises RequestFailed when there is none, or are several."""
    metas = await read_metas(system)
    if len(metas) != 1:
        told = ", ".join(one.cluster for one in metas) or "none: JetStream is not clustered"
        raise RequestFailed(f"there is not one meta group here: {told}")
    return metas[0]


async def step_down_meta(writer: Writer, system: System, asked: Stepping) -> str:
    """Step down, and wait for who leads then; return what became of it, in a sentence.

    Raises Refused and the request errors; the server refuses a name it does not know.
    """
    before, preferred = asked.meta.leader, asked.preferred
    if preferred is not None and preferred == before:
        return f"{asked.meta.cluster} is led by {preferred} already: nothing was done"
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
        return f"{before} stepped down, and no other leads {asked.meta.cluster} yet"
    return f"{asked.meta.cluster} is led by {now} now"


async def _led_after(system: System, before: str | None) -> str | None:
    end = monotonic() + _LEADS_WITHIN_S
    while True:
        now = next((one.leader for one in await read_metas(system)), None)
        if now not in (None, before) or monotonic() > end:
            return now
        await asyncio.sleep(_LOOKED_AGAIN_S)
