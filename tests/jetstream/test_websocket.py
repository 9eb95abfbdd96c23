"""Bytes through a WebSocket come as they were sent, and what is no WebSocket is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlparse

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.utils import accept_key

from natstui.config.connection import Connection
from natstui.config.servers import parse_server
from natstui.errors import ConnectionFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.websocket import WebSocket, WebSocketProtocolError
from natstui.jetstream.testbed.broker import Broker


async def echo(connection: ServerConnection) -> None:
    """Send every message back, in two frames."""
    async for message in connection:
        assert isinstance(message, bytes)
        await connection.send([message[:7], message[7:]])


async def open_websocket(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a WebSocket to a port of this machine, as the transport of NATS does."""
    under, _ = await asyncio.get_running_loop().create_connection(
        asyncio.Protocol, "127.0.0.1", port
    )
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    websocket = WebSocket(under, protocol, urlparse(f"ws://127.0.0.1:{port}/nats"))
    await websocket.open()
    return reader, asyncio.StreamWriter(websocket, protocol, reader, asyncio.get_running_loop())


async def test_bytes_come_back_as_they_were_sent_and_the_end_is_the_end() -> None:
    contents = [bytes(i % 251 for i in range(size)) for size in (1, 125, 126, 65_535, 100_001)]
    async with asyncio.timeout(30), serve(echo, "127.0.0.1", 0, max_size=None) as server:
        reader, writer = await open_websocket(server.sockets[0].getsockname()[1])
        for content in contents:
            writer.write(content)
        for content in contents:
            assert await reader.readexactly(len(content)) == content
        writer.close()
        writer.write(b"nobody reads this")
        await writer.wait_closed()
        assert await reader.read() == b""


@asynccontextmanager
async def replying(reply: Callable[[str], bytes]) -> AsyncIterator[int]:
    """Yield the port of a server that replies to the handshake with what `reply` returns."""

    closed = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = head.partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
        writer.write(reply(key))
        # The client resets the connection where it refuses what was said.
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        closed.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await closed.wait()


def agree(key: str, then: bytes = b"") -> bytes:
    """Return the reply of a server that agrees, and bytes behind it."""
    fields = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {key}\r\n\r\n"
    return f"HTTP/1.1 101 Switching Protocols\r\n{fields}".encode() + then


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (lambda _: b"INFO {}\r\n", "is this its nats:// port"),
        (lambda _: b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "403 Forbidden"),
        (lambda _: agree("another key"), "Sec-WebSocket-Accept"),
    ],
)
async def test_a_refused_handshake_says_why(reply: Callable[[str], bytes], reason: str) -> None:
    async with asyncio.timeout(30), replying(reply) as port:
        with pytest.raises(WebSocketProtocolError, match=reason):
            await open_websocket(port)


@pytest.mark.parametrize("data", [b"\xf2\x00", b"\x83\x00", b"\x82\x81abcd"])
async def test_bytes_that_are_no_frame_end_the_connection(data: bytes) -> None:
    frames = b"\x82\x04good" + data
    async with asyncio.timeout(30), replying(lambda key: agree(accept_key(key), frames)) as port:
        reader, writer = await open_websocket(port)
        assert await reader.readexactly(4) == b"good"
        with pytest.raises(WebSocketProtocolError, match="broke the WebSocket protocol"):
            await reader.read()
        writer.close()
        with suppress(WebSocketProtocolError):
            await writer.wait_closed()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("ws://a", "ws://a:80"),
        ("wss://a", "wss://a:443"),
        ("wss://a:8443/nats/", "wss://a:8443/nats"),
    ],
)
def test_an_address_may_be_a_websocket(text: str, url: str) -> None:
    assert parse_server(text).url == url


@pytest.mark.server
async def test_a_port_without_websockets_is_told(nats_server: Broker) -> None:
    url = nats_server.url.replace("nats://", "ws://")
    with pytest.raises(ConnectionFailed, match="it speaks NATS without WebSocket: use nats://"):
        await connect(Connection(servers=(url,)))


@pytest.mark.server
async def test_a_lost_websocket_comes_back(
    nats_server_factory: Callable[..., Broker], held_port: int
) -> None:
    broker = nats_server_factory(f'websocket {{ listen: "127.0.0.1:{held_port}", no_tls: true }}')
    client = await connect(Connection(servers=(f"ws://127.0.0.1:{held_port}",)))
    broker.restart()
    async with asyncio.timeout(60):
        while not client.nc.is_connected or client.nc.attempts_count < 2:
            await asyncio.sleep(0.05)
    assert json.loads(await client.request("INFO"))["streams"] == 0
    await client.close()
