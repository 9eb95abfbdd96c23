"""Moving leaders: to a chosen server, and so that each server leads as many as the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from time import monotonic

import msgspec

from natstui.errors import (
    JetStreamUnavailable,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read, reading
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Request, Writer
from natstui.model.records.managing import Change
from natstui.model.servers.balance import Group, Move

_LEADS_WITHIN_S = 10.0
_LOOKED_AGAIN_S = 0.1
_HEARD_NS = 5_000_000_000
"""A replica that was not heard of for so long is lost: `offline` says so much later, or never."""


class _Peer(msgspec.Struct):
    name: str
    current: bool = False
    offline: bool = False
    active: int = 0


class _Cluster(msgspec.Struct):
    leader: str | None = None
    replicas: list[_Peer] | None = None


class _Config(msgspec.Struct):
    name: str = ""


class _Row(msgspec.Struct):
    created: str
    config: _Config = msgspec.field(default_factory=_Config)
    name: str = ""
    cluster: _Cluster | None = None


class _Streams(msgspec.Struct):
    streams: list[_Row] | None = None


class _Consumers(msgspec.Struct):
    consumers: list[_Row] | None = None


async def read_groups(client: Client) -> list[Group]:
    """Return all streams and consumers of the account that have several replicas.

    Raises the request errors.
    """
    groups = []
    async for page in client.pages("STREAM.LIST"):
        for row in read("STREAM.LIST", page, _Streams).streams or ():
            with reading("STREAM.LIST"):
                groups.append(_group(row, row.config.name, None))
    for stream in [group.stream for group in groups]:
        verb = f"CONSUMER.LIST.{stream}"
        async for page in client.pages(verb):
            for row in read(verb, page, _Consumers).consumers or ():
                with reading(verb):
                    groups.append(_group(row, stream, row.name))
    return [group for group in groups if len(group.members) > 1]


def _group(row: _Row, stream: str, consumer: str | None) -> Group:
    cluster = row.cluster or _Cluster()
    replicas = cluster.replicas or []
    leader = cluster.leader or None
    ready = [
        replica.name
        for replica in replicas
        if replica.current and not replica.offline and replica.active < _HEARD_NS
    ]
    members = [replica.name for replica in replicas if replica.name != leader]
    return Group(
        stream,
        consumer,
        time_us(row.created),
        leader,
        tuple(one for one in ready if one != leader),
        (*([leader] if leader else []), *members),
    )


async def leader_of(client: Client, stream: str, consumer: str | None) -> str | None:
    """Return who leads now; None while nobody does, and nobody answers."""
    what = f"STREAM.INFO.{stream}" if consumer is None else f"CONSUMER.INFO.{stream}.{consumer}"
    try:
        info = read(what, await client.request(what, timeout_s=2.0), _Row)
    except (RequestTimedOut, JetStreamUnavailable):
        return None
    return (info.cluster.leader or None) if info.cluster is not None else None


async def led_after(
    client: Client, stream: str, consumer: str | None, before: str | None
) -> str | None:
    """Wait until somebody else leads; return who leads then, or when that takes too long."""
    end = monotonic() + _LEADS_WITHIN_S
    while True:
        now = await leader_of(client, stream, consumer)
        if now not in (None, before) or monotonic() > end:
            return now
        await asyncio.sleep(_LOOKED_AGAIN_S)


async def step_down(writer: Writer, change: Change) -> str:
    """Let another server lead, the `preferred` one if it is named; return what became of it.

    Raises NotFound, Refused and the request errors; the server refuses a name it does not know.
    """
    asked = json.loads(change.body_json)
    preferred = asked.get("preferred") or None
    what = f"{change.consumer} on {change.stream}" if change.consumer else change.stream
    try:
        before = await leader_of(writer.client, change.stream, change.consumer)
    except PermissionDenied:
        before, asks = None, False
    else:
        asks = True
    body = {"placement": {"preferred": preferred}} if preferred else None
    if preferred is not None and preferred == before:
        return f"{what} is led by {preferred} already: nothing was changed"
    verb = f"STREAM.LEADER.STEPDOWN.{change.stream}"
    if change.consumer is not None:
        verb = f"CONSUMER.LEADER.STEPDOWN.{change.stream}.{change.consumer}"
    await writer.write(change, Request(verb, body, {"preferred": preferred} if preferred else {}))
    if not asks:
        return f"{what}: its leader steps down; you have no permission to read the new leader"
    now = await led_after(writer.client, change.stream, change.consumer, before)
    return f"{what}{_became(now, before, preferred)}"


def _became(now: str | None, before: str | None, preferred: str | None) -> str:
    if now is None or now == before:
        return f": {before or 'its leader'} stepped down, and no new leader is elected yet"
    if preferred not in (None, now):
        return f" is led by {now} now, not by {preferred}: that one was not elected"
    return f" is led by {now} now"


async def move_leader(writer: Writer, move: Move, confirmed: str | None) -> str:
    """Do one move of a plan, if it is still what was planned; return what became of it."""
    one = move.group
    now = await leader_of(writer.client, one.stream, one.consumer)
    if now != one.leader:
        return f"{one.text}: led by {now or 'nobody'} meanwhile, not moved"
    change = Change(
        0,
        "step_down_stream" if one.consumer is None else "step_down_consumer",
        one.stream,
        one.consumer,
        json.dumps({"preferred": move.to}),
        confirmed=confirmed,
        created_at_us=one.created_at_us,
    )
    return await step_down(writer, change)


async def carry_out(
    writer: Writer,
    moves: tuple[Move, ...],
    pause_s: float,
    stop: asyncio.Event,
    told: Callable[[str], None],
) -> int:
    """Do moves one by one, a pause after each, until `stop`; return how many were tried.

    What one of them is refused does not keep the others. `told` gets a sentence for each.
    """
    for number, move in enumerate(moves):
        if stop.is_set():
            return number
        confirmed = move.group.consumer or move.group.stream
        try:
            told(await move_leader(writer, move, confirmed))
        except NotFound:
            told(f"{move.group.text}: deleted meanwhile")
        except NatstuiError as error:
            told(f"{move.group.text}: not moved ({error})")
        try:
            async with asyncio.timeout(pause_s):
                await stop.wait()
        except TimeoutError:
            continue
    return len(moves)
