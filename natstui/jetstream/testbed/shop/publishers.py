"""What the demo's shop publishes, on which subjects, and at which rates."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable

from nats.aio.client import Client as Nats

from natstui.jetstream.testbed.shop.waves import DueMessages, Wave

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
