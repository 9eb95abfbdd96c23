"""What the wire client takes from inside nats-py is still there; else it says so."""

import asyncio
import time
from types import SimpleNamespace

import nats.aio.client
import pytest
from nats.aio.transport import TcpTransport
from nats.protocol.parser import Parser

from natstui.bench.job.job import Job
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import (
    UnsupportedNatsPy,
    WireLink,
    pause_reading,
    pause_reading_for,
    resume_reading,
    wait_until_stopped,
)
from natstui.config.connection import Connection
from natstui.errors import ConnectionLost
from natstui.jetstream.connection import nats_client
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Role
from tests.accounts import Account, through
from tests.bench.test_content import orders
from tests.serving import relay, serving

pytestmark = pytest.mark.server


async def test_the_private_parts_are_where_they_were(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    nc = client.nc
    assert isinstance(nc._ps, Parser)
    assert (nc._ps.state, bytes(nc._ps.buf)) == (1, b"")
    assert isinstance(nc._transport, TcpTransport)
    assert isinstance(nc._transport._io_reader, asyncio.StreamReader)
    assert isinstance(nc._transport._io_reader._buffer, bytearray)
    assert callable(nc._transport._io_reader._maybe_resume_transport)
    assert callable(nc._error_cb)
    assert isinstance((await nc.subscribe("x"))._id, int)
    await client.close()


async def test_another_inside_is_refused_loudly() -> None:
    strange = SimpleNamespace(_ps=object(), _transport=None)
    with pytest.raises(UnsupportedNatsPy, match="reinstall natstui"):
        WireLink(strange).replace_parser()  # type: ignore[arg-type]
    assert nats.aio.client.__name__


@pytest.mark.parametrize("taken_over", [True, False])
async def test_a_link_that_is_held_for_long_stays_the_same_connection_and_reads_nothing(
    account: Account, monkeypatch: pytest.MonkeyPatch, taken_over: bool
) -> None:
    monkeypatch.setattr(nats_client, "_CHECK_INTERVAL_S", 0.05)
    monkeypatch.setattr(nats_client, "_MIN_STALE_TIMEOUT_S", 0.2)
    client = await connect(Connection(servers=(account.url,)))
    link = WireLink(client.nc)
    if taken_over:
        link.replace_parser()
    pause_reading(link)
    pause_reading_for(link, 0.1)
    arrived_bytes = client.nc.arrived_bytes
    await asyncio.sleep(1)
    assert client.nc.arrived_bytes == arrived_bytes
    assert client.nc.stats["reconnects"] == 0
    resume_reading(link)
    assert b'"streams"' in await client.request("INFO")
    assert client.nc.stats["reconnects"] == 0
    await link.close()
    await client.close()


async def test_pauses_of_a_link_add_up(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    link = WireLink(client.nc)
    link.replace_parser()
    began_s = time.monotonic()
    for _ in range(3):
        pause_reading_for(link, 0.2)
    assert client.nc.is_reading_paused
    await client.request("INFO")
    assert time.monotonic() - began_s > 0.55
    assert not client.nc.is_reading_paused
    await link.close()
    await client.close()


async def test_a_link_on_which_messages_come_is_not_taken_for_lost(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_client, "_CHECK_INTERVAL_S", 0.05)
    monkeypatch.setattr(nats_client, "_MIN_STALE_TIMEOUT_S", 1.0)
    client = await connect(Connection(servers=(account.url,)))
    link = WireLink(client.nc)
    link.replace_parser()
    got: list[int] = []
    await link.subscribe("many", lambda run, _now_ns: got.append(len(run)))
    for number in range(50):
        link.write(b"PUB many 2\r\nhi\r\n")
        await link.flush(10)
        await asyncio.sleep(0.05)
        assert client.nc.stats["reconnects"] == link.disconnects_count == 0, number
    assert sum(got) == 50
    await link.close()
    await client.close()


async def test_a_subscription_is_confirmed_only_after_the_server_has_it(account: Account) -> None:
    sent = bytearray()

    def note(data: bytes) -> bytes:
        sent.extend(data)
        return data

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, account.url, up=note)

    async with serving(pass_on) as port:
        client = await connect(Connection(servers=(through(port, account.url),)))
        link = WireLink(client.nc)
        link.replace_parser()
        await link.subscribe("wanted", lambda _run, _now_ns: None)
        lines = bytes(sent).split(b"\r\n")
        last_ping = len(lines) - 1 - lines[::-1].index(b"PING")
        assert any(line.startswith(b"SUB wanted ") for line in lines[:last_ping]), lines
        await link.close()
        await client.close()


async def test_requests_of_nats_py_go_on_beside_our_blocks(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    link = WireLink(client.nc)
    link.replace_parser()
    got: list[int] = []

    def on_run(run: FrameRun, _now_ns: int) -> None:
        got.append(len(run))

    await link.subscribe("many", on_run)
    link.write(b"PUB many 2\r\nhi\r\n" * 10_000)
    assert b'"streams"' in await client.request("INFO")
    await link.flush(10)
    await asyncio.sleep(0.1)
    assert sum(got) == 10_000
    assert not link.failure.done()
    await link.close()
    await client.close()


async def test_work_that_fails_in_the_background_fails_the_link(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    link = WireLink(client.nc)

    async def think() -> None:
        raise ZeroDivisionError("on purpose")

    await asyncio.wait({link.start_task(think())})
    async with asyncio.timeout(5):
        assert "on purpose" in str(await link.failure)
    await link.close()
    await client.close()


async def test_who_waits_for_the_end_of_a_job_is_told_what_broke_its_link(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    link = WireLink(client.nc)
    job = Job(orders(Role("r", "subscribe", subject="s")), client, Tally(), Schedule(()))
    waiting = asyncio.ensure_future(wait_until_stopped(job, link))
    await asyncio.sleep(0)
    assert not waiting.done()
    link.fail(ConnectionLost("the connection is lost"))
    with pytest.raises(ConnectionLost, match="the connection is lost"):
        await waiting
    await link.close()
    await client.close()


async def test_a_server_that_does_not_come_back_in_time_ends_what_waits_for_it(
    nats_server: Broker,
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    link = WireLink(client.nc)
    nats_server.stop()
    async with asyncio.timeout(30):
        while link.nc.is_connected:
            await asyncio.sleep(0.01)
    with pytest.raises(ConnectionLost, match=r"was not back within 0\.2 s"):
        await link.wait_connected(0.2)
    waiting = asyncio.create_task(link.drain())
    await asyncio.sleep(0)
    nats_server.start()
    async with asyncio.timeout(30):
        await waiting
    assert link.nc.is_connected
    # The socket is gone, and nats-py has not noticed yet.
    reconnects_count = client.nc.stats["reconnects"]
    link.nc._transport.abort()
    async with asyncio.timeout(30):
        await link.drain()
    assert client.nc.stats["reconnects"] > reconnects_count
    link.fail(ConnectionLost("it is over"))
    with pytest.raises(ConnectionLost, match="it is over"):
        await link.drain()
    await link.close()
    await client.close()
