"""WebSockets: frames of any size in pieces of any size, and why there is none."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui.config.connection import Connection
from natstui.config.servers import parse_server
from natstui.errors import ConnectionFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.sockets.websocket import Frames, NotAWebSocket, frame
from natstui.jetstream.testbed.broker import Broker

BINARY, PING = 2, 9
LENGTHS = {126: ">H", 127: ">Q"}


def from_server(opcode: int, content: bytes) -> bytes:
    """A frame as servers send it: not masked."""
    size = len(content)
    if size <= 125:
        return bytes((0x80 | opcode, size)) + content
    mark = 126 if size < 1 << 16 else 127
    return bytes((0x80 | opcode, mark)) + struct.pack(LENGTHS[mark], size) + content


def unmasked(data: bytes) -> bytes:
    """The content of one frame of a client, read by the letter of the RFC."""
    size, at = data[1] & 0x7F, 2
    assert data[1] & 0x80
    if size in LENGTHS:
        (size,) = struct.unpack_from(LENGTHS[size], data, at)
        at += struct.calcsize(LENGTHS[data[1] & 0x7F])
    mask, content = data[at : at + 4], data[at + 4 :]
    assert len(content) == size
    return bytes(byte ^ mask[i % 4] for i, byte in enumerate(content))


@given(st.lists(st.binary(max_size=300), max_size=6), st.lists(st.integers(1, 400), max_size=20))
def test_contents_come_whole_however_they_are_cut(contents: list[bytes], cuts: list[int]) -> None:
    stream, frames, found = b"", Frames(), b""
    for content in contents:
        stream += from_server(BINARY, content) + from_server(PING, b"alive")
    pings, at = 0, 0
    for cut in [*cuts, len(stream) + 1]:
        for opcode, content in frames.feed(stream[at : at + cut]):
            if opcode == PING:
                assert content == b"alive"
                pings += 1
            else:
                found += content
        at += cut
    assert (found, pings) == (b"".join(contents), len(contents))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 100_001])
def test_what_a_client_sends_is_masked_and_comes_back(size: int) -> None:
    content = bytes(i % 251 for i in range(size))
    assert unmasked(frame(BINARY, content)) == content


@pytest.mark.parametrize("data", [b"\xf2\x00", b"\x83\x00", b"\x82\x81abcd"])
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(NotAWebSocket):
        list(Frames().feed(data))


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
