from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from natstui.config import Connection, Secret
from natstui.errors import ConnectionFailed, ConnectionLost, RequestTimedOut
from natstui.jetstream.connection import nats_client
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.failures import explain_lost_connection
from natstui.jetstream.connection.link import keep_alive
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.records.record import LinkChanged

pytestmark = pytest.mark.server

LONG_S = 20.0


@asynccontextmanager
async def connected(broker: Broker) -> AsyncIterator[tuple[Client, list[LinkChanged]]]:
    """A client, and what its link says."""
    changes: list[LinkChanged] = []
    client = await connect(Connection(servers=(broker.url,)), on_link=changes.append)
    try:
        yield client, changes
    finally:
        await client.close()


async def until(holds: Callable[[], bool], within_s: float = LONG_S) -> float:
    """Wait until something holds; return how long it took."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.02)
    return loop.time() - begin


def said(changes: list[LinkChanged], reason: str) -> bool:
    return any(change.reason == reason for change in changes)


async def message_count(client: Client, stream: str) -> int:
    reply = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    return int(reply["state"]["messages"])


async def fill(client: Client, stream: str, count: int) -> None:
    await client.request(f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [stream]})
    for _ in range(count):
        await client.request_subject(stream, b"x")


async def test_a_killed_server_is_noticed_at_once_and_found_again(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        nats_server.kill()
        await until(lambda: changes[-1].state == "reconnecting")
        await until(lambda: "nothing listens" in (changes[-1].reason or ""))
        nats_server.start()
        await until(lambda: changes[-1].state == "connected", within_s=LONG_S)
        assert await client.request("INFO")


@pytest.fixture
def soon_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a server that is silent for two seconds for frozen."""
    monkeypatch.setattr(nats_client, "_CHECK_INTERVAL_S", 0.25)
    monkeypatch.setattr(nats_client, "_MIN_STALE_TIMEOUT_S", 2.0)


@pytest.mark.usefixtures("soon_stale")
async def test_a_frozen_server_is_noticed_and_found_again(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        nats_server.freeze()
        open_request = asyncio.create_task(client.request("INFO", timeout_s=60))
        assert await until(lambda: changes[-1].state == "reconnecting") < 20
        assert changes[-1].reason == "the server does not reply any more"
        with pytest.raises(
            ConnectionLost, match="the connection was lost before the reply arrived"
        ):
            await open_request
        nats_server.thaw()
        await until(lambda: changes[-1].state == "connected", within_s=LONG_S)
        assert await client.request("INFO")


async def test_a_purge_in_an_outage_is_refused_and_never_runs_later(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        await fill(client, "S", 5)
        nats_server.stop()
        await until(lambda: changes[-1].state == "reconnecting")
        with pytest.raises(ConnectionLost):
            await client.request("STREAM.PURGE.S")
        nats_server.start()
        await until(lambda: changes[-1].state == "connected")
        await asyncio.sleep(0.3)
        assert await message_count(client, "S") == 5


async def test_a_purge_written_but_not_sent_before_the_outage_never_runs_later(
    nats_server: Broker,
) -> None:
    async with connected(nats_server) as (client, changes):
        await fill(client, "S", 5)
        nats_server.stop()
        # The client has not noticed yet: nothing but its own buffer takes this request.
        client.nc._pending.append(b"PUB $JS.API.STREAM.PURGE.S 0\r\n\r\n")
        await until(lambda: changes[-1].state == "reconnecting")
        nats_server.start()
        await until(lambda: changes[-1].state == "connected")
        await asyncio.sleep(0.3)
        assert await message_count(client, "S") == 5


async def test_subscriptions_go_on_after_an_outage(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        heard: list[bytes] = []

        async def hear(message: object) -> None:
            heard.append(getattr(message, "data", b""))

        await client.subscribe("news", hear)
        nats_server.stop()
        await until(lambda: changes[-1].state == "reconnecting")
        nats_server.start()
        await until(lambda: changes[-1].state == "connected")
        await client.publish("news", b"again")
        await until(lambda: heard == [b"again"])


async def test_a_dead_read_loop_is_noticed_and_revived(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        client.nc._reading_task.cancel()
        await until(lambda: len(changes) > 2, within_s=LONG_S)
        assert [(change.state, change.reason) for change in changes[1:]] == [
            ("reconnecting", "the read loop of the connection ended unexpectedly"),
            ("connected", None),
        ]
        assert await client.request("INFO")


async def test_a_dead_reconnect_is_noticed_and_revived(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        nats_server.stop()
        await until(lambda: changes[-1].state == "reconnecting")
        client.nc._reconnection_task.cancel()
        await until(lambda: said(changes, "reconnecting ended unexpectedly"), within_s=LONG_S)
        nats_server.start()
        await until(lambda: changes[-1].state == "connected", within_s=LONG_S)
        assert await client.request("INFO")


async def test_a_stuck_reconnect_is_noticed_and_begun_anew(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        nats_server.stop()
        await until(lambda: changes[-1].state == "reconnecting")
        client.nc._reconnection_task.cancel()
        client.nc._reconnection_task = asyncio.create_task(asyncio.sleep(1000))
        nats_server.start()
        faults: list[str] = []
        watching = asyncio.create_task(keep_alive(client.nc, faults.append, stuck_s=1))
        await until(lambda: changes[-1].state == "connected")
        assert faults == ["reconnecting was stuck"]
        watching.cancel()


@pytest.mark.cluster
async def test_another_node_of_a_cluster_takes_over(nats_cluster: Cluster) -> None:
    user = {"user": "app", "password": Secret("app")}
    changes: list[LinkChanged] = []
    first = nats_cluster.nodes[0]
    connection = Connection(servers=(first.url,), **user)
    client = await connect(connection, on_link=changes.append)
    first.kill()
    await until(lambda: changes[-1].state == "connected" and len(changes) > 1)
    assert changes[-1].server_name != changes[0].server_name
    assert changes[-1].server_url != first.url
    await client.close()


async def test_a_cancelled_flush_does_not_kill_the_connection(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, changes):
        for _ in range(20):
            flushing = asyncio.create_task(client.nc.flush())
            await asyncio.sleep(0)
            flushing.cancel()
        await asyncio.sleep(0.1)
        assert await client.request("INFO")
        assert [change.state for change in changes] == ["connected"]


async def test_cancelled_requests_leave_nothing_behind(nats_server: Broker) -> None:
    async with connected(nats_server) as (client, _):
        for _ in range(20):
            request = asyncio.create_task(client.request("NO.SUCH.VERB"))
            await asyncio.sleep(0)
            request.cancel()
        assert await client.request("INFO")
        with pytest.raises(RequestTimedOut, match=r"no reply on .* within 0\.2 s"):
            await client.request("NO.SUCH.VERB", timeout_s=0.2)
        assert client._link.pending_requests.count == 0


async def test_a_dead_first_address_is_passed_over(
    nats_server_factory: Callable[..., Broker],
) -> None:
    broker = nats_server_factory()
    dead = "nats://127.0.0.1:1"
    client = await connect(Connection(servers=(f"{dead},{broker.url}",)))
    assert client.link.server_url == broker.url
    await client.close()


async def test_another_server_of_the_list_takes_over(
    nats_server_factory: Callable[..., Broker],
) -> None:
    first, second = nats_server_factory(), nats_server_factory()
    changes: list[LinkChanged] = []
    connection = Connection(servers=(first.url, second.url))
    client = await connect(connection, on_link=changes.append)
    first.stop()
    await until(lambda: changes[-1].state == "connected" and len(changes) > 1)
    assert changes[-1].server_name == "server2"
    await client.close()


@pytest.mark.usefixtures("soon_stale")
async def test_unsent_data_does_not_hold_up_the_way_to_another_server(
    nats_server_factory: Callable[..., Broker],
) -> None:
    first, second = nats_server_factory(), nats_server_factory()
    changes: list[LinkChanged] = []
    connection = Connection(servers=(first.url, second.url))
    client = await connect(connection, on_link=changes.append)
    first.freeze()
    for _ in range(20):
        await client.publish("x", b"x" * 1_000_000)
    await until(lambda: changes[-1].server_name == "server2", within_s=LONG_S)
    assert await client.request("INFO")
    first.thaw()
    await client.close()


async def test_closing_while_the_server_is_away_ends_in_time(nats_server: Broker) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    nats_server.freeze()
    await client.publish("x", b"x" * 500_000)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await client.close()
    assert loop.time() - begin < 20
    nats_server.thaw()


async def test_no_address_of_a_list_answers_and_each_reason_is_given() -> None:
    with pytest.raises(
        ConnectionFailed, match=r"no server of the list can be used: TCP: .*; address: "
    ):
        await connect(Connection(servers=("127.0.0.1:1", "no.such.host.invalid")))


def test_a_connection_that_breaks_is_named_with_its_reason() -> None:
    assert explain_lost_connection(OSError(113, "No route to host")).startswith(
        "the connection broke ("
    )
    assert explain_lost_connection(ConnectionResetError()) == "the server closed the connection"
