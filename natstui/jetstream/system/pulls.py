"""Who holds a consumer: the listeners of a push consumer, the clients that pull from another."""

from __future__ import annotations

import asyncio

import msgspec
from nats.aio.msg import Msg

from natstui.decoding import decoder_of
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.connections import listeners
from natstui.jetstream.system.reply_tap import ReplyTap, TappedRequest
from natstui.model.clients.holding import ConsumerToHold
from natstui.model.clients.matching import Listener, listeners_of
from natstui.model.clients.requests import TappedRequests

_API = "$JS.API"
_NEXT = "CONSUMER.MSG.NEXT"


class _Config(msgspec.Struct):
    deliver_subject: str | None = None
    deliver_group: str | None = None


class _Group(msgspec.Struct):
    pinned_client_id: str = ""


class _Info(msgspec.Struct):
    config: _Config
    num_waiting: int = 0
    priority_groups: list[_Group] | None = None


class _Pull(msgspec.Struct):
    batch: int = 1
    expires: int = 0
    id: str | None = None


async def read_consumer(client: Client, stream: str, consumer: str) -> ConsumerToHold:
    """Return what the consumer says; raises NotFound, and what `request` raises."""
    verb = f"CONSUMER.INFO.{stream}.{consumer}"
    info = read(verb, await client.request(verb), _Info)
    return ConsumerToHold(
        deliver_subject=info.config.deliver_subject or None,
        deliver_group=info.config.deliver_group or None,
        waiting_count=info.num_waiting,
        pins=tuple(priority_group.pinned_client_id for priority_group in info.priority_groups or ()
                   if priority_group.pinned_client_id),
    )  # fmt: skip


async def push_clients(servers: Servers, subject: str, group: str | None) -> list[Listener]:
    """Return who gets what a push consumer delivers; raises what `Servers.ask` raises."""
    seen = await listeners(servers, subject)
    return listeners_of(seen.rows, subject, group)


async def pull_clients(
    client: Client, servers: Servers, stream: str, consumer: str, for_s: float,
    stop: asyncio.Event | None = None,
) -> TappedRequests:  # fmt: skip
    """Read the pulls of a consumer that is there, until `stop` at most; return who sent them.

    Raises PermissionDenied, and what `Servers.ask` raises.
    """
    # A server maps requests through its domain's prefix to the plain subject.
    prefixes = dict.fromkeys((_API, client.prefix))
    subjects = [f"{prefix}.{_NEXT}.{stream}.{consumer}" for prefix in prefixes]
    deleted = f"{client.connection.js_event_prefix}.ADVISORY.CONSUMER.DELETED.{stream}.{consumer}"
    tap = ReplyTap(subjects, _note_pull, for_s=for_s, ends_on=deleted, stop=stop)
    await tap.begin(client, servers)
    return await tap.run(servers)


def _note_pull(message: Msg) -> TappedRequest:
    """Return what a pull asks for: a number of messages, or JSON; empty asks for one."""
    data = message.data.strip()
    if data.isdigit():
        return TappedRequest(data[:20].decode())
    try:
        pull = decoder_of(_Pull).decode(data or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return TappedRequest("not readable")
    wait_s = pull.expires / 1e9 if pull.expires > 0 else None
    return TappedRequest(str(max(1, pull.batch)), pull.id or None, wait_s)
