"""One message in flight: publish and wait, ask and wait. On a blocking socket where there is one.

The event loop costs more than the round trip itself; a worker that only waits does not need it.
It gets its turn every few milliseconds for reports and commands.
"""

from __future__ import annotations

import asyncio
import socket
import time
from abc import ABC, abstractmethod

from natstui.bench.frames import Run
from natstui.bench.job import Job, Pace
from natstui.bench.link import WireLink
from natstui.bench.link_socket import blocking_socket
from natstui.bench.single import SingleTimes

_TURN_NS = 40_000_000
"""How long the event loop may wait for its turn."""
_READ_BYTES = 1 << 18


class _Answer:
    """The answer to the one message in flight."""

    def __init__(self, inbox: bytes) -> None:
        self.payload: bytes | None = None
        self.status: int | None = None
        self.arrived = asyncio.Event()
        self._inbox = inbox
        self._subject = b""
        self._begins = b""

    def expect(self, number: int) -> None:
        """Forget the last answer; the next comes to a subject of its own."""
        self.payload = self.status = None
        self.arrived.clear()
        self._subject = b"%s.%012d" % (self._inbox, number)
        self._begins = b"MSG %s " % self._subject

    def on_run(self, run: Run, _now_ns: int) -> None:
        """Take what the parser found; a late answer to an earlier message is none."""
        for row in range(len(run)):
            if run.text(row, run.layout.subject) == self._subject:
                self.payload = run.text(row, run.layout.payload)
                self.status = run.status
                self.arrived.set()

    def take(self, data: bytes) -> bool:
        """Read bytes that are exactly the expected answer; False for all others."""
        if not data.startswith(self._begins):
            return False
        head = data.find(b"\r\n") + 2
        size = data[:head].rsplit(b" ", 1)[1]
        if head < 2 or not size.strip().isdigit() or len(data) != head + int(size) + 2:
            return False
        self.payload = data[head:-2]
        return True


class RoundTripper(ABC):
    """Sends one message at a time and waits for its answer; what they mean is a subclass's."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self._link = job, link
        self.inbox = link.nc.new_inbox().encode()
        self._answer = _Answer(self.inbox)
        self.times = SingleTimes(job.tally)
        job.collectors.append(self.flush)

    @abstractmethod
    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytes:
        """Return the frame to send; one message."""

    @abstractmethod
    def take(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count an answer; raise what it refuses."""

    @abstractmethod
    def flush(self) -> None:
        """Hand the times of answers on."""

    async def begin(self) -> None:
        """Listen for the answers."""
        await self._link.subscribe(f"{self.inbox.decode()}.*", self._answer.on_run)

    async def run(self) -> None:
        """Send and wait, as the schedule says."""
        pace = Pace(self.job)
        await self._link.drain()
        try:
            while not self.job.stopping.is_set():
                with blocking_socket(self._link) as twin:
                    more = await self._turn(pace, twin)
                self.flush()
                if not more:
                    break
                await asyncio.sleep(0)
                await self._link.drain()
        finally:
            self.flush()
        pace.close()

    async def _turn(self, pace: Pace, twin: socket.socket | None) -> bool:
        """Work until the event loop is due; return whether there is more to do."""
        until_ns, answer = time.monotonic_ns() + _TURN_NS, self._answer
        while time.monotonic_ns() < until_ns:
            due = await pace.take_one()
            if due is None:
                return False
            answer.expect(due[0])
            sent_ns = time.monotonic_ns()
            data = self.frame(due[0], due[1], sent_ns)
            if twin is None:
                await self._exchange_on_loop(data)
            else:
                await self._exchange(twin, data)
            if answer.payload is None:
                self.job.tally.add("unanswered_msgs")
                return True
            self.take(answer.payload, answer.status, due[1], sent_ns)
        return True

    async def _exchange(self, twin: socket.socket, data: bytes) -> None:
        """Send and block until the answer is there, or does not come."""
        give_up_ns = time.monotonic_ns() + round(self.job.orders.role.timeout_s * 1e9)
        answer = self._answer
        try:
            twin.sendall(data)
            while answer.payload is None:
                try:
                    received = twin.recv(_READ_BYTES)
                except BlockingIOError:
                    # A server that is frozen or slow must not keep us from reporting.
                    await asyncio.sleep(0)
                    if time.monotonic_ns() > give_up_ns or self.job.stopping.is_set():
                        return
                    continue
                if not received:
                    return
                if not (self._link.between_frames and answer.take(received)):
                    self._link.received(received)
        except OSError:
            # nats-py reads the same end of the connection and reconnects.
            return

    async def _exchange_on_loop(self, data: bytes) -> None:
        """Send and wait for the answer on the event loop, as TLS needs it."""
        self._link.write(data)
        try:
            async with asyncio.timeout(self.job.orders.role.timeout_s):
                await self._answer.arrived.wait()
        except TimeoutError:
            return
