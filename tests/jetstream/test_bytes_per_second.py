"""Bytes in a second of a work queue against those that its publisher counted."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field

import nats
import nats.errors
import pytest
from nats.aio.client import Client as NatsClient

from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.rates import stream_rates
from tests.ending import ended
from tests.jetstream.polling import Polled, api, polling

pytestmark = [pytest.mark.server, pytest.mark.long]

WATCHED_S = 30
PAUSE_S = 0.02
BEFORE_IT_COUNTS = 200


@dataclass
class Publisher:
    """Publishes messages of many sizes, and counts what the server has stored of them."""

    overhead_bytes: int = 0
    """What the server stores beside the payload, measured on one message."""
    stored_at: list[tuple[float, int]] = field(default_factory=list)
    """How many bytes there were, and when."""

    async def run(self, nc: NatsClient) -> None:
        chance, stored_bytes = random.Random(8), 0
        while True:
            payload = b"x" * chance.randrange(900, 1100)
            await nc.jetstream().publish("work.now", payload)
            stored_bytes += len(payload) + self.overhead_bytes
            self.stored_at.append((time.monotonic(), stored_bytes))
            await asyncio.sleep(PAUSE_S)

    def between(self, from_s: float, to_s: float) -> int:
        """Return how many bytes were stored in a span of time."""
        return self._until(to_s) - self._until(from_s)

    def _until(self, at_s: float) -> int:
        return max((n for when_s, n in self.stored_at if when_s <= at_s), default=0)


async def keep_up(nc: NatsClient) -> None:
    """Acknowledge each message a moment after it came: the queue is often empty."""
    bound = await nc.jetstream().pull_subscribe_bind("C", stream="WORK")
    while True:
        with suppress(TimeoutError):
            for msg in await bound.fetch(1, timeout=1):
                await asyncio.sleep(0.005)
                await msg.ack()


async def prepare(polled: Polled, nc: NatsClient) -> Publisher:
    """Make the queue and its consumer, and learn what a message takes beside its payload."""
    body = {"name": "WORK", "subjects": ["work.*"], "retention": "workqueue"}
    await api(polled.client, "STREAM.CREATE.WORK", body)
    await nc.jetstream().publish("work.now", b"x" * 1000)
    info = await nc.jetstream().stream_info("WORK")
    made = {"stream_name": "WORK", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    await api(polled.client, "CONSUMER.DURABLE.CREATE.WORK.C", made)
    return Publisher(info.state.bytes - 1000)


async def test_bytes_a_second_of_a_queue_that_keeps_up_are_within_5_percent(
    nats_server: Broker,
) -> None:
    nc = await nats.connect(nats_server.url)
    try:
        async with polling(nats_server.url) as polled:
            polled.control.set_interval(0.5)
            publisher = await prepare(polled, nc)
            works = [asyncio.create_task(work) for work in (publisher.run(nc), keep_up(nc))]
            async with asyncio.timeout(120):
                while len(publisher.stored_at) < BEFORE_IT_COUNTS:
                    await asyncio.sleep(0.1)
            shown_bytes, from_s, to_s, empty_count = await shown(polled)
            for work in works:
                work.cancel()
            await ended(*works)
    finally:
        await nc.close()
    counted_bytes = publisher.between(from_s, to_s)
    assert counted_bytes > 100_000
    assert shown_bytes == pytest.approx(counted_bytes, rel=0.05), f"{empty_count} polls of nothing"


async def shown(polled: Polled) -> tuple[float, float, float, int]:
    """Return the bytes that the shown rates add up to, from when to when, and empty polls."""
    total_bytes, times, empty_count = 0.0, list[float](), 0
    until_s = time.monotonic() + WATCHED_S
    while time.monotonic() < until_s:
        await asyncio.sleep(0.05)
        table, history = polled.state.streams, polled.state.stream_history
        (row,) = table.roster.rows_of_stream["WORK"]
        at_s = table.columns.sampled_mono_us[row] / 1e6
        if times and at_s <= times[-1]:
            continue
        per_s = stream_rates(history, table.roster.keys[row]).in_bytes_per_s
        if times:
            assert per_s is not None, "it is known as soon as something was seen stored"
            total_bytes += per_s * (at_s - times[-1])
            empty_count += not table.columns.stored_msgs[row]
        elif per_s is None:
            continue
        times.append(at_s)
    return total_bytes, times[0], times[-1], empty_count
