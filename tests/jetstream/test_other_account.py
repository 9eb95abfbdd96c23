"""Another account, as the system account and the ports tell of it: its rows, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient

from natstui.config import Connection
from natstui.config.connection import Secret
from natstui.config.resolve import watch_account
from natstui.engine.live import refuse_for_other_account
from natstui.errors import ActionRefusal
from natstui.jetstream.polling.bulk import account
from natstui.jetstream.polling.bulk.account import poll_account
from natstui.jetstream.system.bulk import JszSource
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.managing import Change
from natstui.model.records.messages import BrowseMessages
from natstui.model.records.record import Configured, Describe, Unavailable
from natstui.model.records.system import ReadConnections, ReadServers
from natstui.values import replace
from tests.jetstream.operator_jwts import Operator, write_creds
from tests.jetstream.polling import Polled, as_usual, polled_by, rows
from tests.jetstream.test_bulk import (
    ACCOUNTS,
    Told,
    asked,
    consumer,
    fill,
    newest,
    same,
    stream,
    told,
    until_seen,
)
from tests.jetstream.test_connections import as_user

pytestmark = pytest.mark.server

BOTH = ACCOUNTS.replace("IMPORT", "")


def user(url: str, name: str, **words: Any) -> Connection:
    return Connection(servers=(url,), user=name, password=Secret(name), **words)


def telling(server: Broker, source: str) -> Connection:
    """Return a connection with somebody who tells of every account."""
    if source == "system itself":
        return user(server.url, "sys")
    if source == "ports":
        return user(server.url, "app", monitoring=(server.monitoring_url,))
    return user(server.url, "app", system=user(server.url, "sys"))


def watching(connection: Connection, account: str) -> AbstractAsyncContextManager[Polled]:
    """Poll another account."""
    return polled_by(account_alone, watch_account(connection, account))


def account_alone(polled: Polled) -> Coroutine[Any, Any, None]:
    """Poll what is told of an account that is not one's own."""
    return poll_account(polled.client, polled.control, polled, JszSource(polled.client))


def as_its_own(connection: Connection) -> AbstractAsyncContextManager[Polled]:
    """Poll an account as one of its users."""
    return polled_by(as_usual, connection)


def without_lag(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of a row; when the next message was stored, only its API tells."""
    return {name: value for name, value in same(row).items() if name != "next_at_us"}


def meanings(known: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return configurations without their spaces: the ports have them."""
    return {
        key: (replace(one, config_json=""), json.loads(one.config_json))
        for key, one in known.items()
    }


async def same_rows(own: Polled, other: Polled) -> None:
    """Wait until both know the same, and compare it all."""
    async with asyncio.timeout(60):
        while not own.state.consumers.columns.name or not other.state.consumers.columns.name:
            await own.until(Snapshot)
    for part in ("streams", "consumers"):
        for _ in range(60):
            expected = {key: without_lag(it) for key, it in newest(own, part).items()}
            found = {key: without_lag(it) for key, it in newest(other, part).items()}
            if found == expected:
                break
            await other.until(Snapshot)
        assert found == expected
    for what in ("stream_configurations", "consumer_configurations"):
        assert meanings(getattr(own.state, what)) == meanings(getattr(other.state, what))


async def a_consumer(nc: NatsClient, stream: str, name: str, **words: Any) -> None:
    await asked(nc, f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [stream], **words})
    body = {"stream_name": stream, "config": {"durable_name": name, "ack_policy": "explicit"}}
    await asked(nc, f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)


@pytest.mark.parametrize("source", ["system", "system itself", "ports"])
async def test_its_rows_are_those_that_its_own_users_see(
    nats_server_factory: Callable[..., Broker], source: str
) -> None:
    server = nats_server_factory(BOTH)
    mine = await nats.connect(as_user(server.url, "app"))
    other = await nats.connect(as_user(server.url, "other"))
    await a_consumer(mine, "S001", "MINE")
    await fill(other, 10)
    async with (
        as_its_own(user(server.url, "other")) as own,
        watching(telling(server, source), "OTHER") as watched,
    ):
        await same_rows(own, watched)
        counted = watched.state.account
        assert counted is not None
        assert (counted.streams_count, counted.consumers_count) == (11, 51)
        # What is made and deleted is seen, and nothing of it counts as unreachable.
        await asked(other, "STREAM.DELETE.S003")
        await asked(other, "CONSUMER.DELETE.S004.C1")
        await a_consumer(other, "LATER", "L")
        async with asyncio.timeout(60):
            while ("LATER", "L") not in newest(watched, "consumers"):
                await watched.until(Snapshot)
        names = set(watched.state.streams.columns.name)
        assert "LATER" in names and "S003" not in names and "MIRROR" in names
        keys = {key[:2] for key in watched.state.consumers.roster.keys}
        assert ("S004", "C1") not in keys and ("S004", "C2") in keys and len(keys) == 46
        polls = [it for it in watched.records if isinstance(it, Snapshot)]
        assert not any(it.unreachable_streams or it.unreachable_consumers for it in polls)
        assert not [it for it in watched.records if isinstance(it, Unavailable)]
        # Nothing is told again that did not change.
        news = [it for it in watched.records if isinstance(it, Configured)]
        assert sum(len(it.streams) for it in news) == 12
        assert sum(len(it.consumers) for it in news) == 52
    await mine.close()
    await other.close()


async def test_an_account_that_no_server_knows_is_said_with_those_that_there_are(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(BOTH)
    for connection, said in (
        (user(server.url, "sys"), "no server knows an account NOPE that uses JetStream"),
        (user(server.url, "app"), "[system] is app of the account APP, which is not"),
    ):
        async with watching(connection, "NOPE") as polled:
            async with asyncio.timeout(30):
                while not (away := [it for it in polled.records if isinstance(it, Unavailable)]):
                    await asyncio.sleep(0.05)
        assert said in away[0].reason and away[0].what == "answers"
        if connection.user == "sys":
            assert "there is APP, OTHER" in away[0].reason


async def test_with_jwts_an_account_is_named_by_its_name_or_its_key(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    operator = Operator()
    server = nats_server_factory(operator.server_config)
    app = write_creds(tmp_path / "app.creds", *operator.user(name="app"))
    nc = await nats.connect(server.url, user_credentials=str(app))
    await a_consumer(nc, "S", "C")
    sys_creds = write_creds(tmp_path / "sys.creds", *operator.user(name="sys", of=operator.system))
    key = operator.account.public
    for name in (key, key[:6]):
        system = Connection(servers=(server.url,), creds_file=str(sys_creds))
        async with watching(system, name) as polled:
            await until_seen(polled, {"S"}, {("S", "C")})
    await nc.close()


CLUSTERED = 'cluster { name: C1, listen: "127.0.0.1:-1" }'
"""A server that says that it is of a cluster."""


@dataclass
class MadeUp:
    """A source whose answers are made up."""

    answers: list[Told]
    silent_servers: tuple[str, ...] = ()
    max_pending_bytes: int | None = None

    async def request(self, *, config: bool, compressed: bool) -> list[Told]:
        assert config and compressed
        return self.answers

    async def close(self) -> None:
        """Close nothing."""


def named(name: str, leader: str, **leaders: str) -> dict[str, Any]:
    """Return what a server tells of a stream and of its consumers, each with its leader."""
    consumers = [
        consumer(leads, 0) | {"name": each, "stream_name": name, "config": {"durable_name": each}}
        for each, leads in leaders.items()
    ]
    return stream(leader, *consumers) | {"name": name, "config": {"name": name}}


async def test_what_silent_servers_hold_is_unreachable_and_is_gone_only_when_it_is_sure(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = nats_server_factory(CLUSTERED, jetstream=False)
    near, far = named("NEAR", "n1", C="n1", D="n2"), named("FAR", "n2", C="n2")
    source = MadeUp([told("n1", near), told("n2", near, far)])

    def of_both(polled: Polled) -> Coroutine[Any, Any, None]:
        return poll_account(polled.client, polled.control, polled, source)

    async with polled_by(of_both, Connection(servers=(server.url,))) as polled:

        async def unreachable(streams: set[str], consumers: set[tuple[str, str]]) -> None:
            async with asyncio.timeout(30):
                while (
                    set(polled.state.unreachable_streams) != streams
                    or set(polled.state.unreachable_consumers) != consumers
                ):
                    await polled.until(Snapshot)

        every = {("NEAR", "C"), ("NEAR", "D"), ("FAR", "C")}
        await until_seen(polled, {"NEAR", "FAR"}, every)
        await unreachable(set(), set())
        # One of them is silent: what it holds alone, and a consumer that it leads.
        source.answers, source.silent_servers = [told("n1", named("NEAR", "n1", C="n1"))], ("n2",)
        await unreachable({"FAR"}, {("FAR", "C"), ("NEAR", "D")})
        await until_seen(polled, {"NEAR", "FAR"}, every)
        kept = {row["name"]: row for row in rows(polled.state.streams.columns)}
        # Who led it is silent: nobody leads it now.
        assert (kept["NEAR"]["leader"], kept["FAR"]["leader"]) == ("n1", None)
        assert kept["FAR"]["stored_msgs"] == 1
        # It answers again, before it knows its streams; one is told of that nobody leads.
        orphan = named("ORPHAN", "n3")
        source.answers, source.silent_servers = [told("n1", near, orphan), told("n2", near)], ()
        await unreachable({"FAR", "ORPHAN"}, {("FAR", "C")})
        source.answers = [told("n1", near), told("n2", near, far)]
        await unreachable(set(), set())
        # What is not told of for a while is gone.
        source.answers = [told("n1", near), told("n2", near)]
        await unreachable({"FAR"}, {("FAR", "C")})
        monkeypatch.setattr(account, "_DELETED_AFTER_S", 0.0)
        await until_seen(polled, {"NEAR"}, {("NEAR", "C"), ("NEAR", "D")})
        await unreachable(set(), set())


async def test_what_a_silent_server_did_not_hold_is_gone_when_the_others_do_not_report_it() -> (
    None
):
    """A server that was removed for good is silent for ever, and ephemeral consumers go."""
    client: Any = SimpleNamespace(nc=SimpleNamespace(server_info={}))
    polled = Polled(client)
    near = told("n1", named("S", "n1"), named("T", "n1"))
    source = MadeUp([near, told("old", named("FAR", "old", C="old"))])
    poller = account._AccountPoller(client, polled.control, polled, source)
    await poller.poll_once()
    source.silent_servers = ("old",)
    for number in range(20):
        streams = [named("S", "n1", **{f"E{number}": "n1"})]
        streams += [named("T", "n1", C="n1")] if number < 3 else []
        source.answers = [told("n1", *streams)]
        await poller.poll_once()
        assert set(polled.state.unreachable_streams) == {"FAR"}
        assert set(polled.state.unreachable_consumers) == {("FAR", "C")}
    assert set(polled.state.streams.columns.name) == {"FAR", "S"}
    assert set(polled.state.consumers.columns.name) == {"C", "E19"}
    assert not [record for record in polled.records if isinstance(record, Unavailable)]


@pytest.mark.parametrize("bad", [{"config": {"name": 1}}, {"created": "soon"}])
async def test_an_unreadable_stream_of_a_reply_is_one_sentence(bad: dict[str, Any]) -> None:
    client: Any = SimpleNamespace(nc=SimpleNamespace(server_info={}))
    polled = Polled(client)
    source = MadeUp([told("n1", named("S", "n1") | bad)])
    poller = account._AccountPoller(client, polled.control, polled, source)
    await poller.poll_once()
    (unavailable,) = [record for record in polled.records if isinstance(record, Unavailable)]
    assert "cannot be read" in unavailable.reason
    source.answers = [told("n1", named("S", "n1"))]
    await poller.poll_once()
    assert polled.state.streams.columns.name == ("S",)
    assert not polled.state.unavailable


@pytest.mark.long
@pytest.mark.cluster
async def test_in_a_cluster_rows_are_their_leaders_and_what_is_away_is_not_gone(
    nats_cluster: Cluster,
) -> None:
    nc = await nats.connect(as_user(nats_cluster.urls[0], "app"))
    for each in range(6):
        await a_consumer(nc, f"R3-{each}", "C", num_replicas=3)
        await a_consumer(nc, f"R1-{each}", "C", num_replicas=1)
    names = {f"R{replicas}-{each}" for replicas in (1, 3) for each in range(6)}
    led = await asked(nc, "STREAM.INFO.R1-0")
    node = nats_cluster.node(led["cluster"]["leader"])
    near = next(it for it in nats_cluster.nodes if it is not node)
    await nc.close()
    # Not on the node that is killed: nats-py leaves sockets behind when it tries that one again.
    nc = await nats.connect(as_user(near.url, "app"))
    async with (
        as_its_own(user(near.url, "app")) as own,
        watching(user(near.url, "sys"), "APP") as polled,
    ):
        await same_rows(own, polled)
        node.kill()
        await polled.until(Snapshot, lambda it: "R1-0" in it.unreachable_streams)
        async with asyncio.timeout(60):
            # Those with replicas have other leaders soon; those without wait for the server.
            while any(name.startswith("R3") for name in polled.state.unreachable_streams):
                await polled.until(Snapshot)
        assert set(polled.state.streams.columns.name) == names
        assert ("R1-0", "C") in polled.state.unreachable_consumers
        node.restart()
        async with asyncio.timeout(90):
            while polled.state.unreachable_streams or polled.state.unreachable_consumers:
                await polled.until(Snapshot)
        assert set(polled.state.streams.columns.name) == names
        # What is deleted is gone, as soon as it is sure.
        await asked(nc, "STREAM.DELETE.R1-1")
        async with asyncio.timeout(60):
            while "R1-1" in polled.state.streams.columns.name:
                await polled.until(Snapshot)
        gone = [it for it in polled.records if isinstance(it, Snapshot)]
        assert names - set(polled.state.streams.columns.name) == {"R1-1"}, len(gone)
    await nc.close()


def test_nothing_is_read_of_it_or_done_to_it_by_the_api_of_our_own() -> None:
    connection = watch_account(user("nats://127.0.0.1:1", "sys"), "OTHER")
    assert connection.read_only and connection.system is not None
    for command in (
        Describe(1, "S", None),
        BrowseMessages(2, "S"),
        Change(3, "delete_stream", "S"),
        ReadConnections(4, closed=False, rows_count=10),
    ):
        with pytest.raises(ActionRefusal, match="the account OTHER is watched through"):
            refuse_for_other_account(connection, command)
    refuse_for_other_account(connection, ReadServers(5))
    refuse_for_other_account(user("nats://127.0.0.1:1", "sys"), Describe(6, "S", None))
