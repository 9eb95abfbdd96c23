"""Which program does a role's work: by pattern and client."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, Protocol

from natstui.bench.job import Job
from natstui.bench.link import WireLink


class Program(Protocol):
    """The work of one worker."""

    async def begin(self) -> None:
        """Subscribe and make ready; nothing is sent yet."""

    async def run(self) -> None:
        """Do the work; return when it is over or the job stops."""


# Pattern → "module:class"; imported when used, so that no worker pays for another's code.
WIRE = {
    "publish": "wire_publish:CorePublisher",
    "subscribe": "wire_receive:Subscriber",
    "request": "wire_sync:Requester",
    "serve": "wire_receive:Server",
    "js-publish-sync": "wire_sync:SyncPublisher",
    "js-publish-async": "wire_publish:AsyncPublisher",
    "js-publish-atomic": "wire_atomic:AtomicPublisher",
    "js-publish-fast": "wire_fast:FastPublisher",
    "js-consume": "wire_pull:Puller",
    "js-fetch": "wire_pull:Fetcher",
    "js-push": "wire_push:PushReceiver",
    "js-ordered": "wire_ordered:OrderedReceiver",
    "js-get": "wire_getter:Getter",
    "js-get-batch": "wire_get:BatchGetter",
    "kv-put": "wire_sync:KvPutter",
    "kv-get": "wire_getter:KvGetter",
}
PLAIN = {
    "publish": "plain_publish:CorePublisher",
    "subscribe": "plain_receive:Subscriber",
    "request": "plain_request:Requester",
    "serve": "plain_receive:Server",
    "js-publish-sync": "plain_publish:SyncPublisher",
    "js-publish-async": "plain_async:AsyncPublisher",
    "js-consume": "plain_pull:Puller",
    "js-fetch": "plain_pull:Puller",
    "js-push": "plain_push:PushReceiver",
    "js-ordered": "plain_push:OrderedReceiver",
    "js-get": "plain_request:Getter",
    "kv-put": "plain_request:KvPutter",
    "kv-get": "plain_request:KvGetter",
}


def build(job: Job, link: WireLink) -> Program:
    """Return the program of a role; the plan was checked, so there is one."""
    role = job.orders.role
    table = WIRE if role.client == "wire" else PLAIN
    module, name = table[role.pattern].split(":")
    kind = getattr(importlib.import_module(f"natstui.bench.{module}"), name)
    program: Program = kind(job, link)
    return program


async def until_stopped(job: Job, link: WireLink) -> None:
    """Wait until the job stops; raise what failed on the link meanwhile."""
    stopping = asyncio.ensure_future(job.stopping.wait())
    both: set[asyncio.Future[Any]] = {stopping, link.failure}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if link.failure.done():
        raise link.failure.result()
