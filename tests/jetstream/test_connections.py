"""The connections of an account, against what each server's monitoring port tells."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient

from natstui.config import Connection
from natstui.config.connection import Secret
from natstui.errors import NatstuiError, PermissionDenied, RequestFailed
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.system.connections import read_connection, read_connections
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.clients.connection import Connections, traffic_between
from tests.jetstream.flushing import flushed
from tests.jetstream.operator_jwts import Operator, write_creds
from tests.jetstream.raw_publisher import RawPublisher
from tests.server_versions import version_under_test

pytestmark = pytest.mark.server

APP = """
accounts {
  APP: { jetstream: enabled, users: [
    { user: app, password: app }
    { user: shut, password: shut, permissions: {
        publish: { deny: "$SYS.REQ.ACCOUNT.PING.CONNZ" } } }
  ] }
  OTHER: { users: [ { user: other, password: other } ] }
}
"""


def as_user(url: str, user: str) -> str:
    return url.replace("://", f"://{user}:{user}@")


@asynccontextmanager
async def asking(*urls: str, **words: Any) -> AsyncIterator[tuple[Client, ServerRequests]]:
    client = await connect(Connection(servers=urls, **words))
    try:
        yield client, ServerRequests(client)
    finally:
        await client.close()


async def look(*urls: str, closed: bool = False, **words: Any) -> Connections:
    async with asking(*urls) as (client, servers):
        return await read_connections(client, servers, closed=closed, **words)


def connz(node: Broker, query: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{node.monitoring_url}/connz?{query}", timeout=30) as reply:
        rows: list[dict[str, Any]] = json.load(reply)["connections"]
    return rows


@pytest.mark.cluster
async def test_they_equal_what_each_node_of_a_cluster_tells(nats_cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:

        async def join(url: str, name: str) -> NatsClient:
            nc = await nats.connect(as_user(url, "app"), name=name)
            stack.push_async_callback(nc.close)
            return nc

        for place, url in enumerate(nats_cluster.urls):
            for number in range(place + 2):
                nc = await join(url, f"client-{place}-{number}")
                for count in range(number):
                    await nc.subscribe(f"work.{count}")
                await nc.publish("elsewhere", b"x" * 100)
                await flushed(nc)
        gone = await join(nats_cluster.urls[0], "gone")
        await gone.close()
        urls = [as_user(url, "app") for url in nats_cluster.urls]
        async with asking(*urls) as (client, servers):
            # Pages of two: every node has more.
            seen = await read_connections(client, servers, closed=False, page_rows_count=2)
            ended = await read_connections(client, servers, closed=True)
        told = {
            (node.name, row["cid"]): row
            for node in nats_cluster.nodes
            for row in connz(node, "acc=APP&auth=1")
        }
    own = {(row.server_name, row.connection_id): row for row in seen.rows}
    clients = {key: row for key, row in own.items() if (row.name or "").startswith("client-")}
    assert len(clients) == 2 + 3 + 4
    assert {one.name for one in seen.servers} == {"n1", "n2", "n3"} and not seen.silent
    for key, row in clients.items():
        wanted = told[key]
        assert row.name == wanted["name"]
        assert row.address == f"{wanted['ip']}:{wanted['port']}"
        assert (row.user, row.language) == ("app", wanted["lang"])
        assert row.version == wanted["version"]
        assert row.subscriptions_count == wanted["subscriptions"]
        assert (row.in_msgs, row.in_bytes) == (1, 100) == (wanted["in_msgs"], wanted["in_bytes"])
        assert row.pending_bytes == wanted["pending_bytes"]
        assert row.stopped_at_us is None and row.slow_text is None
    reasons = {row.name: row.reason for row in ended.rows}
    assert reasons["gone"] == "Client Closed"
    stopped = next(row for row in ended.rows if row.name == "gone")
    assert stopped.stopped_at_us is not None and stopped.stopped_at_us >= stopped.started_at_us


async def test_rates_are_those_between_two_looks(nats_server: Broker) -> None:
    nc = await nats.connect(nats_server.url, name="busy")
    async with asking(nats_server.url) as (client, servers):
        before = await read_connections(client, servers, closed=False)
        for _ in range(50):
            await nc.publish("elsewhere", b"x" * 10)
        await flushed(nc)
        after = await read_connections(client, servers, closed=False)
    await nc.close()
    row = next(row for row in after.rows if row.name == "busy")
    elapsed_s = (after.servers[0].at_us - before.servers[0].at_us) / 1e6
    rates = traffic_between(before, after)[row.key]
    assert rates.in_msgs_per_s * elapsed_s == pytest.approx(50)
    assert rates.in_bytes_per_s * elapsed_s == pytest.approx(500)
    assert rates.out_msgs_per_s == 0
    newer = {one.key for one in after.rows} - {one.key for one in before.rows}
    assert not newer & traffic_between(before, after).keys()


async def test_only_the_connections_of_the_own_account_are_told(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(APP)
    async with AsyncExitStack() as stack:
        for user in ("app", "other"):
            nc = await nats.connect(as_user(server.url, user), name=f"of-{user}")
            stack.push_async_callback(nc.close)
        seen = await look(as_user(server.url, "app"))
    assert "of-app" in {row.name for row in seen.rows}
    assert "of-other" not in {row.name for row in seen.rows}


async def test_without_permission_it_names_the_subject_and_who_opens_it(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(APP)
    with pytest.raises(PermissionDenied) as denied:
        await look(as_user(server.url, "shut"))
    told = str(denied.value)
    assert 'no permission to publish to "$SYS.REQ.ACCOUNT.PING.CONNZ"' in told
    assert "an operator adds it" in told and "--allow-pub" in told


async def test_a_server_without_system_account_is_one_sentence(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory("no_system_account: true", jetstream=False)
    with pytest.raises(RequestFailed, match=r'no reply on "[$]SYS[.]REQ[.]ACC'):
        await look(server.url)


def _pending_bytes(server: Broker) -> int:
    return max(row["pending_bytes"] for row in connz(server, ""))


async def test_a_client_that_does_not_read_is_marked_and_its_end_has_the_reason(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(f"max_pending: 1MB\nwrite_deadline: 60s\n{APP}")
    url = as_user(server.url, "app")
    marks: set[str | None] = set()
    with RawPublisher(server.url, b',"user":"app","pass":"app"') as lazy:
        lazy.send(b"SUB flood 1\r\n")
        nc = await nats.connect(url)
        async with asyncio.timeout(120):
            while _pending_bytes(server) < 800_000:
                await nc.publish("flood", b"x" * 100_000)
                await flushed(nc)
            # Of more than three quarters of its limit, each publisher waits; two more fit.
            await nc.publish("flood", b"x" * 100_000)
            await flushed(nc)
            marks |= {row.slow_text for row in (await look(url)).rows}
            for _ in range(3):
                await nc.publish("flood", b"x" * 100_000)
            await flushed(nc)
            ended = await look(url, closed=True)
            while not any(row.slow_text == "cut off" for row in ended.rows):
                ended = await look(url, closed=True)
        await nc.close()
    cut = next(row for row in ended.rows if row.slow_text == "cut off")
    assert (cut.reason or "").startswith("Slow Consumer")
    # One end may count as several events.
    assert all((one.slow_consumers_count or 0) >= 1 for one in ended.servers)
    # Servers before 2.12 do not tell of publishers that had to wait.
    version = version_under_test()
    assert version is not None
    assert ("stalled publishers" in marks) is (version >= (2, 12))


async def test_of_the_default_account_servers_tell_no_closed_ones_and_it_says_so(
    nats_server: Broker,
) -> None:
    nc = await nats.connect(nats_server.url)
    await nc.close()
    with pytest.raises(RequestFailed, match="do not report closed connections"):
        await look(nats_server.url, closed=True)


async def test_with_jwts_the_user_has_a_name_and_no_jwt_is_kept(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    operator = Operator()
    server = nats_server_factory(operator.server_config)
    jwt, seed = operator.user(name="alice")
    creds = write_creds(tmp_path / "alice.creds", jwt, seed)
    nc = await nats.connect(server.url, user_credentials=str(creds), name="hers")
    text = creds.read_text()
    async with asking(server.url, creds=Secret(text)) as (client, servers):
        seen = await read_connections(client, servers, closed=False)
    await nc.close()
    hers = next(row for row in seen.rows if row.name == "hers")
    assert hers.user == "alice"
    assert jwt not in repr(seen) and "eyJ" not in repr(seen)


@pytest.mark.long
@pytest.mark.cluster
async def test_with_jwts_a_plain_user_sees_what_each_node_of_a_cluster_tells(
    tmp_path: Path,
) -> None:
    operator = Operator()
    creds = write_creds(tmp_path / "alice.creds", *operator.user(name="alice"))
    account = operator.account.public
    joining = {"user_credentials": str(creds)}
    with Cluster(accounts=operator.server_config, connect_options=joining) as cluster:
        clients = []
        for place, url in enumerate(cluster.urls):
            for number in range(2):
                nc = await nats.connect(url, name=f"c{place}{number}", **joining)
                for count in range(place + number):
                    await nc.subscribe(f"work.{place}.{count}", "group" if count else "")
                await nc.publish("elsewhere", b"x" * 10)
                await flushed(nc)
                clients.append(nc)
        gone = await nats.connect(cluster.urls[1], name="gone", **joining)
        await gone.close()
        words = {"creds": Secret(creds.read_text())}
        async with asking(*cluster.urls, **words) as (client, servers):
            seen = await read_connections(client, servers, closed=False)
            ended = await read_connections(client, servers, closed=True)
            full = [
                (await read_connection(client, servers, *row.key)).rows[0]
                for row in seen.rows
                if (row.name or "").startswith("c")
            ]
        told = {
            (node.name, row["cid"]): row
            for node in cluster.nodes
            for state in ("open", "closed")
            for row in connz(node, f"acc={account}&auth=1&subs=detail&state={state}")
        }
        for nc in clients:
            await nc.close()
    assert {one.name for one in seen.servers} == {"n1", "n2", "n3"} and not seen.silent
    assert sorted(row.name or "" for row in full) == ["c00", "c01", "c10", "c11", "c20", "c21"]
    for row in full:
        wanted = told[row.server_name, row.connection_id]
        assert (row.name, row.user) == (wanted["name"], "alice")
        assert row.subscriptions_count == wanted["subscriptions"]
        assert (row.in_msgs, row.in_bytes) == (wanted["in_msgs"], wanted["in_bytes"])
        listed = wanted.get("subscriptions_list_detail") or ()
        assert {(it.subject, it.queue) for it in row.listening} == {
            (it["subject"], it.get("qgroup")) for it in listed
        }
        assert sum(it.subject.startswith("work.") for it in row.listening) == sum(
            int(letter) for letter in (row.name or "")[1:]
        )
    [stopped] = [row for row in ended.rows if row.name == "gone"]
    wanted = told[stopped.server_name, stopped.connection_id]
    assert stopped.server_name == "n2"
    assert stopped.reason == wanted["reason"] == "Client Closed"


async def test_a_token_is_not_told_as_a_user(nats_server_factory: Callable[..., Broker]) -> None:
    server = nats_server_factory('authorization { token: "s3cr3t-token" }')
    nc = await nats.connect(server.url, token="s3cr3t-token", name="his")
    async with asking(server.url, token=Secret("s3cr3t-token")) as (client, servers):
        seen = await read_connections(client, servers, closed=False)
    await nc.close()
    assert next(row for row in seen.rows if row.name == "his").user is None
    assert "s3cr3t" not in repr(seen)


async def test_an_answer_beyond_what_the_connection_may_hold_does_not_cost_it(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory("max_pending: 60KB\nmax_payload: 30KB")
    body = json.dumps({"limit": 1024}).encode()
    with ExitStack() as stack:
        for number in range(400):
            name = b',"name":"a client with quite a long name, number %d"' % number
            stack.enter_context(RawPublisher(server.url, name)).settle()
        async with asking(server.url) as (client, servers):
            seen = await read_connections(client, servers, closed=False)
            assert len(seen.rows) == 401
            assert client.nc.stats["reconnects"] == 0
            # The same answer, not compressed, ends the connection.
            with pytest.raises(NatstuiError):
                await client.request_subject("$SYS.REQ.ACCOUNT.PING.CONNZ", body)
