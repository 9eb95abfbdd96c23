"""What the demo's shop holds at its beginning, so that every state is there at once."""

from __future__ import annotations

import asyncio
import random

from nats.aio.client import Client as Nats

from natstui.jetstream.demo_messages import COUNTRIES, payload, say_return
from natstui.jetstream.demo_streams import ORDERS_KEPT_MSGS, RETURNS_AT_FIRST_MSGS

_CHANCE = random.Random()


async def fill_orders(nc: Nats) -> None:
    """Bring ORDERS to its limit at once, so that it discards at its head from the beginning."""
    for number in range(ORDERS_KEPT_MSGS + 50):
        country = COUNTRIES[number % len(COUNTRIES)]
        body = payload(order=number, stage="new", country=country, imported=True)
        await nc.publish(f"orders.imported.{country}", body)
        if number % 500 == 0:
            await asyncio.sleep(0)


async def fill_returns(nc: Nats) -> None:
    """Send back a number of parcels at once."""
    for number in range(RETURNS_AT_FIRST_MSGS):
        await say_return(nc, number)


async def fill_invoices(nc: Nats, missing_bytes: int) -> None:
    """Bring INVOICES near its limit."""
    while missing_bytes > 0:
        page = payload(invoice=0, scan=_CHANCE.randbytes(8_000).hex())
        missing_bytes -= len(page)
        await nc.publish("invoices.00", page)
        await asyncio.sleep(0)
