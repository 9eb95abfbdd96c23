"""Servers whose greeting cannot be used: each is refused with a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from natstui.config import Connection
from natstui.errors import ConnectionFailed
from natstui.jetstream.connection.client import connect


@asynccontextmanager
async def greeting(words: bytes) -> AsyncIterator[str]:
    """Yield the address of a server that says this to everybody, and listens."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(join, "127.0.0.1", 0) as server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"


_USELESS = {
    "no end": b"INFO " + b"x" * 200_000,
    "too long": b'INFO {"server_id":"' + b"x" * 200_000 + b'"}\r\n',
    "a list": b"INFO [1]\r\n",
    "no JSON": b"INFO {\r\n",
    "deep": b'INFO {"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}\r\n",
    "a size that is a text": b'INFO {"max_payload":"x"}\r\n',
    "a version that is a number": b'INFO {"version":7}\r\n',
    "addresses that are numbers": b'INFO {"connect_urls":[7]}\r\n',
    "a flag that is a text": b'INFO {"auth_required":"yes"}\r\n',
}


@pytest.mark.parametrize("kind", _USELESS)
async def test_a_greeting_that_cannot_be_used_is_refused(kind: str) -> None:
    is_long = kind in ("no end", "too long")
    reason = "a line without an end" if is_long else "what it says is not understood"
    words = f"does not greet as a NATS server does .*{reason}"
    if kind == "deep":
        # Newer Pythons read it, and then it is a server that says nothing more.
        words += "|does not reply"
    async with greeting(_USELESS[kind]) as url:
        with pytest.raises(ConnectionFailed, match=words):
            await connect(Connection(servers=(url,)))
