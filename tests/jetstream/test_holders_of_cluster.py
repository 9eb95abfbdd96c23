"""Who holds a consumer and who publishes, on three nodes: with static accounts and with JWTs.

What each client is said to have got is held against what it counted itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import nats
import pytest
from msgspec import Struct
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from natstui.config.connection import Secret
from natstui.jetstream.connection.client import Client
from natstui.jetstream.system.clients import (
    read_consumer,
    read_publishers,
    read_pull_clients,
    read_push_clients,
)
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.clients.requests import TappedRequests
from tests.jetstream.flushing import flushed
from tests.jetstream.operator_jwts import Operator, write_creds
from tests.jetstream.test_connections import as_user, asking
from tests.jetstream.test_holders import at_work, consumer, names, until_it_reads

pytestmark = [pytest.mark.server, pytest.mark.cluster, pytest.mark.long]

WORKERS = ("one", "two", "three")
TURNS = ("one", "two", "three", "one", "two", "one")
"""Who takes next: the shares do not depend on how busy the machine is."""
FIRST, THEN, ROUNDS = 2, 40, 15
"""Batches: small ones until the tap knows everybody, and then so many rounds of large ones."""
NODES = {"n1", "n2", "n3"}
BETWEEN_SERVERS_S = 1.0
"""How long what one server knows may take to the others, on a busy machine."""


class Ground(Struct, frozen=True):
    """A cluster, and how a client of its one account with JetStream joins it."""

    urls: tuple[str, ...]
    joining: dict[str, Any]
    """For nats-py,"""
    asking: dict[str, Any]
    """and for us."""

    @asynccontextmanager
    async def people(self, *names: str) -> AsyncIterator[list[NatsClient]]:
        """Connect clients by name, one after the other to each of the nodes."""
        async with AsyncExitStack() as stack:
            found = []
            for place, name in enumerate(names):
                url = self.urls[place % len(self.urls)]
                nc = await nats.connect(url, name=name, **self.joining)
                stack.push_async_callback(nc.close)
                found.append(nc)
            yield found


@pytest.fixture(params=["accounts", "operator"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    """Three nodes that know their users from a list, or by what an operator signed."""
    if request.param == "accounts":
        with Cluster() as cluster:
            yield Ground(tuple(as_user(url, "app") for url in cluster.urls), {}, {})
        return
    operator = Operator()
    creds = write_creds(tmp_path / "alice.creds", *operator.user(name="alice"))
    joining = {"user_credentials": str(creds)}
    with Cluster(accounts=operator.server_config, connect_options=joining) as cluster:
        yield Ground(cluster.urls, joining, {"creds": Secret(creds.read_text())})


async def test_who_pulls_who_listens_and_who_publishes_is_named_with_what_each_counts(
    ground: Ground,
) -> None:
    async with (
        ground.people(*WORKERS, "idle", "nosy") as (one, two, three, _, nosy),
        asking(*ground.urls, **ground.asking) as (client, servers),
    ):
        # Somebody who looks at all inboxes is no client of anything.
        await nosy.subscribe("_INBOX.>")
        await nosy.subscribe("to.>")
        await flushed(nosy)
        workers = dict(zip(WORKERS, (one, two, three), strict=True))
        await consumer(one, replicas=3, filter_subject="s.pull")
        await _pulled(client, servers, workers)
        await _delivered(client, servers, workers)
        await _published(client, servers, workers, nosy)


async def _pulled(client: Client, servers: ServerRequests, workers: dict[str, NatsClient]) -> None:
    """Three that share a pull consumer, in turns."""
    turns = [(name, FIRST) for name in TURNS * 3] + [(name, THEN) for name in TURNS * ROUNDS]
    await store(workers["one"], "s.pull", sum(batch for _, batch in turns))
    counted: Counter[str] = Counter()
    pulls: Counter[str] = Counter()
    stop = asyncio.Event()

    async def take() -> None:
        pulling = {
            name: await nc.jetstream().pull_subscribe_bind("C", stream="S")
            for name, nc in workers.items()
        }
        await until_it_reads(client)
        # What goes through another server is read once that server knows of the tap.
        await asyncio.sleep(BETWEEN_SERVERS_S)
        try:
            for name, batch in turns:
                left_count = batch
                while left_count:
                    pulls[name] += 1
                    got = await pulling[name].fetch(left_count, timeout=60)
                    left_count -= len(got)
                    counted[name] += len(got)
                    for message in got:
                        await message.ack()
                if batch == FIRST:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(BETWEEN_SERVERS_S)
        finally:
            stop.set()

    async with at_work(asyncio.ensure_future(take())):
        heard = await read_pull_clients(client, servers, "S", "C", 300.0, stop)
    assert heard.ended == "reading was stopped"
    assert names(heard) == set(WORKERS)
    assert heard.gone_msgs == heard.anonymous_msgs == 0
    by_name = {one.connection.name: one for one in heard.requesters if one.connection}
    assert {one.connection.server_name for one in by_name.values() if one.connection} == NODES
    # nats-py asks once more for what did not come at once.
    assert all(by_name[name].requests_count >= pulls[name] for name in WORKERS)
    assert all(str(THEN) in by_name[name].about for name in WORKERS)
    same_shares({name: by_name[name].delivered_msgs or 0 for name in WORKERS}, counted)


async def _delivered(
    client: Client, servers: ServerRequests, workers: dict[str, NatsClient]
) -> None:
    """Three in the queue group of a push consumer."""
    counted: Counter[str] = Counter()
    came = asyncio.Event()
    sent_count = 300

    async def count(name: str, message: Msg) -> None:
        counted[name] += 1
        await message.ack()
        if counted.total() == sent_count:
            came.set()

    for name, nc in workers.items():
        await nc.subscribe("to.workers", queue="G", cb=partial(count, name))
        await flushed(nc)
    await workers["one"].jetstream().add_consumer(
        "S", durable_name="P", ack_policy="explicit", filter_subject="s.push",
        deliver_subject="to.workers", deliver_group="G",
    )  # fmt: skip
    await store(workers["one"], "s.push", sent_count)
    async with asyncio.timeout(60):
        await came.wait()
    told = await read_consumer(client, "S", "P")
    assert (told.deliver_subject, told.deliver_group) == ("to.workers", "G")
    found = await read_push_clients(servers, "to.workers", "G")
    assert {one.connection.server_name for one in found} == NODES
    assert {one.connection.name: one.by.delivered_msgs for one in found} == counted


async def _published(
    client: Client, servers: ServerRequests, workers: dict[str, NatsClient], plain: NatsClient
) -> None:
    """Three that wait for the stream's answers, and one that does not."""
    wanted = {name: TURNS.count(name) * 10 for name in WORKERS}
    stop = asyncio.Event()

    async def publish() -> None:
        await until_it_reads(client, "s.>")
        await asyncio.sleep(BETWEEN_SERVERS_S)
        for name in TURNS * 10:
            await workers[name].jetstream().publish(f"s.{name}", b"x", timeout=60)
        for _ in range(7):
            await plain.publish("s.plain", b"x")
        await flushed(plain)
        # The tap has read them when they are stored: it is as far from them as the stream.
        while (await workers["one"].jetstream().stream_info("S")).state.messages < stored + 67:
            await asyncio.sleep(0.05)
        await client.nc.flush(timeout=20)
        stop.set()

    stored = (await workers["one"].jetstream().stream_info("S")).state.messages
    async with at_work(asyncio.ensure_future(publish())):
        heard: TappedRequests = await read_publishers(
            client, servers, "S", ["s.>"], 300.0, stop=stop
        )
    assert heard.ended == "reading was stopped" and heard.gone_msgs == 0
    told = {one.connection.name: one for one in heard.requesters if one.connection}
    assert {name: one.requests_count for name, one in told.items()} == wanted
    assert {name: one.about for name, one in told.items()} == {
        name: (f"s.{name}",) for name in WORKERS
    }
    assert heard.anonymous_msgs == 7


async def store(nc: NatsClient, subject: str, count: int) -> None:
    """Publish so many, and wait until they are stored."""
    js = nc.jetstream()
    for _ in range(count - 1):
        await nc.publish(subject, b"x")
    await js.publish(subject, b"x", timeout=60)


def same_shares(told: dict[str, int], counted: Counter[str], most: float = 1.0) -> None:
    """Fail when a share of what was got is off by more than a twentieth."""
    for name in counted:
        share = told[name] / sum(told.values())
        assert share == pytest.approx(counted[name] / counted.total(), rel=0.05), (told, counted)
        # What came before the tap knew whose inbox it is stays uncounted.
        assert 0.9 < told[name] / counted[name] <= most
