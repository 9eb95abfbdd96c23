"""The demo's shop: what it holds at first, and the publishers and readers that keep it busy."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial

import nats.errors
from nats.aio.client import Client as Nats

from natstui.errors import Conflict, NatstuiError, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.testbed.shop import publishers, readers
from natstui.jetstream.testbed.shop.assets import (
    CONSUMERS,
    DASHBOARD,
    INVOICES_MAX_BYTES,
    ORDERS_KEPT_MSGS,
    RETURNS_AT_FIRST_MSGS,
    STREAMS,
    Config,
)
from natstui.jetstream.testbed.shop.publishers import COUNTRIES, payload, say_return
from natstui.jetstream.testbed.shop.readers import look
from natstui.model.assets.defaults import consumer_request

_RETRY_S = 1.0
_REPLY_S = 3.0
_ELECTION_S = 30.0
"""So long a stream or consumer may wait for its leader: a split vote costs nine seconds."""

Actor = Callable[[], Coroutine[None, None, None]]

_READERS = (
    (readers.read_well, "ORDERS", "billing"),
    (readers.never_acknowledge, "RETURNS", "fraud-check"),
    (readers.read_well, "PICKING", "pickers-small"),
    (readers.read_well, "PICKING", "pickers-small"),
    (readers.read_slowly, "PICKING", "pickers-large"),
    (readers.read_lazily, "SIGNUPS", "crm-sync"),
    (readers.read_well, "SIGNUPS", "welcome-mail"),
    (readers.settle, "PAYMENTS", "settlement"),
    (readers.read_in_batches, "PAYMENTS", "ledger"),
    (readers.score, "PAYMENTS", "risk-score"),
)


async def open_shop(client: Client) -> None:
    """Make the streams and consumers; what a kept store already holds is brought up to date."""
    # In a cluster each of them waits for the election of its leader: all wait at the same time.
    copies = [stream for stream in STREAMS if stream.keys() & {"mirror", "sources"}]
    origins = [stream for stream in STREAMS if stream not in copies]
    durables = [(stream, each) for stream, consumers in CONSUMERS.items() for each in consumers]
    await asyncio.gather(*(_ensure_stream(client, stream) for stream in origins))
    await asyncio.gather(
        *(_ensure_stream(client, stream) for stream in copies),
        *(_ensure_consumer(client, stream, consumer) for stream, consumer in durables),
    )


async def run_shop(client: Client) -> None:
    """Keep the shop busy until cancelled; an actor that an outage ends starts again."""
    tasks = {asyncio.create_task(_again_and_again(actor)) for actor in _actors(client)}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _end(tasks)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel until it works: before Python 3.12 `wait_for` can swallow a cancellation."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=0.2)


def _actors(client: Client) -> Iterator[Actor]:
    nc = client.nc
    yield partial(_fill, client)
    for say, wave in publishers.SPEAKERS:
        yield partial(publishers.speak, nc, say, wave)
    for read, stream, consumer in _READERS:
        yield partial(read, nc, stream, consumer)
    yield partial(readers.listen, nc)
    yield partial(fill_carts, nc)
    yield partial(print_receipts, nc)
    yield partial(tidy_invoices, client)
    yield partial(look_at_sensors, client)


async def _again_and_again(actor: Actor) -> None:
    """Run an actor for ever; an outage of the server ends it, and it starts again."""
    while True:
        try:
            await actor()
        except (nats.errors.Error, NatstuiError, OSError, TimeoutError):
            await asyncio.sleep(_RETRY_S)


async def _ensure_stream(client: Client, config: Config) -> None:
    name = config["name"]
    try:
        await _request(client, f"STREAM.CREATE.{name}", config)
    except Conflict:
        await _request(client, f"STREAM.UPDATE.{name}", config)


async def _ensure_consumer(client: Client, stream: str, config: Config) -> None:
    verb, body = consumer_request(stream, str(config["durable_name"]), config, "")
    try:
        await _request(client, verb, body)
    except RequestTimedOut:
        raise
    except RequestFailed:
        await _request(client, f"CONSUMER.DELETE.{stream}.{config['durable_name']}")
        await _request(client, verb, body)


async def _request(client: Client, verb: str, body: Config | None = None) -> None:
    """Request until there is a reply: what has no leader yet gives none, not even later."""
    give_up_at = time.monotonic() + _ELECTION_S
    while True:
        try:
            await client.request(verb, body, timeout_s=_REPLY_S)
        except RequestTimedOut:
            if time.monotonic() > give_up_at:
                raise
        else:
            return


async def _fill(client: Client) -> None:
    """Fill what is empty to where the demo begins, then wait for ever."""
    if await _stored_msgs(client, "ORDERS") < ORDERS_KEPT_MSGS:
        await fill_orders(client.nc)
    if await _stored_msgs(client, "RETURNS") < RETURNS_AT_FIRST_MSGS:
        await fill_returns(client.nc)
    await asyncio.Event().wait()


async def _stored_msgs(client: Client, stream: str) -> int:
    reply = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    return int(reply["state"]["messages"])


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


_CUSTOMERS_COUNT = 40
_RECEIPTS_KEPT_COUNT = 12
_FULL_RATIO, _TIDY_RATIO = 0.97, 0.91


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
        config = {**DASHBOARD, "name": name}
        await client.request(*consumer_request("TELEMETRY", name, config, "create"))
        await look(client.nc, "TELEMETRY", name, looks_count=8)
        await asyncio.sleep(8.0)
