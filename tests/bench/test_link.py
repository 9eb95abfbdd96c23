"""What the wire client takes from inside nats-py is still there; else it says so."""

import asyncio
from types import SimpleNamespace

import nats.aio.client
import pytest
from nats.aio.transport import TcpTransport
from nats.protocol.parser import Parser

from natstui.bench.frames import Run
from natstui.bench.link import LibraryChanged, WireLink
from natstui.bench.link_socket import hold_reading, pause_reading, read_on
from natstui.config.connection import Connection
from natstui.jetstream import open_client
from natstui.jetstream.broker import Broker
from natstui.jetstream.client import connect


async def test_the_private_parts_are_where_they_were(broker: Broker) -> None:
    client = await connect(Connection(servers=(broker.url,)))
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
    with pytest.raises(LibraryChanged, match="--client nats-py"):
        WireLink(strange).take_over()  # type: ignore[arg-type]
    assert nats.aio.client.__name__


@pytest.mark.parametrize("taken_over", [True, False])
async def test_a_link_that_is_held_for_long_stays_the_same_connection_and_reads_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, taken_over: bool
) -> None:
    monkeypatch.setattr(open_client, "_PING_S", 0.05)
    client = await connect(Connection(servers=(broker.url,)))
    link = WireLink(client.nc)
    if taken_over:
        link.take_over()
    hold_reading(link)
    pause_reading(link, 0.1)
    await asyncio.sleep(0.5)
    assert client.nc._pings_outstanding > 2
    assert client.nc.stats["reconnects"] == 0
    read_on(link)
    assert b'"streams"' in await client.request("INFO")
    assert client.nc.options["max_outstanding_pings"] == 2
    await link.close()
    await client.close()


async def test_requests_of_nats_py_go_on_beside_our_blocks(broker: Broker) -> None:
    client = await connect(Connection(servers=(broker.url,)))
    link = WireLink(client.nc)
    link.take_over()
    got: list[int] = []

    def on_run(run: Run, _now_ns: int) -> None:
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
