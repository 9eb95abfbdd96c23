from __future__ import annotations

import asyncio
import re

import pytest
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import (
    ConnectionLost,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestTimedOut,
)
from natstui.jetstream.connection import link
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.permissions import UserInfo
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.record import LinkChanged
from tests.serving import relay, serving

pytestmark = pytest.mark.server


async def test_a_connection_tells_server_account_and_api_level(nats_server: Broker) -> None:
    changes: list[LinkChanged] = []
    client = await connect(Connection(servers=(nats_server.url,)), on_link=changes.append)
    await client.close()
    connected, closed = changes
    assert connected.state == "connected"
    assert connected.account == "$G"
    assert connected.jetstream is True
    assert connected.api_level is not None
    assert connected.api_level >= 5
    assert closed.state == "closed"


async def test_the_user_is_the_one_that_our_own_server_names(nats_server: Broker) -> None:
    """Servers of leaf nodes reply as well, each with the user of the leaf node."""
    other = b'{"server":{"id":"OTHER"},"data":{"user":"leaf","account":"LEAF"}}'
    asked: list[bytes] = []
    sids: dict[bytes, bytes] = {}

    def up(data: bytes) -> bytes:
        sids.update(re.findall(rb"SUB (\S+) +(\d+)\r\n", data))
        asked.extend(re.findall(rb"PUB \$SYS\.REQ\.USER\.INFO (\S+) ", data))
        return data

    def down(data: bytes) -> bytes:
        if asked and data.startswith(b"MSG "):
            inbox = asked.pop()
            sid = sids.get(inbox) or sids[inbox.rpartition(b".")[0] + b".*"]
            data = b"MSG %s %s %d\r\n%s\r\n" % (inbox, sid, len(other), other) + data
        return data

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, nats_server.url, up, down)

    async with serving(carry) as port:
        client = await connect(Connection(servers=(f"nats://127.0.0.1:{port}",)))
        assert client.link.account == "$G"
        assert not asked
        await client.close()


@pytest.mark.parametrize(
    ("error", "kept_account"),
    [
        (RequestTimedOut("$SYS.REQ.USER.INFO", 2.0), "$G"),
        (PermissionDenied("$SYS.REQ.USER.INFO"), None),
    ],
)
async def test_the_account_is_kept_while_no_reply_about_the_user_comes(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch, error: NatstuiError,
    kept_account: str | None,
) -> None:  # fmt: skip
    errors, waiting = [error], asyncio.Event()
    client = await connect(Connection(servers=(nats_server.url,)))
    read_user = client._user_info

    async def fail_at_first(timeout_s: float | None) -> UserInfo:
        if errors:
            raise errors.pop()
        waiting.set()
        return await read_user(timeout_s)

    monkeypatch.setattr(client, "_user_info", fail_at_first)
    monkeypatch.setattr(link, "_IDENTITY_RETRY_S", 0.0)
    await client._link._report_identity()
    assert client.link.account == kept_account
    if kept_account is not None:
        async with asyncio.timeout(60):
            await waiting.wait()
    await client.close()


async def test_a_ping_follows_all_that_was_sent_before_it(nats_server: Broker) -> None:
    sent = bytearray()

    def up(data: bytes) -> bytes:
        sent.extend(data)
        return data

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, nats_server.url, up)

    async def nothing(_msg: Msg) -> None: ...

    async with serving(carry) as port:
        client = await connect(Connection(servers=(f"nats://127.0.0.1:{port}",)))
        for number in range(20):
            await client.subscribe(f"sub.{number}", nothing)
            await client.publish(f"pub.{number}", b"x")
            await (await client.nc.ping())
            before = bytes(sent[: sent.rindex(b"PING\r\n")])
            assert f"SUB sub.{number} ".encode() in before
            assert f"PUB pub.{number} ".encode() in before
        await client.close()


async def test_a_missing_stream_is_not_found(nats_server: Broker) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    with pytest.raises(NotFound, match=r"STREAM\.INFO\.X: stream not found"):
        await client.request("STREAM.INFO.X")
    await client.close()


async def test_a_request_in_an_outage_fails_at_once_and_works_after_it(
    nats_server: Broker,
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    nats_server.stop()
    while client.nc.is_connected:
        await asyncio.sleep(0.01)
    with pytest.raises(ConnectionLost, match="not connected"):
        await client.request("INFO")
    nats_server.start()
    async with asyncio.timeout(60):
        while not client.nc.is_connected:
            await asyncio.sleep(0.05)
    assert await client.request("INFO")
    await client.close()
