"""What the demo's shop keeps in a KV bucket, in an object store and in its nearly full archive."""

from __future__ import annotations

import asyncio
import json
import random

from nats.aio.client import Client as Nats

from natstui.jetstream.client import Client
from natstui.jetstream.demo_consumers import DASHBOARD
from natstui.jetstream.demo_fill import fill_invoices
from natstui.jetstream.demo_messages import payload
from natstui.jetstream.demo_read import look
from natstui.jetstream.demo_streams import INVOICES_MAX_BYTES

_CUSTOMERS_COUNT = 40
_RECEIPTS_KEPT_COUNT = 12
_FULL_RATIO, _TIDY_RATIO = 0.97, 0.91
_CHANCE = random.Random()


async def fill_carts(nc: Nats) -> None:
    """Put, change and delete carts, a few a second."""
    carts = await nc.jetstream().key_value("carts")
    while True:
        key = f"customer.{_CHANCE.randint(1, _CUSTOMERS_COUNT)}"
        if _CHANCE.random() < 0.1:
            await carts.delete(key)
        else:
            await carts.put(key, payload(articles_count=_CHANCE.randint(1, 9)))
        await asyncio.sleep(_CHANCE.uniform(0.1, 0.7))


async def print_receipts(nc: Nats) -> None:
    """Store a receipt now and then under one of a dozen names, replacing the older one."""
    receipts = await nc.jetstream().object_store("receipts")
    number = 0
    while True:
        name = f"till-{number % _RECEIPTS_KEPT_COUNT + 1:02d}.pdf"
        await receipts.put(name, _CHANCE.randbytes(_CHANCE.randint(8_000, 60_000)))
        number += 1
        await asyncio.sleep(2.0 if number < _RECEIPTS_KEPT_COUNT else 15.0)


async def _stored(client: Client, stream: str) -> tuple[int, int]:
    """Return messages and bytes of a stream."""
    state = json.loads(await client.request(f"STREAM.INFO.{stream}"))["state"]
    return state["messages"], state["bytes"]


async def tidy_invoices(client: Client) -> None:
    """Keep INVOICES nearly full: fill it at first, and remove the oldest before it refuses."""
    _, stored_bytes = await _stored(client, "INVOICES")
    await fill_invoices(client.nc, int(_TIDY_RATIO * INVOICES_MAX_BYTES) - stored_bytes)
    while True:
        stored_msgs, stored_bytes = await _stored(client, "INVOICES")
        if stored_bytes > _FULL_RATIO * INVOICES_MAX_BYTES:
            keep = int(stored_msgs * _TIDY_RATIO / _FULL_RATIO)
            await client.request("STREAM.PURGE.INVOICES", {"keep": keep})
        await asyncio.sleep(3.0)


async def look_at_sensors(client: Client) -> None:
    """Make an ephemeral consumer, read from it for a while, and leave it to expire."""
    while True:
        name = f"dashboard-{_CHANCE.randrange(16**6):06x}"
        body = {"stream_name": "TELEMETRY", "config": {**DASHBOARD, "name": name}}
        await client.request(f"CONSUMER.CREATE.TELEMETRY.{name}", body)
        await look(client.nc, "TELEMETRY", name, looks_count=8)
        await asyncio.sleep(8.0)
