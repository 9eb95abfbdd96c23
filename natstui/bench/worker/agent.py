"""`natstui bench worker --join URL`: starts workers on this machine for whoever asks over NATS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence

import msgspec
from nats.aio.msg import Msg

from natstui import __version__
from natstui.bench.job import protocol
from natstui.bench.job.joining import (
    ALIVE,
    ALIVE_EVERY_S,
    GONE_AFTER_S,
    WHO,
    About,
    Lines,
    Start,
    Started,
    ended,
    pieces,
    subject_of,
)
from natstui.children import own_program
from natstui.config.connection import Connection
from natstui.decoding import decoder_of
from natstui.errors import NatstuiError
from natstui.jetstream.connection.client import Client, connect
from natstui.model.bench.plan import BENCHMARK_STREAM

_LINE_BYTES = 1 << 28
_END_S = 20.0
"""How long a worker may take for its last word when the controller is gone."""
_CLEANUP_S = 3.0


class Agent:
    """A machine that joined: it answers who it is and what time it has, and starts workers."""

    def __init__(
        self, connection: Connection, tell: Callable[[str], None], skew_ns: int = 0
    ) -> None:
        """`skew_ns` makes the clock of this machine wrong on purpose, for tests."""
        self.about = About(
            agent=secrets.token_hex(4), host=socket.gethostname(), version=__version__
        )
        self._connection = connection
        self._tell = tell
        self._skew_ns = skew_ns
        self._workers: set[asyncio.Task[None]] = set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until it is told to stop; workers that still run end then."""
        client = await connect(self._connection)

        async def who(message: Msg) -> None:
            await message.respond(msgspec.json.encode(self.about))

        async def clock(message: Msg) -> None:
            await message.respond(b"%d" % (time.monotonic_ns() + self._skew_ns))

        async def start(message: Msg) -> None:
            await message.respond(msgspec.json.encode(await self._start(client, message.data)))

        try:
            await client.subscribe(WHO, who)
            await client.subscribe(subject_of(self.about.agent, "CLOCK"), clock)
            await client.subscribe(subject_of(self.about.agent, "START"), start)
            await client.nc.flush()
            self._tell(f"joined {self._connection.target} as {self.about.agent}")
            await stopping.wait()
        finally:
            for task in self._workers:
                task.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
            await client.close()

    async def _start(self, client: Client, data: bytes) -> Started:
        try:
            start = decoder_of(Start).decode(data)
        except msgspec.DecodeError as error:
            return Started(refused=f"{self.about.host} does not understand the orders: {error}")
        orders = start.orders
        if orders.role.payload.kind == "file":
            return Started(refused="the payload file is on another machine than the worker")
        line = protocol.encode(
            msgspec.structs.replace(orders, connection=self._connection.to_line(), cleanup=())
        )
        worker = _Worker(client, start)
        try:
            pid = await worker.begin(line, self._skew_ns)
        except (OSError, NatstuiError) as error:
            return Started(refused=f"no worker can be started on {self.about.host}: {error}")
        self._tell(f"worker {orders.role.name}/{orders.worker_id} of run {orders.run_id} begins")
        task = asyncio.create_task(worker.live())
        self._workers.add(task)
        task.add_done_callback(self._workers.discard)
        return Started(pid=pid)


def _program(skew_ns: int) -> list[str]:
    if skew_ns:
        return own_program("natstui.bench.worker.skewed", str(skew_ns))
    return own_program("natstui.bench.worker.process")


async def remove_own(client: Client, verbs: Sequence[str], run_id: str) -> None:
    """Delete what was made for a run; whoever asks us gets nothing else deleted in our name."""
    for verb in verbs:
        # Another machine may have been faster.
        with contextlib.suppress(NatstuiError):
            if await _is_own(client, verb, run_id):
                await client.request(verb, timeout_s=_CLEANUP_S)


async def _is_own(client: Client, verb: str, run_id: str) -> bool:
    kind, _, names = verb.partition(".DELETE.")
    if kind == "CONSUMER":
        return names.rpartition(".")[2].startswith(f"natstui-{run_id}-")
    if kind != "STREAM":
        return False
    info = json.loads(await client.request(f"STREAM.INFO.{names}", timeout_s=_CLEANUP_S))
    made: bool = info["config"].get("description") == BENCHMARK_STREAM
    return made


class _Worker:
    """One worker process of this machine, and its way to the controller."""

    def __init__(self, client: Client, start: Start) -> None:
        self._client, self._about = client, start
        self._lines = Lines()
        self._heard_s = time.monotonic()
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self, orders: bytes, skew_ns: int) -> int:
        """Start the process; return its id."""
        self._down = await self._client.subscribe(self._about.down, self._hear)
        self._process = await asyncio.create_subprocess_exec(
            *_program(skew_ns),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(orders)
        return self._process.pid

    async def live(self) -> None:
        """Hand its lines on until it ends, or until the controller has been silent for long."""
        process = self._process
        assert process is not None
        keeping = asyncio.create_task(self._keep())
        try:
            text = await self._hand_on(process)
            with contextlib.suppress(NatstuiError):
                await self._client.publish(self._about.up, ended(text))
                await self._client.nc.flush()
        finally:
            keeping.cancel()
            if process.returncode is None:
                process.kill()
            await process.wait()
            await self._down.unsubscribe()

    async def _hand_on(self, process: asyncio.subprocess.Process) -> str:
        assert process.stdout is not None
        assert process.stderr is not None
        complaints = asyncio.create_task(process.stderr.read())
        while line := await process.stdout.readline():
            # Without a link lines are lost, and the controller takes the worker for gone.
            with contextlib.suppress(NatstuiError):
                for piece in pieces(line):
                    await self._client.publish(self._about.up, piece)
        text = (await complaints).decode("utf-8", "replace").strip()
        await process.wait()
        return text.splitlines()[-1] if text else f"exit code {process.returncode}"

    async def _hear(self, message: Msg) -> None:
        self._heard_s = time.monotonic()
        line = self._lines.take(message.data)
        process = self._process
        if line is None or process is None or process.stdin is None:
            return
        if not process.stdin.is_closing():
            process.stdin.write(line)

    async def _keep(self) -> None:
        """Say that we are there, and notice when the controller is not."""
        process = self._process
        assert process is not None
        while time.monotonic() - self._heard_s < GONE_AFTER_S:
            with contextlib.suppress(NatstuiError):
                await self._client.publish(self._about.up, ALIVE)
            await asyncio.sleep(ALIVE_EVERY_S)
        if process.stdin is not None:
            process.stdin.close()
        await remove_own(self._client, self._about.cleanup, self._about.orders.run_id)
        await asyncio.sleep(_END_S)
        if process.returncode is None:
            os.kill(process.pid, 9)
