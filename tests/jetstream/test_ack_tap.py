"""The ack tap against clients that count their own answers, on a real server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import nats
import nats.errors
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import NotFound, PermissionDenied
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.events.ack_tap import AckTap, ack_kind, parse_delivery
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.tap import MAX_TAPPED_MSGS_PER_S, StartTap, TapResults
from tests.ending import ended
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server


@dataclass
class Worker:
    """A client that answers by the sequence of a message, and counts what it answered."""

    answered: Counter[str] = field(default_factory=Counter)
    left: set[int] = field(default_factory=set)
    """Messages refused or in progress, and not acknowledged."""

    async def handle(self, msg: Msg) -> None:
        seq = msg.metadata.sequence.stream
        reply, client = msg.reply, msg._client
        match seq % 7:
            case 0:
                await client.publish(reply, b'-NAK {"delay": 600000000000}')
                self.answered["nak"] += 1
                self.left.add(seq)
            case 1:
                await client.publish(reply, b"+TERM it is broken")
                self.answered["term"] += 1
            case 2:
                await client.publish(reply, b"+WPI")
                self.answered["in progress"] += 1
                self.left.add(seq)
            case 3:
                await client.publish(reply, b"+WPI")
                await client.publish(reply, b"+ACK")
                self.answered.update(("in progress", "ack"))
            case 4:
                await client.publish(reply, b"")
                await client.publish(reply, b"+ACK")
                self.answered.update(("ack", "ack", "again"))
            case _:
                await client.request(reply, b"", timeout=20)
                self.answered["ack"] += 1


@asynccontextmanager
async def ground(server: Broker, **config: object) -> AsyncIterator[tuple[NatsClient, Client]]:
    nc = await nats.connect(server.url)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s.>"])
    whole = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 600} | config
    await js.add_consumer("S", **whole)
    client = await connect(Connection(servers=(server.url,)))
    try:
        yield nc, client
    finally:
        await client.close()
        await nc.close()


async def publish(nc: NatsClient, count: int) -> None:
    for _ in range(count):
        await nc.jetstream().publish("s.a", b"x")


async def work(nc: NatsClient, worker: Worker, count: int) -> None:
    pull = await nc.jetstream().pull_subscribe_bind("C", stream="S")
    for _ in range(count // 10):
        for msg in await pull.fetch(10, timeout=20):
            await worker.handle(msg)
    await flushed(nc)


async def test_it_counts_what_clients_answered_and_names_what_is_not_acknowledged(
    nats_server: Broker,
) -> None:
    worker, told = Worker(), list[TapResults]()
    async with ground(nats_server) as (nc, client):
        await publish(nc, 210)
        reading = AckTap(StartTap(7, "S", "C", 300), told.append)
        await reading.begin(client)
        task = asyncio.create_task(reading.run())
        await work(nc, worker, 210)
        wanted = sum(worker.answered.values()) - worker.answered["again"]
        async with asyncio.timeout(30):
            while told[-1].read_msgs < wanted:
                await asyncio.sleep(0.05)
        assert told[-1].ended is None
        task.cancel()
        await ended(task)
        info = await nc.jetstream().consumer_info("S", "C")
    last = told[-1]
    assert last.ended == "ended: reading was stopped"
    counts = last.counts
    assert counts.acks_count == worker.answered["ack"]
    assert counts.again_acks_count == worker.answered["again"]
    assert counts.naks_count == worker.answered["nak"]
    assert counts.terms_count == worker.answered["term"]
    assert counts.in_progress_count == worker.answered["in progress"]
    assert counts.others_count == 0
    assert {one.stream_seq for one in last.unsettled} == worker.left
    assert last.unsettled_msgs == info.num_ack_pending == len(worker.left)
    assert all(one.deliveries_count == 1 for one in last.unsettled)
    age_us = last.at_us - last.unsettled[0].stored_at_us
    assert 0 <= age_us < 300_000_000
    acked_once = worker.answered["ack"] - worker.answered["again"]
    assert last.stored_to_acked.total_count == acked_once
    assert last.read_bytes > 30 * last.read_msgs


async def test_a_tap_ends_by_itself_and_leaves_no_subscription(nats_server: Broker) -> None:
    told: list[TapResults] = []
    async with ground(nats_server) as (nc, client):
        before = client.nc._subs.keys() | set()
        began_s = time.monotonic()
        reading = AckTap(StartTap(1, "S", "C", 1.0), told.append)
        await reading.begin(client)
        assert len(client.nc._subs) == len(before) + 2
        await reading.run()
        assert time.monotonic() - began_s >= 1.0
        assert client.nc._subs.keys() == before
        # Without a listener the server answers an ack of a consumer that is gone at once.
        await nc.jetstream().delete_consumer("S", "C")
        with pytest.raises(nats.errors.NoRespondersError):
            await nc.request("$JS.ACK.S.C.1.1.1.1.1", b"", timeout=20)
    assert told[-1].ended == "ended: natstui read for 1s" and told[-1].elapsed_s >= 1.0


async def test_a_flood_of_answers_ends_it_and_says_so(nats_server: Broker) -> None:
    told: list[TapResults] = []
    async with ground(nats_server) as (nc, client):
        reading = AckTap(StartTap(1, "S", "C", 300), told.append)
        await reading.begin(client)
        task = asyncio.create_task(reading.run())

        async def flood() -> None:
            for number in range(400_000):
                await nc.publish(f"$JS.ACK.S.C.1.{number}.{number}.1.0", b"+WPI")
                if number % 500 == 0:
                    await asyncio.sleep(0)

        flooding = asyncio.create_task(flood())
        async with asyncio.timeout(120):
            await task
        flooding.cancel()
        await ended(flooding)
    assert told[-1].ended is not None
    assert "acks per second arrived" in told[-1].ended
    assert told[-1].unsettled_msgs <= MAX_TAPPED_MSGS_PER_S


async def test_a_repeated_delivery_and_ack_all_settle_what_was_refused(
    nats_server: Broker,
) -> None:
    told: list[TapResults] = []
    async with ground(nats_server, ack_policy="all") as (nc, client):
        await publish(nc, 6)
        pull = await nc.jetstream().pull_subscribe_bind("C", stream="S")
        reading = AckTap(StartTap(1, "S", "C", 300), told.append)
        await reading.begin(client)
        task = asyncio.create_task(reading.run())
        msgs = await pull.fetch(6, timeout=20)
        await msgs[0].in_progress()
        await msgs[1].in_progress()
        await msgs[5].in_progress()
        await msgs[4].ack_sync(timeout=20)
        async with asyncio.timeout(30):
            while told[-1].read_msgs < 4:
                await asyncio.sleep(0.05)
        task.cancel()
        await ended(task)
    assert [one.stream_seq for one in told[-1].unsettled] == [6]


async def test_without_the_consumer_or_permission_it_is_one_sentence(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(
        """
        authorization { users: [
          { user: all, password: all },
          { user: some, password: some, permissions: { subscribe: { deny: "$JS.ACK.>" } } }
        ] }
        """
    )
    url = server.url.replace("://", "://all:all@")
    nc = await nats.connect(url)
    await nc.jetstream().add_stream(name="S", subjects=["s.>"])
    await nc.jetstream().add_consumer("S", durable_name="C", ack_policy="explicit")
    await nc.close()
    client = await connect(Connection(servers=(url.replace("all:all", "some:some"),)))
    try:
        with pytest.raises(NotFound):
            await AckTap(StartTap(1, "S", "NONE"), lambda _: None).begin(client)
        with pytest.raises(PermissionDenied, match="no permission to subscribe") as denied:
            await AckTap(StartTap(1, "S", "C"), lambda _: None).begin(client)
        assert "$JS.ACK.S.C.>" in str(denied.value) or "$JS.ACK.*" in str(denied.value)
        with suppress(KeyError):
            assert not [one for one in client.nc._subs.values() if "ACK" in one.subject]
    finally:
        await client.close()


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.ACK.S.C.3.20.41.1700.9",
        "$JS.ACK._.HASH.S.C.3.20.41.1700.9",
        "$JS.ACK.D.HASH.S.C.3.20.41.1700.9.more",
    ],
)
def test_both_forms_of_a_subject_tell_the_delivery(subject: str) -> None:
    delivery = parse_delivery(subject)
    assert delivery == (3, 20, 41, 1700)


def test_what_is_no_answer_is_told_apart() -> None:
    assert (
        parse_delivery("$JS.ACK.S.C.x.y.z.1.2") is None and parse_delivery("$JS.ACK.S.C") is None
    )
    words = {b"": "ack", b"+NXT {}": "ack", b'-NAK{"delay":1}': "nak", b"hello": "other"}
    assert {payload: ack_kind(payload) for payload in words} == words
