"""The program of a role, by pattern."""

from __future__ import annotations

import importlib
from typing import Protocol

from natstui.bench.job.job import Job
from natstui.bench.wire.link import WireLink


class Program(Protocol):
    """The work of one worker."""

    async def begin(self) -> None:
        """Subscribe and prepare; nothing is sent yet."""

    async def run(self) -> None:
        """Do the work; returns when it is over or the job stops."""


# Pattern → "module:class"; imported when used, so that no worker pays for another's code.
PROGRAMS = {
    "publish": "publish:CorePublisher",
    "subscribe": "receive:Subscriber",
    "request": "one_in_flight:Requester",
    "serve": "receive:Server",
    "js-publish-sync": "one_in_flight:SyncPublisher",
    "js-publish-async": "publish:AsyncPublisher",
    "js-publish-atomic": "batches:AtomicPublisher",
    "js-publish-fast": "batches:FastPublisher",
    "js-request": "stream_requests:StreamRequester",
    "js-consume": "pull:Puller",
    "js-fetch": "pull:Fetcher",
    "js-push": "push:PushReceiver",
    "js-ordered": "ordered:OrderedReceiver",
    "js-respond": "stream_requests:Responder",
    "js-get": "one_in_flight:Getter",
    "js-get-batch": "get_batch:BatchGetter",
    "kv-put": "one_in_flight:KvPutter",
    "kv-get": "one_in_flight:KvGetter",
}


def build(job: Job, link: WireLink) -> Program:
    """Return the program of a role; the plan was validated, so there is one."""
    module, name = PROGRAMS[job.orders.role.pattern].split(":")
    kind = getattr(importlib.import_module(f"natstui.bench.wire.{module}"), name)
    program: Program = kind(job, link)
    return program
