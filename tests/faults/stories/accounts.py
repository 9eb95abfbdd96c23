"""What breaks in an account: its limits, the clients of its API, its connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from nats.aio.client import Client as Nats
from nats.errors import Error

from tests.faults.site import Site
from tests.faults.stories import makes

_DUE_COUNT = 200
"""So many requests are caught up with at most, and are open at once."""


@makes("account-storage")
async def account_storage(site: Site) -> AsyncIterator[None]:
    await site.add_stream(storage="file")
    await site.publish(20, size_bytes=10_000)
    yield
    site.publishing(100, size_bytes=10_000)
    await asyncio.sleep(4)
    site.publishing(4, size_bytes=10_000)
    yield
    site.stop("publisher")
    await site.purge()


@makes("account-streams")
async def account_streams(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(2)
    yield
    for number in range(9):
        await site.add_stream(f"{site.stream}_{number}")

    async def deploy() -> None:
        await site.try_api("STREAM.CREATE.NEXT", {"name": "NEXT", "subjects": ["next"]})
        await asyncio.sleep(5)

    site.repeat("deployment", deploy)
    yield
    site.stop("deployment")
    for number in range(5):
        await site.delete_stream(f"{site.stream}_{number}")


@makes("account-consumers")
async def account_consumers(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(2)
    yield
    for number in range(10):
        await site.add_consumer(f"W{number}")
        site.work(consumer=f"W{number}")
    yield
    for number in range(5):
        site.stop(f"worker of W{number}")
        await site.delete_consumer(f"W{number}")


async def _asking(site: Site, verb: str, body: dict[str, object], per_s: float) -> None:
    """Ask at a pace: what is due after the machine held it up is asked at once."""
    next_s = time.monotonic()

    async def ask() -> None:
        nonlocal next_s
        due_count = min(_DUE_COUNT, max(1, int((time.monotonic() - next_s) * per_s)))
        next_s = max(next_s, time.monotonic() - _DUE_COUNT / per_s) + due_count / per_s
        await asyncio.gather(*(site.try_api(verb, body) for _ in range(due_count)))
        await asyncio.sleep(max(0.0, next_s - time.monotonic()))

    site.repeat("requests", ask)


@makes("api-errors-missing")
async def api_errors_missing(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(2)
    yield
    await _asking(site, f"CONSUMER.INFO.{site.stream}.MISSING", {}, 20)
    yield
    site.stop("requests")


@makes("api-errors-create")
async def api_errors_create(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(2)
    yield
    overlapping = {"name": "OTHER", "subjects": [f"{site.stream}.a"]}
    await _asking(site, "STREAM.CREATE.OTHER", overlapping, 10)
    yield
    site.stop("requests")


@makes("api-flood")
async def api_flood(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(2)
    site.work()
    yield
    await _asking(site, f"CONSUMER.INFO.{site.stream}.C", {}, 600)
    yield
    site.stop("requests")


@makes("client-flapping")
async def client_flapping(site: Site) -> AsyncIterator[None]:
    async def flap() -> None:
        client = await site.connect(name="flapping-worker")
        await client.flush()
        await client.close()
        await asyncio.sleep(1)

    yield
    site.repeat("flapping", flap)
    yield
    site.stop("flapping")


@makes("client-subscriptions")
async def client_subscriptions(site: Site) -> AsyncIterator[None]:
    leaking = await site.connect(name="leaking-service")
    number = 0

    async def subscribe(count: int) -> None:
        nonlocal number
        for _ in range(count):
            number += 1
            await leaking.subscribe(f"replies.{number}")
        await asyncio.sleep(1)

    yield
    await subscribe(6000)
    site.repeat("leak", lambda: subscribe(20))
    yield
    site.stop("leak")
    await leaking.close()


@makes("connections-refused")
async def connections_refused(site: Site) -> AsyncIterator[None]:
    clients: list[Nats] = []

    async def start() -> None:
        try:
            clients.append(await site.connect(allow_reconnect=False, max_reconnect_attempts=0))
        except Error:
            # The account has no room for it.
            await asyncio.sleep(1)

    yield
    site.repeat("starts", start)
    yield
    site.stop("starts")
    for client in clients:
        await client.close()


@makes("connections-full")
async def connections_full(site: Site) -> AsyncIterator[None]:
    yield
    clients = [await site.connect(name=f"worker-{number}") for number in range(46)]
    yield
    for client in clients:
        await client.close()
