"""Worker processes: started with pipes, spoken to by lines, ended in every case."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from natstui.bench import protocol
from natstui.bench.protocol import Die, Done, Down, Failed, Orders, Ready, Report, Up
from natstui.model.benchmark_counts import Counts

_LINE_BYTES = 1 << 28
"""What a worker has seen comes in one line."""
_END_S = 4.0


@dataclass(slots=True)
class Member:
    """One worker process, and what it said so far."""

    orders: Orders
    process: asyncio.subprocess.Process
    ready: bool = False
    counts: Counts = field(default_factory=Counts)
    """The sum of its reports."""
    steady_cpu_s: float = 0.0
    steady_s: float = 0.0
    done: Done | None = None
    failed: Failed | None = None
    gone: bool = False
    """The process has ended."""
    doomed: bool = False
    """It was told to die."""

    @property
    def name(self) -> str:
        """Its name for people: role/number."""
        return f"{self.orders.role.name}/{self.orders.worker_id}"

    @property
    def over(self) -> bool:
        """Whether nothing more is to be expected of it."""
        return self.done is not None or self.gone

    def tell(self, line: Down) -> None:
        """Send a line; one to a dead process is dropped."""
        stdin = self.process.stdin
        if stdin is not None and not stdin.is_closing() and not self.gone:
            stdin.write(protocol.encode(line))

    def doom(self) -> None:
        """Let it die as in a crash, but not before its last report."""
        self.doomed = True
        self.tell(Die())


Heard = Callable[[Member, Up | None], None]
"""Called for every line of a worker, and with None when its process has ended."""


class Crew:
    """All workers of a run."""

    def __init__(self, on_heard: Heard) -> None:
        self.members: list[Member] = []
        self._on_heard = on_heard
        self._tasks: set[asyncio.Task[None]] = set()

    async def hire(self, orders: Orders) -> Member:
        """Start a worker and give it its orders."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "natstui.bench.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        member = Member(orders, process)
        self.members.append(member)
        member.tell(orders)
        task = asyncio.create_task(self._hear(member))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return member

    def tell_all(self, line: Down) -> None:
        """Send a line to everybody who still listens."""
        for member in self.members:
            if not member.over:
                member.tell(line)

    async def dismiss(self) -> None:
        """End every process: by a word to those who listen, by force to the rest."""
        self.tell_all(protocol.Stop())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S)
        for member in self.members:
            if member.process.returncode is None:
                member.process.kill()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _hear(self, member: Member) -> None:
        """Read everything a worker says until it ends."""
        stdout, stderr = member.process.stdout, member.process.stderr
        assert stdout is not None
        assert stderr is not None
        complaints = asyncio.create_task(stderr.read())
        while line := await stdout.readline():
            try:
                said = protocol.decode_up(line)
            except msgspec.DecodeError:
                # Half a line: it was killed in the middle of a word.
                break
            _remember(member, said)
            self._on_heard(member, said)
        text = (await complaints).decode("utf-8", "replace").strip()
        await member.process.wait()
        if member.process.stdin is not None:
            member.process.stdin.close()
        member.gone = True
        if member.done is None and member.failed is None:
            last = text.splitlines()[-1] if text else f"exit code {member.process.returncode}"
            member.failed = Failed(sentence=f"worker {member.name} ended: {last}", exit_code=1)
        self._on_heard(member, None)


def _remember(member: Member, said: Up) -> None:
    match said:
        case Ready():
            member.ready = True
        case Report():
            member.counts = member.counts.plus(said.counts)
        case Done():
            member.done = said
        case Failed():
            member.failed = said
        case _:
            pass
