"""The life of messages, step by step, in the columns of one consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import nats
import pytest
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext

from natstui.jetstream.testbed.broker import Broker
from tests.ending import ended
from tests.jetstream.polling import Polled, polling, rows

pytestmark = pytest.mark.server

Counts = tuple[int, int, int, int, str, str]
"""Pending, ack pending, redelivered, waiting, delivered and ack floor as consumer/stream."""


@dataclass
class Walk:
    """One stream and pull consumer, worked on with plain nats-py."""

    polled: Polled
    js: JetStreamContext
    pull: JetStreamContext.PullSubscription

    async def fetch_one(self) -> Msg:
        (message,) = await self.pull.fetch(1, timeout=30)
        return message

    async def waits_for_acks(self, ack_wait_s: float, most_pending: int = 1000) -> None:
        """Have the consumer wait so long for an ack, and deliver no more than so many before."""
        await self.js.add_consumer(
            "S",
            durable_name="C",
            ack_policy="explicit",
            ack_wait=ack_wait_s,
            max_deliver=3,
            max_ack_pending=most_pending,
        )

    async def counts(self) -> Counts:
        """What the poller says now."""
        (row,) = rows((await self.polled.fresh()).consumers)
        return (
            row["pending_msgs"],
            row["ack_pending_msgs"],
            row["redelivered_msgs"],
            row["waiting_pulls_count"],
            f"{row['delivered_consumer_seq']}/{row['delivered_stream_seq']}",
            f"{row['ack_floor_consumer_seq']}/{row['ack_floor_stream_seq']}",
        )

    async def become(self, *expected: object) -> None:
        """Wait until the poller says this; a nak or an expired pull takes the server a moment."""
        for _ in range(300):
            if (counts := await self.counts()) == expected:
                return
            await asyncio.sleep(0.1)
        assert counts == expected


@asynccontextmanager
async def walking(server: Broker) -> AsyncIterator[Walk]:
    nc = await nats.connect(server.url, connect_timeout=5)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s"])
    await js.add_consumer(
        "S", durable_name="C", ack_policy="explicit", ack_wait=600, max_deliver=3
    )
    async with polling(server.url) as polled:
        yield Walk(polled, js, await js.pull_subscribe("s", durable="C", stream="S"))
    await nc.close()


@pytest.mark.long
async def test_every_step_of_a_message_shows_in_the_consumers_row(nats_server: Broker) -> None:
    async with walking(nats_server) as walk:
        for _ in range(6):
            await walk.js.publish("s", b"x")
        await walk.become(6, 0, 0, 0, "0/0", "0/0")
        first, second, third = await walk.pull.fetch(3, timeout=10)
        await walk.become(3, 3, 0, 0, "3/3", "0/0")
        await first.ack_sync(timeout=30)
        await walk.become(3, 2, 0, 0, "3/3", "1/1")
        await third.ack_sync(timeout=30)
        await walk.become(3, 1, 0, 0, "3/3", "1/1")
        await second.in_progress()
        await walk.become(3, 1, 0, 0, "3/3", "1/1")
        # No other message comes while one is unacknowledged.
        await walk.waits_for_acks(0.5, most_pending=1)
        second = await walk.fetch_one()
        assert second.metadata.num_delivered == 2
        await walk.waits_for_acks(600)
        await walk.become(3, 1, 1, 0, "4/3", "1/1")
        await second.nak()
        await walk.become(3, 1, 1, 0, "4/3", "1/1")
        assert (await walk.fetch_one()).metadata.num_delivered == 3
        await walk.become(3, 1, 1, 0, "5/3", "1/1")
        # The fourth one comes once this one is given up.
        await walk.waits_for_acks(2.0, most_pending=1)
        fourth = await walk.fetch_one()
        await walk.waits_for_acks(600)
        await fourth.nak(delay=60)
        await walk.become(2, 1, 1, 0, "6/4", "1/1")
        fifth = await walk.fetch_one()
        await walk.become(1, 2, 1, 0, "7/5", "1/1")
        await fifth.term()
        await walk.become(1, 1, 1, 0, "7/5", "1/1")


async def test_redelivery_after_a_delayed_nak_settles_everything_before_it(
    nats_server: Broker,
) -> None:
    async with walking(nats_server) as walk:
        for _ in range(2):
            await walk.js.publish("s", b"x")
        first, second = await walk.pull.fetch(2, timeout=10)
        await second.ack_sync(timeout=30)
        await first.nak(delay=1)
        await walk.become(0, 1, 0, 0, "2/2", "0/0")
        await (await walk.fetch_one()).ack_sync(timeout=30)
        await walk.become(0, 0, 0, 0, "3/2", "3/2")


async def test_open_pulls_are_counted_and_a_purge_settles_all(nats_server: Broker) -> None:
    async with walking(nats_server) as walk:
        pulls = [asyncio.create_task(walk.pull.fetch(10, timeout=20)) for _ in range(3)]
        await walk.become(0, 0, 0, 3, "0/0", "0/0")
        for pull in pulls:
            pull.cancel()
        await ended(*pulls)


async def test_a_purge_settles_what_was_pending_and_what_was_delivered(
    nats_server: Broker,
) -> None:
    async with walking(nats_server) as walk:
        for _ in range(3):
            await walk.js.publish("s", b"x")
        await walk.fetch_one()
        await walk.become(2, 1, 0, 0, "1/1", "0/0")
        await walk.js.purge_stream("S")
        await walk.become(0, 0, 0, 0, "1/3", "1/3")


@pytest.mark.needs_server("2.11")
async def test_a_stalled_and_a_paused_consumer_show_as_such(nats_server: Broker) -> None:
    async with walking(nats_server) as walk:
        await walk.js.pause_consumer("S", "C", "2100-01-01T00:00:00Z")
        (row,) = rows((await walk.polled.fresh()).consumers)
        assert row["paused"] is True and row["push_bound"] is False
        await walk.js.resume_consumer("S", "C")
        (row,) = rows((await walk.polled.fresh()).consumers)
        assert row["paused"] is False


async def test_the_next_message_of_a_consumer_in_view_tells_its_age(nats_server: Broker) -> None:
    async with walking(nats_server) as walk:
        for _ in range(3):
            await walk.js.publish("s", b"x")
            await asyncio.sleep(0.05)
        await (await walk.fetch_one()).ack_sync(timeout=30)
        walk.polled.control.set_visible((), (("S", "C"),))
        (row,) = rows((await walk.polled.fresh()).consumers)
        stored = [await walk.js.get_msg("S", seq) for seq in (1, 2, 3)]
        (info,) = rows((await walk.polled.fresh()).streams)
        assert info["first_at_us"] < row["next_at_us"] < info["last_at_us"]
        assert len(stored) == 3
