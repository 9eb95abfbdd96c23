"""Listening on a port during a test, and wires to a server through it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.ending import ended

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Change = Callable[[bytes], bytes]
"""What becomes of a piece of the wire; nothing is passed on of one that becomes empty."""


@asynccontextmanager
async def serving(handle: Handler, port: int = 0) -> AsyncIterator[int]:
    """Yield the port; at the end every handler is cancelled and every connection closed."""
    handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
    is_over = False

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await handle(reader, writer)
        writer.close()

    def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_over:
            # Who reconnects may be accepted when the end has begun.
            writer.transport.abort()
            return
        handlers[asyncio.create_task(run(reader, writer))] = writer

    server = await asyncio.start_server(join, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        is_over = True
        server.close()
        # What was accepted before comes here in the next turns of the loop.
        await asyncio.sleep(0)
        await ended(*handlers)
        for writer in handlers.values():
            writer.transport.abort()
        # A transport closes its socket in the next turn of the loop.
        await asyncio.sleep(0)
    for handler in handlers:
        if not handler.cancelled():
            handler.result()


async def relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    url: str,
    up: Change = bytes,
    down: Change = bytes,
) -> None:
    """Pass on what a client and the server at `url` send, until one of them closes."""
    place = urlsplit(url)
    from_server, to_server = await asyncio.open_connection(place.hostname, place.port)
    ways = [
        asyncio.create_task(_pass_on(reader, to_server, up)),
        asyncio.create_task(_pass_on(from_server, writer, down)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        to_server.transport.abort()
        await ended(*ways)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Change
) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            writer.write(change(data))
            await writer.drain()
