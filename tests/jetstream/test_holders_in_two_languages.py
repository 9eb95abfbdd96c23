"""Clients in Python and in Go share a consumer; the one in Go is the NATS CLI.

Where there is no `nats` on the PATH, they are left out.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from nats.aio.client import Client as NatsClient

from natstui.jetstream.system.clients import read_pull_clients
from natstui.jetstream.testbed.cluster import Cluster
from tests.jetstream.test_connections import as_user, asking
from tests.jetstream.test_holders import at_work, consumer, names, until_it_reads
from tests.jetstream.test_holders_of_cluster import (
    BETWEEN_SERVERS_S,
    Ground,
    same_shares,
    store,
)

pytestmark = [pytest.mark.cluster, pytest.mark.needs_program("nats")]

LITTLE = 12


async def test_clients_in_two_languages_share_a_consumer_and_each_is_named(
    nats_cluster: Cluster,
) -> None:
    program = shutil.which("nats")
    assert program is not None
    urls = [as_user(url, "app") for url in nats_cluster.urls]
    ground, stop, heard_all = Ground(tuple(urls), {}, {}), asyncio.Event(), asyncio.Event()
    counted: Counter[str] = Counter()

    async def shared(one: NatsClient, two: NatsClient) -> None:
        await until_it_reads(client)
        await asyncio.sleep(BETWEEN_SERVERS_S)
        js, stored_count = one.jetstream(), 0
        async with gopher(program, urls[2]):
            while not (await js.consumer_info("S", "C")).num_waiting:
                await asyncio.sleep(0.1)
            workers = (_takes(one, "one", counted), _takes(two, "two", counted))
            async with at_work(*map(asyncio.ensure_future, workers)):
                # Little at a time: each has asked for more when the next ones come.
                while stored_count < LITTLE * 120:
                    await store(one, "s.pull", LITTLE)
                    stored_count += LITTLE
                    await asyncio.sleep(0.05)
                while (
                    info := await js.consumer_info("S", "C")
                ).num_pending or info.num_ack_pending:
                    await asyncio.sleep(0.1)
                # It takes what the others do not, each once.
                assert info.delivered is not None
                assert info.delivered.consumer_seq == stored_count
                counted["gopher"] = stored_count - counted.total()
                stop.set()
                # The clients are there until each was asked for.
                await heard_all.wait()

    async with (
        ground.people("one", "two") as (one, two),
        asking(*urls) as (client, servers),
    ):
        await consumer(one, replicas=3, filter_subject="s.pull")
        async with at_work(asyncio.ensure_future(shared(one, two))):
            heard = await read_pull_clients(client, servers, "S", "C", 300.0, stop)
            heard_all.set()
    assert names(heard) == {"one", "two", "gopher"}
    by_name = {it.connection.name: it for it in heard.requesters if it.connection}
    assert {it.connection.language for it in by_name.values() if it.connection} == {
        "go", "python3",
    }  # fmt: skip
    assert min(counted.values()) > LITTLE
    # The server's word that a pull has expired comes to the inbox as well.
    told = {str(name): it.delivered_msgs or 0 for name, it in by_name.items()}
    same_shares(told, counted, most=1.1)


@asynccontextmanager
async def gopher(program: str, url: str) -> AsyncIterator[None]:
    """Have a client in Go take messages: it begins and stays, as a worker does."""
    words = ("bench", "js", "consume", "--stream", "S", "--consumer", "C", "--no-progress")
    process = await asyncio.create_subprocess_exec(
        program, "-s", url, "--connection-name", "gopher", *words,
        "--msgs", "100000", "--batch", "4", stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def _takes(nc: NatsClient, name: str, counted: Counter[str]) -> None:
    """Take messages for ever, and count them."""
    pulling = await nc.jetstream().pull_subscribe_bind("C", stream="S")
    while True:
        with suppress(TimeoutError):
            for message in await pulling.fetch(4, timeout=2):
                counted[name] += 1
                await message.ack()
