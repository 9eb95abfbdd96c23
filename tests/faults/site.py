"""What a situation does on a server: raw requests, and clients that behave well or badly."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

Handle = Callable[[Msg], Awaitable[Any]]
NS = 1_000_000_000
API_TIMEOUT_S = 10.0
_HEARTBEAT = "100"
_ACTIVE_NS = 5 * NS
"""A mirror of a stream that is published to was active in this time."""


async def ack(message: Msg) -> None:
    await message.ack()


async def keep(message: Msg) -> None:
    """Receive a message and do nothing with it."""


def _why_away(info: dict[str, Any], listed: dict[str, Any]) -> str:
    """Return what does not run of a stream and its consumers, by the server's replies."""
    if "error" in info or "error" in listed or listed.get("missing"):
        return "no reply"
    for asset in (info, *(listed["consumers"] or ())):
        cluster = asset.get("cluster") or {}
        replicas = cluster.get("replicas") or ()
        if cluster and not cluster.get("leader"):
            return "no leader"
        if any(each.get("offline") or not each["current"] for each in replicas):
            return "a replica is away"
    mirror = info.get("mirror")
    if mirror and (mirror["active"] < 0 or mirror["active"] > _ACTIVE_NS or mirror["lag"]):
        return "the mirror is not active"
    return ""


class _Way(Struct, frozen=True):
    """How a worker works."""

    handle: Handle
    pause_s: float
    pull: dict[str, Any]


class Site:
    """A stream, its consumers and their clients, all named after one situation."""

    def __init__(self, key: str, client: Nats, connect: Callable[..., Awaitable[Nats]]) -> None:
        """`connect` opens a further connection of the same account."""
        self.stream = key.upper().replace("-", "_")
        self.client = client
        self.connect = connect
        self.kept: list[Msg] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, asyncio.Event] = {}
        self._ways: dict[str, _Way] = {}

    async def api(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the reply of the JetStream API; fail on an error."""
        reply = await self.try_api(verb, body)
        assert "error" not in reply, (verb, reply["error"])
        return reply

    async def try_api(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the reply of the JetStream API, which may be an error."""
        data = b"" if body is None else json.dumps(body).encode()
        reply = await self.client.request(f"$JS.API.{verb}", data, timeout=API_TIMEOUT_S)
        return dict(json.loads(reply.data))

    async def add_stream(self, name: str | None = None, **config: Any) -> None:
        """Create a stream of subject `name.>`."""
        name = name or self.stream
        complete = {"name": name, "subjects": [f"{name}.>"], "storage": "memory"} | config
        if "mirror" in config or "sources" in config:
            complete["subjects"] = config.get("subjects", [])
        await self.api(f"STREAM.CREATE.{name}", complete)

    async def update_stream(self, **changes: Any) -> None:
        info = await self.api(f"STREAM.INFO.{self.stream}")
        await self.api(f"STREAM.UPDATE.{self.stream}", info["config"] | changes)

    async def delete_stream(self, name: str | None = None) -> None:
        await self.api(f"STREAM.DELETE.{name or self.stream}")

    async def purge(self) -> None:
        await self.api(f"STREAM.PURGE.{self.stream}")

    async def add_consumer(
        self, name: str = "C", stream: str | None = None, **config: Any
    ) -> None:
        """Create or change a durable consumer that acks each message."""
        stream = stream or self.stream
        complete = {"durable_name": name, "ack_policy": "explicit"} | config
        body = {"stream_name": stream, "config": complete}
        await self.api(f"CONSUMER.CREATE.{stream}.{name}", body)

    async def delete_consumer(self, name: str = "C") -> None:
        await self.api(f"CONSUMER.DELETE.{self.stream}.{name}")

    async def info(self, consumer: str = "C") -> dict[str, Any]:
        return await self.api(f"CONSUMER.INFO.{self.stream}.{consumer}")

    async def publish(
        self,
        count: int = 1,
        subject: str = "a",
        *,
        stream: str | None = None,
        size_bytes: int = 10,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Publish messages; wait until they are stored, or fail."""
        complete = f"{stream or self.stream}.{subject}"
        for start in range(0, count, 200):
            some = range(start, min(count, start + 200))
            replies = await asyncio.gather(
                *(
                    self.client.request(
                        complete, b"x" * size_bytes, timeout=API_TIMEOUT_S, headers=headers
                    )
                    for _ in some
                )
            )
            refused = [reply.data for reply in replies if b'"error"' in reply.data]
            assert not refused, refused[0]

    async def send(self, subject: str = "a", size_bytes: int = 10, **more: Any) -> None:
        """Publish a message and do not mind whether it is stored."""
        await self.client.publish(f"{self.stream}.{subject}", b"x" * size_bytes, **more)

    def publishing(
        self, per_s: float, subject: str = "a", *, name: str = "publisher", size_bytes: int = 10,
        headers: dict[str, str] | None = None, stream: str | None = None,
    ) -> None:  # fmt: skip
        """Publish at a steady rate from now on; whether it is stored does not matter."""
        complete = f"{stream or self.stream}.{subject}"
        payload, began_s, sent = b"x" * size_bytes, time.monotonic(), 0

        async def once() -> None:
            nonlocal sent
            due = int((time.monotonic() - began_s) * per_s)
            # A machine that was away for a while makes no burst of it.
            sent = max(sent, due - max(1, int(per_s)))
            while sent < due:
                sent += 1
                await self.client.publish(complete, payload, headers=headers)
            await asyncio.sleep(min(1.0, 1 / per_s) if per_s < 50 else 0.02)

        self.repeat(name, once)

    async def pull(
        self, consumer: str = "C", *, batch: int = 10, expires_s: float = 2.0,
        client: Nats | None = None, handle: Handle | None = None, stream: str | None = None,
        **more: Any,
    ) -> list[Msg]:  # fmt: skip
        """Send one pull request; return what it brings, the status that ended it last."""
        client = client or self.client
        inbox = client.new_inbox()
        pulled: list[Msg] = []
        subscription = await client.subscribe(inbox)
        request = {"batch": batch, "expires": int(expires_s * NS)} | more
        if request["expires"] == 0:
            request = {"batch": batch, "no_wait": True} | more
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream or self.stream}.{consumer}"
        try:
            await client.publish(subject, json.dumps(request).encode(), reply=inbox)
            await self._collect(subscription, pulled, batch, expires_s + 1, handle)
        finally:
            if not client.is_closed:
                await subscription.unsubscribe()
        return pulled

    async def _collect(
        self,
        subscription: Subscription,
        pulled: list[Msg],
        batch: int,
        wait_s: float,
        handle: Handle | None,
    ) -> None:
        """Add what comes until a status ends the request, or nothing came for a while."""
        while len(pulled) < batch:
            try:
                message = await subscription.next_msg(timeout=wait_s)
            except TimeoutError:
                return
            status = (message.headers or {}).get("Status")
            if status == _HEARTBEAT:
                continue
            pulled.append(message)
            if status:
                return
            if handle is not None:
                await handle(message)

    def work(
        self, handle: Handle = ack, *, consumer: str = "C", name: str | None = None,
        pause_s: float = 0.0, **pull: Any,
    ) -> None:  # fmt: skip
        """Let a worker pull and handle messages like this from now on.

        One that is at work goes on with its pull: its end would lose what is under way to it.
        """
        label = name or f"worker of {consumer}"
        self._ways[label] = _Way(handle, pause_s, pull)

        async def handle_now(message: Msg) -> None:
            await self._ways[label].handle(message)

        async def once() -> None:
            way = self._ways[label]
            pulled = await self.pull(consumer, handle=handle_now, **way.pull)
            refused = pulled and (pulled[-1].headers or {}).get("Status", "404") not in "404 408"
            await asyncio.sleep(max(way.pause_s, 0.5 if refused else 0.0))

        if label not in self._ended:
            self.repeat(label, once)

    def work_apart(self, seconds: Callable[[Msg], float], **options: Any) -> None:
        """Let a worker handle each message by itself for a number of seconds, then ack it."""
        number = 0

        async def finish(message: Msg) -> None:
            await asyncio.sleep(seconds(message))
            await message.ack()

        async def handle(message: Msg) -> None:
            nonlocal number
            number += 1
            self.start(f"handler {number}", finish(message))

        self.work(handle, **options)

    async def keep_some(self, count: int, consumer: str = "C") -> None:
        """Receive messages as a client that dies before their ack; they stay in `kept`.

        Some may go to the pull of the worker before it, which the server does not miss yet.
        """
        pulled = await self.pull(consumer, batch=count, expires_s=3)
        messages = [each for each in pulled if each.reply.startswith("$JS.ACK")]
        assert messages, [each.headers for each in pulled]
        self.kept += messages

    async def ack_kept(self) -> None:
        for message in self.kept:
            await message.ack()
        self.kept.clear()

    async def subscribe(
        self, subject: str, handle: Handle = ack, queue: str = "", client: Nats | None = None
    ) -> Subscription:
        """Subscribe to the deliver subject of a push consumer and handle what comes."""

        async def received(message: Msg) -> None:
            if message.reply.startswith("$JS.ACK"):
                await handle(message)

        return await (client or self.client).subscribe(subject, queue=queue, cb=received)

    async def until_worked_off(self, consumer: str = "C") -> None:
        """Wait until everything was delivered and acked."""
        async with asyncio.timeout(60):
            while True:
                info = await self.info(consumer)
                if info["num_pending"] == info["num_ack_pending"] == 0:
                    return
                await asyncio.sleep(0.1)

    async def until_no_pull(self, consumer: str = "C") -> None:
        """Wait until the pull of a stopped worker is over: it would receive what comes next."""
        async with asyncio.timeout(30):
            while (await self.info(consumer))["num_waiting"]:
                await asyncio.sleep(0.1)

    async def runs(self, stream: str | None = None) -> None:
        """Wait until the server says that the stream, its consumers and its mirror run.

        A node that was started is back before it knows its streams and the others know it.
        """
        stream = stream or self.stream
        until_s, why = time.monotonic() + 90, "no reply"
        while why:
            assert time.monotonic() < until_s, (stream, why)
            await asyncio.sleep(0.2)
            try:
                info = await self.try_api(f"STREAM.INFO.{stream}")
                why = _why_away(info, await self.try_api(f"CONSUMER.LIST.{stream}"))
            except (TimeoutError, Error):
                why = "no reply"

    def repeat(self, name: str, once: Callable[[], Awaitable[Any]]) -> None:
        """Do something again and again, in place of what was done under this name."""

        # A wait of the client library can lose a cancellation under Python 3.11.
        ended = asyncio.Event()

        async def forever() -> None:
            while not ended.is_set():
                try:
                    await once()
                except (TimeoutError, Error, OSError):
                    # Its server is down or hangs, on purpose.
                    await asyncio.sleep(0.5)

        self.start(name, forever())
        self._ended[name] = ended

    def start(self, name: str, work: Any) -> None:
        """Run a coroutine beside, in place of what runs under this name."""
        self.stop(name)
        self._tasks = {each: task for each, task in self._tasks.items() if not task.done()}
        self._tasks[name] = asyncio.create_task(work)

    def stop(self, name: str = "worker of C") -> None:
        """End what is done under a name, if anything is."""
        if name in self._ended:
            self._ended.pop(name).set()
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    async def end(self, name: str = "worker of C") -> None:
        """End what is repeated under a name after its present round: nothing is under way."""
        self._ended.pop(name).set()
        await self._tasks.pop(name)

    async def close(self) -> None:
        """End everything that is done here; fail when something of it failed."""
        tasks = list(self._tasks.values())
        for name in list(self._tasks):
            self.stop(name)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [each for each in results if isinstance(each, Exception)]
        assert not failed, failed
