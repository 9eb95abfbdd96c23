"""A slow wire to a server: so many bytes a second, so late, and now and then none at all."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from msgspec import Struct

from tests.accounts import through
from tests.ending import ended
from tests.serving import serving

_CHUNK_BYTES = 1400
_LOOK_S = 0.1


class Wire(Struct, frozen=True):
    """What a wire does: in each direction."""

    bytes_per_s: int
    latency_s: float
    stall_share: float = 0.01
    """The chance of a stall in every tenth of a second."""
    stall_s: float = 1.0


class SlowLink:
    """Carries every connection to one server over one wire, and keeps account of it."""

    def __init__(self, server_url: str, wire: Wire, seed: int = 0) -> None:
        self._place = urlsplit(server_url)
        self.wire = wire
        self.joined_count = 0
        """Connections made through it: each reconnect is another one."""
        self.carried_bytes = 0
        """Delivered to clients so far."""
        self.stalled_s = 0.0
        self._random = random.Random(seed)
        self._clear = asyncio.Event()
        self._clear.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Listen; yield the address."""
        stalling = asyncio.create_task(self._stall())
        try:
            async with serving(self._join) as port:
                yield through(port, self._place.geturl())
        finally:
            await ended(stalling, *self._tasks)

    def cut(self) -> None:
        """Cut every connection; the next one is carried as before."""
        for task in self._tasks:
            task.cancel()

    async def _stall(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._random.random() < self.wire.stall_share:
                self._clear.clear()
                await asyncio.sleep(self.wire.stall_s)
                self.stalled_s += self.wire.stall_s
                self._clear.set()

    async def _join(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self.joined_count += 1
        # A small buffer: what waits for the wire waits in the server, as on a real one.
        there_socket = socket.socket()
        there_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        there_socket.setblocking(False)
        place = (self._place.hostname or "", self._place.port or 0)
        await asyncio.get_running_loop().sock_connect(there_socket, place)
        there, on = await asyncio.open_connection(sock=there_socket, limit=2048)
        ways = [
            asyncio.create_task(self._carry(here, on, down=False)),
            asyncio.create_task(self._carry(there, back, down=True)),
        ]
        self._tasks.update(ways)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for writer in (on, back):
                writer.transport.abort()
            await ended(*ways)
            self._tasks.difference_update(ways)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool
    ) -> None:
        """Carry bytes one way: each chunk takes its time on the wire, then its latency."""
        loop = asyncio.get_running_loop()
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(self._deliver(on_the_way, writer, down=down))
        self._tasks.add(delivering)
        free_at_s = loop.time()
        try:
            while data := await reader.read(_CHUNK_BYTES):
                free_at_s = max(free_at_s, loop.time()) + len(data) / self.wire.bytes_per_s
                await asyncio.sleep(free_at_s - loop.time())
                await self._clear.wait()
                on_the_way.put_nowait((loop.time() + self.wire.latency_s, data))
        finally:
            delivering.cancel()
            self._tasks.discard(delivering)

    async def _deliver(
        self,
        on_the_way: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        *,
        down: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            at_s, data = await on_the_way.get()
            await asyncio.sleep(at_s - loop.time())
            writer.write(data)
            if down:
                self.carried_bytes += len(data)
            await writer.drain()
