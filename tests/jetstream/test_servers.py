"""The servers of a cluster, against what each of their monitoring ports tells."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from typing import Any

import nats
import pytest

from natstui.config import Connection
from natstui.config.connection import Secret
from natstui.jetstream.connection.client import connect
from natstui.jetstream.system import requests as system_requests
from natstui.jetstream.system.connections import read_connections
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.servers import read_servers
from natstui.jetstream.system.source import SystemConnection
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.clients.text import connections_summary
from natstui.model.servers.server import Servers, rates_between
from tests.jetstream.flushing import flushed
from tests.jetstream.test_connections import as_user
from tests.jetstream.test_connections import asking as asking_servers
from tests.server_versions import version_under_test

pytestmark = pytest.mark.cluster


def of_cluster(cluster: Cluster, source: str) -> Connection:
    """Return how the user of an account connects, with what else it may ask."""
    system = Connection(servers=cluster.urls, user="sys", password=Secret("sys"))
    ports = tuple(node.monitoring_url for node in cluster.nodes)
    return Connection(
        servers=cluster.urls,
        user="app",
        password=Secret("app"),
        system=system if source == "system" else None,
        monitoring=ports if source == "monitoring" else (),
    )


async def look(connection: Connection, times: int = 1) -> list[Servers]:
    """Look so many times."""
    client, system = await connect(connection), SystemConnection(connection)
    try:
        asking = ServerRequests(client)
        return [await read_servers(asking, system) for _ in range(times)]
    finally:
        await system.close()
        await client.close()


def fetched(node: Broker, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{node.monitoring_url}{path}", timeout=30) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


async def prepared(cluster: Cluster) -> None:
    """Make streams of three replicas, and consumers."""
    nc = await nats.connect(as_user(cluster.urls[0], "app"))
    js = nc.jetstream()
    for number in range(5):
        await js.add_stream(name=f"S{number}", subjects=[f"s{number}"], num_replicas=3)
        await js.add_consumer(f"S{number}", durable_name="c")
        await js.publish(f"s{number}", b"x" * 1000)
    await flushed(nc)
    await nc.close()


async def test_servers_of_a_cluster_are_read_by_who_may_read_them(nats_cluster: Cluster) -> None:
    """One flow: a cluster takes seconds to start."""
    await every_number_is_that_of_the_monitoring_port(nats_cluster)
    await a_plain_user_sees_the_own_account_and_is_told_what_would_tell_more(nats_cluster)
    await another_account_is_no_system_account(nats_cluster)
    await a_server_that_falls_silent_is_named(nats_cluster)


async def a_server_that_falls_silent_is_named(nats_cluster: Cluster) -> None:
    async with asking_servers(as_user(nats_cluster.urls[0], "app")) as (client, servers):
        seen = await read_connections(client, servers, closed=False)
        assert len(seen.servers) == 3 and not seen.silent
        nats_cluster.node("n3").freeze()
        then = await read_connections(client, servers, closed=False)
        nats_cluster.node("n3").thaw()
    assert {one.name for one in then.servers} == {"n1", "n2"}
    assert then.silent == ("n3",)
    assert "incomplete, no further reply from n3" in connections_summary(then, closed=False)


async def every_number_is_that_of_the_monitoring_port(nats_cluster: Cluster) -> None:
    await prepared(nats_cluster)
    for source in ("system", "monitoring"):
        await _numbers_are_those_of_the_port(nats_cluster, source)


async def _numbers_are_those_of_the_port(nats_cluster: Cluster, source: str) -> None:
    version = version_under_test()
    assert version is not None
    held = [await nats.connect(as_user(url, "app")) for url in nats_cluster.urls]
    [seen] = await look(of_cluster(nats_cluster, source))
    assert seen.source == source and not seen.silent and not seen.missing
    assert {one.name for one in seen.rows} == {"n1", "n2", "n3"}
    for one in seen.rows:
        node = nats_cluster.node(one.name)
        varz, jsz = fetched(node, "/varz"), fetched(node, "/jsz?raft=1")
        connz, routez = fetched(node, "/connz"), fetched(node, "/routez")
        assert (one.server_id, one.version) == (varz["server_id"], varz["version"])
        assert (one.cluster, one.cores_count) == ("LAB", varz["cores"])
        assert one.routes_count == routez["num_routes"]
        assert one.neighbours_count == len({it["remote_id"] for it in routez["routes"]}) == 2
        # Ours are gone by now, and the connections that hold on are everywhere.
        assert 0 <= (one.connections_count or 0) - connz["num_connections"] <= 2
        assert one.slow_consumers_count == varz["slow_consumers"] == 0
        assert 0 < (one.in_msgs or 0) <= varz["in_msgs"]
        assert 0 < (one.out_bytes or 0) <= varz["out_bytes"]
        assert one.memory_bytes == pytest.approx(varz["mem"], rel=0.5)
        assert one.uptime_s is not None and one.uptime_s > 0
        it = one.jetstream
        assert it is not None
        assert it.file.used_bytes == jsz["storage"] > 0
        assert it.file.max_bytes == jsz["config"]["max_storage"]
        assert it.file.free_bytes == it.file.max_bytes - it.file.used_bytes
        assert it.ha_assets_count == jsz["ha_assets"] == 11
        # Servers before 2.11 do not count them.
        unknown = None if version < (2, 11) else 0
        assert it.streams_led_count == jsz.get("streams_leader", unknown)
        assert it.consumers_led_count == jsz.get("consumers_leader", unknown)
        assert (it.streams_count, it.consumers_count) == (5, 5)
        assert it.api_errors_count == jsz["api"]["errors"]
    led_count = sum(one.jetstream.streams_led_count or 0 for one in seen.rows if one.jetstream)
    assert led_count == (5 if version >= (2, 11) else 0)
    [meta] = seen.metas
    assert meta.leader == jsz["meta_cluster"]["leader"]
    assert (meta.size_count, meta.quorum_count) == (3, 2 if version >= (2, 15) else None)
    assert {it.name for it in meta.peers} | {meta.leader} == {"n1", "n2", "n3"}
    accounts = {one.name: one for one in seen.accounts}
    # Of the whole cluster, as soon as the servers have told each other.
    assert (accounts["APP"].file_bytes or 0) <= sum(
        one.jetstream.file.used_bytes for one in seen.rows if one.jetstream
    )
    assert accounts["APP"].max_file_bytes is None
    assert "" not in accounts
    assert (accounts["APP"].connections_count or 0) >= 3
    for nc in held:
        await nc.close()


async def a_plain_user_sees_the_own_account_and_is_told_what_would_tell_more(
    nats_cluster: Cluster,
) -> None:
    held = [await nats.connect(as_user(url, "app")) for url in nats_cluster.urls]
    connection = of_cluster(nats_cluster, "account")
    client, system = await connect(connection), SystemConnection(connection)
    asking = ServerRequests(client)
    first = await read_servers(asking, system)
    for _ in range(50):
        await held[0].publish("elsewhere", b"x" * 100)
    await flushed(held[0])
    then = await read_servers(asking, system)
    await client.close()
    assert first.source == "account"
    assert {one.name for one in first.rows} == {"n1", "n2", "n3"}
    of = {one.name: one for one in first.rows}
    assert (of["n2"].connections_count, of["n3"].connections_count) == (1, 1)
    assert of["n1"].cpu_percent is None and of["n1"].jetstream is None
    [missing] = first.missing
    assert "$SYS.REQ.SERVER.PING.VARZ" in missing.reason and "http_port" in missing.reason
    rates = rates_between(first, then)
    busy = next(one for one in then.rows if one.name == "n1")
    assert rates[busy.server_id].in_msgs_per_s > rates[of["n2"].server_id].in_msgs_per_s
    for nc in held:
        await nc.close()


@pytest.mark.long
async def test_a_server_that_is_gone_is_named(nats_cluster: Cluster) -> None:
    for source in ("system", "monitoring"):
        connection = of_cluster(nats_cluster, source)
        client, system = await connect(connection), SystemConnection(connection)
        # The node that we are connected to stays.
        name = next(n.name for n in nats_cluster.nodes[::-1] if n.name != client.link.server_name)
        asking = ServerRequests(client)
        assert len((await read_servers(asking, system)).rows) == 3 - (source == "monitoring")
        if source == "system":
            nats_cluster.node(name).stop()
        async with asyncio.timeout(60):
            while not (seen := await read_servers(asking, system)).silent:
                await asyncio.sleep(0.1)
        assert name not in {one.name for one in seen.rows} and len(seen.rows) == 2
        place = nats_cluster.node(name).monitoring_url
        assert seen.silent[0].startswith(name if source == "system" else place)
        await system.close()
        await client.close()


async def another_account_is_no_system_account(nats_cluster: Cluster) -> None:
    wrong = Connection(servers=nats_cluster.urls, user="app", password=Secret("app"))
    [seen] = await look(
        Connection(servers=nats_cluster.urls, user="app", password=Secret("app"), system=wrong)
    )
    assert seen.source == "account" and len(seen.rows) == 3
    assert "app of the account APP, which is not the server's system_account" in (
        seen.missing[0].reason
    )
    refused = Connection(servers=nats_cluster.urls, user="sys", password=Secret("wrong"))
    [seen] = await look(
        Connection(servers=nats_cluster.urls, user="app", password=Secret("app"), system=refused)
    )
    assert seen.source == "account" and len(seen.rows) == 3
    assert "the system account of [system]" in seen.missing[0].reason


@pytest.mark.server
async def test_nobody_else_is_waited_for_where_there_is_one_server(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_requests, "_QUIET_S", 120.0)
    accounts = "accounts { SYS: { users: [ { user: sys, password: sys } ] } }\nsystem_account: SYS"
    server = nats_server_factory(accounts)
    client = await connect(Connection(servers=(server.url,), user="sys", password=Secret("sys")))
    async with asyncio.timeout(60):
        # Else the first question would take two minutes.
        (answer,) = await ServerRequests(client).request_all("$SYS.REQ.SERVER.PING.VARZ", {})
    assert answer.server_id == client.nc.server_info["server_id"]
    await client.close()
