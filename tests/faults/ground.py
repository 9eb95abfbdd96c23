"""What faults are made of: raw requests, and clients that behave badly on purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, field
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg


class Ground:
    """One connection that makes faults and mends them."""

    def __init__(self, nc: Nats) -> None:
        self.nc = nc
        self.js = nc.jetstream()
        self._tasks: list[asyncio.Future[None]] = []
        self._ended: dict[str, asyncio.Event] = {}

    async def api(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the JetStream API; fail on an error."""
        data = b"" if body is None else json.dumps(body).encode()
        reply = await self.nc.request(f"$JS.API.{verb}", data, timeout=10)
        answer: dict[str, Any] = json.loads(reply.data)
        assert "error" not in answer, (verb, answer["error"])
        return answer

    async def stream(self, name: str, **config: Any) -> None:
        """Make a stream of subject `name.>`."""
        whole = {"name": name, "subjects": [f"{name}.>"], "storage": "memory"} | config
        await self.api(f"STREAM.CREATE.{name}", whole)

    async def consumer(self, stream: str, name: str = "C", **config: Any) -> None:
        """Make or change a durable consumer that acknowledges each message."""
        whole = {"durable_name": name, "ack_policy": "explicit"} | config
        body = {"stream_name": stream, "config": whole}
        await self.api(f"CONSUMER.CREATE.{stream}.{name}", body)

    async def publish(self, stream: str, count: int = 1, size: int = 1, last: str = "a") -> None:
        """Publish messages and wait until they are stored."""
        for start in range(0, count, 200):
            some = range(start, min(count, start + 200))
            await asyncio.gather(*(self.js.publish(f"{stream}.{last}", b"x" * size) for _ in some))

    async def fetch(self, stream: str, count: int, timeout: float = 2.0) -> list[Msg]:
        """Pull messages; none when none comes."""
        pull = await self.js.pull_subscribe_bind("C", stream)
        try:
            return await pull.fetch(count, timeout=timeout)
        except TimeoutError:
            return []
        finally:
            await pull.unsubscribe()

    def work(
        self,
        stream: str,
        handle: Callable[[Msg], Awaitable[Any]],
        count: int = 10,
        wait_s: float = 0.0,
    ) -> None:
        """Start the worker of a stream in place of the one before."""

        async def once() -> None:
            for message in await self.fetch(stream, count, timeout=1.0):
                await handle(message)
            await asyncio.sleep(wait_s or 0.02)

        self.repeat(stream, once)

    def acknowledge(self, stream: str) -> None:
        """Let a good worker take everything."""
        self.work(stream, lambda message: message.ack(), 100)

    async def settled(self, stream: str) -> None:
        """Wait until everything was delivered and acknowledged."""
        for _ in range(600):
            info = await self.api(f"CONSUMER.INFO.{stream}.C")
            if info["num_pending"] == info["num_ack_pending"] == 0:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{stream} is not settled: {info}")

    def repeat(self, name: str, once: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again, in place of what was done under this name."""
        self.stop(name)
        ended = self._ended[name] = asyncio.Event()

        async def forever() -> None:
            # A fetch of nats-py takes no notice of being cancelled.
            while not ended.is_set():
                await once()

        self._tasks.append(asyncio.ensure_future(forever()))

    def stop(self, name: str) -> None:
        """End what is done under a name, after its present round."""
        if name in self._ended:
            self._ended.pop(name).set()

    async def close(self) -> None:
        """End everything."""
        for name in list(self._ended):
            self.stop(name)
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.nc.close()
        failed = [one for one in results if isinstance(one, Exception)]
        assert not failed, failed


Act = Callable[[Ground], Awaitable[Any] | None]


async def done(result: Awaitable[Any] | None) -> None:
    """Wait for an act that has to be waited for."""
    if result is not None:
        await result


class Fault(Struct, frozen=True):
    """One fault: how it is prepared, made and mended, and what is to be found of it."""

    name: str
    """Of the test, and of its stream."""
    code: str
    break_it: Act
    mend: Act
    prepare: Act | None = None
    consumer: str | None = "C"
    """None where the stream itself is at fault."""
    after_s: float = 0.0
    """How long it must last before it can be told from what is normal."""
    since_s: float = 0.0
    """How long after it was made its condition begins."""
    leaves_s: float = 0.0
    """How long it is told of after it was mended."""
    sequences: tuple[int, ...] = field(default=())
    """The messages it is about."""
    number: tuple[str, float] | None = None
    """A number of its evidence."""
