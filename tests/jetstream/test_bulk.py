"""All rows in one answer of each server: equal to those that are asked for one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import nats
import nats.js.errors
import pytest
from nats.aio.client import Client as NatsClient

from natstui.clock import steady_us
from natstui.config import Connection
from natstui.config.connection import Secret
from natstui.errors import RequestFailed
from natstui.jetstream.polling.bulk.requests import BulkRequester
from natstui.jetstream.polling.bulk.view import KnownConfigurations, read_view
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.system.bulk import JszSource
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.live.snapshot import Snapshot, StoredReplica
from natstui.model.records.record import Unavailable
from tests.hostile_server import TRUTH, Lie, lying
from tests.jetstream.flushing import flushed
from tests.jetstream.polling import Polled, as_usual, polled_by, rows
from tests.jetstream.test_connections import as_user
from tests.server_versions import version_under_test

ACCOUNTS = """
accounts {
  SYS: { users: [ { user: sys, password: sys } ]
    exports: [ { service: "$SYS.REQ.ACCOUNT.*.JSZ", response_type: stream,
      account_token_position: 4 } ] }
  APP: { jetstream: enabled, users: [ { user: app, password: app } ]
    IMPORT }
  OTHER: { jetstream: enabled, users: [ { user: other, password: other } ] }
}
system_account: SYS
"""
_NO_STREAM = 10059
IMPORT = """imports: [ { service: { account: SYS, subject: "$SYS.REQ.ACCOUNT.APP.JSZ" } } ]"""


def of(url: str, source: str, monitoring: tuple[str, ...], **words: Any) -> Connection:
    """Return how the user of an account connects, with a source of bulk answers."""
    system = Connection(servers=(url,), user="sys", password=Secret("sys"))
    return Connection(
        servers=(url,),
        user="app",
        password=Secret("app"),
        system=system if source == "system" else None,
        monitoring=monitoring if source == "monitoring" else (),
        **words,
    )


def in_bulk(polled: Polled) -> Coroutine[Any, Any, None]:
    """Poll with bulk answers, twice a second."""
    polled.control.set_interval(0.5)
    return poll(polled.client, polled.control, polled, None, JszSource(polled.client))


def in_lists(polled: Polled) -> Coroutine[Any, Any, None]:
    """Poll as usual, twice a second."""
    polled.control.set_interval(0.5)
    return as_usual(polled)


def polling(connection: Connection) -> AbstractAsyncContextManager[Polled]:
    """Poll with bulk answers."""
    return polled_by(in_bulk, connection)


async def asked(nc: NatsClient, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    payload = json.dumps(body).encode() if body else b""
    answer = None
    for _ in range(4):
        # A cluster that elects its leader drops what it is asked meanwhile, without a word.
        with suppress(nats.errors.TimeoutError):
            answer = await nc.request(f"$JS.API.{verb}", payload, 10)
            break
    assert answer is not None, f"nobody answers {verb}"
    found: dict[str, Any] = json.loads(answer.data)
    if verb.startswith("CONSUMER.") and found.get("error", {}).get("err_code") == _NO_STREAM:
        # Not every server of a cluster knows a new stream at once; the time-out of a test ends it.
        await asyncio.sleep(0.2)
        return await asked(nc, verb, body)
    # It may have done what was asked and not have said so.
    if verb.startswith("STREAM.DELETE.") and found.get("error", {}).get("err_code") == _NO_STREAM:
        return found
    assert "error" not in found, (verb, found)
    return found


async def fill(
    nc: NatsClient, streams_count: int, replicas: int = 1, busy_count: int | None = None
) -> None:
    """Make streams, the first ones with five consumers each, of which some have been at work."""
    busy_count = streams_count if busy_count is None else busy_count

    async def one(number: int) -> None:
        name = f"S{number:03}"
        config = {"name": name, "subjects": [f"{name}.>"], "num_replicas": replicas}
        await asked(nc, f"STREAM.CREATE.{name}", config | {"storage": "memory"})
        for each in range(5 if number < busy_count else 0):
            config = {"durable_name": f"C{each}", "ack_policy": "explicit"}
            # Those that have fewer replicas are told of by one server only.
            config |= {"num_replicas": 1 if each == 4 else replicas, "mem_storage": True}
            config |= {"filter_subject": f"{name}.a"} if each == 3 else {}
            body = {"stream_name": name, "config": config}
            await asked(nc, f"CONSUMER.DURABLE.CREATE.{name}.C{each}", body)
        for text in ("a", "a", "b"):
            await nc.request(f"{name}.{text}", b"x" * number, 30)

    for start in range(0, streams_count, 20):
        every = range(start, min(start + 20, streams_count))
        await asyncio.gather(*(one(number) for number in every))
    js = nc.jetstream(timeout=30)
    for number in range(0, busy_count, 7):
        for each in (0, 4):
            pulling = await js.pull_subscribe_bind(f"C{each}", stream=f"S{number:03}")
            got = []
            while not got:
                # Not every server of a cluster knows at once that a consumer has a leader.
                with suppress(nats.js.errors.ServiceUnavailableError):
                    got = await pulling.fetch(2, timeout=30)
            await got[0].ack_sync(timeout=30)
    version = version_under_test()
    if version is not None and version >= (2, 11):
        await asked(nc, "CONSUMER.PAUSE.S001.C1", {"pause_until": "2099-01-01T00:00:00Z"})
    # A mirror has a consumer on its origin that nobody else sees.
    mirror = {"name": "MIRROR", "mirror": {"name": "S000"}, "num_replicas": replicas}
    await asked(nc, "STREAM.CREATE.MIRROR", mirror)
    pushed = {"durable_name": "PUSH", "deliver_subject": "to.me", "ack_policy": "none"}
    body = {"stream_name": "S002", "config": pushed}
    await asked(nc, "CONSUMER.DURABLE.CREATE.S002.PUSH", body)
    await nc.subscribe("to.me")
    await nc.publish("$JS.API.CONSUMER.MSG.NEXT.S003.C3", b'{"batch": 9}', reply="to.me.too")
    await nc.subscribe("to.me.too")
    await flushed(nc)


def is_bulk(poll: Snapshot, consumers: int) -> bool:
    """Tell whether a poll has everything by a few requests: lists need one for each stream."""
    return len(poll.consumers.name) >= consumers and poll.cost.requests_count <= 10


async def seen_in_bulk(polled: Polled, streams: int, consumers: int) -> None:
    """Wait until everything was seen, and again in bulk only."""
    async with asyncio.timeout(120):
        while (len(polled.state.streams), len(polled.state.consumers)) != (streams, consumers):
            await polled.until(Snapshot)
        for _ in range(3):
            await polled.until(Snapshot, lambda it: is_bulk(it, consumers))


def newest(polled: Polled, part: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the newest row of everything that polls told since the last whole one."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for record in polled.records:
        if isinstance(record, Snapshot):
            for row in rows(getattr(record, part)):
                key = (row["stream"], row["name"]) if "stream" in row else (row["name"],)
                found[key] = row
    return found


VOLATILE = ("sampled_mono_us", "peers", "upstreams", "replicas")


def same(row: dict[str, Any]) -> dict[str, Any]:
    """Return what stays the same while nothing happens."""
    kept = {name: value for name, value in row.items() if name not in VOLATILE}
    kept["peers"] = sorted((peer.name, peer.current, peer.offline) for peer in row["peers"])
    return kept


@asynccontextmanager
async def both(connection: Connection) -> AsyncIterator[tuple[Polled, Polled]]:
    """Poll as usual, and with bulk answers."""
    async with polled_by(in_lists, connection) as usual, polling(connection) as bulk:
        yield usual, bulk


async def compare(connection: Connection, streams: int, consumers: int) -> None:
    async with both(connection) as (usual, bulk):
        async with asyncio.timeout(120):
            while len(usual.state.consumers) != consumers:
                await usual.until(Snapshot)
        await seen_in_bulk(bulk, streams, consumers)
        for part in ("streams", "consumers"):
            # Replicas of what was made just now catch up, and lists take turns to tell of it.
            for _ in range(60):
                expected = {key: same(it) for key, it in newest(usual, part).items()}
                found = {key: same(it) for key, it in newest(bulk, part).items()}
                if found == expected:
                    break
                await bulk.until(Snapshot)
            assert found.keys() == expected.keys()
            for key, row in expected.items():
                assert found[key] == row, key
        assert usual.state.stream_configurations.keys() == bulk.state.stream_configurations.keys()
        assert not [it for it in bulk.records if isinstance(it, Unavailable)]


@pytest.mark.server
@pytest.mark.parametrize(
    ("source", "streams_count"), [("system", 260), ("monitoring", 8), ("import", 8)]
)
async def test_rows_of_one_answer_are_those_of_lists(
    nats_server_factory: Callable[..., Broker], source: str, streams_count: int
) -> None:
    # The server pages names by 256, whoever asks.
    server = nats_server_factory(ACCOUNTS.replace("IMPORT", IMPORT))
    nc = await nats.connect(as_user(server.url, "app"))
    other = await nats.connect(as_user(server.url, "other"))
    await asked(other, "STREAM.CREATE.FOREIGN", {"name": "FOREIGN"})
    busy_count = min(streams_count, 55)
    await fill(nc, streams_count, busy_count=busy_count)
    connection = of(server.url, source, (server.monitoring_url,))
    await compare(connection, streams_count + 1, 5 * busy_count + 1)
    await nc.close()
    await other.close()


@pytest.mark.server
async def test_each_poll_has_the_rows_of_its_own_moment(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(ACCOUNTS.replace("IMPORT", ""))
    nc = await nats.connect(as_user(server.url, "app"))
    await fill(nc, 3)
    await nc.close()
    async with polling(of(server.url, "system", ())) as bulk:
        await seen_in_bulk(bulk, 4, 16)
        fresh_count = 0
        # A busy machine holds up single polls; it is enough that some follow each other.
        async with asyncio.timeout(60):
            while fresh_count < 3:
                snapshot = await bulk.until(Snapshot)
                sampled_us = min(snapshot.streams.sampled_mono_us, default=0)
                is_fresh = snapshot.taken_mono_us - sampled_us < 500_000
                fresh_count = fresh_count + 1 if is_fresh else 0


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("source", ["system", "monitoring"])
async def test_in_a_cluster_each_row_is_its_leaders(nats_cluster: Cluster, source: str) -> None:
    nc = await nats.connect(as_user(nats_cluster.urls[0], "app"))
    await fill(nc, 8, replicas=3)
    ports = tuple(node.monitoring_url for node in nats_cluster.nodes)
    connection = of(nats_cluster.urls[1], source, ports)
    await compare(connection, 9, 41)
    async with polling(connection) as bulk:
        await seen_in_bulk(bulk, 9, 41)
        for row in newest(bulk, "streams").values():
            of_leader = row["first_seq"], row["last_seq"], row["stored_msgs"]
            stored = [(one.first_seq, one.last_seq, one.stored_msgs) for one in row["replicas"]]
            # That of a benchmark has one replica.
            assert stored == [of_leader] * len(row["peers"]), row
            assert {one.name for one in row["replicas"]} == {one.name for one in row["peers"]}
    await nc.close()


@pytest.mark.server
async def test_what_is_made_changed_and_deleted_is_seen_in_bulk(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(ACCOUNTS.replace("IMPORT", ""))
    nc = await nats.connect(as_user(server.url, "app"))
    for name in ("KEPT", "GONE"):
        await asked(nc, f"STREAM.CREATE.{name}", {"name": name})
        body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        await asked(nc, f"CONSUMER.DURABLE.CREATE.{name}.C", body)
    async with polling(of(server.url, "system", ())) as polled:
        await until_seen(polled, {"KEPT", "GONE"}, {("KEPT", "C"), ("GONE", "C")})
        before_count = len(polled.records)
        await asked(nc, "STREAM.DELETE.GONE")
        await asked(nc, "STREAM.CREATE.NEW", {"name": "NEW"})
        await asked(nc, "STREAM.UPDATE.KEPT", {"name": "KEPT", "description": "other"})
        await asked(nc, "CONSUMER.DELETE.KEPT.C")
        body = {"stream_name": "KEPT", "config": {"durable_name": "D", "ack_policy": "explicit"}}
        await asked(nc, "CONSUMER.DURABLE.CREATE.KEPT.D", body)
        await until_seen(polled, {"KEPT", "NEW"}, {("KEPT", "D")})
        async with asyncio.timeout(60):
            while polled.state.stream_configurations["KEPT"].description != "other":
                await polled.until(Snapshot)
        polls = [it for it in polled.records[before_count:] if isinstance(it, Snapshot)]
        assert max(poll.cost.requests_count for poll in polls) <= 6
    await nc.close()


async def until_seen(polled: Polled, streams: set[str], consumers: set[tuple[str, str]]) -> None:
    """Wait until the state has these, and no others."""
    async with asyncio.timeout(60):
        while True:
            state = polled.state
            names = zip(state.consumers.columns.stream, state.consumers.columns.name, strict=True)
            if set(state.streams.columns.name) == streams and set(names) == consumers:
                return
            await polled.until(Snapshot)


@pytest.mark.server
@pytest.mark.parametrize("wrong", ["password", "account"])
async def test_where_the_system_account_does_not_answer_lists_do_and_it_is_said(
    nats_server_factory: Callable[..., Broker], wrong: str
) -> None:
    server = nats_server_factory(ACCOUNTS.replace("IMPORT", ""))
    nc = await nats.connect(as_user(server.url, "app"))
    await asked(nc, "STREAM.CREATE.S", {"name": "S"})
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    await asked(nc, "CONSUMER.DURABLE.CREATE.S.C", body)
    user = ("sys", "wrong") if wrong == "password" else ("other", "other")
    system = Connection(servers=(server.url,), user=user[0], password=Secret(user[1]))
    connection = Connection(
        servers=(server.url,), user="app", password=Secret("app"), system=system
    )
    async with polling(connection) as polled:
        await until_seen(polled, {"S"}, {("S", "C")})
        async with asyncio.timeout(60):
            while not (said := [it for it in polled.records if isinstance(it, Unavailable)]):
                await polled.until(Snapshot)
    assert [it.what for it in said] == ["JSZ"]
    assert "[system]" in said[0].reason
    await nc.close()


@pytest.mark.server
async def test_rows_come_in_bulk_where_the_limits_of_connections_are_not_told(
    nats_server_factory: Callable[..., Broker],
) -> None:
    only = 'permissions: { publish: { deny: "$SYS.REQ.SERVER.PING.VARZ" } }'
    accounts = ACCOUNTS.replace("password: sys }", f"password: sys, {only} }}")
    server = nats_server_factory(accounts.replace("IMPORT", ""))
    nc = await nats.connect(as_user(server.url, "app"))
    await asked(nc, "STREAM.CREATE.S", {"name": "S"})
    for each in range(20):
        body = {"stream_name": "S", "config": {"durable_name": f"C{each}"}}
        await asked(nc, f"CONSUMER.DURABLE.CREATE.S.C{each}", body)
    async with polling(of(server.url, "system", ())) as polled:
        await seen_in_bulk(polled, 1, 20)
        assert not [it for it in polled.records if isinstance(it, Unavailable)]
    await nc.close()


@dataclass
class Told:
    """An answer that was made up."""

    name: str
    data: bytes
    domain: str | None = None
    written_at: str | None = "2026-01-01T00:00:10Z"
    transferred_bytes: int = 1
    requested_mono_us: int = 1_000_000
    began_mono_us: int = 2_000_000
    ended_mono_us: int = 2_000_000


CREATED = "2026-01-01T00:00:00Z"


def told(name: str, *streams: dict[str, Any], **words: Any) -> Told:
    details = [{"name": "APP", "stream_detail": streams}]
    body = {"now": "2026-01-01T00:00:04Z", "account_details": details}
    return Told(name, json.dumps(body).encode(), **words)


def stream(leader: str, *consumers: dict[str, Any], config: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "S", "created": CREATED, "cluster": {"leader": leader}}
    found |= {"state": {"messages": 1}, "consumer_detail": consumers}
    return found | ({"config": {"name": "S"}} if config else {})


def consumer(leader: str, pending: int, *, config: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"stream_name": "S", "name": "C", "created": CREATED}
    found |= {"cluster": {"leader": leader}, "delivered": {}, "ack_floor": {}}
    found |= {"num_pending": pending, "ts": "2026-01-01T00:00:05Z"}
    return found | ({"config": {"durable_name": "C"}} if config else {})


def test_a_consumer_is_told_by_its_own_leader_and_the_stream_dated_before_it() -> None:
    answers = [
        told("n1", stream("n1", consumer("n2", 0))),
        told("n2", stream("n1", consumer("n2", 47))),
        told("far", stream("far", consumer("far", 9)), domain="edge"),
    ]
    view = read_view(answers, None, KnownConfigurations())
    assert view.consumers["S"]["C"].num_pending == 47
    assert view.streams["S"].state.consumer_count == 1
    assert view.streams["S"].ts == "2026-01-01T00:00:04Z"
    last = [told("n1", stream("n1", consumer("n1", 0)), stream("n1") | {"name": "T"})]
    dated = read_view(last, None, KnownConfigurations()).streams
    assert dated["T"].ts == "2026-01-01T00:00:05Z"
    assert not view.incomplete_streams
    edge = read_view(answers, "edge", KnownConfigurations())
    assert edge.consumers["S"]["C"].num_pending == 9


def test_a_row_has_what_its_replicas_stored_as_their_own_servers_say() -> None:
    short = stream("n1") | {"state": {"messages": 7, "first_seq": 2, "last_seq": 9}}
    answers = [told("n3", short), told("n1", stream("n1")), told("n2", stream("n1"))]
    view = read_view(answers, None, KnownConfigurations())
    assert view.streams["S"].stored_replicas == (
        StoredReplica("n2", 0, 0, 1), StoredReplica("n3", 2, 9, 7),
    )  # fmt: skip


def test_what_two_servers_say_they_lead_and_what_none_does_is_left_to_lists() -> None:
    two = [told(name, stream("n1", consumer(name, 1))) for name in ("n1", "n2")]
    view = read_view(two, None, KnownConfigurations())
    assert (view.consumers["S"], view.incomplete_streams) == ({}, {"S"})
    two = [told(name, stream(name, consumer("n1", 1))) for name in ("n1", "n2")]
    view = read_view(two, None, KnownConfigurations())
    assert (view.streams, view.incomplete_streams) == ({}, {"S"})
    none = [told("n1", stream("n3", consumer("n3", 1)))]
    view = read_view(none, None, KnownConfigurations())
    assert (view.streams, view.consumers["S"], view.incomplete_streams) == ({}, {}, {"S"})


def test_rows_without_configurations_get_those_of_the_same_asset_only() -> None:
    known = KnownConfigurations()
    without = [told("n1", stream("n1", consumer("n1", 1, config=False), config=False))]
    view = read_view(without, None, known)
    assert (view.streams, view.consumers["S"]) == ({}, {})
    assert view.assets_without_configuration == {("S", None), ("S", "C")}
    read_view([told("n1", stream("n1", consumer("n1", 1)))], None, known)
    view = read_view(without, None, known)
    assert bytes(view.streams["S"].config) == b'{"name": "S"}'
    assert bytes(view.consumers["S"]["C"].config) == b'{"durable_name": "C"}'
    # One that is gone is forgotten: names of consumers that live shortly are made up anew.
    read_view([told("n1", stream("n1"))], None, known)
    view = read_view(without, None, known)
    assert (set(view.streams), view.consumers["S"]) == ({"S"}, {})
    again = stream("n1", consumer("n1", 1, config=False), config=False)
    again["created"] = "2026-01-02T00:00:00Z"
    view = read_view([told("n1", again)], None, known)
    assert not view.streams and view.incomplete_streams == {"S"}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"account_details": 3}', b'{"now": "x"'])
def test_an_answer_that_is_none_is_one_sentence(data: bytes) -> None:
    with pytest.raises(RequestFailed, match="JSZ"):
        read_view([Told("n1", data)], None, KnownConfigurations())


@dataclass
class Source:
    """A source that is never asked."""

    max_pending_bytes: int | None

    async def request(self, *, config: bool, compressed: bool) -> None:
        raise AssertionError((config, compressed))

    async def close(self) -> None:
        """Close nothing."""


@pytest.mark.parametrize(
    ("max_pending_bytes", "bytes_per_s", "raw_bytes", "compresses"),
    [
        (64 << 20, 1e9, 17_000_000, False),
        # It would fill what the server keeps for the connection, and cost it.
        (64 << 20, 1e9, 50_000_000, True),
        (None, 1e9, 1_000, True),
        # It would hold up everything else on the link.
        (64 << 20, 1e6, 17_000_000, True),
        # Nothing is known of its size yet.
        (64 << 20, 1e9, 0, True),
    ],
)
def test_an_answer_is_packed_unless_connection_and_link_bear_it(
    max_pending_bytes: int | None,
    bytes_per_s: float,
    raw_bytes: int,
    compresses: bool,
) -> None:
    requester = BulkRequester(Source(max_pending_bytes), lambda: 1.0)
    requester._bytes_per_s = bytes_per_s
    assert requester._should_compress(raw_bytes) is compresses


@pytest.mark.long
@pytest.mark.server
async def test_servers_that_keep_little_for_a_connection_are_asked_for_packed_answers_only(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(
        "max_payload: 250000\nmax_pending: 300000\n" + ACCOUNTS.replace("IMPORT", "")
    )
    nc = await nats.connect(as_user(server.url, "app"))
    await fill(nc, 200)
    async with polling(of(server.url, "system", ())) as polled:
        await seen_in_bulk(polled, 201, 1001)
        assert not [it for it in polled.records if isinstance(it, Unavailable)]
        assert polled.client.nc.stats["reconnects"] == 0
    await nc.close()


@pytest.mark.long
@pytest.mark.cluster
async def test_when_a_node_dies_what_it_had_is_unreachable_and_the_others_go_on(
    nats_cluster: Cluster,
) -> None:
    url = nats_cluster.urls[0]
    nc = await nats.connect(as_user(url, "app"))
    for name, tag in (("HERE", "n1"), ("THERE", "n3")):
        placed = {"name": name, "subjects": [name], "placement": {"tags": [tag]}}
        await asked(nc, f"STREAM.CREATE.{name}", placed)
        body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        await asked(nc, f"CONSUMER.DURABLE.CREATE.{name}.C", body)
    await asked(nc, "STREAM.CREATE.ALL", {"name": "ALL", "subjects": ["all"], "num_replicas": 3})
    await _lost_with(nc, "n3")
    every = {"HERE", "THERE", "ALL"}
    consumers = {("HERE", "C"), ("THERE", "C"), ("ALL", "LOST")}
    system = Connection(servers=(url,), user="sys", password=Secret("sys"))
    login = {"user": "app", "password": Secret("app"), "system": system}
    async with polling(Connection(servers=(url,), **login)) as polled:
        await until_seen(polled, every, consumers)
        nats_cluster.node("n3").kill()
        async with asyncio.timeout(120):
            while polled.state.unreachable_streams != {"THERE"}:
                await polled.until(Snapshot)
            since_us = steady_us()
            # Whoever leads now, its numbers are new, and nothing counts as deleted.
            while not fresh_since(polled, since_us) >= {"HERE", "ALL"}:
                await polled.until(Snapshot)
        await until_seen(polled, every, consumers)
        await _named_to_who_comes_afterwards(Connection(servers=(url,), **login))
        nats_cluster.node("n3").start()
        async with asyncio.timeout(120):
            while polled.state.unreachable_streams or fresh_since(polled, since_us) != every:
                await polled.until(Snapshot)
    await nc.close()


async def _lost_with(nc: NatsClient, node: str) -> None:
    """Make a consumer of one replica, on a node, of a stream with three."""
    config = {"durable_name": "LOST", "ack_policy": "explicit", "num_replicas": 1}
    leader = ""
    async with asyncio.timeout(60):
        while leader != node:
            if leader:
                await asked(nc, "CONSUMER.DELETE.ALL.LOST")
            body = {"stream_name": "ALL", "config": config}
            await asked(nc, "CONSUMER.DURABLE.CREATE.ALL.LOST", body)
            leader = (await asked(nc, "CONSUMER.INFO.ALL.LOST"))["cluster"]["leader"]


async def _named_to_who_comes_afterwards(connection: Connection) -> None:
    """Check that the consumer whose only server is down is named by a new process, too."""
    async with polling(connection) as polled, asyncio.timeout(60):
        while ("ALL", "LOST") not in polled.state.unreachable_consumers:
            await polled.until(Snapshot)
        # It stays named while bulk replies, which do not have it, go on.
        for _ in range(10):
            await polled.until(Snapshot)
            assert polled.state.unreachable_consumers == {("ALL", "LOST")}


def fresh_since(polled: Polled, since_us: int) -> set[str]:
    """Return the streams whose rows are newer than a moment."""
    columns = polled.state.streams.columns
    times = zip(columns.name, columns.sampled_mono_us, strict=True)
    return {name for name, at_us in times if at_us > since_us}


def refusing(stream: str, reason: str) -> Lie:
    """Return the replies of a server that does not run a stream, as a newer server created it."""
    error = {"code": 500, "err_code": 10194, "description": f"stream is offline: {reason}"}

    def refused(body: bytes) -> bytes:
        page = json.loads(body) if body.startswith(b'{"type"') else {}
        if page.get("type", "").endswith("stream_info_response"):
            return json.dumps({"type": page["type"], "error": error}).encode()
        if not page.get("type", "").endswith("stream_list_response"):
            return body
        page["streams"] = [row for row in page["streams"] if row["config"]["name"] != stream]
        return json.dumps(page | {"missing": [stream], "offline": {stream: reason}}).encode()

    return Lie("", refused)


async def polls_until(polled: Polled, unreachable_streams: tuple[str, ...]) -> int:
    """Return how many polls there are until these streams, and no others, are unreachable."""
    for polls_count in range(1, 31):
        if (await polled.until(Snapshot)).unreachable_streams == unreachable_streams:
            return polls_count
    raise AssertionError(polled.state)


@pytest.mark.server
async def test_a_refused_stream_opens_and_closes_within_a_few_polls_beside_bulk_replies(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(ACCOUNTS.replace("IMPORT", ""))
    nc = await nats.connect(as_user(server.url, "app"))
    await asked(nc, "STREAM.CREATE.S", {"name": "S"})
    await asked(nc, "STREAM.CREATE.T", {"name": "T"})
    await nc.close()
    with lying(server.url) as wire:
        system = Connection(servers=(server.url,), user="sys", password=Secret("sys"))
        own = Connection(servers=(wire.url,), user="app", password=Secret("app"), system=system)
        async with polling(own) as polled, asyncio.timeout(60):
            polled.control.set_interval(1.0)
            while polled.state.streams.columns.name != ("S", "T"):
                await polled.until(Snapshot)
            for _ in range(3):
                await polled.until(Snapshot)
            wire.lie = refusing("S", "unsupported - required API level: 9")
            await asyncio.to_thread(server.restart)
            assert await polls_until(polled, ("S",)) <= 4
            wire.lie = TRUTH
            assert await polls_until(polled, ()) <= 3
            assert set(polled.state.streams.columns.name) == {"S", "T"}


@pytest.mark.server
async def test_the_only_stream_is_listed_again_once_its_server_runs_it(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(ACCOUNTS.replace("IMPORT", ""))
    nc = await nats.connect(as_user(server.url, "app"))
    await asked(nc, "STREAM.CREATE.S", {"name": "S"})
    await nc.close()
    reason = "unsupported - required API level: 9"

    def refused(body: bytes) -> bytes:
        page = json.loads(body) if body.startswith(b'{"type"') else {}
        if not page.get("type", "").endswith("stream_list_response"):
            return body
        return json.dumps(
            page | {"streams": [], "missing": ["S"], "offline": {"S": reason}}
        ).encode()

    with lying(server.url) as wire:
        wire.lie = Lie("", refused)
        system = Connection(servers=(server.url,), user="sys", password=Secret("sys"))
        own = Connection(servers=(wire.url,), user="app", password=Secret("app"), system=system)
        async with polling(own) as polled:
            await polled.until(Snapshot, lambda poll: poll.unreachable_streams == ("S",))
            wire.lie = TRUTH
            await polled.until(Snapshot, lambda poll: poll.streams.name == ("S",))
