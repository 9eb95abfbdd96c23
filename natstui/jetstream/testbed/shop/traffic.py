"""The demo's shop: its start content, and the publishers and readers that keep it busy."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

import nats.errors
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from natstui.errors import Conflict, NatstuiError, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import unsubscribe
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
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.subjects import is_flow_control


@dataclass(frozen=True, slots=True)
class Wave:
    """A rate that oscillates around its mean, with occasional bursts."""

    middle_per_s: float
    swing_ratio: float = 0.6
    """Share of the mean, up and down."""
    period_s: float = 40.0
    burst_per_s: float = 0.0
    """Added to the wave during a burst."""
    burst_every_s: float = 60.0
    burst_s: float = 5.0

    def per_s(self, at_s: float) -> float:
        """Return the rate at a moment, in messages per second."""
        wave = self.middle_per_s * (
            1 + self.swing_ratio * math.sin(2 * math.pi * at_s / self.period_s)
        )
        in_burst = at_s % self.burst_every_s < self.burst_s
        return wave + (self.burst_per_s if in_burst else 0.0)


@dataclass(slots=True)
class DueMessages:
    """Turns a wave into whole messages, losing none to rounding."""

    wave: Wave
    at_s: float = 0.0
    owed: float = 0.0
    """A fraction of the next message."""

    def due(self, until_s: float) -> int:
        """Return how many messages are due since the last call."""
        # After the machine slept, the messages of that time are not sent.
        since_s = max(self.at_s, until_s - 2.0)
        self.owed += self.wave.per_s((since_s + until_s) / 2) * (until_s - since_s)
        self.at_s = until_s
        whole_count = int(self.owed)
        self.owed -= whole_count
        return whole_count


@dataclass(frozen=True, slots=True)
class Pickers:
    """Slow workers who get help while the backlog is too long."""

    slow_per_s: float = 3.0
    fast_per_s: float = 40.0
    too_long_msgs: int = 1_500
    nearly_gone_msgs: int = 50

    def hurries(self, backlog_msgs: int, was_hurrying: bool) -> bool:
        """Return whether help is present, given whether it was."""
        return backlog_msgs > (self.nearly_gone_msgs if was_hurrying else self.too_long_msgs)

    def per_s(self, hurries: bool) -> float:
        """Return the processed messages per second."""
        return self.fast_per_s if hurries else self.slow_per_s


_DUPLICATE_RATIO = 0.05
_POISON_RATIO = 0.012
_PALLET_EVERY = 100
COUNTRIES = ("de", "dk", "fr", "no", "se", "us")
_ARTICLES = ("anorak", "boots", "candle", "kettle", "lamp", "sledge", "tent", "wool socks")

_CHANCE = random.Random()

Say = Callable[[Nats, int], Awaitable[None]]
"""Publishes the message with a number."""


def payload(**fields: object) -> bytes:
    """Return a JSON document with fields of a shop's services."""
    return json.dumps(fields, separators=(",", ":")).encode()


async def say_order(nc: Nats, number: int) -> None:
    """Publish an order or its payment; one in twenty is a duplicate."""
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

    No consumer picks pallets: they stay in the queue.
    """
    size = "large" if number % 3 == 0 else "small"
    size = "pallet" if number % _PALLET_EVERY == 0 else size
    body = payload(job=number, shelf=f"{_CHANCE.choice('ABCDEF')}{number % 40:02d}", size=size)
    await nc.publish(f"warehouse.pick.{size}.{number % 4}", body)


async def say_signup(nc: Nats, number: int) -> None:
    """Publish a new customer."""
    country = _CHANCE.choice(COUNTRIES)
    verb = "confirmed" if number % 2 else "requested"
    await nc.publish(f"customers.signup.{country}.{verb}", payload(customer=number))


async def say_payment(nc: Nats, number: int) -> None:
    """Publish a payment; the first and one in eighty after it can never be settled."""
    poison = number == 1 or _CHANCE.random() < _POISON_RATIO
    amount: object = "NaN" if poison else _CHANCE.randint(499, 24_900)
    method = "voucher" if number % 5 == 0 else "card"
    await nc.publish(
        f"payments.{method}.{number % 8}", payload(amount_cents=amount, payment=number)
    )


async def say_invoice(nc: Nats, number: int) -> None:
    """Publish an invoice: incompressible lines of text."""
    lines = _CHANCE.randbytes(_CHANCE.randint(300, 900)).hex()
    await nc.publish(f"invoices.{number % 12 + 1:02d}", payload(invoice=number, scan=lines))


async def say_return(nc: Nats, number: int) -> None:
    """Publish a returned parcel."""
    reason = _CHANCE.choice(("too small", "too large", "too late", "broken"))
    country = _CHANCE.choice(COUNTRIES)
    await nc.publish(f"returns.{country}", payload(order=number, reason=reason))


async def say_reading(nc: Nats, number: int) -> None:
    """Publish a sensor reading."""
    kind = "scanner" if number % 4 == 0 else "shelf"
    body = payload(reading=number, celsius=round(_CHANCE.gauss(18, 2), 1), battery_percent=83)
    await nc.publish(f"sensors.{kind}.{number % 24}", body)


TICK_S = 0.5
NUMBERS_PER_S = 100
"""More messages than a publisher sends in a second of a burst."""
SPEAKERS: tuple[tuple[Say, Wave], ...] = (
    (say_order, Wave(10, burst_per_s=30, burst_every_s=75, burst_s=6)),
    (say_pick, Wave(12, swing_ratio=0.4, period_s=90)),
    (say_signup, Wave(2, swing_ratio=0.9, period_s=25)),
    (say_payment, Wave(5, period_s=33, burst_per_s=12, burst_every_s=110, burst_s=4)),
    (say_invoice, Wave(2, swing_ratio=0.8, period_s=120)),
    (say_return, Wave(0.5, period_s=60)),
    (say_reading, Wave(16, swing_ratio=0.95, period_s=20)),
)


async def speak(nc: Nats, publish: Say, wave: Wave) -> None:
    """Publish along a wave forever."""
    started_s = time.monotonic()
    due_messages = DueMessages(wave)
    # Numbers go on over restarts on the same store, so that ids are not taken for duplicates:
    # the clock has to run ahead of what was published.
    number = 0 if publish is say_payment else int(time.time() * NUMBERS_PER_S)
    while True:
        await asyncio.sleep(TICK_S)
        for _ in range(due_messages.due(time.monotonic() - started_s)):
            number += 1
            await publish(nc, number)


_GRACE_S = 3.0


class Pull:
    """Pulls messages of one consumer, a batch at a time, with one open request while it waits."""

    def __init__(self, nc: Nats, stream: str, consumer: str) -> None:
        self._nc = nc
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = nc.new_inbox()

    async def __aenter__(self) -> Self:
        self._subscription = await self._nc.subscribe(self._inbox)
        return self

    async def __aexit__(self, *_: object) -> None:
        await unsubscribe(self._subscription)

    async def batch(self, most_msgs: int, wait_s: float = 20.0) -> list[Msg]:
        """Return the available messages; without any, the first within `wait_s`."""
        first = await self._request(1, {"batch": 1, "expires": int(wait_s * 1e9)}, wait_s)
        if not first or most_msgs == 1:
            return first
        remaining_msgs = most_msgs - 1
        return first + await self._request(
            remaining_msgs, {"batch": remaining_msgs, "no_wait": True}, 0.0
        )

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
    """Acknowledge every message shortly after it came; pause between two batches."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(40):
                await asyncio.sleep(_CHANCE.expovariate(200))
                await message.respond(_ACK)
            await asyncio.sleep(pause_s)


async def read_lazily(nc: Nats, stream: str, consumer: str) -> None:
    """Pull messages every few seconds only, so that some are always pending."""
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
    """Pull messages without acks: the consumer stalls at max ack pending."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            await pull.batch(100)


async def read_slowly(nc: Nats, stream: str, consumer: str) -> None:
    """Read slowly until a backlog grows, then fast until it is processed."""
    pickers, hurries = Pickers(), False
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(round(pickers.per_s(hurries))):
                hurries = pickers.hurries(message.metadata.num_pending, hurries)
                await message.respond(_ACK)
            await asyncio.sleep(1.0)


def settles(amount: object, deliveries_count: int) -> bytes:
    """Return the ack of a payment: ack, nak, or term."""
    if not isinstance(amount, int):
        return _NAK_LATER if deliveries_count > 1 else b"-NAK"
    if amount % 50 == 0:
        return _TERM
    return b"-NAK" if amount % 12 == 0 and deliveries_count == 1 else _ACK


async def settle(nc: Nats, stream: str, consumer: str) -> None:
    """Settle payments; broken ones are redelivered until max deliver."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(20):
                amount = json.loads(message.data)["amount_cents"]
                await message.respond(settles(amount, message.metadata.num_delivered))
            await asyncio.sleep(0.3)


async def score(nc: Nats, stream: str, consumer: str) -> None:
    """Read payments; a broken one is nak'd forever."""
    async with Pull(nc, stream, consumer) as pull:
        while True:
            for message in await pull.batch(20):
                is_broken = not isinstance(json.loads(message.data)["amount_cents"], int)
                await message.respond(_NAK_LATER if is_broken else _ACK)
            await asyncio.sleep(0.3)


async def look(nc: Nats, stream: str, consumer: str, looks_count: int) -> None:
    """Read a few batches from a consumer without acks."""
    async with Pull(nc, stream, consumer) as pull:
        for _ in range(looks_count):
            await pull.batch(50, wait_s=2.0)
            await asyncio.sleep(1.0)


async def listen(nc: Nats) -> None:
    """Subscribe to the push consumer, and reply to its flow control."""

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
"""How long to wait for a leader: a split vote costs nine seconds."""

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
    """Create the streams and consumers; those of an existing store are updated."""
    # In a cluster each of them waits for the election of its leader: all wait at the same time.
    copies = [stream for stream in STREAMS if stream.keys() & {"mirror", "sources"}]
    origins = [stream for stream in STREAMS if stream not in copies]
    durables = [
        (stream, consumer) for stream, consumers in CONSUMERS.items() for consumer in consumers
    ]
    await asyncio.gather(*(_ensure_stream(client, stream) for stream in origins))
    await asyncio.gather(
        *(_ensure_stream(client, stream) for stream in copies),
        *(_ensure_consumer(client, stream, consumer) for stream, consumer in durables),
    )


async def run_shop(client: Client) -> None:
    """Keep the shop busy until cancelled; an actor that an outage ends is restarted."""
    tasks = {asyncio.create_task(_again_and_again(actor)) for actor in _actors(client)}
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in finished:
            task.result()
    finally:
        await _end(tasks)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel repeatedly until it works: before Python 3.12 `wait_for` can swallow a
    cancellation.
    """
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=0.2)


def _actors(client: Client) -> Iterator[Actor]:
    nc = client.nc
    yield partial(_fill, client)
    for publish, wave in SPEAKERS:
        yield partial(speak, nc, publish, wave)
    for read_task, stream, consumer in _READERS:
        yield partial(read_task, nc, stream, consumer)
    yield partial(listen, nc)
    yield partial(fill_carts, nc)
    yield partial(print_receipts, nc)
    yield partial(tidy_invoices, client)
    yield partial(look_at_sensors, client)


async def _again_and_again(actor: Actor) -> None:
    """Run an actor forever; after an outage of the server it is restarted."""
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
    """Repeat a request until there is a reply: an asset without leader gives none, not
    even later.
    """
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
    """Fill empty streams to their start content, then wait forever."""
    if await _stored_msgs(client, "ORDERS") < ORDERS_KEPT_MSGS:
        await fill_orders(client.nc)
    if await _stored_msgs(client, "RETURNS") < RETURNS_AT_FIRST_MSGS:
        await fill_returns(client.nc)
    await asyncio.Event().wait()


async def _stored_msgs(client: Client, stream: str) -> int:
    reply = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    return int(reply["state"]["messages"])


async def fill_orders(nc: Nats) -> None:
    """Fill ORDERS to its limit at once, so that it discards old messages from the beginning."""
    for number in range(ORDERS_KEPT_MSGS + 50):
        country = COUNTRIES[number % len(COUNTRIES)]
        body = payload(order=number, stage="new", country=country, imported=True)
        await nc.publish(f"orders.imported.{country}", body)
        if number % 500 == 0:
            await asyncio.sleep(0)


async def fill_returns(nc: Nats) -> None:
    """Publish a number of returned parcels at once."""
    for number in range(RETURNS_AT_FIRST_MSGS):
        await say_return(nc, number)


async def fill_invoices(nc: Nats, missing_bytes: int) -> None:
    """Fill INVOICES nearly to its limit."""
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
    """Store receipts under one of a dozen names, replacing the older ones."""
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
    """Keep INVOICES nearly full: fill it at first, and delete the oldest before it refuses."""
    _, stored_bytes = await _stored(client, "INVOICES")
    await fill_invoices(client.nc, int(_TIDY_RATIO * INVOICES_MAX_BYTES) - stored_bytes)
    while True:
        stored_msgs, stored_bytes = await _stored(client, "INVOICES")
        if stored_bytes > _FULL_RATIO * INVOICES_MAX_BYTES:
            keep = int(stored_msgs * _TIDY_RATIO / _FULL_RATIO)
            await client.request("STREAM.PURGE.INVOICES", {"keep": keep})
        await asyncio.sleep(3.0)


async def look_at_sensors(client: Client) -> None:
    """Create an ephemeral consumer, read from it for a while, and let it expire."""
    while True:
        name = f"dashboard-{_CHANCE.randrange(16**6):06x}"
        config = {**DASHBOARD, "name": name}
        await client.request(*consumer_request("TELEMETRY", name, config, "create"))
        await look(client.nc, "TELEMETRY", name, looks_count=8)
        await asyncio.sleep(8.0)
