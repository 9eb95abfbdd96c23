"""The demo's shop: what it holds at first, and the publishers and readers that keep it busy."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Self

import nats.errors
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from natstui.errors import Conflict, NatstuiError, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.testbed.shop.assets import (
    CONSUMERS,
    DASHBOARD,
    INVOICES_MAX_BYTES,
    LIVE_SUBJECT,
    ORDERS_KEPT_MSGS,
    RETURNS_AT_FIRST_MSGS,
    STREAMS,
    Config,
)
from natstui.jetstream.testbed.shop.waves import DueMessages, Pickers, Wave
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.subjects import is_flow_control

_DUPLICATE_RATIO = 0.05
_POISON_RATIO = 0.012
_PALLET_EVERY = 100
COUNTRIES = ("de", "dk", "fr", "no", "se", "us")
_ARTICLES = ("anorak", "boots", "candle", "kettle", "lamp", "sledge", "tent", "wool socks")

_CHANCE = random.Random()

Say = Callable[[Nats, int], Awaitable[None]]
"""Publishes the message with this number."""


def payload(**fields: object) -> bytes:
    """Return a document as the services of a shop exchange them."""
    return json.dumps(fields, separators=(",", ":")).encode()


async def say_order(nc: Nats, number: int) -> None:
    """Publish an order or its payment; one in twenty is sent twice by a nervous client."""
    country = _CHANCE.choice(COUNTRIES)
    stage = "paid" if number % 3 == 0 else "new"
    body = payload(
        order=number,
        stage=stage,
        country=country,
        article=_CHANCE.choice(_ARTICLES),
        pieces_count=_CHANCE.randint(1, 4),
        price_cents=_CHANCE.randint(499, 24_900),
    )
    headers = {"Nats-Msg-Id": f"{stage}-{number}"}
    copies = 2 if _CHANCE.random() < _DUPLICATE_RATIO else 1
    for _ in range(copies):
        await nc.publish(f"orders.{stage}.{country}", body, headers=headers)


async def say_pick(nc: Nats, number: int) -> None:
    """Publish a job for the warehouse: two small ones for each large one, rarely a pallet.

    Nobody picks pallets: they stay in the queue.
    """
    size = "large" if number % 3 == 0 else "small"
    size = "pallet" if number % _PALLET_EVERY == 0 else size
    body = payload(job=number, shelf=f"{_CHANCE.choice('ABCDEF')}{number % 40:02d}", size=size)
    await nc.publish(f"warehouse.pick.{size}.{number % 4}", body)


async def say_signup(nc: Nats, number: int) -> None:
    """Publish a new customer."""
    country = _CHANCE.choice(COUNTRIES)
    word = "confirmed" if number % 2 else "requested"
    await nc.publish(f"customers.signup.{country}.{word}", payload(customer=number))


async def say_payment(nc: Nats, number: int) -> None:
    """Publish a payment; the first and one in eighty after it can never be settled."""
    poison = number == 1 or _CHANCE.random() < _POISON_RATIO
    amount: object = "NaN" if poison else _CHANCE.randint(499, 24_900)
    way = "voucher" if number % 5 == 0 else "card"
    await nc.publish(f"payments.{way}.{number % 8}", payload(amount_cents=amount, payment=number))


async def say_invoice(nc: Nats, number: int) -> None:
    """Publish an invoice: a page of lines that nobody can compress."""
    lines = _CHANCE.randbytes(_CHANCE.randint(300, 900)).hex()
    await nc.publish(f"invoices.{number % 12 + 1:02d}", payload(invoice=number, scan=lines))


async def say_return(nc: Nats, number: int) -> None:
    """Publish that a parcel came back."""
    reason = _CHANCE.choice(("too small", "too large", "too late", "broken"))
    country = _CHANCE.choice(COUNTRIES)
    await nc.publish(f"returns.{country}", payload(order=number, reason=reason))


async def say_reading(nc: Nats, number: int) -> None:
    """Publish what a sensor measured."""
    kind = "scanner" if number % 4 == 0 else "shelf"
    body = payload(reading=number, celsius=round(_CHANCE.gauss(18, 2), 1), battery_percent=83)
    await nc.publish(f"sensors.{kind}.{number % 24}", body)


TICK_S = 0.5
NUMBERS_PER_S = 100
"""More than anybody publishes in a second of a burst."""
SPEAKERS: tuple[tuple[Say, Wave], ...] = (
    (say_order, Wave(10, burst_per_s=30, burst_every_s=75, burst_s=6)),
    (say_pick, Wave(12, swing_ratio=0.4, period_s=90)),
    (say_signup, Wave(2, swing_ratio=0.9, period_s=25)),
    (say_payment, Wave(5, period_s=33, burst_per_s=12, burst_every_s=110, burst_s=4)),
    (say_invoice, Wave(2, swing_ratio=0.8, period_s=120)),
    (say_return, Wave(0.5, period_s=60)),
    (say_reading, Wave(16, swing_ratio=0.95, period_s=20)),
)


async def speak(nc: Nats, say: Say, wave: Wave) -> None:
    """Publish along a wave for ever."""
    started_s = time.monotonic()
    due_messages = DueMessages(wave)
    # Numbers go on over restarts on the same store, so that ids are not taken for duplicates:
    # the clock has to run ahead of what was published.
    number = 0 if say is say_payment else int(time.time() * NUMBERS_PER_S)
    while True:
        await asyncio.sleep(TICK_S)
        for _ in range(due_messages.due(time.monotonic() - started_s)):
            number += 1
            await say(nc, number)


_GRACE_S = 3.0


class Pull:
    """Asks one consumer for messages, a batch at a time, with one open request while it waits."""

    def __init__(self, nc: Nats, stream: str, consumer: str) -> None:
        self._nc = nc
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = nc.new_inbox()

    async def __aenter__(self) -> Self:
        self._subscription = await self._nc.subscribe(self._inbox)
        return self

    async def __aexit__(self, *_: object) -> None:
        # Without a connection there is nothing to unsubscribe from.
        with suppress(nats.errors.Error):
            await self._subscription.unsubscribe()

    async def batch(self, most_msgs: int, wait_s: float = 20.0) -> list[Msg]:
        """Return what is there; when nothing is, what comes first within `wait_s`."""
        first = await self._request(1, {"batch": 1, "expires": int(wait_s * 1e9)}, wait_s)
        if not first or most_msgs == 1:
            return first
        rest = most_msgs - 1
        return first + await self._request(rest, {"batch": rest, "no_wait": True}, 0.0)

    async def _request(
        self, most_msgs: int, request: Mapping[str, object], wait_s: float
    ) -> list[Msg]:
        await self._nc.publish(self._subject, json.dumps(request).encode(), reply=self._inbox)
        messages: list[Msg] = []
        while len(messages) < most_msgs:
            try:
                message = await self._subscription.next_msg(timeout=wait_s + _GRACE_S)
            except nats.errors.TimeoutError:
                break
            if message.headers and "Status" in message.headers:
                break
            messages.append(message)
        return messages


_ACK, _NAK_LATER = b"+ACK", b'-NAK {"delay": 2000000000}'
_TERM = b"+TERM duplicate capture"


async def read_well(nc: Nats, stream: str, consumer: str, pause_s: float = 0.2) -> None:
    """Acknowledge everything, a moment after it came; rest between two batches."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(40):
                await asyncio.sleep(_CHANCE.expovariate(200))
                await message.respond(_ACK)
            await asyncio.sleep(pause_s)


async def read_lazily(nc: Nats, stream: str, consumer: str) -> None:
    """Look for messages every few seconds only, so that some always wait."""
    await read_well(nc, stream, consumer, pause_s=7.0)


async def read_in_batches(nc: Nats, stream: str, consumer: str) -> None:
    """Acknowledge a batch with its last message only."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            messages = await pull.batch(25)
            if messages:
                await messages[-1].respond(_ACK)
            await asyncio.sleep(2.0)


async def never_acknowledge(nc: Nats, stream: str, consumer: str) -> None:
    """Take messages and forget them: the consumer stalls at its limit."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            await pull.batch(100)


async def read_slowly(nc: Nats, stream: str, consumer: str) -> None:
    """Fall behind, until a second shift helps and the backlog is gone."""
    pickers, hurries = Pickers(), False
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(round(pickers.per_s(hurries))):
                hurries = pickers.hurries(message.metadata.num_pending, hurries)
                await message.respond(_ACK)
            await asyncio.sleep(1.0)


def settles(amount: object, deliveries_count: int) -> bytes:
    """Return what becomes of a payment: settled, tried again, or refused for good."""
    if not isinstance(amount, int):
        return _NAK_LATER if deliveries_count > 1 else b"-NAK"
    if amount % 50 == 0:
        return _TERM
    return b"-NAK" if amount % 12 == 0 and deliveries_count == 1 else _ACK


async def settle(nc: Nats, stream: str, consumer: str) -> None:
    """Settle payments; broken ones come back until they are given up."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(20):
                amount = json.loads(message.data)["amount_cents"]
                await message.respond(settles(amount, message.metadata.num_delivered))
            await asyncio.sleep(0.3)


async def score(nc: Nats, stream: str, consumer: str) -> None:
    """Take payments; a broken one fails and is refused, for ever."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(20):
                is_broken = not isinstance(json.loads(message.data)["amount_cents"], int)
                await message.respond(_NAK_LATER if is_broken else _ACK)
            await asyncio.sleep(0.3)


async def look(nc: Nats, stream: str, consumer: str, looks_count: int) -> None:
    """Read a few batches from a consumer that asks for no acknowledgement."""
    async with Pull(nc, stream, consumer) as pull:
        for _ in range(looks_count):
            await pull.batch(50, wait_s=2.0)
            await asyncio.sleep(1.0)


async def listen(nc: Nats) -> None:
    """Be the subscriber of the push consumer, and answer its flow control."""

    async def heard(message: Msg) -> None:
        is_control = bool(message.headers) and message.headers.get("Status") == "100"
        if is_control and is_flow_control(message.reply, "ORDERS", "storefront"):
            await message.respond(b"")

    subscription = await nc.subscribe(LIVE_SUBJECT, cb=heard)
    try:
        await asyncio.Event().wait()
    finally:
        await subscription.unsubscribe()


_RETRY_S = 1.0
_REPLY_S = 3.0
_ELECTION_S = 30.0
"""So long a stream or consumer may wait for its leader: a split vote costs nine seconds."""

Actor = Callable[[], Coroutine[None, None, None]]

_READERS = (
    (read_well, "ORDERS", "billing"),
    (never_acknowledge, "RETURNS", "fraud-check"),
    (read_well, "PICKING", "pickers-small"),
    (read_well, "PICKING", "pickers-small"),
    (read_slowly, "PICKING", "pickers-large"),
    (read_lazily, "SIGNUPS", "crm-sync"),
    (read_well, "SIGNUPS", "welcome-mail"),
    (settle, "PAYMENTS", "settlement"),
    (read_in_batches, "PAYMENTS", "ledger"),
    (score, "PAYMENTS", "risk-score"),
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
    for say, wave in SPEAKERS:
        yield partial(speak, nc, say, wave)
    for read, stream, consumer in _READERS:
        yield partial(read, nc, stream, consumer)
    yield partial(listen, nc)
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
