"""A server that dies is an event and a finding with its name within seconds, unasked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, cast

import nats
import pytest

from natstui.clock import wall_us
from natstui.config import Connection, Secret
from natstui.engine.live import make_background_readers, make_poller
from natstui.errors import AuthenticationFailed
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.system import watching
from natstui.jetstream.system.watching import connections_interval_s
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.clients.connection import AccountServer, Connections
from natstui.model.clients.watch import ClientsRead
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.live.state import State
from natstui.model.records.record import Advisory, Record
from natstui.values import replace
from tests.serving import relay, serving

_WITHIN_S = 20.0
"""Two or three where nothing else runs."""


class _Watched:
    """A sink that folds and judges, and notes when each record came."""

    def __init__(self) -> None:
        self.state = State()
        self.events: list[tuple[float, Advisory]] = []
        self._changed = asyncio.Event()

    def add(self, record: Record) -> None:
        self.state = apply_and_evaluate(self.state, record)
        if isinstance(record, Advisory) and record.type.startswith("server_"):
            self.events.append((time.monotonic(), record))
        self._changed.set()

    async def until(self, holds: Callable[[State], bool]) -> None:
        async with asyncio.timeout(30):
            while not holds(self.state):
                self._changed.clear()
                await self._changed.wait()


def _is_down(name: str) -> Callable[[State], bool]:
    """Return a test of whether a server is told to be down."""
    return lambda state: any(
        one.kind.code == "NT-V01" and one.entity.text == f"server {name}"
        for one in state.findings.list_open_findings()
    )


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the servers four times as often."""
    monkeypatch.setattr(watching, "HEARTBEAT_INTERVAL_S", 0.5)


@asynccontextmanager
async def _watching(connection: Connection, sink: _Watched) -> AsyncIterator[None]:
    client = await connect(connection, on_link=sink.add)
    control = PollControl(1.0)
    works = [make_poller(client, control, sink, None), *make_background_readers(client, sink)]
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await client.close()


@pytest.mark.usefixtures("often")
@pytest.mark.cluster
async def test_a_killed_server_is_told_by_its_name(nats_cluster: Cluster) -> None:
    url = nats_cluster.node("n1").url
    own = Connection(servers=(url,), user="app", password=Secret("app"))
    system = Connection(servers=(url,), user="sys", password=Secret("sys"))
    by_source = {"system": _Watched(), "account": _Watched()}
    async with (
        _watching(replace(own, system=system), by_source["system"]),
        _watching(own, by_source["account"]),
    ):
        for source, sink in by_source.items():
            await sink.until(lambda state: len(state.servers.known) == 3)
            newest = sink.state.servers.newest
            assert newest is not None and newest.source == source
        killed_s = time.monotonic()
        nats_cluster.node("n3").kill()
        for sink in by_source.values():
            await sink.until(_is_down("n3"))
            assert time.monotonic() - killed_s < _WITHIN_S
            await sink.until(lambda _state, sink=sink: bool(sink.events))
            ((_, event),) = sink.events
            assert (event.type, event.text) == ("server_down", "server n3 does not reply")
            assert [one.seen.name for one in sink.state.servers.down] == ["n3"]
        nats_cluster.node("n3").start()
        for sink in by_source.values():
            await sink.until(lambda state: not _is_down("n3")(state))
            assert [event.type for _, event in sink.events] == ["server_down", "server_restarted"]


def _said_of(name: str, state: State) -> list[str]:
    return [
        one.kind.code
        for one in state.findings.list_open_findings()
        if one.entity.text == f"server {name}"
    ]


@pytest.mark.long
@pytest.mark.cluster
async def test_a_server_in_lame_duck_mode_is_named_as_that_until_it_stops(
    nats_cluster: Cluster,
) -> None:
    left, leaving = nats_cluster.node("n1"), nats_cluster.node("n2")
    own = Connection(servers=(leaving.url, left.url), user="app", password=Secret("app"))
    system = Connection(servers=(left.url,), user="sys", password=Secret("sys"))
    with_system = replace(own, servers=(left.url,), system=system)
    # Without a client it stops at once.
    sent_away = asyncio.Event()

    async def leave() -> None:
        sent_away.set()

    client = await nats.connect(
        leaving.url, user="app", password="app", allow_reconnect=False, lame_duck_mode_cb=leave
    )
    await nats_cluster.wait_until_placing()
    stream = {"name": "S", "subjects": ["s"], "num_replicas": 3}
    await client.request("$JS.API.STREAM.CREATE.S", json.dumps(stream).encode(), timeout=20)
    by_system, by_itself, afterwards = _Watched(), _Watched(), _Watched()
    try:
        async with _watching(with_system, by_system), _watching(own, by_itself):
            for sink in (by_system, by_itself):
                await sink.until(lambda state: len(state.servers.known) == 3)
            os.kill(leaving.pid, signal.SIGUSR2)
            async with asyncio.timeout(30):
                await sent_away.wait()
            async with _watching(with_system, afterwards):
                await afterwards.until(lambda state: bool(_said_of("n2", state)))
                assert _said_of("n2", afterwards.state) == ["NT-V26"]
            # Our own connection learns it a second later than that it does not reply.
            for sink, seen in ((by_system, []), (by_itself, ["NT-V01"])):
                await sink.until(lambda state, seen=seen: _said_of("n2", state) not in ([], seen))
                assert _said_of("n2", sink.state) == ["NT-V26"]
            await by_itself.until(lambda state: bool(state.servers.down))
            assert _said_of("n2", by_itself.state) == ["NT-V26"]
            await by_system.until(lambda state: _said_of("n2", state) == ["NT-V01"])
            (down,) = (
                one
                for one in by_system.state.findings.list_open_findings()
                if one.kind.code == "NT-V01"
            )
            assert down.text.startswith("it had announced lame duck mode")
    finally:
        await client.close()


async def _announce(broker: Broker, *names: Any) -> None:
    """Publish what a server announces in the system account when it begins lame duck mode."""
    nc = await nats.connect(broker.url, user="sys", password="sys")
    for name in names:
        body = json.dumps({"name": name}).encode()
        await nc.publish("$SYS.SERVER.N.LAMEDUCK", body)
    await nc.publish("$SYS.SERVER.N.LAMEDUCK", b"[]")
    await nc.close()


class _Announcing:
    """A wire to a server on which it can be told that the server is about to leave."""

    def __init__(self, url: str) -> None:
        self._url, self._greeting, self._is_between = url, b"", True
        self.is_leaving = asyncio.Event()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, self._url, down=self._down)

    def _down(self, data: bytes) -> bytes:
        if data.startswith(b"INFO "):
            self._greeting = data.partition(b"\r\n")[0]
        is_between, self._is_between = self._is_between, data.endswith(b"\r\n")
        if not (is_between and self.is_leaving.is_set() and self._greeting):
            return data
        info, self._greeting = json.loads(self._greeting[5:]) | {"ldm": True}, b""
        return b"INFO " + json.dumps(info).encode() + b"\r\n" + data


@pytest.mark.usefixtures("often")
@pytest.mark.server
@pytest.mark.parametrize("by_system", [True, False], ids=["announced", "told to its clients"])
async def test_a_server_that_is_about_to_leave_is_named_once(
    nats_server_factory: Callable[..., Broker], by_system: bool
) -> None:
    """Without the system account our own connection says it."""
    broker, sink = nats_server_factory(_ACCOUNTS), _Watched()
    wire = _Announcing(broker.url)
    own = Connection(servers=(broker.url,), user="app", password=Secret("app"))
    system = replace(own, user="sys", password=Secret("sys"))
    async with serving(wire.join) as port:
        if not by_system:
            own = replace(own, servers=(f"nats://127.0.0.1:{port}",))
        async with _watching(replace(own, system=system if by_system else None), sink):
            await sink.until(lambda state: bool(state.servers.known))
            if by_system:
                await _announce(broker, broker.name, 7)
            wire.is_leaving.set()
            await sink.until(lambda state: bool(_said_of(broker.name, state)))
            assert _said_of(broker.name, sink.state) == ["NT-V26"]
            assert sink.state.servers.leaving == (broker.name,)
            ((_, event),) = sink.events
            assert event.type == "server_leaving"
            assert event.text == (
                f"server {broker.name} is in lame duck mode: its clients go to other servers"
            )


_ACCOUNTS = """accounts {
  $SYS: { users: [{ user: sys, password: sys }] }
  APP: { jetstream: enabled, users: [{ user: app, password: app }] }
}
"""


@pytest.mark.usefixtures("often")
@pytest.mark.server
async def test_a_server_that_hangs_for_a_moment_is_read_again_at_once_and_not_forgotten(
    nats_server_factory: Callable[..., Broker],
) -> None:
    """The own account is elsewhere: its servers do not replace those of the system account."""
    broker, hanging, sink = (
        nats_server_factory(_ACCOUNTS),
        nats_server_factory(_ACCOUNTS),
        _Watched(),
    )
    own = Connection(servers=(broker.url,), user="app", password=Secret("app"))
    system = replace(
        own, servers=(hanging.url,), user="sys", password=Secret("sys"), request_timeout_s=0.5
    )
    failed_at_us: set[int] = set()

    def has_failed_twice(state: State) -> bool:
        if state.servers.newest is not None and not state.servers.newest.rows:
            failed_at_us.add(state.servers.at_us)
        return len(failed_at_us) >= 2

    async with _watching(replace(own, system=system), sink):
        await sink.until(lambda state: bool(state.servers.known))
        hanging.freeze()
        await sink.until(has_failed_twice)
        assert set(sink.state.servers.known) == {hanging.name}
        hanging.thaw()
        await sink.until(lambda state: bool(state.servers.newest and state.servers.newest.rows))
        newest = sink.state.servers.newest
        assert newest is not None and newest.source == "system"
        assert [row.name for row in newest.rows] == [hanging.name]
        assert not sink.events


@pytest.mark.server
async def test_clients_are_read_at_their_interval_however_long_a_reading_takes(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, began_s = nats_server_factory(_ACCOUNTS), list[float]()
    read_at_once = watching.read_connections

    async def read_slowly(*arguments: Any, **options: Any) -> Any:
        began_s.append(time.monotonic())
        await asyncio.sleep(0.5)
        return await read_at_once(*arguments, **options)

    monkeypatch.setattr(watching, "read_connections", read_slowly)
    monkeypatch.setattr(watching, "CLIENTS_INTERVAL_S", 4.0)
    system = Connection(servers=(broker.url,), user="sys", password=Secret("sys"))
    client = await connect(replace(system, user="app", password=Secret("app"), system=system))
    sink = _Watched()
    reading = asyncio.create_task(watching.watch_clients(client, sink, connections=True))
    async with asyncio.timeout(60):
        while len(began_s) < 3:
            await asyncio.sleep(0.1)
    reading.cancel()
    await asyncio.wait({reading})
    await client.close()
    assert sink.state.connections is not None
    assert {row.user for row in sink.state.connections.newest.rows} == {"app"}
    # The shortest: on a busy machine a reading may take longer than the interval.
    assert min(after_s - before_s for before_s, after_s in pairwise(began_s)) < 4.4


async def test_the_clock_of_a_server_is_compared_with_the_time_of_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_us, no_client = [wall_us()], cast(Client, None)
    clocks_ahead_us = asyncio.get_running_loop().create_future()

    async def read_slowly(*_arguments: Any, **_options: Any) -> Connections:
        server = AccountServer("N1", "n1", None, None, now_us[0] + 5_000_000, 0)
        now_us[0] += 1_500_000
        return Connections((server,), ())

    async def read_no_subscriptions(_requests: Any) -> Connections:
        return Connections((), ())

    async def read_no_closed(_client: Client) -> tuple[tuple[()], None]:
        return (), None

    def summarize(at_us: int, *arguments: Any) -> ClientsRead:
        clocks_ahead_us.set_result(arguments[-1])
        return ClientsRead(at_us, 0, (), (), ())

    monkeypatch.setattr(watching, "_now_us", lambda: now_us[0])
    monkeypatch.setattr(watching, "read_connections", read_slowly)
    monkeypatch.setattr(watching, "read_subscriptions", read_no_subscriptions)
    monkeypatch.setattr(watching, "_read_closed", read_no_closed)
    monkeypatch.setattr(watching, "summarize_clients", summarize)
    reading = asyncio.create_task(watching.watch_clients(no_client, _Watched()))
    async with asyncio.timeout(30):
        assert await clocks_ahead_us == {"N1": 5_000_000}
    reading.cancel()
    await asyncio.wait({reading})


@pytest.mark.usefixtures("often")
@pytest.mark.server
async def test_a_client_with_a_wrong_password_is_named(
    nats_server_factory: Callable[..., Broker],
) -> None:
    broker, sink = nats_server_factory(_ACCOUNTS), _Watched()
    system = Connection(servers=(broker.url,), user="sys", password=Secret("sys"))
    connection = Connection(
        servers=(broker.url,), user="app", password=Secret("app"), system=system
    )
    async with _watching(connection, sink):
        await sink.until(lambda state: bool(state.servers.known))
        wrong = replace(connection, password=Secret("old"), system=None)
        for _ in range(4):
            with pytest.raises(AuthenticationFailed):
                await connect(wrong)
        await sink.until(lambda state: _said_of(broker.name, state) == ["NT-V37"])
        (finding,) = (
            one for one in sink.state.findings.list_open_findings() if one.kind.code == "NT-V37"
        )
        await sink.until(lambda state: state.servers.logins_refused[0].times_count == 4)
        assert finding.text.endswith("of client natstui, user app")


@pytest.mark.usefixtures("often")
@pytest.mark.server
async def test_an_election_of_the_meta_leader_is_noted_with_its_time(
    nats_server_factory: Callable[..., Broker],
) -> None:
    broker, sink = nats_server_factory(_ACCOUNTS), _Watched()
    system = Connection(servers=(broker.url,), user="sys", password=Secret("sys"))
    async with _watching(replace(system, user="app", password=Secret("app"), system=system), sink):
        await sink.until(lambda state: bool(state.servers.known))
        assert sink.state.servers.meta_elected_at_us == ()
        began_us = wall_us()
        nc = await nats.connect(broker.url, user="sys", password="sys")
        await nc.publish("$JS.EVENT.ADVISORY.DOMAIN.LEADER_ELECTED", b"{}")
        await nc.close()
        await sink.until(lambda state: bool(state.servers.meta_elected_at_us))
        (elected_at_us,) = sink.state.servers.meta_elected_at_us
        assert began_us <= elected_at_us <= wall_us()


@pytest.mark.server
async def test_a_lone_server_and_its_clients_are_read_without_the_system_account(
    nats_server: Broker,
) -> None:
    sink = _Watched()
    async with _watching(Connection(servers=(nats_server.url,)), sink):
        await sink.until(lambda state: bool(state.servers.known) and state.clients is not None)
        clients = sink.state.clients
        assert isinstance(clients, ClientsRead) and clients.connections_count >= 1
        # Servers do not tell closed connections of the default account.
        newest = sink.state.servers.newest
        assert newest is not None and len(newest.rows) == 1 and newest.missing
        assert not sink.events


@pytest.mark.parametrize(
    ("counts", "rest_s"), [([], 30), ([250, 20], 30), ([5_000], 30), ([20_000, 30], 177)]
)
def test_connections_of_a_server_that_has_very_many_are_read_less_often(
    counts: list[int], rest_s: int
) -> None:
    servers = tuple(
        AccountServer(f"N{number}", f"n{number}", None, None, 1, count)
        for number, count in enumerate(counts)
    )
    assert round(connections_interval_s(Connections(servers, ()))) == rest_s
