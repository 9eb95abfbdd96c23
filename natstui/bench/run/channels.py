"""The way to one worker process: pipes here; `joined` has the same over NATS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol, Self

import msgspec

from natstui.bench.job import protocol
from natstui.bench.job.protocol import Down, Orders, Up
from natstui.children import kill, own_program

_LINE_BYTES = 1 << 28
"""What a worker has seen comes in one line."""


class Channel(Protocol):
    """How a worker is spoken to, and heard."""

    @property
    def pid(self) -> int:
        """Its process id, on its own machine."""

    @property
    def is_over(self) -> bool:
        """Whether the process is known to have ended."""

    def send(self, line: Down) -> None:
        """Send a line; one to a dead process is dropped."""

    def heard(self) -> AsyncIterator[Up]:
        """Yield what it says until it ends."""

    async def how(self) -> str:
        """Return how it ended, once `heard` is over; lets go of the process."""

    def kill(self) -> None:
        """End it at once."""


class Pipes:
    """A worker process of this machine."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, orders: Orders) -> Self:
        """Start a worker and give it its orders."""
        process = await asyncio.create_subprocess_exec(
            *own_program("natstui.bench.worker.process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        pipes = cls(process)
        pipes.send(orders)
        return pipes

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self.process.returncode is not None

    def send(self, line: Down) -> None:
        """Send a line; one to a dead process is dropped."""
        stdin = self.process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(protocol.encode(line))

    async def heard(self) -> AsyncIterator[Up]:
        """Yield what it says until it ends."""
        stdout, stderr = self.process.stdout, self.process.stderr
        assert stdout is not None
        assert stderr is not None
        self._complaints = asyncio.create_task(stderr.read())
        while line := await stdout.readline():
            try:
                said = protocol.decode_up(line)
            except msgspec.DecodeError:
                # Half a line: it was killed while it wrote.
                break
            yield said

    async def how(self) -> str:
        """Return its last complaint, or its exit code."""
        text = (await self._complaints).decode("utf-8", "replace").strip()
        await self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        return text.splitlines()[-1] if text else f"exit code {self.process.returncode}"

    def kill(self) -> None:
        """End it at once."""
        kill(self.process)
