"""Acks a second against those that the readers counted: half a minute, all consumers at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import nats
import nats.errors
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.rates import ack_rate
from tests.ending import ended
from tests.jetstream.polling import Polled, api, polling

pytestmark = [pytest.mark.server, pytest.mark.long]

WATCHED_S = 30
PAUSE_S = 0.04
BEFORE_IT_COUNTS = 30
"""Messages that each reader has acknowledged before: a rate that begins is another thing."""
LONGEST_SPAN_S = 5
"""A rate looks back less far than this."""


@dataclass
class Reader:
    """A consumer, and how its messages are handled."""

    name: str
    handle: Callable[[Reader, list[Msg]], Awaitable[None]]
    config: dict[str, object] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    """Every message whose ack the server has taken, once."""
    acked_at: list[tuple[float, int]] = field(default_factory=list)
    """How many there were, and when."""

    def count(self, msg: Msg) -> None:
        """Note that the server has taken an ack."""
        self.acked.add(msg.metadata.sequence.stream)
        self.acked_at.append((time.monotonic(), len(self.acked)))

    def between(self, from_s: float, to_s: float) -> int:
        """Return how many messages were acked in a span of time."""
        return self._until(to_s) - self._until(from_s)

    def _until(self, at_s: float) -> int:
        return max((n for when_s, n in self.acked_at if when_s <= at_s), default=0)


async def with_a_hole(reader: Reader, msgs: list[Msg]) -> None:
    """Ack all but the very first message, which blocks the floor."""
    for msg in msgs:
        if msg.metadata.sequence.stream > 1:
            await msg.ack_sync(timeout=20)
            reader.count(msg)


async def redelivering(reader: Reader, msgs: list[Msg]) -> None:
    """Nak every third message at its first two deliveries."""
    for msg in msgs:
        if msg.metadata.sequence.stream % 3 == 0 and msg.metadata.num_delivered < 3:
            await msg.nak()
        else:
            await msg.ack_sync(timeout=20)
            reader.count(msg)


async def giving_up(reader: Reader, msgs: list[Msg]) -> None:
    """Nak every fourth message until it is given up."""
    for msg in msgs:
        if msg.metadata.sequence.stream % 4 == 0:
            await msg.nak()
        else:
            await msg.ack_sync(timeout=20)
            reader.count(msg)


async def all_at_once(reader: Reader, msgs: list[Msg]) -> None:
    """Ack the last message of a batch, and all before it with that."""
    await msgs[-1].ack_sync(timeout=20)
    for msg in msgs:
        reader.count(msg)


async def twice(reader: Reader, msgs: list[Msg]) -> None:
    """Ack each message twice."""
    for msg in msgs:
        reply = msg.reply
        await msg.ack_sync(timeout=20)
        reader.count(msg)
        await msg._client.publish(reply, b"+ACK")


READERS = (
    Reader("hole", with_a_hole),
    Reader("redelivered", redelivering),
    Reader("given_up", giving_up, {"max_deliver": 3}),
    Reader("all", all_at_once, {"ack_policy": "all"}),
    Reader("twice", twice),
)


async def _publish(nc: NatsClient) -> None:
    for number in count():
        for reader in READERS:
            await nc.publish(f"{reader.name}.{number % 7}", b"x")
        await asyncio.sleep(PAUSE_S)


async def _read(nc: NatsClient, reader: Reader) -> None:
    bound = await nc.jetstream().pull_subscribe_bind("C", stream=reader.name)
    while True:
        with suppress(TimeoutError):
            await reader.handle(reader, await bound.fetch(10, timeout=1))


async def _begin(polled: Polled, nc: NatsClient) -> list[asyncio.Task[None]]:
    for reader in READERS:
        name = reader.name
        body = {"name": name, "subjects": [f"{name}.*"], "storage": "memory"}
        await api(polled.client, f"STREAM.CREATE.{name}", body)
        config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 60 * 10**9}
        made = {"stream_name": name, "config": config | reader.config}
        await api(polled.client, f"CONSUMER.DURABLE.CREATE.{name}.C", made)
    works = [_publish(nc), *(_read(nc, reader) for reader in READERS)]
    return [asyncio.create_task(work) for work in works]


async def test_acks_a_second_are_within_5_percent_of_those_that_readers_counted(
    nats_server: Broker,
) -> None:
    nc = await nats.connect(nats_server.url)
    try:
        async with polling(nats_server.url) as polled:
            polled.control.set_interval(1.0)
            works = await _begin(polled, nc)
            await asyncio.sleep(3)
            shown = await _shown(polled)
            for work in works:
                work.cancel()
            await ended(*works)
    finally:
        await nc.close()
    for reader in READERS:
        acks, from_s, to_s = shown[reader.name]
        counted = reader.between(from_s, to_s)
        assert counted > 100
        assert acks == pytest.approx(counted, rel=0.05), reader.name


async def _shown(polled: Polled) -> dict[str, tuple[float, float, float]]:
    """Return the acks that the shown rates add up to, and from when to when, by stream."""
    acks: dict[str, float] = {}
    times: dict[str, list[float]] = {reader.name: [] for reader in READERS}
    until_s = time.monotonic() + WATCHED_S
    while time.monotonic() < until_s:
        await asyncio.sleep(0.1)
        state = polled.state
        for key, row in state.consumers.roster.row_of.items():
            name, at_s = str(key[0]), state.consumers.columns.sampled_mono_us[row] / 1e6
            known = times[name]
            if known and at_s > known[-1]:
                config = state.consumer_configurations[name, "C"]
                acks_per_s = ack_rate(state.consumer_history, key, config).acks_per_s
                assert acks_per_s is not None
                acks[name] = acks.get(name, 0.0) + acks_per_s * (at_s - known[-1])
            if not known or at_s > known[-1]:
                known.append(at_s)
    return {name: (acks[name], known[0], known[-1]) for name, known in times.items()}
