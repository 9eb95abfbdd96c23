"""How the demo's shop consumes: each reader behaves in its own way, for ever."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

import nats.errors
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from natstui.jetstream.testbed.shop.assets import LIVE_SUBJECT
from natstui.jetstream.testbed.shop.waves import Pickers
from natstui.model.assets.subjects import is_flow_control

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


_CHANCE = random.Random()
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
