"""Worker processes: started with pipes, spoken to by lines, ended in every case."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from natstui.bench.job import protocol
from natstui.bench.job.protocol import (
    Die,
    Done,
    Down,
    Go,
    Orders,
    Ready,
    Report,
    Up,
    WorkerFailure,
)
from natstui.bench.run.latency_sums import LatencySums
from natstui.children import kill, own_program
from natstui.model.bench.counts import Counts
from natstui.model.bench.in_flight import in_flight_msgs

_END_S = 4.0
_LINE_BYTES = 1 << 28
"""What a worker has seen comes in one line."""


@dataclass(slots=True)
class WorkerProcess:
    """One worker process, and what it said so far."""

    orders: Orders
    process: asyncio.subprocess.Process
    ready_ns: int = 0
    """When it was connected and subscribed; 0: it is not yet."""
    go_ns: int = 0
    """When it began its work; 0: it has not begun."""
    reported_ns: int = 0
    """When its last report was counted up."""
    due_from: dict[int, int] = field(default_factory=dict)
    """For a receiver, by publisher: how many it had sent, at most, when this one could hear."""
    gone_before_msgs: int = 0
    """For an ordered receiver: how many messages the stream had dropped before it came."""
    counts: Counts = field(default_factory=Counts)
    """The sum of its reports."""
    latencies: LatencySums = field(default_factory=LatencySums)
    """Those of all its reports."""
    most_in_flight_msgs: int | None = None
    """The most of its messages that were under way at the end of a report."""
    steady_cpu_s: float = 0.0
    steady_s: float = 0.0
    done: Done | None = None
    failed: WorkerFailure | None = None
    gone: bool = False
    """The process has ended."""
    was_killed: bool = False
    """It was ordered to die as in a crash."""

    @property
    def name(self) -> str:
        """Its name for people: role/number."""
        return f"{self.orders.role.name}/{self.orders.worker_id}"

    @property
    def ready(self) -> bool:
        """Whether it is connected and subscribed."""
        return self.ready_ns > 0

    @property
    def over(self) -> bool:
        """Whether nothing more is to be expected of it."""
        return self.done is not None or self.gone

    def due_from_of(self, sender: WorkerProcess) -> int:
        """Return how many messages a sender had sent, at most, when this receiver could hear.

        Nothing after it is surely for it where the sender has not reported since.
        """
        if sender.go_ns >= self.ready_ns:
            return 0
        return self.due_from.get(sender.orders.publisher_id, sender.counts.sent_msgs)

    def let_go(self, line: Go) -> None:
        """Let it begin."""
        self.go_ns = line.go_ns
        self.send(line)

    def send(self, line: Down) -> None:
        """Send a line; one to a dead process is dropped."""
        stdin = self.process.stdin
        if not self.gone and stdin is not None and not stdin.is_closing():
            stdin.write(protocol.encode(line))

    def kill(self) -> None:
        """Let it die as in a crash, but not before its last report."""
        self.was_killed = True
        self.send(Die())


Heard = Callable[[WorkerProcess, Up | None], None]
"""Called for every line of a worker, and with None when its process has ended."""


class WorkerPool:
    """All workers of a run."""

    def __init__(self, on_heard: Heard) -> None:
        self.members: list[WorkerProcess] = []
        self._on_heard = on_heard
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, orders: Orders) -> WorkerProcess:
        """Start a worker and give it its orders."""
        process = await asyncio.create_subprocess_exec(
            *own_program("natstui.bench.worker.process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        member = WorkerProcess(orders, process)
        member.send(orders)
        self.members.append(member)
        task = asyncio.create_task(self._hear(member))
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._heard(member, ended))
        return member

    def _heard(self, member: WorkerProcess, task: asyncio.Task[None]) -> None:
        """Take it for dead when its output cannot be read: the run would wait for it for ever."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _kill(member)
            text = f"worker {member.name} wrote output that cannot be read: {error!r}"
            member.failed, member.done, member.gone = (
                WorkerFailure(sentence=text, exit_code=1),
                None,
                True,
            )
            self._on_heard(member, member.failed)

    def tell_all(self, line: Down) -> None:
        """Send a line to everybody who still listens."""
        for member in self.members:
            if not member.over:
                member.send(line)

    async def dismiss(self) -> None:
        """End every process: ask those that still read, and kill the rest."""
        self.tell_all(protocol.Stop())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S)
        for member in self.members:
            _kill(member)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _hear(self, member: WorkerProcess) -> None:
        """Read everything a worker says until it ends."""
        process = member.process
        assert process.stdout is not None
        assert process.stderr is not None
        complaints = asyncio.create_task(process.stderr.read())
        while line := await process.stdout.readline():
            try:
                said = protocol.decode_up(line)
            except (msgspec.DecodeError, RecursionError):
                # Half a line: it was killed while it wrote.
                break
            _remember(member, said)
            self._on_heard(member, said)
        text = (await complaints).decode("utf-8", "replace").strip()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        member.gone = True
        if member.done is None and member.failed is None:
            how = text.splitlines()[-1] if text else f"exit code {process.returncode}"
            member.failed = WorkerFailure(
                sentence=f"worker {member.name} ended: {how}", exit_code=1
            )
        self._on_heard(member, None)


def _kill(member: WorkerProcess) -> None:
    if member.process.returncode is None:
        kill(member.process)


def _remember(member: WorkerProcess, said: Up) -> None:
    match said:
        case Ready():
            member.ready_ns = said.at_ns
        case Report():
            member.counts = member.counts.plus(said.counts)
            member.latencies.add(said.latencies)
            under_way = in_flight_msgs(member.orders.role, member.counts)
            if under_way is not None:
                member.most_in_flight_msgs = max(member.most_in_flight_msgs or 0, under_way)
            member.reported_ns = said.at_ns
        case Done():
            member.done = said
        case WorkerFailure():
            member.failed = said
        case _:
            pass
