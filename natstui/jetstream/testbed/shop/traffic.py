"""The demo's shop: its streams and consumers, in every state that natstui shows; its traffic."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Self

import nats.errors
from msgspec import Struct
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from natstui.errors import Conflict, NatstuiError, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import unsubscribe
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.subjects import is_flow_control

Config = Mapping[str, object]

_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS
_DAY_NS = 86_400 * _SECOND_NS
_MIB = 1 << 20

MAX_ORDERS_MSGS = 3_000
INITIAL_RETURNS_MSGS = 150
INVOICES_MAX_BYTES = 2 * _MIB
_THREE_REPLICAS: Config = {"num_replicas": 3}
"""Configuration of streams that must survive the loss of one of three servers; the others have one
replica."""


def _placed_on(server: str) -> Config:
    return {"placement": {"tags": [server]}}


STREAMS: tuple[Config, ...] = (
    {
        "name": "ORDERS",
        **_THREE_REPLICAS,
        "description": "Every order of the shop; the newest 3,000 are kept",
        "subjects": ["orders.>"],
        "max_msgs": MAX_ORDERS_MSGS,
        "duplicate_window": 2 * _MINUTE_NS,
        "allow_direct": True,
        "metadata": {"team": "checkout", "tier": "gold"},
    },
    {
        "name": "PICKING",
        **_THREE_REPLICAS,
        "description": "What the warehouse has to pick: each job is done once",
        "subjects": [f"warehouse.pick.{size}.>" for size in ("small", "large", "pallet")],
        "retention": "workqueue",
        "max_msgs": 20_000,
        "max_age": 24 * 60 * _MINUTE_NS,
        "allow_direct": True,
    },
    {
        "name": "SIGNUPS",
        "description": "New customers, kept until everybody interested has seen them",
        "subjects": ["customers.signup.>"],
        "retention": "interest",
        "max_msgs": 10_000,
    },
    {
        "name": "PAYMENTS",
        **_THREE_REPLICAS,
        "description": "Card payments; some fail, and one in a while can never succeed",
        "subjects": ["payments.>"],
        "max_age": 15 * _MINUTE_NS,
        "max_msgs": 5_000,
        "allow_direct": True,
        "metadata": {"team": "finance", "pci": "yes"},
    },
    {
        "name": "RETURNS",
        **_THREE_REPLICAS,
        "description": "Parcels that customers send back",
        "subjects": ["returns.>"],
        "max_msgs": 20_000,
        "allow_direct": True,
    },
    {
        "name": "INVOICES",
        "description": "Archive that refuses more when it is full; tidied up when it nearly is",
        "subjects": ["invoices.>"],
        "discard": "new",
        "max_bytes": INVOICES_MAX_BYTES,
        "compression": "s2",
    },
    {
        "name": "TELEMETRY",
        **_placed_on("n3"),
        "description": "Scanner and shelf sensors of the last minute, in memory",
        "subjects": ["sensors.>"],
        "storage": "memory",
        "max_age": _MINUTE_NS,
        "max_bytes": 4 * _MIB,
        "max_msg_size": 4_096,
        "allow_direct": True,
    },
    {
        "name": "ORDERS_MIRROR",
        **_placed_on("n2"),
        "description": "Read-only copy of ORDERS for the analysts",
        "mirror": {"name": "ORDERS"},
        "max_msgs": 10_000,
        "mirror_direct": True,
    },
    {
        "name": "REPORTING",
        "description": "Paid orders and settled payments, gathered from two streams",
        "sources": [
            {"name": "ORDERS", "filter_subject": "orders.paid.>"},
            {"name": "PAYMENTS", "filter_subject": "payments.card.>"},
        ],
        "max_msgs": 10_000,
        "max_age": 24 * 60 * _MINUTE_NS,
    },
    {
        "name": "KV_carts",
        **_THREE_REPLICAS,
        "description": "Shopping carts, five revisions each",
        "subjects": ["$KV.carts.>"],
        "discard": "new",
        "max_msgs_per_subject": 5,
        "max_bytes": 8 * _MIB,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
    },
    {
        "name": "OBJ_receipts",
        "description": "Printed receipts, the newest dozen",
        "subjects": ["$O.receipts.C.>", "$O.receipts.M.>"],
        "discard": "new",
        "max_bytes": 16 * _MIB,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
    },
)

STOREFRONT_SUBJECT = "deliver.storefront"
"""The deliver subject of the push consumer with a subscriber."""

_ORDERS_CONSUMERS: tuple[Config, ...] = (
    {
        "durable_name": "billing",
        "description": "Healthy; every acknowledgement is sampled",
        "filter_subject": "orders.new.>",
        "ack_policy": "explicit",
        "ack_wait": 30 * _SECOND_NS,
        "max_ack_pending": 500,
        "sample_freq": "100",
    },
    {
        "durable_name": "newsletter",
        "description": "Paused until the campaign starts",
        "filter_subject": "orders.paid.>",
        "ack_policy": "explicit",
        "pause_until": "2099-12-31T23:00:00Z",
    },
    {
        "durable_name": "storefront",
        "description": "Push, with a subscriber",
        "deliver_subject": STOREFRONT_SUBJECT,
        "deliver_policy": "new",
        "ack_policy": "none",
        "flow_control": True,
        "idle_heartbeat": 5 * _SECOND_NS,
    },
    {
        "durable_name": "legacy-erp",
        "description": "Push consumer without a subscriber",
        "deliver_subject": "deliver.legacy-erp",
        "ack_policy": "explicit",
        "filter_subject": "orders.new.>",
    },
    {
        "durable_name": "shipping-labels",
        "description": "Pull consumer whose service was switched off",
        "ack_policy": "explicit",
        "filter_subject": "orders.paid.>",
    },
    {
        "durable_name": "loyalty-points",
        "description": "Its filter has a typo: no order has this subject",
        "ack_policy": "explicit",
        "filter_subject": "order.paid.>",
    },
)

_PICKING_CONSUMERS: tuple[Config, ...] = (
    {
        "durable_name": "pickers-small",
        "description": "Two workers share it and keep up",
        "filter_subject": "warehouse.pick.small.>",
        "ack_policy": "explicit",
        "ack_wait": 30 * _SECOND_NS,
        "max_waiting": 64,
    },
    {
        "durable_name": "pickers-large",
        "description": "One slow worker: the backlog grows until another shift helps out",
        "filter_subject": "warehouse.pick.large.>",
        "ack_policy": "explicit",
        "ack_wait": 60 * _SECOND_NS,
        "max_waiting": 64,
    },
)

_SIGNUPS_CONSUMERS: tuple[Config, ...] = (
    {"durable_name": "crm-sync", "ack_policy": "explicit", "ack_wait": 30 * _SECOND_NS},
    {
        "durable_name": "welcome-mail",
        "ack_policy": "explicit",
        "filter_subject": "customers.signup.*.confirmed",
        "ack_wait": 30 * _SECOND_NS,
    },
)

_PAYMENTS_CONSUMERS: tuple[Config, ...] = (
    {
        "durable_name": "settlement",
        "description": "Some payments need a second try; a broken one is dropped after four",
        "ack_policy": "explicit",
        "ack_wait": 20 * _SECOND_NS,
        "max_deliver": 4,
        "sample_freq": "25",
    },
    {
        "durable_name": "ledger",
        "description": "Acknowledges a batch with its last message",
        "ack_policy": "all",
        "ack_wait": 60 * _SECOND_NS,
        "filter_subject": "payments.card.>",
    },
    {
        "durable_name": "risk-score",
        "description": "Refuses a broken payment again and again, without a limit of deliveries",
        "ack_policy": "explicit",
        "ack_wait": 20 * _SECOND_NS,
        "filter_subject": "payments.card.>",
    },
)

_RETURNS_CONSUMERS: tuple[Config, ...] = (
    {
        "durable_name": "fraud-check",
        "description": "Stalled: receives messages and never acknowledges one",
        "ack_policy": "explicit",
        "ack_wait": _DAY_NS,
        "max_ack_pending": 64,
    },
)

CONSUMERS: Mapping[str, tuple[Config, ...]] = {
    "ORDERS": _ORDERS_CONSUMERS,
    "PICKING": _PICKING_CONSUMERS,
    "SIGNUPS": _SIGNUPS_CONSUMERS,
    "PAYMENTS": _PAYMENTS_CONSUMERS,
    "RETURNS": _RETURNS_CONSUMERS,
}
"""Stream → its durable consumers."""

DASHBOARD_CONSUMER: Config = {
    "description": "A dashboard that reads the sensors for a moment",
    "deliver_policy": "new",
    "ack_policy": "none",
    "filter_subject": "sensors.shelf.>",
    "inactive_threshold": 5 * _SECOND_NS,
}
"""Configuration of the ephemeral consumer on TELEMETRY, which is created again and again."""


class RateWave(Struct, frozen=True):
    """A rate that oscillates around its mean, with occasional bursts."""

    mean_per_s: float
    swing_ratio: float = 0.6
    """The largest deviation from the mean, as a share of it."""
    period_s: float = 40.0
    burst_per_s: float = 0.0
    """Added to the wave during a burst."""
    burst_every_s: float = 60.0
    burst_s: float = 5.0

    def msgs_per_s(self, at_s: float) -> float:
        """Return the rate at a time, in messages per second."""
        wave = self.mean_per_s * (
            1 + self.swing_ratio * math.sin(2 * math.pi * at_s / self.period_s)
        )
        is_in_burst = at_s % self.burst_every_s < self.burst_s
        return wave + (self.burst_per_s if is_in_burst else 0.0)


@dataclass(slots=True)
class DueMessages:
    """Converts the rate of a wave to numbers of messages, without rounding errors."""

    wave: RateWave
    at_s: float = 0.0
    due_fraction: float = 0.0
    """The fraction of a message that is due already."""

    def pop_due_count(self, until_s: float) -> int:
        """Return how many messages are due from the last call until `until_s`."""
        # After a sleep of the machine, only the messages of two seconds are due.
        since_s = max(self.at_s, until_s - 2.0)
        self.due_fraction += self.wave.msgs_per_s((since_s + until_s) / 2) * (until_s - since_s)
        self.at_s = until_s
        due_count = int(self.due_fraction)
        self.due_fraction -= due_count
        return due_count


class WarehouseWorkersRate(Struct, frozen=True):
    """Rates of warehouse workers, who get help when their backlog is too long."""

    without_help_per_s: float = 3.0
    with_help_per_s: float = 40.0
    help_above_msgs: int = 1_500
    help_until_msgs: int = 50

    def has_help(self, backlog_msgs: int, had_help: bool) -> bool:
        """Return whether the workers have help now; it depends on whether they had it before."""
        return backlog_msgs > (self.help_until_msgs if had_help else self.help_above_msgs)

    def msgs_per_s(self, has_help: bool) -> float:
        """Return how many messages the workers process per second."""
        return self.with_help_per_s if has_help else self.without_help_per_s


_DUPLICATE_RATIO = 0.05
_POISON_RATIO = 0.012
_JOBS_PER_PALLET_COUNT = 100
COUNTRIES = ("de", "dk", "fr", "no", "se", "us")
_ARTICLES = ("anorak", "boots", "candle", "kettle", "lamp", "sledge", "tent", "wool socks")

_RANDOM = random.Random()

PublishFunction = Callable[[Nats, int], Awaitable[None]]
"""Function that publishes the message with a number."""


def encode_json(**fields: object) -> bytes:
    """Return a JSON object with these fields."""
    return json.dumps(fields, separators=(",", ":")).encode()


async def publish_order(nc: Nats, number: int) -> None:
    """Publish a new or a paid order; one in twenty is sent twice."""
    country = _RANDOM.choice(COUNTRIES)
    stage = "paid" if number % 3 == 0 else "new"
    body = encode_json(
        order=number,
        stage=stage,
        country=country,
        article=_RANDOM.choice(_ARTICLES),
        pieces_count=_RANDOM.randint(1, 4),
        price_cents=_RANDOM.randint(499, 24_900),
    )
    headers = {"Nats-Msg-Id": f"{stage}-{number}"}
    copies = 2 if _RANDOM.random() < _DUPLICATE_RATIO else 1
    for _ in range(copies):
        await nc.publish(f"orders.{stage}.{country}", body, headers=headers)


async def publish_picking_job(nc: Nats, number: int) -> None:
    """Publish a job for the warehouse: two small ones for each large one, and rarely a pallet.

    No consumer receives the pallets: they stay in the work queue.
    """
    size = "large" if number % 3 == 0 else "small"
    size = "pallet" if number % _JOBS_PER_PALLET_COUNT == 0 else size
    body = encode_json(job=number, shelf=f"{_RANDOM.choice('ABCDEF')}{number % 40:02d}", size=size)
    await nc.publish(f"warehouse.pick.{size}.{number % 4}", body)


async def publish_signup(nc: Nats, number: int) -> None:
    """Publish a new customer."""
    country = _RANDOM.choice(COUNTRIES)
    verb = "confirmed" if number % 2 else "requested"
    await nc.publish(f"customers.signup.{country}.{verb}", encode_json(customer=number))


async def publish_payment(nc: Nats, number: int) -> None:
    """Publish a payment; the first one, and about one in eighty after it, can never be settled."""
    is_poison = number == 1 or _RANDOM.random() < _POISON_RATIO
    amount: object = "NaN" if is_poison else _RANDOM.randint(499, 24_900)
    method = "voucher" if number % 5 == 0 else "card"
    await nc.publish(
        f"payments.{method}.{number % 8}", encode_json(amount_cents=amount, payment=number)
    )


async def publish_invoice(nc: Nats, number: int) -> None:
    """Publish an invoice: incompressible lines of text."""
    lines = _RANDOM.randbytes(_RANDOM.randint(300, 900)).hex()
    await nc.publish(f"invoices.{number % 12 + 1:02d}", encode_json(invoice=number, scan=lines))


async def publish_return(nc: Nats, number: int) -> None:
    """Publish a returned parcel."""
    reason = _RANDOM.choice(("too small", "too large", "too late", "broken"))
    country = _RANDOM.choice(COUNTRIES)
    await nc.publish(f"returns.{country}", encode_json(order=number, reason=reason))


async def publish_reading(nc: Nats, number: int) -> None:
    """Publish a sensor reading."""
    kind = "scanner" if number % 4 == 0 else "shelf"
    body = encode_json(reading=number, celsius=round(_RANDOM.gauss(18, 2), 1), battery_percent=83)
    await nc.publish(f"sensors.{kind}.{number % 24}", body)


PUBLISH_INTERVAL_S = 0.5
MESSAGE_NUMBERS_PER_S = 100
"""More numbers than a publisher uses per second, also in a burst."""
PUBLISHERS: tuple[tuple[PublishFunction, RateWave], ...] = (
    (publish_order, RateWave(10, burst_per_s=30, burst_every_s=75, burst_s=6)),
    (publish_picking_job, RateWave(12, swing_ratio=0.4, period_s=90)),
    (publish_signup, RateWave(2, swing_ratio=0.9, period_s=25)),
    (publish_payment, RateWave(5, period_s=33, burst_per_s=12, burst_every_s=110, burst_s=4)),
    (publish_invoice, RateWave(2, swing_ratio=0.8, period_s=120)),
    (publish_return, RateWave(0.5, period_s=60)),
    (publish_reading, RateWave(16, swing_ratio=0.95, period_s=20)),
)


async def publish_wave(nc: Nats, publish: PublishFunction, wave: RateWave) -> None:
    """Publish messages with the rate of a wave until cancelled."""
    start_s = time.monotonic()
    due_messages = DueMessages(wave)
    # Numbers must be new after a restart on the same store, or messages would be duplicates. They
    # start at a number that grows with time faster than messages are published.
    number = 0 if publish is publish_payment else int(time.time() * MESSAGE_NUMBERS_PER_S)
    while True:
        await asyncio.sleep(PUBLISH_INTERVAL_S)
        for _ in range(due_messages.pop_due_count(time.monotonic() - start_s)):
            number += 1
            await publish(nc, number)


_REPLY_MARGIN_S = 3.0


class PullReader:
    """Pulls batches of messages of one consumer; use it with `async with`."""

    def __init__(self, nc: Nats, stream: str, consumer: str) -> None:
        self._nc = nc
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = nc.new_inbox()

    async def __aenter__(self) -> Self:
        self._subscription = await self._nc.subscribe(self._inbox)
        return self

    async def __aexit__(self, *_: object) -> None:
        await unsubscribe(self._subscription)

    async def read_batch(self, max_msgs: int, wait_s: float = 20.0) -> list[Msg]:
        """Return the messages that are available, or else the first one within `wait_s`."""
        first_messages = await self._request(1, {"batch": 1, "expires": int(wait_s * 1e9)}, wait_s)
        if not first_messages or max_msgs == 1:
            return first_messages
        remaining_msgs = max_msgs - 1
        return first_messages + await self._request(
            remaining_msgs, {"batch": remaining_msgs, "no_wait": True}, 0.0
        )

    async def _request(
        self, max_msgs: int, request: Mapping[str, object], wait_s: float
    ) -> list[Msg]:
        await self._nc.publish(self._subject, json.dumps(request).encode(), reply=self._inbox)
        messages: list[Msg] = []
        while len(messages) < max_msgs:
            try:
                message = await self._subscription.next_msg(timeout=wait_s + _REPLY_MARGIN_S)
            except nats.errors.TimeoutError:
                break
            if message.headers and "Status" in message.headers:
                break
            messages.append(message)
        return messages


_ACK, _NAK_LATER = b"+ACK", b'-NAK {"delay": 2000000000}'
_TERM = b"+TERM duplicate capture"


async def read_promptly(nc: Nats, stream: str, consumer: str, pause_s: float = 0.2) -> None:
    """Acknowledge every message shortly after its delivery, with a pause between two batches."""
    async with PullReader(nc, stream, consumer) as pull_reader:
        while True:
            for message in await pull_reader.read_batch(40):
                await asyncio.sleep(_RANDOM.expovariate(200))
                await message.respond(_ACK)
            await asyncio.sleep(pause_s)


async def read_lazily(nc: Nats, stream: str, consumer: str) -> None:
    """Pull messages only every few seconds, so that some are always pending."""
    await read_promptly(nc, stream, consumer, pause_s=7.0)


async def read_in_batches(nc: Nats, stream: str, consumer: str) -> None:
    """Acknowledge only the last message of each batch."""
    async with PullReader(nc, stream, consumer) as pull_reader:
        while True:
            messages = await pull_reader.read_batch(25)
            if messages:
                await messages[-1].respond(_ACK)
            await asyncio.sleep(2.0)


async def never_acknowledge(nc: Nats, stream: str, consumer: str) -> None:
    """Pull messages without acknowledging any: the consumer stalls at max ack pending."""
    async with PullReader(nc, stream, consumer) as pull_reader:
        while True:
            await pull_reader.read_batch(100)


async def read_slowly(nc: Nats, stream: str, consumer: str) -> None:
    """Read slowly until the backlog is too long, and then fast until it is processed."""
    workers, has_help = WarehouseWorkersRate(), False
    async with PullReader(nc, stream, consumer) as pull_reader:
        while True:
            for message in await pull_reader.read_batch(round(workers.msgs_per_s(has_help))):
                has_help = workers.has_help(message.metadata.num_pending, has_help)
                await message.respond(_ACK)
            await asyncio.sleep(1.0)


def choose_ack(amount: object, deliveries_count: int) -> bytes:
    """Return the payload of the ack, nak or term of a payment."""
    if not isinstance(amount, int):
        return _NAK_LATER if deliveries_count > 1 else b"-NAK"
    if amount % 50 == 0:
        return _TERM
    return b"-NAK" if amount % 12 == 0 and deliveries_count == 1 else _ACK


async def settle_payments(nc: Nats, stream: str, consumer: str) -> None:
    """Acknowledge payments, or nak or terminate them; broken ones always get a nak."""
    async with PullReader(nc, stream, consumer) as pull_reader:
        while True:
            for message in await pull_reader.read_batch(20):
                amount = json.loads(message.data)["amount_cents"]
                await message.respond(choose_ack(amount, message.metadata.num_delivered))
            await asyncio.sleep(0.3)


async def score_payments(nc: Nats, stream: str, consumer: str) -> None:
    """Acknowledge payments; a broken one gets a nak at each delivery."""
    async with PullReader(nc, stream, consumer) as pull_reader:
        while True:
            for message in await pull_reader.read_batch(20):
                is_broken = not isinstance(json.loads(message.data)["amount_cents"], int)
                await message.respond(_NAK_LATER if is_broken else _ACK)
            await asyncio.sleep(0.3)


async def read_briefly(nc: Nats, stream: str, consumer: str, batches_count: int) -> None:
    """Read a few batches of a consumer with ack policy none."""
    async with PullReader(nc, stream, consumer) as pull_reader:
        for _ in range(batches_count):
            await pull_reader.read_batch(50, wait_s=2.0)
            await asyncio.sleep(1.0)


async def receive_pushed(nc: Nats) -> None:
    """Subscribe to the deliver subject of the push consumer, and reply to its flow control."""

    async def on_message(message: Msg) -> None:
        is_control_message = bool(message.headers) and message.headers.get("Status") == "100"
        if is_control_message and is_flow_control(message.reply, "ORDERS", "storefront"):
            await message.respond(b"")

    subscription = await nc.subscribe(STOREFRONT_SUBJECT, cb=on_message)
    try:
        await asyncio.Event().wait()
    finally:
        await subscription.unsubscribe()


_RETRY_S = 1.0
_REPLY_TIMEOUT_S = 3.0
_ELECTION_TIMEOUT_S = 30.0
"""Maximum wait for a leader; a split vote takes nine seconds."""
_NO_PEERS_CODE = 10005
"""Error of a stream that no server can be found for."""

TaskFactory = Callable[[], Coroutine[None, None, None]]

_READ_FUNCTIONS_AND_CONSUMERS = (
    (read_promptly, "ORDERS", "billing"),
    (never_acknowledge, "RETURNS", "fraud-check"),
    (read_promptly, "PICKING", "pickers-small"),
    (read_promptly, "PICKING", "pickers-small"),
    (read_slowly, "PICKING", "pickers-large"),
    (read_lazily, "SIGNUPS", "crm-sync"),
    (read_promptly, "SIGNUPS", "welcome-mail"),
    (settle_payments, "PAYMENTS", "settlement"),
    (read_in_batches, "PAYMENTS", "ledger"),
    (score_payments, "PAYMENTS", "risk-score"),
)


async def open_shop(client: Client) -> None:
    """Create the streams and consumers; in an existing store, update them."""
    # Each waits for the election of its leader, so they are created at the same time.
    copies = [stream for stream in STREAMS if stream.keys() & {"mirror", "sources"}]
    original_streams = [stream for stream in STREAMS if stream not in copies]
    streams_and_consumers = [
        (stream, consumer) for stream, consumers in CONSUMERS.items() for consumer in consumers
    ]
    await asyncio.gather(*(_ensure_stream(client, stream) for stream in original_streams))
    await asyncio.gather(
        *(_ensure_stream(client, stream) for stream in copies),
        *(
            _ensure_consumer(client, stream, consumer)
            for stream, consumer in streams_and_consumers
        ),
    )


async def run_shop(client: Client) -> None:
    """Run all publishers and readers until cancelled; after an outage they are restarted."""
    tasks = {
        asyncio.create_task(_restart_after_outages(task_factory))
        for task_factory in _task_factories(client)
    }
    try:
        finished_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in finished_tasks:
            task.result()
    finally:
        await _cancel_tasks(tasks)


async def _cancel_tasks(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks, and repeat that until all have ended: before Python 3.12, `wait_for` could
    swallow a cancellation.
    """
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=0.2)


def _task_factories(client: Client) -> Iterator[TaskFactory]:
    nc = client.nc
    yield partial(_fill_streams, client)
    for publish, wave in PUBLISHERS:
        yield partial(publish_wave, nc, publish, wave)
    for read_function, stream, consumer in _READ_FUNCTIONS_AND_CONSUMERS:
        yield partial(read_function, nc, stream, consumer)
    yield partial(receive_pushed, nc)
    yield partial(fill_carts, nc)
    yield partial(print_receipts, nc)
    yield partial(tidy_invoices, client)
    yield partial(read_sensors, client)


async def _restart_after_outages(task_factory: TaskFactory) -> None:
    """Run a task until cancelled; it is restarted after each error of the connection."""
    while True:
        try:
            await task_factory()
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
    except RequestFailed as error:
        if _is_temporary(error):
            raise
        await _request(client, f"CONSUMER.DELETE.{stream}.{config['durable_name']}")
        await _request(client, verb, body)


async def _request(client: Client, verb: str, body: Config | None = None) -> None:
    """Send a request, and repeat it while the cluster cannot do it yet.

    A stream or consumer that has no leader yet never replies to an earlier request.
    """
    deadline_s = time.monotonic() + _ELECTION_TIMEOUT_S
    while True:
        try:
            await client.request(verb, body, timeout_s=_REPLY_TIMEOUT_S)
        except RequestFailed as error:
            if not _is_temporary(error) or time.monotonic() > deadline_s:
                raise
            await asyncio.sleep(_RETRY_S)
        else:
            return


def _is_temporary(error: RequestFailed) -> bool:
    """Return whether a cluster that elects leaders replies with this error, or not at all.

    A new meta leader treats its peers as offline until it knows their storage.
    """
    is_unavailable = error.code == HTTPStatus.SERVICE_UNAVAILABLE
    return isinstance(error, RequestTimedOut) or is_unavailable or error.err_code == _NO_PEERS_CODE


async def _fill_streams(client: Client) -> None:
    """Publish the initial messages of empty streams, and then wait until cancelled."""
    if await _count_stored(client, "ORDERS") < MAX_ORDERS_MSGS:
        await fill_orders(client.nc)
    if await _count_stored(client, "RETURNS") < INITIAL_RETURNS_MSGS:
        await fill_returns(client.nc)
    await asyncio.Event().wait()


async def _count_stored(client: Client, stream: str) -> int:
    return (await client.stream_info(stream)).state.messages


async def fill_orders(nc: Nats) -> None:
    """Fill ORDERS up to its limit, so that it discards old messages from the start.

    Waits for the first ack: a server that does not know yet who leads the stream drops messages.
    """
    for number in range(MAX_ORDERS_MSGS + 50):
        country = COUNTRIES[number % len(COUNTRIES)]
        body = encode_json(order=number, stage="new", country=country, imported=True)
        publish = nc.publish if number else nc.jetstream().publish
        await publish(f"orders.imported.{country}", body)
        if number % 500 == 0:
            await asyncio.sleep(0)


async def fill_returns(nc: Nats) -> None:
    """Publish a message to RETURNS, wait for its ack, and publish the initial messages."""
    await nc.jetstream().publish(f"returns.{COUNTRIES[0]}", encode_json(order=0, reason="broken"))
    for number in range(INITIAL_RETURNS_MSGS):
        await publish_return(nc, number)


async def fill_invoices(nc: Nats, missing_bytes: int) -> None:
    """Publish invoices until their payloads have `missing_bytes` bytes together."""
    while missing_bytes > 0:
        page = encode_json(invoice=0, scan=_RANDOM.randbytes(8_000).hex())
        missing_bytes -= len(page)
        await nc.publish("invoices.00", page)
        await asyncio.sleep(0)


_CUSTOMERS_COUNT = 40
_MAX_KEPT_RECEIPTS = 12
_INVOICES_FULL_RATIO, _INVOICES_TIDY_RATIO = 0.97, 0.91


async def fill_carts(nc: Nats) -> None:
    """Put and delete carts, a few per second."""
    carts = await nc.jetstream().key_value("carts")
    while True:
        key = f"customer.{_RANDOM.randint(1, _CUSTOMERS_COUNT)}"
        if _RANDOM.random() < 0.1:
            await carts.delete(key)
        else:
            await carts.put(key, encode_json(articles_count=_RANDOM.randint(1, 9)))
        await asyncio.sleep(_RANDOM.uniform(0.1, 0.7))


async def print_receipts(nc: Nats) -> None:
    """Store receipts under one of twelve names in turn, replacing older ones."""
    receipts = await nc.jetstream().object_store("receipts")
    number = 0
    while True:
        name = f"till-{number % _MAX_KEPT_RECEIPTS + 1:02d}.pdf"
        await receipts.put(name, _RANDOM.randbytes(_RANDOM.randint(8_000, 60_000)))
        number += 1
        await asyncio.sleep(2.0 if number < _MAX_KEPT_RECEIPTS else 15.0)


async def _read_stored(client: Client, stream: str) -> tuple[int, int]:
    """Return the number of messages and bytes of a stream."""
    state = (await client.stream_info(stream)).state
    return state.messages, state.bytes


async def tidy_invoices(client: Client) -> None:
    """Keep INVOICES nearly full: fill it once, then delete old messages before it is full."""
    _, stored_bytes = await _read_stored(client, "INVOICES")
    await fill_invoices(client.nc, int(_INVOICES_TIDY_RATIO * INVOICES_MAX_BYTES) - stored_bytes)
    while True:
        stored_msgs, stored_bytes = await _read_stored(client, "INVOICES")
        if stored_bytes > _INVOICES_FULL_RATIO * INVOICES_MAX_BYTES:
            kept_msgs = int(stored_msgs * _INVOICES_TIDY_RATIO / _INVOICES_FULL_RATIO)
            await client.request("STREAM.PURGE.INVOICES", {"keep": kept_msgs})
        await asyncio.sleep(3.0)


async def read_sensors(client: Client) -> None:
    """Create an ephemeral consumer, read from it for a while, and let it expire; repeat that."""
    while True:
        name = f"dashboard-{_RANDOM.randrange(16**6):06x}"
        config = {**DASHBOARD_CONSUMER, "name": name}
        await client.request(*consumer_request("TELEMETRY", name, config, "create"))
        await read_briefly(client.nc, "TELEMETRY", name, batches_count=8)
        await asyncio.sleep(8.0)
