"""One message in flight: publish and wait, ask and wait. On a blocking socket where there is one.

The event loop costs more than the round trip itself; a worker that only waits does not need it.
It gets its turn every few milliseconds for reports and commands.
"""

from __future__ import annotations

import asyncio
import select
import socket
import time

from natstui.bench.frames import Run
from natstui.bench.job import Due, Job, Pace
from natstui.bench.link import WireLink, blocking_socket

_TURN_NS = 40_000_000
"""How long the event loop may wait for its turn."""
_READ_BYTES = 1 << 18


class _Answer:
    """The answer to the one message in flight."""

    def __init__(self) -> None:
        self.payload: bytes | None = None
        self.status: int | None = None
        self.arrived = asyncio.Event()

    def on_run(self, run: Run, _now_ns: int) -> None:
        self.payload = run.text(len(run) - 1, run.layout.payload)
        self.status = run.status
        self.arrived.set()

    def clear(self) -> None:
        self.payload = self.status = None
        self.arrived.clear()


class RoundTripper:
    """Sends one message at a time and waits for its answer; what they mean is a subclass's."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self._link = job, link
        self._answer = _Answer()
        self.inbox = link.nc.new_inbox().encode()
        self._lost_count = link.lost_count

    def frame(self, due: Due, sent_ns: int) -> bytes:
        """Return the frame to send; one message."""
        raise NotImplementedError

    def take(self, answer: bytes, status: int | None, due: Due, sent_ns: int, now_ns: int) -> None:
        """Count an answer; raise what it refuses."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Listen for the answers."""
        await self._link.subscribe(f"{self.inbox.decode()}.*", self._answer.on_run)

    async def run(self) -> None:
        """Send and wait, as the schedule says."""
        pace = Pace(self.job)
        await self._link.drain()
        while not self.job.stopping.is_set():
            with blocking_socket(self._link) as twin:
                more = await self._turn(pace, twin)
            if not more:
                break
            await asyncio.sleep(0)
            await self._link.drain()
        pace.close()

    async def _turn(self, pace: Pace, twin: socket.socket | None) -> bool:
        """Work until the event loop is due; return whether there is more to do."""
        until_ns = time.monotonic_ns() + _TURN_NS
        while time.monotonic_ns() < until_ns:
            due = await pace.take(1)
            if due is None:
                return False
            self._answer.clear()
            sent_ns = time.monotonic_ns()
            data = self.frame(due, sent_ns)
            if twin is None:
                answered = await self._exchange_on_loop(data)
            else:
                answered = await self._exchange(twin, data)
            if not answered or self._answer.payload is None:
                self.job.tally.add("unanswered_msgs")
                return True
            now_ns = time.monotonic_ns()
            self.take(self._answer.payload, self._answer.status, due, sent_ns, now_ns)
        return True

    async def _exchange(self, twin: socket.socket, data: bytes) -> bool:
        """Send and block until the answer is there; False when it does not come."""
        give_up_ns = time.monotonic_ns() + round(self.job.orders.role.timeout_s * 1e9)
        try:
            twin.sendall(data)
            while self._answer.payload is None:
                # A server that is frozen or slow must not keep us from reporting.
                if not select.select([twin], [], [], 0.04)[0]:
                    await asyncio.sleep(0)
                    if time.monotonic_ns() > give_up_ns or self.job.stopping.is_set():
                        return self._answer.payload is not None
                    continue
                received = twin.recv(_READ_BYTES)
                if not received:
                    return False
                self._link.received(received)
        except OSError:
            # nats-py reads the same end of the connection and reconnects.
            return False
        return True

    async def _exchange_on_loop(self, data: bytes) -> bool:
        """Send and wait for the answer on the event loop, as TLS needs it."""
        self._link.write(data)
        try:
            async with asyncio.timeout(self.job.orders.role.timeout_s):
                await self._answer.arrived.wait()
        except TimeoutError:
            return False
        return True
