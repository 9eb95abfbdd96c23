"""The demo's shop: its streams and consumers, and the people who keep them busy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from functools import partial

import nats.errors

from natstui.errors import Conflict, NatstuiError, RequestFailed
from natstui.jetstream import demo_buckets, demo_fill, demo_publish, demo_read
from natstui.jetstream.client import Client
from natstui.jetstream.demo_consumers import CONSUMERS
from natstui.jetstream.demo_streams import ORDERS_KEPT_MSGS, RETURNS_AT_FIRST_MSGS, STREAMS, Config

_BREATH_S = 1.0

Actor = Callable[[], Coroutine[None, None, None]]

_READERS = (
    (demo_read.read_well, "ORDERS", "billing"),
    (demo_read.never_acknowledge, "RETURNS", "fraud-check"),
    (demo_read.read_well, "PICKING", "pickers-small"),
    (demo_read.read_well, "PICKING", "pickers-small"),
    (demo_read.read_slowly, "PICKING", "pickers-large"),
    (demo_read.read_lazily, "SIGNUPS", "crm-sync"),
    (demo_read.read_well, "SIGNUPS", "welcome-mail"),
    (demo_read.settle, "PAYMENTS", "settlement"),
    (demo_read.read_in_batches, "PAYMENTS", "ledger"),
)


async def open_shop(client: Client) -> None:
    """Make the streams and consumers; what a kept store already holds is brought up to date."""
    for stream in STREAMS:
        await _ensure_stream(client, stream)
    for stream_name, consumers in CONSUMERS.items():
        for consumer in consumers:
            await _ensure_consumer(client, stream_name, consumer)


async def reopen_shop(client: Client) -> None:
    """Make the streams again that a server loses with its memory, as soon as it answers."""
    lost = [stream for stream in STREAMS if stream.get("storage") == "memory"]
    while lost:
        try:
            await _ensure_stream(client, lost[0])
        except NatstuiError:
            await asyncio.sleep(_BREATH_S)
        else:
            del lost[0]


async def run_shop(client: Client) -> None:
    """Keep the shop busy until cancelled; whoever stumbles over an outage starts again."""
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
    for say, wave in demo_publish.SPEAKERS:
        yield partial(demo_publish.speak, nc, say, wave)
    for read, stream, consumer in _READERS:
        yield partial(read, nc, stream, consumer)
    yield partial(demo_read.listen, nc)
    yield partial(demo_buckets.fill_carts, nc)
    yield partial(demo_buckets.print_receipts, nc)
    yield partial(demo_buckets.tidy_invoices, client)
    yield partial(demo_buckets.look_at_sensors, client)


async def _again_and_again(actor: Actor) -> None:
    """Run an actor for ever; an outage of the server ends it, and it starts again."""
    while True:
        try:
            await actor()
        except (nats.errors.Error, NatstuiError, OSError, TimeoutError):
            await asyncio.sleep(_BREATH_S)


async def _ensure_stream(client: Client, config: Config) -> None:
    name = config["name"]
    try:
        await client.request(f"STREAM.CREATE.{name}", config)
    except Conflict:
        await client.request(f"STREAM.UPDATE.{name}", config)


async def _ensure_consumer(client: Client, stream: str, config: Config) -> None:
    verb = f"CONSUMER.CREATE.{stream}.{config['durable_name']}"
    body = {"stream_name": stream, "config": config}
    try:
        await client.request(verb, body)
    except RequestFailed:
        await client.request(f"CONSUMER.DELETE.{stream}.{config['durable_name']}")
        await client.request(verb, body)


async def _fill(client: Client) -> None:
    """Bring what is empty at first to where the demo shall begin, and have nothing more to do."""
    if await _stored_msgs(client, "ORDERS") < ORDERS_KEPT_MSGS:
        await demo_fill.fill_orders(client.nc)
    if await _stored_msgs(client, "RETURNS") < RETURNS_AT_FIRST_MSGS:
        await demo_fill.fill_returns(client.nc)
    await asyncio.Event().wait()


async def _stored_msgs(client: Client, stream: str) -> int:
    reply = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    return int(reply["state"]["messages"])
