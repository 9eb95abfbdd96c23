"""Workers on other machines: found over NATS, their clocks compared, their lines carried."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import nats.errors
from nats.aio.msg import Msg

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
    new_subject,
    pieces,
    subject_of,
)
from natstui.bench.job.protocol import Done, Down, Go, Orders, Ready, Report, Up
from natstui.decoding import decoder_of
from natstui.errors import NatstuiError, NotFound, Refused, RequestTimedOut
from natstui.jetstream.connection.client import Client

_FIND_S = 10.0
_QUIET_S = 0.7
_CLOCK_TRIES = 24
_START_S = 15.0


@dataclass(slots=True)
class Machine:
    """A machine that joined, and what its clock is to ours."""

    about: About
    offset_ns: int = 0
    """Its clock less ours."""
    error_ns: int = 0
    """How far that may be from the truth."""

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"{self.about.host}/{self.about.agent}"

    def clock_text(self) -> str:
        """Return what its clock is to ours."""
        return f"{self.name} {self.offset_ns / 1e6:+.3f} ms ± {self.error_ns / 1e6:.3f} ms"


async def machines(client: Client, count: int) -> list[Machine]:
    """Return that many machines that joined, their clocks compared.

    Waits for them a while. Raises NotFound.
    """
    found: dict[str, Machine] = {}
    give_up = time.monotonic() + _FIND_S
    while len(found) < count and time.monotonic() < give_up:
        await _find(client, found)
    if len(found) < count:
        raise NotFound(
            f"{len(found)} of {count} machines joined within {_FIND_S:g} s:"
            " run natstui bench worker --join URL on each"
        )
    chosen = [found[name] for name in sorted(found)][:count]
    for one in chosen:
        one.offset_ns, one.error_ns = await _offset(client, one)
    return chosen


async def _find(client: Client, found: dict[str, Machine]) -> None:
    with contextlib.suppress(RequestTimedOut):
        async with contextlib.aclosing(
            client.answers(WHO, b"", timeout_s=_QUIET_S, quiet_s=_QUIET_S)
        ) as answers:
            async for one in answers:
                if one.data:
                    about = decoder_of(About).decode(one.data)
                    found.setdefault(about.agent, Machine(about))
                else:
                    # No responders: somebody may join in a moment.
                    await asyncio.sleep(_QUIET_S)
                    return


async def _offset(client: Client, machine: Machine) -> tuple[int, int]:
    """Return a clock less ours, and the error: half of the quickest round trip."""
    best = (1 << 62, 0)
    for _ in range(_CLOCK_TRIES):
        asked_ns = time.monotonic_ns()
        reply = await client.ask(subject_of(machine.about.agent, "CLOCK"))
        came_ns = time.monotonic_ns()
        _there(machine, reply)
        trip_ns = came_ns - asked_ns
        best = min(best, (trip_ns, int(reply.data) - (asked_ns + trip_ns // 2)))
    return best[1], best[0] // 2 + 1


def _there(machine: Machine, reply: Msg) -> None:
    """Raise NotFound when nobody answered: the server says so with a message without data."""
    if not reply.data:
        raise NotFound(f"{machine.name} is gone", code=503)


@dataclass(slots=True)
class Joined:
    """The machines of a run; workers are shared out among them in turns."""

    client: Client
    machines: list[Machine]
    cleanup: tuple[str, ...] = ()
    """What they remove when we are gone."""
    _next: int = 0

    async def start(self, orders: Orders) -> JoinedChannel:
        """Start a worker on the next machine. Raises Refused."""
        machine = self.machines[self._next % len(self.machines)]
        number, self._next = self._next, self._next + 1
        channel = JoinedChannel(self.client, machine, orders, number)
        await channel.begin(self.cleanup)
        return channel

    async def compare_again(self) -> None:
        """Compare the clocks once more: what they drifted apart is added to the error."""
        for one in self.machines:
            # A machine that vanished meanwhile is told by its workers.
            with contextlib.suppress(NatstuiError):
                offset_ns, error_ns = await _offset(self.client, one)
                drift_ns = abs(offset_ns - one.offset_ns)
                one.error_ns = max(one.error_ns, error_ns, drift_ns)

    def clock_text(self) -> str:
        """Return what the latencies between processes stand on."""
        offsets = ", ".join(one.clock_text() for one in self.machines)
        return f"CLOCK_MONOTONIC of each machine, compared over NATS: {offsets}"

    @property
    def error_ns(self) -> int:
        """How far a latency between two machines may be from the truth."""
        errors = sorted((one.error_ns for one in self.machines), reverse=True)
        return sum(errors[:2])


@dataclass(slots=True)
class JoinedChannel:
    """The way to a worker on another machine; its times are turned into ours."""

    client: Client
    machine: Machine
    orders: Orders
    number: int
    pid: int = 0
    _heard: asyncio.Queue[Up | None] = field(default_factory=asyncio.Queue)
    _lines: Lines = field(default_factory=Lines)
    _heard_s: float = 0.0
    _said: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _subscription: Any = None
    _over: str | None = None

    async def begin(self, cleanup: tuple[str, ...]) -> None:
        """Start the worker. Raises Refused."""
        run, about = self.orders.run_id, self.machine.about
        up, down = (new_subject(run, self.number, word) for word in ("UP", "DOWN"))
        self._subscription = await self.client.subscribe(up, self._hear)
        await self.client.nc.flush()
        orders = msgspec.structs.replace(
            self.orders, connection="", cleanup=(), clock_shift_ns=-self.machine.offset_ns
        )
        start = Start(orders=orders, up=up, down=down, cleanup=cleanup)
        reply = await self.client.ask(
            subject_of(about.agent, "START"), msgspec.json.encode(start), timeout_s=_START_S
        )
        _there(self.machine, reply)
        started = decoder_of(Started).decode(reply.data)
        if started.refused:
            raise Refused(f"{self.machine.name}: {started.refused}")
        self.pid, self._heard_s = started.pid, time.monotonic()
        self._tasks = [asyncio.create_task(self._speak(down)), asyncio.create_task(self._watch())]

    @property
    def is_over(self) -> bool:
        """Whether the process ended, or nobody knows any more."""
        return self._over is not None

    def send(self, line: Down) -> None:
        """Send a line; one to a worker that is gone is dropped."""
        if isinstance(line, Orders):
            return
        shift_ns = self.machine.offset_ns
        for piece in pieces(protocol.encode(_shifted(line, shift_ns))):
            self._said.put_nowait(piece)

    async def heard(self) -> AsyncIterator[Up]:
        """Yield what it says until it ends."""
        while (said := await self._heard.get()) is not None:
            yield _shifted_up(said, -self.machine.offset_ns)

    async def how(self) -> str:
        """Return how it ended, and let go of it."""
        for task in self._tasks:
            task.cancel()
        # Without a connection there is nothing to unsubscribe from.
        with contextlib.suppress(nats.errors.Error):
            await self._subscription.unsubscribe()
        return self._over or ""

    def kill(self) -> None:
        """Wait for it no longer: its machine ends it when we are silent."""
        self._end("it was let go")

    async def _hear(self, message: Msg) -> None:
        self._heard_s = time.monotonic()
        line = self._lines.take(message.data)
        if line is not None:
            self._heard.put_nowait(protocol.decode_up(line))
        if self._lines.ended is not None:
            self._end(self._lines.ended)

    def _end(self, how: str) -> None:
        if self._over is None:
            self._over = how
            self._heard.put_nowait(None)

    async def _speak(self, down: str) -> None:
        """Hand lines on in their order, and say now and then that we are there."""
        while True:
            message = ALIVE
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ALIVE_EVERY_S):
                    message = await self._said.get()
            with contextlib.suppress(NatstuiError):
                await self.client.publish(down, message)

    async def _watch(self) -> None:
        silent_s = 0.0
        while silent_s < GONE_AFTER_S:
            await asyncio.sleep(GONE_AFTER_S - silent_s)
            silent_s = time.monotonic() - self._heard_s
        self._end(f"it vanished: nothing was heard of {self.machine.name} for {GONE_AFTER_S:g} s")


def _shifted(line: Down, by_ns: int) -> Down:
    """Return a line for a worker in the times of its own clock."""
    if not isinstance(line, Go):
        return line
    return msgspec.structs.replace(
        line,
        go_ns=line.go_ns + by_ns,
        steady_ns=line.steady_ns + by_ns,
        end_ns=None if line.end_ns is None else line.end_ns + by_ns,
        begun_ns=line.begun_ns + by_ns,
    )


def _shifted_up(said: Up, by_ns: int) -> Up:
    """Return what a worker said in the times of our clock."""
    match said:
        case Ready() | Report():
            return msgspec.structs.replace(said, at_ns=said.at_ns + by_ns)
        case Done():
            return msgspec.structs.replace(
                said,
                last_sent_ns=said.last_sent_ns and said.last_sent_ns + by_ns,
                last_received_ns=said.last_received_ns and said.last_received_ns + by_ns,
            )
        case _:
            return said
